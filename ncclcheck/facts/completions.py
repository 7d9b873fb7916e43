"""Work completions that RDMA reported as failed, and whether the peer had failed before."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.schema import table

# Statuses of libibverbs (ibv_wc_status).
FLUSHED, RETRY_EXCEEDED, RNR_RETRY_EXCEEDED = 5, 12, 13
# What the peer leaves behind: flushed requests, retries without an answer, a receiver that is not ready.
_FROM_THE_PEER = frozenset((FLUSHED, RETRY_EXCEEDED, RNR_RETRY_EXCEEDED))
# Failures that end a process; those of sockets are left out, they follow from somebody else's end.
_ENDS = (
    "cuda_failure", "cuda_ipc_failed", "shm_extend_failed", "shm_failed", "ibv_failed", "collective_mismatch",
    "message_truncated",
)  # fmt: skip
# A record that was cut off: what comes after the status is lost, so it falls through the grammar.
_CUT = r"Got completion (?:from peer (\S+) )?with (?:error |status=)(?:\w+\()?(\d+)[,) ]"
_MOST_EVIDENCE = 4


@dataclass(frozen=True, slots=True)
class Completions:
    """All failed completions with one status.

    vendor_errs, devices, peers: as printed, each once; peers without their port. machines: who reported them.
    peer_machines: peers that are machines of this input. after_failure: how many are explained by a failure that the
    peer's machine had on record before, in the same input.
    """

    status: int
    vendor_errs: tuple[int, ...]
    devices: tuple[str, ...]
    machines: tuple[str, ...]
    peers: tuple[str, ...]
    peer_machines: tuple[str, ...]
    count: int
    after_failure: int
    evidence: tuple[Evidence, ...]


def failed_completions(
    tables: Mapping[str, pl.DataFrame], machines: pl.DataFrame, evidence: Callable[[int, int], Evidence]
) -> tuple[Completions, ...]:
    """By status, in the order of the input."""
    failures = table(tables, "failures").filter(pl.col("level") == "WARN")
    cut = pl.col("text").str.extract_groups(_CUT)
    torn = pl.col("category") == "warn"
    rows = failures.filter((pl.col("category") == "ib_completion_error") | (torn & pl.col("text").str.contains(_CUT)))
    if rows.height == 0:
        return ()
    rows = rows.with_columns(
        status=pl.when(torn).then(cut.struct[1].cast(pl.Int64, strict=False)).otherwise("code"),
        peer=pl.when(torn).then(cut.struct[0]).otherwise("peer").str.replace(r"<\d+>$", ""),
        device=pl.when(~torn).then("text"),
    )
    ends = failures.filter(pl.col("category").is_in(_ENDS)).select("proc", "source", "line")
    both = pl.concat([rows.select(*ends.columns, "status", "peer", "device", "vendor_err"), ends], how="diagonal")
    both = both.join(machines, on="proc", how="left", maintain_order="left").sort("source", "line", maintain_order=True)
    texts = pl.col("machine", "peer", "device").fill_null("")
    ordered = both.with_columns(texts).select(*_Row._fields)
    whose = machine_of_peer(tables, machines, rows.get_column("peer").drop_nulls().unique())
    return _by_status((_Row(*row) for row in ordered.iter_rows()), whose, evidence)


@dataclass
class _Status:
    """What is known of one status so far."""

    vendor_errs: set[int] = field(default_factory=set)
    devices: set[str] = field(default_factory=set)
    machines: set[str] = field(default_factory=set)
    peers: set[str] = field(default_factory=set)
    peer_machines: set[str] = field(default_factory=set)
    count: int = 0
    after_failure: int = 0
    evidence: dict[str, Evidence] = field(default_factory=dict)

    def add(self, row: _Row, peer_machine: str, explained: bool, evidence: Callable[[int, int], Evidence]) -> None:
        self.count += 1
        self.after_failure += explained
        for names, name in (
            (self.devices, row.device), (self.machines, row.machine), (self.peers, row.peer),
            (self.peer_machines, peer_machine),
        ):  # fmt: skip
            if name:
                names.add(name)
        if row.vendor_err is not None:
            self.vendor_errs.add(row.vendor_err)
        if row.machine not in self.evidence and len(self.evidence) < _MOST_EVIDENCE:
            self.evidence[row.machine] = evidence(row.source, row.line)

    def done(self, status: int) -> Completions:
        return Completions(
            status, tuple(sorted(self.vendor_errs)), tuple(sorted(self.devices)), tuple(sorted(self.machines)),
            tuple(sorted(self.peers)), tuple(sorted(self.peer_machines)), self.count, self.after_failure,
            tuple(self.evidence.values()),
        )  # fmt: skip


class _Row(NamedTuple):
    """A failed completion, or with status None another end of a process. Texts are "" where unknown."""

    source: int
    line: int
    machine: str
    status: int | None
    peer: str
    device: str
    vendor_err: int | None


def _by_status(
    rows: Iterable[_Row], whose: Mapping[str, str], evidence: Callable[[int, int], Evidence]
) -> tuple[Completions, ...]:
    """rows: each input in its order."""
    found: dict[int, _Status] = {}
    ended: set[tuple[int, str]] = set()
    for row in rows:
        if row.status is None:
            ended.add((row.source, row.machine))
            continue
        peer_machine = whose.get(row.peer, "")
        from_peer = row.status in _FROM_THE_PEER
        explained = from_peer and peer_machine != "" and (row.source, peer_machine) in ended
        if explained or not from_peer:
            ended.add((row.source, row.machine))
        found.setdefault(row.status, _Status()).add(row, peer_machine, explained, evidence)
    return tuple(one.done(status) for status, one in found.items())


def machine_of_peer(tables: Mapping[str, pl.DataFrame], machines: pl.DataFrame, peers: pl.Series) -> dict[str, str]:
    """Peers (address or host name) that are machines of the input."""
    known = table(tables, "interfaces").join(machines, on="proc").select("address", "machine").drop_nulls().unique()
    alone = known.filter(pl.col("machine").n_unique().over("address") == 1)
    by_address = dict(alone.iter_rows())
    names = set(machines.get_column("machine").drop_nulls())
    found = {}
    for peer in peers:
        by_name = f"ip-{peer.replace('.', '-')}" if re.fullmatch(r"[\d.]+", peer) else peer.partition(".")[0]
        machine = by_address.get(peer) or (by_name if by_name in names else None)
        if machine is not None:
            found[peer] = machine
    return found
