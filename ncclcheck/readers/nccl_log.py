"""From NCCL's events to rows of the fact tables."""

from __future__ import annotations

import polars as pl

from ncclcheck.facts.schema import TABLES, conform
from ncclcheck.readers import around, release
from ncclcheck.readers.edge_rows import edge_rows
from ncclcheck.readers.events import MOST_UNKNOWN, Events

Frame = pl.DataFrame


def log_tables(events: Events) -> dict[str, Frame]:
    """The fact tables of all logs read. Tables without a row are left out."""
    reader = _Reader(events)
    edges = edge_rows(events)  # most of what there is, and gone before the others are made
    tables = {
        "processes": _processes(events),
        "levels": _levels(events),
        "readings": _readings(events),
        "damage": _damage(events),
        "versions": reader.rows("version", conform_to="versions"),
        "settings": reader.settings(),
        "interfaces": reader.interfaces(),
        "nics": reader.nics(),
        "networks": reader.networks(),
        "notes": reader.notes(),
        "inits": reader.inits(),
        "rings": reader.rings(),
        "connected": reader.rows("connected", conform_to="connected"),
        "channels": reader.rows("coll_channels", conform_to="channels"),
        "graphs": reader.rows("graph_pattern", conform_to="graphs"),
        "gdr": reader.gdr(),
        "fabric": reader.fabric(),
        "cliques": reader.rows("mnnvl", "cliques", clique="clique_id", size="clique_size", domain="nvl_domain_size"),
        "topology": reader.topology(),
        "paths": reader.paths(),
        "affinities": reader.rows("affinity", conform_to="affinities"),
        "failures": reader.failures(),
        "port_events": reader.port_events(),
        "verbs_failures": reader.verbs_failures(),
        "p2p_pairs": reader.p2p_pairs(),
        "timings": reader.timings(),
        "ends": reader.rows("destroy", conform_to="ends"),
        "around": reader.around(),
        "collectives": reader.collectives(),
        "operations": reader.operations(),
        "choices": reader.choices(),
        "edges": edges,
    }
    return {name: frame for name, frame in tables.items() if frame is not None and frame.height}


# Events that say one thing: kind of note -> field that holds its value ("" for none).
_NOTES = {
    "net_ib_no_device": "",
    "net_plugin_loaded": "plugin",
    "net_plugin_external_loaded": "plugin",
    "net_plugin_p2p": "plugin",
    "net_plugin_env": "plugin",
    "net_plugin_path": "path",
    "net_plugin_not_found": "plugin",
    "net_plugin_load_failed": "dlerror",
    "net_plugin_symbol_missing": "symbol",
    "net_plugin_unsupported": "plugin",
    "net_plugin_init_failed": "plugin",
    "net_socket_speed": "speed_mbps",
    "net_socket_threads": "sockets_per_thread",
    "net_ofi_provider": "provider",
    "net_ofi_platform": "platform",
    "net_ofi_topo_file": "path",
    "net_ofi_gdr_off": "",
    "net_ofi_message": "text",
    "rccl_kernel_option_missing": "missing",
    "ib_hint": "text",
    "nic_not_pci": "path",
    "sys_unreadable": "path",
    "path_not_found": "path",
    "topo_file_loaded": "path",
    "graph_file_loaded": "nchannels",
    "nvls_support": "available",
    "mnnvl_rack": "rack_serial",
    "gdr_c2c": "",
    "dmabuf_available": "",
    "socket_connect_retry": "errno_text",
    "shm_cumem_fallback": "",
    "cuda_driver_version": "cuda_driver_version",
    "python_traceback": "",
    "verbs_driver_missing": "text",
    "efa_list_empty": "",
    "gloo_no_interface": "ifname",
    "memlock_limit": "memlock_kb",
    "env_deprecated": "name",
    "env_unused": "name",
    "collnet_plugin_loaded": "plugin",
    "collnet_few_nodes": "threshold",
    "rccl_env_missing": "missing",
}

