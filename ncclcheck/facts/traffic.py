"""Who talks to whom: communicators, the network between machines, edges, NICs and rails."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import polars as pl

from ncclcheck.facts import networks
from ncclcheck.facts.answer import Answer
from ncclcheck.facts.edges import alike, edge_groups, printed_edges, ring_edges
from ncclcheck.facts.fabric import DOMAIN_GPUS, nvlink_over_machines
from ncclcheck.facts.leaves import leaves
from ncclcheck.facts.printed import MAX_EVIDENCE, Printed
from ncclcheck.facts.rails import RingRails, ring_rails
from ncclcheck.facts.seen import Communicator, Crossing, EdgeGroup, GdrRefusal, Nic, Seen, SharedGpu

# GPUs per machine when nothing tells: more ranks than this must be on several machines.
_MAX_GPUS = 16


class Traffic(Printed):
    """Questions about communicators, edges and NICs."""

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
                where=pl.struct("source", "first_line").sort_by("source", "first_line").head(MAX_EVIDENCE),
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
            (pl.col("completed") | pl.col("proc").is_in(self._connecting.implode())).any().alias("met"),
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
        if machines == 1 and row["seen"] == nranks:
            return Crossing(Answer.NO, "all its ranks run on one machine", evidence=evidence)
        if machines > 1 or (nranks is not None and gpus < nranks <= DOMAIN_GPUS):
            nvlink = nvlink_over_machines(self)
            # NCCL says so before it connects anything: a log that ends earlier does not tell
            if nvlink is Answer.YES or (nvlink is Answer.UNKNOWN and not row["met"]):
                why = "NVLink may join the machines into one node (MNNVL): NCCL's node count is not in the input"
                return Crossing(Answer.UNKNOWN, why, evidence=evidence)
        if machines > 1 and not row["ambiguous"]:
            return Crossing(Answer.YES, f"its ranks run on {machines} machines", "medium", evidence)
        if nranks is not None and nranks > gpus:
            return Crossing(Answer.YES, f"{nranks} ranks do not fit one machine", "medium", evidence)
        return Crossing(Answer.UNKNOWN, "the node count of the communicator is not in the input", evidence=evidence)

    @property
    def _connecting(self) -> pl.Series:
        """Processes that print what comes after the first exchange of all ranks."""
        later = [self[name].get_column("proc") for name in ("rings", "channels", "edges", "connected")]
        return pl.concat(later).unique()

    @cached_property
    def _gpus_of_a_machine(self) -> int:
        """More ranks than this cannot be on one machine: GPUs of a matrix or of NCCL's own dump, else a safe number.
        A dump with fewer GPUs than ranks on a machine is cut."""
        shown = [len(matrix.gpus) for matrix in self.matrices if matrix.kind == "topo" and matrix.complete]
        nodes = self["topology"].filter(pl.col("node") == "GPU").select("proc", gpu=pl.format("GPU/{}", "id"))
        ends = self["paths"].filter(pl.col("b").str.starts_with("GPU/")).select("proc", gpu="b")
        dumped = pl.concat([nodes, ends]).group_by("proc").agg(pl.col("gpu").n_unique())
        here = self.members.drop_nulls("machine").group_by("cid", "machine").agg(pl.col("rank").n_unique())
        seen = here.get_column("rank").max() or 0
        shown += [gpus for gpus in dumped.get_column("gpu").to_list() if gpus >= seen]
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
        if len(self.machines) > 1 and all(communicator.nranks == 1 for communicator in self.communicators):
            return Crossing(Answer.UNKNOWN, "communicators of one rank each, on several machines")
        if all(crossing.answer is Answer.NO for crossing in crossings):
            return crossings[0]
        return next(crossing for crossing in crossings if crossing.answer is Answer.UNKNOWN)

    @property
    def _crossing_without_communicators(self) -> Crossing:
        """Excerpts: a ring of several ranks, and several machines in one input."""
        rings = self["rings"].filter(pl.col("ranks").list.len() > 1)
        if nvlink_over_machines(self) is Answer.YES:
            return Crossing(Answer.UNKNOWN, "NVLink joins machines (MNNVL), and no line tells how many nodes there are")
        if len(self.machines) > 1 and rings.height:
            row = rings.row(0, named=True)
            size = len(row["ranks"])
            why = f"a ring of {size} ranks, and {len(self.machines)} machines in the input"
            if size >= len(self.machines):
                return Crossing(Answer.YES, why, "medium", (self.evidence(row["source"], row["line"]),))
        listed = self._hosts_of_device_list
        if listed is not None:
            return listed
        longest = rings.select(pl.col("ranks").list.len().max()).item() if rings.height else 0
        if longest and longest > _MAX_GPUS:
            return Crossing(Answer.YES, f"a ring of {longest} ranks does not fit one machine", "medium")
        return Crossing(Answer.UNKNOWN, "no line tells how many nodes the job has")

    @property
    def _hosts_of_device_list(self) -> Crossing | None:
        """The device list of nccl-tests: one job, if no rank stands there twice, and its hosts."""
        listed = self["gpu_names"].drop_nulls(["host", "rank"]).unique(["source", "host", "rank"], maintain_order=True)
        once = pl.col("rank").is_duplicated().any().over("source").not_()
        hosts = listed.filter(once, pl.col("host").n_unique().over("source") > 1)
        if hosts.height == 0 or nvlink_over_machines(self) is not Answer.NO:
            return None
        row = hosts.row(0, named=True)
        number = hosts.filter(pl.col("source") == row["source"]).get_column("host").n_unique()
        why = f"ranks on {number} hosts in one list of devices"
        return Crossing(Answer.YES, why, "medium", (self.evidence(row["source"], row["line"]),))

    @cached_property
    def said_networks(self) -> pl.DataFrame:
        """`proc`, `cid`, `network`: what each rank of a communicator says it uses, null where nothing tells."""
        used = self["networks"].select("proc", "tid", "line", "network")
        # "Using network" comes before START on the same thread; splits use their parent's, and print nothing
        members = self.members.select("proc", "tid", "cid", pl.col("last_line").alias("line")).sort("line")
        said = members.join_asof(used.sort("line"), on="line", by=["proc", "tid"], check_sortedness=False)
        # with one name in a process the thread does not matter
        only = (
            used.group_by("proc").agg(pl.col("network").unique().alias("only")).filter(pl.col("only").list.len() == 1)
        )
        return said.join(only, on="proc", how="left").select(
            "proc", "cid", network=pl.coalesce("network", pl.col("only").list.first())
        )

    @cached_property
    def _networks_of_communicators(self) -> dict[int, tuple[str, ...]]:
        """Networks by communicator: the names on its edges, else what its processes say they use."""
        if self["networks"].height == 0 and self["edges"].height == 0:
            return {}
        on_edges = self.edge_table.filter((pl.col("transport") == "NET") & pl.col("like").is_not_null())
        edges = self._kinds.select("cid", "like").unique().join(on_edges.select("like", "network").unique(), on="like")
        return {**_values(self.said_networks.select("cid", "network")), **_values(edges.select("cid", "network"))}

    @cached_property
    def networks(self) -> tuple[Seen, ...]:
        """Networks that processes say they use or that stand on edges: value is the name."""
        said = self["networks"].select("proc", "source", "line", value="network")
        edges = self["edges"].filter(pl.col("network").is_not_null()).select("proc", "source", "line", value="network")
        return self._seen(pl.concat([said, edges]))

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
            where=pl.struct("source", "line").sort_by("source", "line").head(MAX_EVIDENCE),
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

    @cached_property
    def nic_table(self) -> pl.DataFrame:
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
        devices = self.nic_table.select(
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
        listed = self.nic_table.join(self.machine_table, on="proc").filter(pl.col("machine").is_not_null())
        rows = (
            listed.group_by("machine", "name", maintain_order=True)
            .agg(pl.col("index").min(), pl.col("link").first(), pl.col("gbit").max())
            .sort("machine", "index", "name")
        )
        found: dict[str, list[Nic]] = {}
        for row in rows.iter_rows(named=True):
            nic = Nic(row["index"], row["name"], row["link"] or "", row["gbit"])
            found.setdefault(row["machine"], []).append(nic)
        return {machine: tuple(nics) for machine, nics in found.items()}

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
            pl.col("machine").drop_nulls().unique().sort(), where=pl.struct("source", "line").head(MAX_EVIDENCE)
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
    def ring_edge_table(self) -> pl.DataFrame:
        """Ring edges between machines, one row per printed end; see `edges.ring_edges`."""
        return ring_edges(self.tables, self.edge_table, self._kinds)

    @cached_property
    def ring_rails(self) -> RingRails | None:
        """Do ring edges between machines keep their rail; None where no such edge is seen."""
        edges = self.ring_edge_table
        listed = self.nic_table.join(self.machine_table, on="proc").select(
            "machine", pl.col("name").alias("device"), "rail", "pci"
        )
        wired = [(machine, device, rail) for (machine, device), rail in leaves(self).rails.items()]
        wiring = pl.DataFrame(wired, {"machine": pl.String, "device": pl.String, "leaf": pl.String}, orient="row")
        listed = listed.join(wiring, on=["machine", "device"], how="left", maintain_order="left")
        patterns = self["graphs"].filter(pl.col("pattern") == 4)
        alternating = bool(patterns.select((pl.col("cross_nic") == 2).any()).item()) if patterns.height else None
        nodes = self._crosses.select(cid=pl.col("cid").cast(pl.Int64), nodes="nnodes")
        edges = edges.with_columns(pl.col("cid").cast(pl.Int64)).join(
            nodes, on="cid", how="left", maintain_order="left"
        )
        return ring_rails(edges, listed, alternating, self.paths)


def _values(pairs: pl.DataFrame) -> dict[int, tuple[str, ...]]:
    """Values (second column) by key, sorted."""
    key, value = pairs.columns
    grouped = pairs.drop_nulls().group_by(key).agg(pl.col(value).unique().sort())
    return {row[0]: tuple(row[1]) for row in grouped.iter_rows()}
