"""The facts of a reading, and the questions that rules and reports ask of them.

A question that the input leaves open is answered UNKNOWN, None or with an empty tuple; the caller must not take that
for "no". What processes say is in `printed`, who talks to whom in `traffic`; here is the job as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Protocol

import polars as pl

from ncclcheck.facts import hardware, networks
from ncclcheck.facts.answer import Answer
from ncclcheck.facts.communicators import at_init
from ncclcheck.facts.completions import Completions, failed_completions
from ncclcheck.facts.drawing import picture_of
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.measured import Measured
from ncclcheck.facts.measurements import plateaus
from ncclcheck.facts.nearness import Nearness, nearness
from ncclcheck.facts.outputs import strangers
from ncclcheck.facts.parts import Contradiction, contradictions
from ncclcheck.facts.picture import JobPicture
from ncclcheck.facts.presence import Absent, Visibility
from ncclcheck.facts.printed import MAX_EVIDENCE
from ncclcheck.facts.seen import Seen
from ncclcheck.facts.shape import JobShape
from ncclcheck.facts.topo_file import topo_files
from ncclcheck.facts.traffic import Traffic
from ncclcheck.facts.versions import Versions


class Facts(Traffic):
    """All questions about one reading."""

    @cached_property
    def versions(self) -> Versions:
        """Who loads which release of NCCL."""
        return Versions(self.tables, self.machine_table, self.members, self.evidence)

    @cached_property
    def failed_completions(self) -> tuple[Completions, ...]:
        """Work completions that RDMA reported as failed, by status."""
        return failed_completions(self.tables, self.machine_table, self.evidence)

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
            .head(MAX_EVIDENCE)
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
        """Whatever shows that the job has, or means to have, RDMA: value says what. (That libibverbs cannot be loaded
        shows nothing: NCCL tries it in every container.)"""
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
        signs += [Seen(f"device {failure.fields.get('text', '')}, which may not be opened", failure.machines,
                       failure.evidence, failure.count) for failure in self.failures("ib_open_failed")]  # fmt: skip
        signs += [Seen("a verbs device without its driver", seen.machines, seen.evidence, seen.count)
                  for seen in self.notes("verbs_driver_missing") if "/infiniband_verbs/" in seen.value]  # fmt: skip
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
        signs += [Seen(sign, (), (line,)) for file in topo_files(self) for sign, line in file.guest_signs]
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

    @property
    def nearness(self) -> tuple[Nearness, ...]:
        """NICs and NVLinks of GPUs, table by table."""
        return nearness(self)

    @property
    def strangers(self) -> tuple[str, ...]:
        """Machines that outputs of tools name and the job's log does not."""
        return strangers(self)

    @property
    def contradictions(self) -> tuple[Contradiction, ...]:
        """What outputs of tools disagree about though it does not change."""
        return contradictions(self)

    @property
    def measured(self) -> tuple[Measured, ...]:
        """What nccl-tests measured, in whatever situation."""
        return plateaus(self)

    @cached_property
    def jobs(self) -> int:
        """How many jobs the input certainly holds: complete communicators that share neither machines nor inputs, even
        through others. 1 where nothing proves more."""
        whole = {c.id for c in self.communicators if c.nranks and len(c.ranks) == c.nranks and not c.ambiguous}
        members = self.members.filter(pl.col("machine").is_not_null())
        if not whole or members.height < self.members.height:
            return 1
        ties = members.group_by("cid").agg(pl.col("machine").unique(), pl.col("source").unique())
        groups: list[tuple[set[str | int], bool]] = []
        for cid, machines, sources in ties.iter_rows():
            things, complete = {*machines, *sources}, cid in whole
            apart = []
            for group, has_whole in groups:
                if group & things:
                    things, complete = things | group, complete or has_whole
                else:
                    apart.append((group, has_whole))
            groups = [*apart, (things, complete)]
        return len(groups) if all(complete for _, complete in groups) else 1

    @cached_property
    def absent(self) -> tuple[Absent, ...]:
        """Communicators of which some ranks have no record at all; a process whose rank no line tells may be any."""
        found = []
        arrived = self.past_first_exchange
        for communicator in self.communicators:
            if not communicator.nranks or communicator.ambiguous:
                continue
            if len(communicator.ranks) + self._processes_without_rank < communicator.nranks:
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
        if max(len(seen), self._processes_without_rank) >= len(row["ranks"]):
            return ()
        return (Absent(len(row["ranks"]), tuple(seen), True, (self.evidence(row["source"], row["line"]),)),)

    @cached_property
    def _processes_without_rank(self) -> int:
        """Processes that print with host and pid, but no line with their rank."""
        named = self["processes"].filter(pl.col("host").is_not_null() & pl.col("pid").is_not_null())
        return named.filter(~pl.col("proc").is_in(self.members.get_column("proc").implode())).height

    @property
    def past_first_exchange(self) -> frozenset[int]:
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
            env=bool(self["settings"].select((pl.col("origin") == "log").any()).item()),
            net=bool(have & {"gdr"}),
            graph=bool(have & {"graphs", "topology", "paths"}),
            channels="edges" in have,
        )


class _OnMachines(Protocol):
    @property
    def machines(self) -> tuple[str, ...]: ...


class _OnMachine(Protocol):
    @property
    def machine(self) -> str: ...


class _Proven(Protocol):
    @property
    def evidence(self) -> tuple[Evidence, ...]: ...


def machines_of(items: Iterable[_OnMachines]) -> tuple[str, ...]:
    """All machines of several facts, sorted."""
    return tuple(sorted({machine for item in items for machine in item.machines}))


def machine_names(items: Iterable[_OnMachine]) -> tuple[str, ...]:
    """The machines of facts that are of one machine each, sorted; those without a name ("") are left out."""
    return tuple(sorted({item.machine for item in items} - {""}))


def evidence_of(items: Iterable[_Proven], most: int = MAX_EVIDENCE) -> tuple[Evidence, ...]:
    """The first evidence of each fact in turn, then the second ones, at most `most` lines."""
    lists = [item.evidence for item in items]
    rounds = max((len(one) for one in lists), default=0)
    picked = [one[turn] for turn in range(rounds) for one in lists if turn < len(one)]
    return tuple(dict.fromkeys(picked))[:most]