# Failure events and the names of their fields in the table.
_FAILURES: dict[str, dict[str, str]] = {
    "warn": {"message": "text"},
    "cuda_failure": {},
    "cuda_ipc_failed": {},
    "alloc_failed": {"allocation": "call"},
    "topo_file_missing": {"xml_kind": "call"},
    "topo_file_bad": {},
    "nvls_bind_failed": {"cuda_text": "error"},
    "gin_without_peer_memory": {},
    "nvml_failed": {"nvml_call": "call"},
    "duplicate_gpu": {},
    "version_mismatch": {},
    "ras_version_mismatch": {"local_version": "version_a", "remote_version": "version_b"},
    "syscall_failed": {},
    "syscall_retry": {},
    "socket_connect_failed": {"func": "call"},
    "socket_connect_gaveup": {"func": "call"},
    "socket_closed": {"func": "call"},
    "socket_recv_failed": {},
    "thread_failed": {},
    "message_truncated": {"received": "size_a", "expected": "size_b", "sender": "call"},
    "no_interface": {"filter": "text"},
    "path_not_found": {},
    "network_not_found": {"network": "text"},
    "no_transport": {},
    "shm_extend_failed": {},
    "shm_failed": {"action": "call"},
    "ibv_failed": {"detail": "text"},
    "ib_library_missing": {},
    "ib_open_failed": {"name": "text"},
    "ib_query_failed": {"name": "text"},
    "net_ib_merge_mismatch": {},
    "ib_async_event": {"event_name": "text"},
    "ib_completion_error": {"status": "code", "hca": "text"},
    "ib_rail_incompatible": {},
    "collective_mismatch": {"local_size": "size_a", "remote_size": "size_b", "rank": "rank_a"},
    "net_count_mismatch": {},
    "p2p_nvlink_disabled": {},
    "algo_unavailable": {},
    "comm_misuse": {"func": "call"},
    "legacy_rings_refused": {},
    "comm_id_invalid": {},
    "buffer_register_failed": {},
    "proxy_failed": {"operation": "call", "retcode": "code"},
    "proxy_poll_failed": {"retcode": "code", "local_rank": "rank_a"},
    "proxy_closed": {"local_rank": "rank_a"},
    "ras_peer_dead": {},
    "error_trace": {"result": "code"},
    "net_ofi_message": {},
    "bootstrap_duplicate_rank": {"rank": "rank_a"},
    "bootstrap_nranks_mismatch": {"nranks_a": "size_a", "nranks_b": "size_b"},
}

# Remarks, unless they warn.
_FAILURES_BY_LEVEL = ("net_ofi_message", "path_not_found", "buffer_register_failed", "net_ib_merge_mismatch")

WANTED = frozenset(_NOTES) | frozenset(_FAILURES) | frozenset(around.EVENTS) | {
    "version", "env_set", "env_value", "env_invalid", "env_refused", "config_set",
    "bootstrap_using", "net_socket_using", "legacy_interface", "net_ib_using",
    "net_ib_vdevice", "net_ib_device", "net_ofi_nic_group", "net_using", "net_plugin_assigned", "init_start",
    "init_complete", "comm_nodes", "legacy_comm", "nranks", "channel_connect", "ring_order", "connected",
    "coll_channels", "graph_pattern", "gdr_hca", "gdr_distance", "topo_node", "topo_path", "affinity",
    "p2p_disabled_pair",
    "p2p_unavailable", "net_counts", "mnnvl", "mnnvl_fabric",
    "bootstrap_timings", "init_timings", "destroy", "collective",
    "tuning_choice",
}  # fmt: skip


def _release_code(name: str) -> pl.Expr:
    """A release as a number, whether NCCL printed 22304 or 2.23.4."""
    text = pl.col(name)
    return pl.coalesce(release.code_of(text), text.cast(pl.Int32, strict=False)).alias(name)


def _processes(events: Events) -> Frame:
    rows = events.processes.rename({"_source": "source"})
    first = rows.group_by("proc", maintain_order=True).agg(
        pl.col("source", "task", "label_host", "host", "pid", "release", "release_low", "release_high").first()
    )
    return conform("processes", first)


def _levels(events: Events) -> Frame:
    rows = [
        (source, level, number) for source, count in enumerate(events.counts) for level, number in count.levels.items()
    ]
    return pl.DataFrame(rows, schema=dict(TABLES["levels"]), orient="row")


def _readings(events: Events) -> Frame:
    rows = [
        (source, count.lines, count.recognised + count.unrecognised, count.unrecognised)
        for source, count in enumerate(events.counts)
    ]
    return pl.DataFrame(rows, schema=dict(TABLES["readings"]), orient="row")


def _damage(events: Events) -> Frame:
    """Damaged lines, and the first few of those with a record that no event matched."""
    where = ["_source", "_line"]
    parts = [events.damage]
    if events.unrecognised is not None:
        unknown = events.unrecognised.join(events.damage, on=where, how="anti").sort(where)
        first = unknown.group_by("_source", maintain_order=True).head(MOST_UNKNOWN)
        parts.append(first.select(*where, kind=pl.lit("unknown")))
    return conform("damage", pl.concat(parts).rename({"_source": "source", "_line": "line"}).sort("source", "line"))


