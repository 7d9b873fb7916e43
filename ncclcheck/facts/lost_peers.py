"""Processes that lost a peer: sockets that closed, proxies that gave up, results that say "remote error"."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from ncclcheck.facts.completions import machine_of_peer
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.printed import MAX_EVIDENCE
from ncclcheck.facts.question import question
from ncclcheck.facts.traffic import Traffic

SOCKETS = ("socket_closed", "socket_recv_failed", "ras_peer_dead")
PROXIES = ("proxy_failed", "proxy_poll_failed", "proxy_closed")
# ncclRemoteError: look at another rank.
_REMOTE_ERROR = 6
# What is a fault of this end, not of the peer.
_OWN_ERRORS = r"(?i)too many open files|no buffer space|cannot allocate"


@dataclass(frozen=True, slots=True)
class LostPeers:
    """sockets, proxies: how many processes say so. words: what the first of them says. machines: where they are.
    peers: machines that they name. origin: those of them that complain of nothing themselves."""

    sockets: int
    proxies: int
    words: str
    machines: tuple[str, ...]
    peers: tuple[str, ...]
    origin: tuple[str, ...]
    evidence: tuple[Evidence, ...]


@question
def lost_peers(facts: Traffic) -> LostPeers | None:
    failures = facts["failures"].join(facts.machine_table, on="proc", how="left", maintain_order="left")
    category = pl.col("category")
    remote = (category == "error_trace") & (pl.col("code") == _REMOTE_ERROR)
    wrong = failures.filter((pl.col("level") == "WARN") | remote).group_by("proc").agg(since=pl.col("line").min())
    rows = failures.filter(
        ((pl.col("level") == "WARN") & category.is_in([*SOCKETS, *PROXIES])) | remote
        | category.is_in(["ras_peer_dead", "proxy_closed"])
    ).filter(~pl.col("errno_text").fill_null("").str.contains(_OWN_ERRORS))  # fmt: skip
    # a proxy that says so at the end of a healthy run says nothing
    rows = rows.join(wrong, on="proc", how="left", maintain_order="left").filter(
        (category != "proxy_closed") | (pl.col("line") > pl.col("since"))
    )
    if rows.height == 0:
        return None
    machines = rows.get_column("machine").drop_nulls().unique().sort()
    addresses = rows.get_column("peer").drop_nulls().str.replace(r"<\d+>$", "").unique().sort()
    peers = sorted(set(machine_of_peer(facts.tables, facts.machine_table, addresses).values()))
    at_sockets = rows.filter(~category.is_in(PROXIES))
    telling = (at_sockets if at_sockets.height else rows).sort(category == "error_trace", maintain_order=True)
    first = telling.unique("machine", keep="first", maintain_order=True).head(MAX_EVIDENCE)
    return LostPeers(
        sockets=at_sockets.get_column("proc").n_unique(),
        proxies=rows.filter(category.is_in(PROXIES)).get_column("proc").n_unique(),
        words=_words(telling.row(0, named=True)),
        machines=tuple(machines),
        peers=tuple(peers),
        origin=tuple(peer for peer in peers if peer not in set(machines)),
        evidence=tuple(facts.evidence(row["source"], row["line"]) for row in first.iter_rows(named=True)),
    )


def _words(row: dict[str, object]) -> str:
    category = row["category"]
    if category == "socket_closed":
        return "connection closed by the remote peer"
    if category == "socket_recv_failed":
        return str(row["errno_text"] or "a call failed").lower()
    if category == "ras_peer_dead":
        return "declared dead by RAS"
    if category == "error_trace":
        return "NCCL's result 6, remote error"
    if category == "proxy_failed" and row["call"]:
        return f"operation {row['call']}, result {row['code']}"
    return "no word from a rank of the same machine"
