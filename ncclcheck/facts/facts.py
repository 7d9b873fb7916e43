"""The facts of a reading, and the questions that rules and reports ask of them.

Polars stays behind this door: answers are plain values. A question that the input leaves open is answered UNKNOWN, None
or with an empty tuple; the caller must not take that for "no".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import polars as pl

from ncclcheck.facts import hardware, networks
from ncclcheck.facts.answer import Answer
from ncclcheck.facts.communicators import at_init, memberships
from ncclcheck.facts.completions import Completions, failed_completions
from ncclcheck.facts.drawing import picture_of
from ncclcheck.facts.edges import alike, edge_groups, printed_edges, ring_edges
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.machines import machine_of, one_process_each, told_apart_by_device
from ncclcheck.facts.matrix import Matrix, matrices
from ncclcheck.facts.picture import JobPicture
from ncclcheck.facts.presence import Absent, Visibility
from ncclcheck.facts.rails import RingRails, ring_rails
from ncclcheck.facts.schema import table
from ncclcheck.facts.seen import Communicator, Crossing, EdgeGroup, Failure, GdrRefusal, Nic, Seen, SharedGpu
from ncclcheck.facts.shape import JobShape
from ncclcheck.facts.versions import Versions

# Evidence lines kept per fact: the first of each of a few machines.
_MAX_EVIDENCE = 4

# GPUs per machine when nothing tells: more ranks than this must be on several machines.
_MAX_GPUS = 16


class Facts:
    """tables: the fact tables of a reading (see `schema.TABLES`). paths: the inputs' names, by source."""

    def __init__(self, tables: Mapping[str, pl.DataFrame], paths: Sequence[str]) -> None:
        self.tables = one_process_each(tables)
        self._distinct: dict[tuple[str, str], frozenset[str]] = {}
        self.paths = tuple(paths)

    def __getitem__(self, name: str) -> pl.DataFrame:
        return table(self.tables, name)

    # -------------------------------------------------------------------------------------------- who and which release

    @cached_property
    def _placed(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Machines of processes, and the memberships that their devices and these machines give."""
        machines = machine_of(self.tables)
        members = memberships(self.tables, machines)
        apart = told_apart_by_device(self.tables, machines, members)
        return (machines, members) if apart is None else (apart, memberships(self.tables, apart))

    @property
    def machine_table(self) -> pl.DataFrame:
        return self._placed[0]

    @cached_property
    def machines(self) -> tuple[str, ...]:
        """Names of the machines that printed anything, in natural order."""
        names = self.machine_table.get_column("machine").drop_nulls().unique().to_list()
        return tuple(sorted(names, key=_natural))

    @cached_property
    def releases(self) -> tuple[int, ...]:
        """Codes of the NCCL releases that the input prints (2.18.3 -> 21803), in order."""
        known = self["processes"].get_column("release").drop_nulls().unique().sort().to_list()
        return tuple(known)

    @property
    def release(self) -> int | None:
        """The release, where the input proves exactly one."""
        return self.releases[0] if len(self.releases) == 1 else None

    @cached_property
    def versions(self) -> Versions:
        """Who loads which release of NCCL."""
        return Versions(self.tables, self.machine_table, self.members, self.evidence)

    @cached_property
    def cuda_builds(self) -> tuple[Seen, ...]:
        """The CUDA that NCCL was built with, by processes that print it: value is like "12.4"."""
        rows = self["versions"].filter(pl.col("cuda").str.contains(r"^\d"))
        return self._seen(rows.select("proc", "source", "line", value="cuda"))

    @cached_property
    def is_rccl(self) -> bool:
        return bool(self["versions"].select(pl.col("hip").fill_null(False).any()).item())

    # -------------------------------------------------------------------------------------------------- communicators

    @property
    def members(self) -> pl.DataFrame:
        return self._placed[1]

    @cached_property
    def communicators(self) -> tuple[Communicator, ...]:
        """All communicators, largest first."""
        members = self.members
        if members.height == 0:
            return ()
        rows = members.group_by("cid").agg(
            pl.col("nranks", "nnodes", "local_ranks").max(),
            pl.col("mnnvl").max(),
            pl.col("rank").unique().sort(),
            pl.col("machine").drop_nulls().unique().sort(),
            pl.col("started", "completed").sum(),
            pl.col("ambiguous").any(),
            pl.col("source", "first_line").first(),
            pl.col("proc").unique(),
        ).sort("cid")  # fmt: skip
        crossing = {**self._crossing_table, **self._crossing_by_edges}
        used = self._networks_of_communicators
        found = []
        for row in rows.iter_rows(named=True):
            answer = crossing[row["cid"]]
            found.append(
                Communicator(
                    id=row["cid"], nranks=row["nranks"], nnodes=row["nnodes"], local_ranks=row["local_ranks"],
                    mnnvl=bool(row["mnnvl"]), ranks=tuple(row["rank"]), machines=tuple(row["machine"]),
                    networks=used.get(row["cid"], ()), started=row["started"], completed=row["completed"],
                    ambiguous=row["ambiguous"], crossing=answer,
                    evidence=(self.evidence(row["source"], row["first_line"]),),
                )
            )  # fmt: skip
        return tuple(found)

    @cached_property
    def shared_gpus(self) -> tuple[SharedGpu, ...]:
        """GPUs that several ranks of one communicator print as theirs, on one machine.

        Left out: bus ids that guests print as 0; ranks that finished init (NCCL would have refused them); more ranks on
        a machine than NCCL counts in its node, for then machines of one name were taken for one.
        """
        here = ["cid", "machine"]
        known = self.members.filter(pl.col("machine").is_not_null() & ~pl.col("ambiguous") & ~pl.col("completed"))
        one_machine = pl.col("local_ranks").is_null() | (pl.col("rank").n_unique().over(here) <= pl.col("local_ranks"))
        real = ~pl.col("bus_id").str.contains("^(?:0x)?0+$")
        shared = (
            known.filter(one_machine & real)
            .group_by(*here, "bus_id", "nvml_dev", maintain_order=True)
            .agg(
                pl.col("rank").unique().sort(),
                where=pl.struct("source", "first_line").sort_by("source", "first_line").head(_MAX_EVIDENCE),
            )
            .filter(pl.col("rank").list.len() > 1)
        )
        return tuple(
            SharedGpu(row["machine"], row["bus_id"], tuple(row["rank"]),
                      tuple(self.evidence(w["source"], w["first_line"]) for w in row["where"]))
            for row in shared.iter_rows(named=True)
        )  # fmt: skip

    @property
    def ranks_with_device(self) -> int:
        """How many memberships say which GPU they use."""
        return self.members.get_column("bus_id").count()

    @property
    def world(self) -> Communicator | None:
        """The largest communicator of the input."""
        return self.communicators[0] if self.communicators else None

    @cached_property
    def _crossing_table(self) -> dict[int, Crossing]:
        """Does a communicator use the network between machines: by NCCL's own node count, else by what was seen."""
        seen = pl.col("rank").n_unique()
        per_machine = (
            self.members.filter(pl.col("machine").is_not_null())
            .group_by("cid", "machine")
            .agg(ranks=seen, apart=seen > pl.col("local_ranks").min())
            .group_by("cid")
            # machines of which NCCL takes parts for nodes
            .agg(pl.col("ranks").filter("apart").max().alias("domains"), pl.len().alias("machines"))
        )
        first = self.members.group_by("cid").agg(
            pl.col("nranks", "nnodes", "local_ranks").max(), pl.col("source", "first_line").first(),
            seen.alias("seen"), pl.col("ambiguous").any(),
        ).join(per_machine, on="cid", how="left")  # fmt: skip
        split_off, most = self._domains_forced_apart, self._gpus_of_a_machine
        return {row["cid"]: self._cross(row, split_off, most) for row in first.iter_rows(named=True)}

    def _cross(self, row: Mapping[str, int | None], forced_apart: bool, gpus: int) -> Crossing:
        machines, domains = row["machines"] or 0, row["domains"]
        nnodes, local, nranks = row["nnodes"], row["local_ranks"], row["nranks"]
        evidence = (self.evidence(int(row["source"] or 0), int(row["first_line"] or 0)),)
        if nnodes == 1:
            return Crossing(Answer.NO, "NCCL counts one node", evidence=evidence)
        if nnodes is not None:
            if machines > 1:  # whatever a machine's own parts are
                return Crossing(Answer.YES, f"NCCL counts {nnodes} nodes", evidence=evidence)
            if domains is not None:
                why = f"{domains} ranks of one machine are in nodes of {local}: domains inside a machine"
                return Crossing(Answer.UNKNOWN, why, evidence=evidence)
            if forced_apart:
                why = "P2P and SHM are switched off: nodes may share a machine"
                return Crossing(Answer.UNKNOWN, why, evidence=evidence)
            sure = row["seen"] == nranks
            return Crossing(Answer.YES, f"NCCL counts {nnodes} nodes", "high" if sure else "medium", evidence)
        if nranks == 1:
            return Crossing(Answer.NO, "one rank", evidence=evidence)
        if machines > 1 and not row["ambiguous"]:
            return Crossing(Answer.YES, f"its ranks run on {machines} machines", "medium", evidence)
        if nranks is not None and nranks > gpus:
            return Crossing(Answer.YES, f"{nranks} ranks do not fit one machine", "medium", evidence)
        if machines == 1 and row["seen"] == nranks:
            return Crossing(Answer.NO, "all its ranks run on one machine", evidence=evidence)
        return Crossing(Answer.UNKNOWN, "the node count of the communicator is not in the input", evidence=evidence)

    @cached_property
    def _gpus_of_a_machine(self) -> int:
        """More ranks than this cannot be on one machine: GPUs of a matrix or of NCCL's own dump, else a safe number."""
        shown = [len(matrix.gpus) for matrix in self.matrices if matrix.kind == "topo" and matrix.complete]
        dumped = self["topology"].filter(pl.col("node") == "GPU").group_by("proc").agg(pl.col("id").n_unique())
        shown += dumped.get_column("id").to_list()
        return max(shown) if shown else _MAX_GPUS

    @cached_property
    def _crossing_by_edges(self) -> dict[int, Crossing]:
        """What channels show where NCCL does not count nodes (before 2.20.3)."""
        between = (
            self.edge_table.filter(pl.col("scope") == "between").select("like", "source", "line").drop_nulls("like")
        )
        first = between.sort("source", "line").unique("like", keep="first", maintain_order=True)
        uncounted = self._kinds.filter(pl.col("nnodes").is_null() & ~pl.col("ambiguous")).select("cid", "like").unique()
        return {
            cid: Crossing(Answer.YES, "channels go between machines", evidence=(self.evidence(source, line),))
            for cid, source, line in uncounted.join(first, on="like").select("cid", "source", "line").iter_rows()
        }

    @cached_property
    def _domains_forced_apart(self) -> bool:
        """P2P and SHM both off: every GPU is a node of its own."""
        p2p = any(s.value == "1" for s in self.settings("NCCL_P2P_DISABLE")) or any(
            s.value == "LOC" for s in self.settings("NCCL_P2P_LEVEL")
        )
        return p2p and any(s.value == "1" for s in self.settings("NCCL_SHM_DISABLE"))

    @cached_property
    def crossing(self) -> Crossing:
        """Does any traffic of the job go over the network between machines?"""
        edges = [group for group in self.edges if group.scope == "between"]
        if edges:
            return Crossing(Answer.YES, "channels go between machines", evidence=edges[0].evidence)
        crossings = [communicator.crossing for communicator in self.communicators]
        yes = [crossing for crossing in crossings if crossing.answer is Answer.YES]
        if yes:
            return min(yes, key=lambda crossing: crossing.confidence != "high")
        if not crossings:
            return self._crossing_without_communicators
        if all(crossing.answer is Answer.NO for crossing in crossings):
            return crossings[0]
        return next(crossing for crossing in crossings if crossing.answer is Answer.UNKNOWN)

    @property
    def _crossing_without_communicators(self) -> Crossing:
        """Excerpts: a ring of several ranks, and several machines in one input."""
        rings = self["rings"].filter(pl.col("ranks").list.len() > 1)
        if len(self.machines) > 1 and rings.height:
            row = rings.row(0, named=True)
            size = len(row["ranks"])
            why = f"a ring of {size} ranks, and {len(self.machines)} machines in the input"
            if size >= len(self.machines):
                return Crossing(Answer.YES, why, "medium", (self.evidence(row["source"], row["line"]),))
        longest = rings.select(pl.col("ranks").list.len().max()).item() if rings.height else 0
        if longest and longest > _MAX_GPUS:
            return Crossing(Answer.YES, f"a ring of {longest} ranks does not fit one machine", "medium")
        return Crossing(Answer.UNKNOWN, "no line tells how many nodes the job has")

    # -------------------------------------------------------------------------------------------------------- networks

    @cached_property
    def _networks_of_communicators(self) -> dict[int, tuple[str, ...]]:
        """Networks by communicator: the names on its edges, else what its processes say they use."""
        used = self["networks"].select("proc", "tid", "line", "network")
        if used.height == 0 and self["edges"].height == 0:
            return {}
        # "Using network" comes before START on the same thread; splits use their parent's, and print nothing
        members = self.members.select("proc", "tid", "cid", pl.col("last_line").alias("line")).sort("line")
        said = members.join_asof(used.sort("line"), on="line", by=["proc", "tid"], check_sortedness=False)
        # with one name in a process the thread does not matter
        only = (
            used.group_by("proc").agg(pl.col("network").unique().alias("only")).filter(pl.col("only").list.len() == 1)
        )
        said = said.join(only, on="proc", how="left").with_columns(
            network=pl.coalesce("network", pl.col("only").list.first())
        )
        on_edges = self.edge_table.filter((pl.col("transport") == "NET") & pl.col("like").is_not_null())
        edges = self._kinds.select("cid", "like").unique().join(on_edges.select("like", "network").unique(), on="like")
        return {**_values(said.select("cid", "network")), **_values(edges.select("cid", "network"))}

    @cached_property
    def networks(self) -> tuple[Seen, ...]:
        """Networks that processes say they use or that stand on edges: value is the name."""
        said = self["networks"].select("proc", "source", "line", value="network")
        edges = self["edges"].filter(pl.col("network").is_not_null()).select("proc", "source", "line", value="network")
        return self._seen(pl.concat([said, edges]))

    def network_kinds(self) -> frozenset[str]:
        """Kinds (see `networks.kind`) of all networks in use."""
        return frozenset(networks.kind(seen.value) for seen in self.networks)

    # ----------------------------------------------------------------------------------------------------------- edges

    @cached_property
    def _printed(self) -> pl.DataFrame:
        return printed_edges(self.tables)

    @cached_property
    def _crosses(self) -> pl.DataFrame:
        """Per `cid` its `nnodes` and whether it goes between machines: true, false or null."""
        crosses = [
            (cid, {Answer.YES: True, Answer.NO: False, Answer.UNKNOWN: None}[crossing.answer])
            for cid, crossing in self._crossing_table.items()
        ]
        nodes = self.members.group_by("cid").agg(pl.col("nnodes").max())
        return pl.DataFrame(crosses, schema={"cid": pl.UInt32, "crosses": pl.Boolean}, orient="row").join(
            nodes, on="cid", how="left"
        )

    @cached_property
    def _kinds(self) -> pl.DataFrame:
        return alike(self.members, self._crosses)

    @cached_property
    def edge_table(self) -> pl.DataFrame:
        """Edges of one process that look alike; see `edges.edge_groups`."""
        grouped = edge_groups(self._printed, self._kinds, self.machine_table, self._crosses)
        names = self._nic_names
        return grouped.join(names, on=["proc", "network", "net_dev"], how="left", maintain_order="left").with_columns(
            device=pl.when(pl.col("transport") == "NET").then(pl.coalesce("nic", pl.format("NET/{}", "net_dev")))
        )

    @cached_property
    def edges(self) -> tuple[EdgeGroup, ...]:
        """Edges of the whole job by look and scope."""
        look = ["transport", "method", "network", "direction", "gdr", "scope"]
        rows = self.edge_table.group_by(look, maintain_order=True).agg(
            pl.col("machine").drop_nulls().unique().sort(),
            pl.col("device").drop_nulls().unique().sort(),
            pl.col("edges").sum(),
            where=pl.struct("source", "line").sort_by("source", "line").head(_MAX_EVIDENCE),
        )
        return tuple(
            EdgeGroup(
                row["transport"], row["method"] or "", row["network"] or "", row["direction"] or "", row["gdr"],
                row["scope"],
                tuple(row["machine"]), tuple(row["device"]), row["edges"],
                tuple(self.evidence(w["source"], w["line"]) for w in row["where"]),
            )
            for row in rows.iter_rows(named=True)
        )  # fmt: skip

    def net_edges(self, scope: str = "between") -> tuple[EdgeGroup, ...]:
        """Edges over the network; scope "between" machines (proved), "inside" one, or "unknown"."""
        return tuple(group for group in self.edges if group.transport == "NET" and group.scope == scope)

    @cached_property
    def rings_connected(self) -> bool:
        """Did at least one rank say that its rings are connected (then edges of that communicator are complete)?"""
        return bool(self["connected"].select((pl.col("what") == "rings").any()).item())

    # ------------------------------------------------------------------------------------------------------------ NICs

    @cached_property
    def _nics(self) -> pl.DataFrame:
        """Net devices by name; the second port of a card is a device of its own."""
        port = pl.when(pl.col("port") > 1).then(pl.format("{}:{}", "name", "port"))
        return self["nics"].with_columns(name=pl.coalesce(port, "name"))

    @cached_property
    def _nic_names(self) -> pl.DataFrame:
        """`proc`, `network`, `net_dev`, `nic`: what an index means, for every network of the edges. Each network counts
        its own devices; lists of plugins other than OFI are not in the input."""
        names = self._printed.get_column("network").drop_nulls().unique()
        family = {"ib": "ib", "efa": "ofi", "socket": "socket"}
        asked = pl.DataFrame({"network": names, "family": [family.get(networks.kind(name)) for name in names]},
                             schema={"network": pl.String, "family": pl.String})  # fmt: skip
        ofi = pl.col("link").eq_missing("EFA")
        devices = self._nics.select(
            "proc", "index", "name", family=pl.when(ofi).then(pl.lit("ofi")).otherwise(pl.lit("ib"))
        )
        sockets = (
            self["interfaces"]
            .filter(pl.col("use") == "socket")
            .select("proc", "index", "name", family=pl.lit("socket"))
        )
        listed = pl.concat([devices, sockets]).unique(["proc", "family", "index"], keep="last", maintain_order=True)
        return listed.join(asked, on="family").select("proc", "network", net_dev="index", nic="name")

    @cached_property
    def nic_lists(self) -> Mapping[str, tuple[Nic, ...]]:
        """Net devices that each machine lists, over its processes."""
        listed = self._nics.join(self.machine_table, on="proc").filter(pl.col("machine").is_not_null())
        rows = (
            listed.group_by("machine", "name", maintain_order=True)
            .agg(pl.col("index").min(), pl.col("link").first(), pl.col("gbit").max())
            .sort("machine", "index", "name")
        )
        found: dict[str, tuple[Nic, ...]] = {}
        for row in rows.iter_rows(named=True):
            nic = Nic(row["index"], row["name"], row["link"] or "", row["gbit"])
            found[row["machine"]] = (*found.get(row["machine"], ()), nic)
        return found

    @cached_property
    def socket_interfaces(self) -> tuple[Seen, ...]:
        """The interface that each process uses first for sockets: value is its name."""
        rows = self["interfaces"].filter((pl.col("use") == "socket") & (pl.col("index").fill_null(0) == 0))
        return self._seen(rows.select("proc", "source", "line", value="name"))

    @cached_property
    def gdr_refusals(self) -> tuple[GdrRefusal, ...]:
        """GPUDirect RDMA refused by NCCL, for a device as a whole or for a GPU and a device that are too far apart."""
        refused = self["gdr"].filter(pl.col("enabled").eq(False)).join(self.machine_table, on="proc", how="left")
        rows = refused.group_by("kind", "hca", "distance", "limit", "reason", maintain_order=True).agg(
            pl.col("machine").drop_nulls().unique().sort(), where=pl.struct("source", "line").head(_MAX_EVIDENCE)
        )
        return tuple(
            GdrRefusal(
                row["kind"], row["hca"] or "", row["distance"], row["limit"], row["reason"] or "",
                tuple(row["machine"]),
                tuple(self.evidence(w["source"], w["line"]) for w in row["where"]),
            )
            for row in rows.iter_rows(named=True)
        )  # fmt: skip

    @cached_property
    def ring_rails(self) -> RingRails | None:
        """Do ring edges between machines keep their rail; None where no such edge is seen."""
        edges, _ = ring_edges(self.tables, self.edge_table, self._kinds)
        listed = self._nics.join(self.machine_table, on="proc").select(
            "machine", pl.col("name").alias("device"), "rail", "pci"
        )
        patterns = self["graphs"].filter(pl.col("pattern") == 4)
        alternating = bool(patterns.select((pl.col("cross_nic") == 2).any()).item()) if patterns.height else None
        nodes = self._crosses.select(cid=pl.col("cid").cast(pl.Int64), nodes="nnodes")
        edges = edges.with_columns(pl.col("cid").cast(pl.Int64)).join(
            nodes, on="cid", how="left", maintain_order="left"
        )
        return ring_rails(edges, listed, alternating, self.paths)

    # -------------------------------------------------------------------------------------------- hardware and pictures

    @cached_property
    def matrices(self) -> tuple[Matrix, ...]:
        """The `nvidia-smi topo` matrices of the input."""
        return matrices(self.tables, self.paths)

    @cached_property
    def gpu_names(self) -> tuple[str, ...]:
        """GPU models that the input prints by name."""
        return tuple(self["gpu_names"].get_column("name").drop_nulls().unique().sort().to_list())

    @cached_property
    def nvlink(self) -> Answer:
        """Do GPUs of one node talk over NVLink?"""
        return hardware.nvlink(self)

    @cached_property
    def gpu_paths(self) -> frozenset[str]:
        """Classes of paths between GPUs of one node that some line names."""
        return hardware.gpu_paths(self)

    @cached_property
    def path_evidence(self) -> tuple[Evidence, ...]:
        """The first lines that name a path between GPUs."""
        paths = (
            self["paths"]
            .filter(pl.col("b").str.starts_with("GPU/") & (pl.col("type") != "LOC"))
            .select("source", "line")
        )
        rows = (
            pl.concat([paths, self["graphs"].select("source", "line")])
            .unique()
            .sort("source", "line")
            .head(_MAX_EVIDENCE)
        )
        return tuple(self.evidence(source, line) for source, line in rows.iter_rows())

    def p2p_refused(self, kind: str) -> tuple[Seen, ...]:
        """Pairs of GPUs that CUDA ("p2p_unavailable") or the driver ("p2p_disabled_pair") will not join."""
        rows = self["p2p_pairs"].filter(pl.col("kind") == kind)
        return self._seen(rows.select("proc", "source", "line", value=pl.format("{} and {}", "a", "b")))

    @cached_property
    def cross_nic(self) -> frozenset[tuple[str, int]]:
        """(machine, crossNic) of the ring patterns that the input prints."""
        rings = self["graphs"].filter(pl.col("pattern") == 4).join(self.machine_table, on="proc")
        rows = rings.select("machine", "cross_nic").drop_nulls().unique()
        return frozenset(rows.iter_rows())

    @cached_property
    def rdma_signs(self) -> tuple[Seen, ...]:
        """Whatever shows that the job has, or means to have, RDMA: value says what."""
        signs = [Seen(f"network {seen.value}", seen.machines, seen.evidence, seen.count)
                 for seen in self.networks if networks.kind(seen.value) in networks.RDMA]  # fmt: skip
        listed = self["nics"].select("proc", "source", "line", value=pl.format("device {}", "name"))
        signs.extend(self._seen(listed))
        interfaces = self["interfaces"].filter(pl.col("name").str.contains(r"^(?:ib|hsn)"))
        signs.extend(self._seen(interfaces.select("proc", "source", "line", value=pl.format("interface {}", "name"))))
        for name, seen in (
            *self.settings_like("NCCL_IB_"),
            *self.settings_like("FI_"),
            *self.settings_like("NCCL_NET"),
        ):
            if name == "NCCL_IB_DISABLE" or (name == "NCCL_NET" and networks.kind(seen.value) == "socket"):
                continue
            if name.startswith("NCCL_NET") and name not in ("NCCL_NET", "NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ"):
                continue
            signs.append(Seen(f"{name}={seen.value}", seen.machines, seen.evidence, seen.count))
        for kind in ("net_plugin_loaded", "net_plugin_external_loaded", "net_plugin_p2p", "net_plugin_env"):
            signs += [Seen(f"plugin {seen.value}", seen.machines, seen.evidence, seen.count)
                      for seen in self.notes(kind) if networks.kind(seen.value) != "socket"
                      and seen.value != "none"]  # fmt: skip
        signs += [Seen("libibverbs, which failed to load", failure.machines, failure.evidence, failure.count)
                  for failure in self.failures("ib_library_missing")]  # fmt: skip
        return tuple(signs)

    @cached_property
    def guest_signs(self) -> tuple[Seen, ...]:
        """Whatever shows that the job runs in virtual machines: value says what."""
        signs = [Seen(f"topology file {seen.value}", seen.machines, seen.evidence, seen.count)
                 for seen in self.settings("NCCL_TOPO_FILE") if hardware.guest_file(seen.value)]  # fmt: skip
        signs += [Seen(f"instance {seen.value.split(',')[0].split(' ')[0]}", seen.machines, seen.evidence, seen.count)
                  for seen in self.notes("net_ofi_platform") if ".metal" not in seen.value]  # fmt: skip
        for kind in ("nic_not_pci", "sys_unreadable", "path_not_found"):
            signs += [Seen(f"device path {seen.value}", seen.machines, seen.evidence, seen.count)
                      for seen in self.notes(kind) if "vmbus" in seen.value.lower()]  # fmt: skip
        behind = self["nics"].filter(pl.col("pci").str.contains("VMBUS", literal=True))
        signs.extend(self._seen(behind.select("proc", "source", "line", value=pl.format("{} behind VMBUS", "name"))))
        return (*signs, *self.emulated_bridges)

    @cached_property
    def emulated_bridges(self) -> tuple[Seen, ...]:
        """PCI bridges slower than any real one in NCCL's topology dump: those of an emulated machine."""
        bridges = self["topology"].filter((pl.col("link") == "PCI") & (pl.col("bw") < 1))
        return self._seen(
            bridges.select("proc", "source", "line", value=pl.format("emulated PCI bridge of {} GB/s", "bw"))
        )

    @cached_property
    def cpu_vendors(self) -> frozenset[str]:
        """Makers of the hosts' CPUs in NCCL's topology dump: "Intel", "AMD", "Zhaoxin", "Arm", "Power", "other"."""
        cpus = self["topology"].filter(pl.col("arch").is_not_null()).select("arch", "vendor").unique()
        by_arch, by_vendor = {2: "Power", 3: "Arm"}, {1: "Intel", 2: "AMD", 3: "Zhaoxin"}
        return frozenset(by_arch.get(arch) or by_vendor.get(vendor) or "other" for arch, vendor in cpus.iter_rows())

    def shape(self) -> JobShape:
        """What the estimate takes from the facts."""
        return hardware.shape_of(self)

    def picture(self) -> JobPicture:
        """What NCCL decided, for the head of a report."""
        return picture_of(self)

    # -------------------------------------------------------------------------------------------------------- presence

    @cached_property
    def absent(self) -> tuple[Absent, ...]:
        """Communicators of which some ranks have no record at all."""
        found = []
        arrived = self._past_first_exchange
        for communicator in self.communicators:
            if communicator.nranks and not communicator.ambiguous and len(communicator.ranks) < communicator.nranks:
                found.append(
                    Absent(communicator.nranks, communicator.ranks, communicator.id in arrived, communicator.evidence)
                )
        if not self.communicators:
            found.extend(self._absent_from_rings)
        return tuple(found)

    @property
    def _absent_from_rings(self) -> tuple[Absent, ...]:
        """Excerpts without init lines: the ring order names all ranks, edges name those that print."""
        rings = self["rings"].filter(pl.col("ranks").list.len() > 1)
        if rings.height == 0:
            return ()
        row = rings.row(0, named=True)
        seen = sorted({*self._printed.get_column("own").drop_nulls().unique().to_list(), row["ranks"][0]})
        if len(seen) >= len(row["ranks"]):
            return ()
        return (Absent(len(row["ranks"]), tuple(seen), True, (self.evidence(row["source"], row["line"]),)),)

    @property
    def _past_first_exchange(self) -> frozenset[int]:
        """Communicators of which some rank shows a line that comes after all ranks have met."""
        done = self.members.filter(pl.col("completed") | pl.col("nnodes").is_not_null())
        edged = self.edge_table.get_column("cid").drop_nulls().unique().to_list()
        later = pl.concat(self[name].select("proc", "tid", "line") for name in ("rings", "channels", "connected"))
        at_work = self.members.filter(pl.col("member").is_in(at_init(later, self.members).implode()))
        found = pl.concat([done.get_column("cid"), at_work.get_column("cid")]).unique().to_list()
        return frozenset(found) | frozenset(edged)

    @cached_property
    def visibility(self) -> Visibility:
        """What kinds of lines the input holds."""
        have = {name for name, frame in self.tables.items() if frame.height}
        levels = set(self["levels"].get_column("level").to_list())
        return Visibility(
            log=bool(levels),
            info="INFO" in levels,
            init=bool(have & {"inits", "interfaces", "networks", "nics", "edges", "rings", "connected", "channels"}),
            env="settings" in have,
            net=bool(have & {"gdr"}),
            graph=bool(have & {"graphs", "topology", "paths"}),
            channels="edges" in have,
        )

    # ------------------------------------------------------------------------------------ settings, notes and failures

    def settings(self, name: str) -> tuple[Seen, ...]:
        """Values in force of one variable, each with the machines that print it. Empty: not printed, which before
        2.16.5 (and without ENV in the subsystems) does not mean unset."""
        if name not in self._values_in("settings", "name"):
            return ()
        rows = self["settings"].filter(pl.col("name") == name)
        return self._seen(rows.select("proc", "source", "line", "value"))

    def settings_like(self, prefix: str) -> tuple[tuple[str, Seen], ...]:
        """All variables whose name begins with `prefix`, with their values."""
        names = sorted(name for name in self._values_in("settings", "name") if name.startswith(prefix))
        return tuple((name, seen) for name in names for seen in self.settings(name))

    def notes(self, kind: str) -> tuple[Seen, ...]:
        """One-line facts of a kind (the event's name), by value."""
        if kind not in self._values_in("notes", "kind"):
            return ()
        rows = self["notes"].filter(pl.col("kind") == kind)
        return self._seen(rows.select("proc", "source", "line", pl.col("value").fill_null("")))

    def failures(self, *categories: str) -> tuple[Failure, ...]:
        """Failures of these categories (all: none given), those that read alike joined. Peers are left out of the
        likeness: 500 refused connections are one failure."""
        rows = self["failures"]
        if rows.height and categories:
            rows = rows.filter(pl.col("category").is_in(list(categories)))
        if rows.height == 0:
            return ()
        rows = rows.join(self.machine_table, on="proc", how="left", maintain_order="left")
        likeness = ["category", "level", "call", "errno_text", "error", "rank_a", "rank_b", "bus_id", "code", "text",
                    "src_file", "version_a", "version_b"]  # fmt: skip
        grouped = rows.group_by(likeness, maintain_order=True).agg(
            pl.col("machine").drop_nulls().unique().sort(),
            pl.len().alias("count"),
            pl.col("peer", "path").drop_nulls().first(),
            where=pl.struct("source", "line").head(_MAX_EVIDENCE),
        )
        found = []
        for row in grouped.iter_rows(named=True):
            fields = {
                name: str(row[name])
                for name in (*likeness, "peer", "path")
                if name not in ("category", "level") and row[name] is not None
            }
            evidence = tuple(self.evidence(w["source"], w["line"]) for w in row["where"])
            found.append(Failure(row["category"], row["level"], fields, tuple(row["machine"]), row["count"], evidence))
        return tuple(found)

    @cached_property
    def failed_completions(self) -> tuple[Completions, ...]:
        """Work completions that RDMA reported as failed, by status."""
        return failed_completions(self.tables, self.machine_table, self.evidence)

    # --------------------------------------------------------------------------------------------------------- helpers

    def evidence(self, source: int, line: int) -> Evidence:
        """A line of an input; its text is filled in when the report is made."""
        return Evidence(self.paths[source], line, "")

    def _values_in(self, name: str, column: str) -> frozenset[str]:
        """Distinct values of a column: most questions are about what is not there."""
        known = self._distinct.get((name, column))
        if known is None:
            known = frozenset(self[name].get_column(column).unique())
            self._distinct[name, column] = known
        return known

    def _seen(self, rows: pl.DataFrame) -> tuple[Seen, ...]:
        """Rows (proc, source, line, value) by value."""
        if rows.height == 0:
            return ()
        rows = rows.join(self.machine_table, on="proc", how="left", maintain_order="left")
        grouped = rows.group_by("value", maintain_order=True).agg(
            pl.col("machine").drop_nulls().unique().sort(),
            pl.len().alias("count"),
            where=pl.struct("source", "line").sort_by("source", "line").head(_MAX_EVIDENCE),
        )
        return tuple(
            Seen(
                row["value"] or "",
                tuple(row["machine"]),
                tuple(self.evidence(w["source"], w["line"]) for w in row["where"]),
                row["count"],
            )
            for row in grouped.iter_rows(named=True)
        )


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """Sorts n2 before n10."""
    return tuple(
        (int(part), "") if part.isdecimal() and part.isascii() else (-1, part) for part in re.split(r"(\d+)", name)
    )


def _values(pairs: pl.DataFrame) -> dict[int, tuple[str, ...]]:
    """Values (second column) by key, sorted."""
    key, value = pairs.columns
    grouped = pairs.drop_nulls().group_by(key).agg(pl.col(value).unique().sort())
    return {row[0]: tuple(row[1]) for row in grouped.iter_rows()}


def machines_of(items: Iterable[Seen | Failure | EdgeGroup | GdrRefusal]) -> tuple[str, ...]:
    """All machines of several facts, sorted."""
    return tuple(sorted({machine for item in items for machine in item.machines}))


def evidence_of(
    items: Iterable[Seen | Failure | EdgeGroup | GdrRefusal | SharedGpu], most: int = _MAX_EVIDENCE
) -> tuple[Evidence, ...]:
    """The first evidence of each fact in turn, then the second ones, at most `most` lines."""
    lists = [item.evidence for item in items]
    rounds = max((len(one) for one in lists), default=0)
    picked = [one[turn] for turn in range(rounds) for one in lists if turn < len(one)]
    return tuple(dict.fromkeys(picked))[:most]