class _Reader:
    def __init__(self, events: Events) -> None:
        self._events = events

    def rows(self, event: str, conform_to: str | None = None, **names: str) -> Frame | None:
        """Typed rows of an event with `proc`, `tid`, `source` and `line`; `names` maps final column to field."""
        frame = self._events.typed(event)
        if frame is None:
            return None
        known = {"proc": "_proc", "source": "_source", "line": "_line", "tid": "_tid", **names}
        present = set(frame.columns)
        frame = frame.with_columns(pl.col(field).alias(name) for name, field in known.items() if field in present)
        return conform(conform_to, frame) if conform_to else frame

    def _joined(self, table: str, *frames: Frame | None) -> Frame | None:
        parts = [conform(table, frame) for frame in frames if frame is not None]
        return pl.concat(parts).sort("source", "line", maintain_order=True) if parts else None

    def settings(self) -> Frame | None:
        frames = [self.rows(event) for event in ("env_set", "env_value")]
        overruled = self.rows("config_set", name="overruled_by")
        if (
            overruled is not None and "overruled_by" in overruled.columns
        ):  # the variable that has the last word over the program's own configuration
            frames.append(overruled.filter(pl.col("name").is_not_null()))
        return self._joined(
            "settings", *(frame.with_columns(origin=pl.lit("log")) for frame in frames if frame is not None)
        )

    def interfaces(self) -> Frame | None:
        parts = []
        for event, use in (
            ("bootstrap_using", "bootstrap"),
            ("net_socket_using", "socket"),
            ("legacy_interface", "socket"),
        ):
            frame = self.rows(event)
            if frame is None:
                continue
            frame = frame.with_columns(use=pl.lit(use))
            if "ifname" in frame.columns:
                single = frame.filter(pl.col("ifname").is_not_null())
                # one line per interface in release 2.2 and 2.3, once per network
                order = pl.col("line").min().over("proc", "ifname").rank("dense").over("proc") - 1
                index = order if event == "legacy_interface" else pl.lit(0)
                parts.append(single.with_columns(name="ifname", index=index.cast(pl.Int64)))
            if "interfaces" in frame.columns:
                listed = (
                    frame.select("proc", "source", "line", "use", "interfaces")
                    .explode("interfaces")
                    .drop_nulls("interfaces")
                )
                listed = listed.unnest("interfaces")
                parts.append(listed.rename({"ifname": "name"}))
        frame = self.rows("net_ib_using")
        if frame is not None:
            oob = frame.filter(pl.col("oob_ifname").is_not_null())
            parts.append(
                oob.with_columns(use=pl.lit("oob"), index=pl.lit(0, pl.Int64), name="oob_ifname", address="oob_address")
            )
        return self._joined("interfaces", *parts)

    def nics(self) -> Frame | None:
        parts = []
        frame = self.rows("net_ib_using")
        if frame is not None:
            listed = (
                frame.select("proc", "source", "line", "devices")
                .explode("devices")
                .drop_nulls("devices")
                .unnest("devices")
            )
            # a list in the last line that is shorter than others may be cut there
            devices = pl.len().over("source", "line")
            parts.append(listed.filter(~(self._events.at_end() & (devices < devices.max().over("source")))))
            merged = (
                frame.select("proc", "source", "line", "merged").explode("merged").drop_nulls("merged").unnest("merged")
            )
            names = (
                pl.col("members")
                .str.extract_all(r"[^\s,\[\]:]+:\d+/")
                .list.eval(pl.element().str.replace(r":\d+/$", ""))
            )
            parts.append(
                merged.with_columns(name=names.list.join("+"), link=pl.col("members").str.extract("/(IB|RoCE)"))
            )
        details = self.rows("net_ib_device")
        frame = self.rows("net_ib_vdevice", gbit="speed_mbps")
        if frame is not None:
            parts.append(frame.with_columns(gbit=pl.col("gbit") / 1000))
        frame = self.rows("net_ofi_nic_group", index="group", name="bdf")
        if frame is not None:
            # one device per group; its members share it
            group = frame.group_by("proc", "source", "index", maintain_order=True).agg(
                pl.col("line").first(), pl.col("name").str.join("+")
            )
            parts.append(group.with_columns(link=pl.lit("EFA")))
        table = self._joined("nics", *parts)
        if table is not None and details is not None:
            rates = details.select("proc", "index", rate=pl.col("speed_mbps") / 1000, where="pci_path").unique(
                ["proc", "index"]
            )
            table = table.join(rates, on=["proc", "index"], how="left", maintain_order="left")
            table = conform(
                "nics", table.with_columns(gbit=pl.coalesce("gbit", "rate"), pci=pl.coalesce("pci", "where"))
            )
        return table

    def networks(self) -> Frame | None:
        return self._joined("networks", self.rows("net_using"), self.rows("net_plugin_assigned", network="plugin"))

    def notes(self) -> Frame | None:
        parts = []
        for kind, field in _NOTES.items():
            frame = self.rows(kind)
            if frame is not None:
                if "plugins" in frame.columns:
                    frame = frame.with_columns(plugin=pl.coalesce("plugin", pl.col("plugins").list.join(" ")))
                if "type" in frame.columns:  # plugins of other kinds (tuner, profiler) have the same words
                    frame = frame.filter(pl.col("type").is_null() | (pl.col("type") == "NET"))
                value = pl.col(field).cast(pl.String) if field and field in frame.columns else pl.lit(None, pl.String)
                parts.append(frame.with_columns(kind=pl.lit(kind), value=value))
        listed = self.rows("net_ib_using")
        if listed is not None:
            ordering = pl.when("relaxed_ordering").then(pl.lit("on")).otherwise(pl.lit("off"))
            parts.append(listed.with_columns(kind=pl.lit("relaxed_ordering"), value=ordering))
        for event in ("net_counts", "net_count_mismatch"):
            counts = self.rows(event)
            if counts is not None:
                parts.append(counts.with_columns(kind=pl.lit("net_counts"), value=pl.format("{} to {}", "min", "max")))
        raised = self.rows("python_error")
        if raised is not None and "text" in raised.columns:  # Gloo's complaint, if it reaches Python
            value = pl.col("text").str.extract(r"Unable to find address for: (\S+)")
            gloo = raised.with_columns(kind=pl.lit("gloo_no_interface"), value=value)
            parts.append(gloo.drop_nulls("value"))
        loaded = self.rows("net_plugin_loaded")
        if loaded is not None:  # the plugin with the version of its interface
            loaded = loaded.with_columns(kind=pl.lit("net_plugin_api"), value=pl.format("{} (v{})", "plugin", "api"))
            parts.append(loaded.filter(pl.col("api").is_not_null()))
        invalid = self.rows("env_invalid")
        if invalid is not None:
            said = pl.format("{}={}", "name", "value")
            parts.append(invalid.with_columns(kind=pl.lit("env_invalid"), value=said))
        refused = self.rows("env_refused")
        if refused is not None:
            said = pl.format("{}={}", "name", "refused")
            parts.append(refused.with_columns(kind=pl.lit("env_invalid"), value=said))
        return self._joined("notes", *parts)

    def port_events(self) -> Frame | None:
        frame = self.rows("ib_async_event")
        return None if frame is None else conform("port_events", frame.rename({"event_name": "event"}))

    def verbs_failures(self) -> Frame | None:
        completions = self.rows("ib_completion_error")
        if completions is not None:
            completions = completions.with_columns(call=pl.lit("completion"))
        return self._joined("verbs_failures", self.rows("ibv_failed"), completions)

    def inits(self) -> Frame | None:
        parts = []
        for event, phase in (
            ("init_start", "START"),
            ("init_complete", "COMPLETE"),
            ("comm_nodes", "NODES"),
            ("legacy_comm", "RANK"),
        ):
            frame = self.rows(event, cuda_dev="comm_cuda_dev")
            if frame is None:
                continue
            for field in ("split_count", "child_count"):
                if field in frame.columns:
                    have = pl.col("split") if "split" in frame.columns else pl.lit(None, pl.Int64)
                    frame = frame.with_columns(split=pl.coalesce(have, field))
            parts.append(frame.with_columns(phase=pl.lit(phase)))
        return self._joined("inits", *parts)

    def gdr(self) -> Frame | None:
        devices = self.rows("gdr_hca", hca="name")
        if devices is not None:
            devices = devices.with_columns(kind=pl.lit("hca"))
        pairs = self.rows("gdr_distance")
        if pairs is not None:
            gpu = pl.coalesce(pl.col("gpu_rank", "gpu_cuda_dev").cast(pl.String), "gpu_busid")
            hca = pl.coalesce(pl.col("hca").cast(pl.String), "hca_id", pl.col("net_local_id").cast(pl.String))
            pairs = pairs.with_columns(kind=pl.lit("distance"), gpu=gpu, hca=hca)
        return self._joined("gdr", devices, pairs)

    def fabric(self) -> Frame | None:
        frame = self.rows("mnnvl_fabric", clique="clique_id")
        if frame is None:
            return None
        halves = pl.concat_str("uuid0", "uuid1", separator=".", ignore_nulls=True)
        known = pl.any_horizontal(pl.col("uuid0", "uuid1").str.contains("[1-9a-f](?:.*)$"))
        return conform(
            "fabric",
            frame.with_columns(
                cluster=pl.when(known).then(halves),
                health=pl.col("health_mask").str.strip_prefix("0x").str.to_integer(base=16, strict=False),
            ),
        )

    def topology(self) -> Frame | None:
        frame = self.rows("topo_node", net_gbps="net_bw")
        return None if frame is None else conform("topology", frame)

    def rings(self) -> Frame | None:
        frame = self.rows("ring_order", conform_to="rings")
        return None if frame is None else frame.filter(~pl.col("ranks").list.eval(pl.element().is_null()).list.any())

    def paths(self) -> Frame | None:
        frame = self.rows("topo_path")
        if frame is None:
            return None
        listed = (
            frame.select("proc", "source", "line", "tid", a="from", to="to").explode("to").drop_nulls("to").unnest("to")
        )
        return conform("paths", listed.rename({"node": "b"}))

    def p2p_pairs(self) -> Frame | None:
        parts = []
        for kind, a, b in (("p2p_disabled_pair", "gpu1", "gpu2"), ("p2p_unavailable", "dev1", "dev2")):
            frame = self.rows(kind, a=a, b=b)
            if frame is not None:
                parts.append(frame.with_columns(kind=pl.lit(kind)))
        return self._joined("p2p_pairs", *parts)

    def around(self) -> Frame | None:
        return around.around_rows(self.rows, pl.Series([head for _, head in self._events.heads], dtype=pl.String))

    def timings(self) -> Frame | None:
        parts = []
        for event, kind in (("init_timings", "init"), ("bootstrap_timings", "bootstrap")):
            frame = self.rows(event)
            if frame is not None:
                parts.append(frame.with_columns(kind=pl.lit(kind)))
        return self._joined("timings", *parts)

    def collectives(self) -> Frame | None:
        frame = self.rows("collective")
        if frame is None:
            return None
        pointers = frame.get_column("comm").drop_nulls().unique()
        names = pl.Series([hex(pointer) for pointer in pointers], dtype=pl.String)
        comm = pl.col("comm").replace_strict(pointers, names, default=None, return_dtype=pl.String)
        return conform("collectives", frame.with_columns(comm))

    def operations(self) -> Frame | None:
        found = self._events.parts("collective")
        if found is None:
            return None
        calls = self._events.calls.join(found.texts, on="_text").rename({"_source": "source"})
        look = [name for name in TABLES["operations"] if name != "calls"]
        return conform("operations", calls).group_by(look, maintain_order=True).agg(pl.col("calls").sum())

    def choices(self) -> Frame | None:
        frame = self.rows("tuning_choice", conform_to="choices")
        if frame is None:
            return None
        look = ["source", "op", "bytes", "algo", "proto", "kernel"]
        counted = frame.group_by(look, maintain_order=True).agg(pl.col("line").first(), calls=pl.len())
        return conform("choices", counted)

    def failures(self) -> Frame | None:
        files = self._events.processes.get_column("src_file")
        parts = []
        for category, names in _FAILURES.items():
            frame = self.rows(category, **{column: field for field, column in names.items()})
            if frame is None:
                continue
            if category in _FAILURES_BY_LEVEL:
                frame = frame.filter(pl.col("_level") == "WARN")
            if category == "ras_version_mismatch":
                frame = frame.with_columns(_release_code(f"version_{side}") for side in "ab")
            frame = frame.with_columns(files.gather(frame.get_column("_head")).alias("from_file"))
            own = pl.col("src_file") if "src_file" in frame.columns else pl.lit(None, pl.String)
            parts.append(
                frame.with_columns(
                    category=pl.lit(category),
                    level="_level",
                    src_file=pl.coalesce(own, "from_file"),
                    **({"error": pl.coalesce("error", "text")} if {"error", "text"} <= set(frame.columns) else {}),
                )
            )
        return self._joined("failures", *parts)
