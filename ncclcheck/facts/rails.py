"""Which rail is a NIC on, and do ring edges between machines keep theirs?

NCCL does not see the fabric. An inter-node ring edge joins the exit NIC of one node with the entry NIC of the next, so
the test is on the NICs at the two ends of one edge, never on GPU numbers. Indexes are per process and are never compared
between machines as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from ncclcheck.facts.evidence import Evidence


@dataclass(frozen=True, slots=True)
class RingRails:
    """machines: those whose ring edges were seen. nics_per_machine: fewest net devices in use on one of them.

    matched: ring edges of which both ends were seen. channels: ring channels among them; crossing: those that leave
    their rail, wrap-around edges of alternating rings over an odd number of nodes not counted (`odd_wrap`).
    basis: how rails were told ("rail numbers", "device names", "PCI order", "order of GPUs") or "" if they could not be.
    names_differ: machines list differently named devices. inferred: judged from one side (see the confidence).
    """

    machines: tuple[str, ...]
    nics_per_machine: int
    matched: int
    channels: int
    crossing: int
    odd_wrap: bool
    basis: str
    contradicted: bool
    names_differ: bool
    inferred: bool
    evidence: tuple[Evidence, ...]

    @property
    def share(self) -> float:
        """Share of ring channels that leave their rail; each channel carries the same part of the bytes."""
        return self.crossing / self.channels if self.channels else 0.0


def ring_rails(edges: pl.DataFrame, nics: pl.DataFrame, alternating: bool, paths: tuple[str, ...]) -> RingRails | None:
    """Judge the ring edges between machines; None where there are none.

    edges: one row per printed NET ring edge with columns cid, channel, src, dst, direction, machine, device, own_dev
    (text), proxy_rank, source, line. nics: machine, device, rail, pci. alternating: the ring pattern has crossNic 2.
    """
    if edges.height == 0:
        return None
    machines = tuple(edges.get_column("machine").unique().sort())
    per_machine = edges.group_by("machine").agg(pl.col("device").n_unique().alias("devices"))
    fewest = int(per_machine.select(pl.col("devices").min()).item())
    edges, basis, contradicted = _with_rails(edges, nics)
    names_differ = _lists_differ(edges.select("machine", "device"), nics)
    matched, inferred = _ends(edges)
    nodes = len(machines)
    crossing = matched.filter(pl.col("rail_out") != pl.col("rail_in"))
    odd_wrap = False
    if alternating and nodes % 2 and crossing.height:
        # with an odd number of nodes one edge of each ring cannot alternate: the wrap around, on one pair of machines
        pairs = crossing.select("machine_out", "machine_in").unique()
        if pairs.select(pl.struct(pl.min_horizontal(pl.all()), pl.max_horizontal(pl.all()).alias("to"))).n_unique() == 1:
            odd_wrap, crossing = True, crossing.clear()
    where = crossing.select("source", "line").sort("source", "line").head(4)
    return RingRails(
        machines=machines, nics_per_machine=fewest, matched=matched.height,
        channels=matched.select("cid", "channel").n_unique() if matched.height else 0,
        crossing=crossing.select("cid", "channel").n_unique() if crossing.height else 0,
        odd_wrap=odd_wrap, basis=basis, contradicted=contradicted, names_differ=names_differ, inferred=inferred,
        evidence=tuple(Evidence(paths[source], line, "") for source, line in where.iter_rows()),
    )  # fmt: skip


def _with_rails(edges: pl.DataFrame, nics: pl.DataFrame) -> tuple[pl.DataFrame, str, bool]:
    """Add `rail`, by the first way that all machines can answer; and whether device order contradicts device names."""
    used = edges.select("machine", "device").unique()
    known = used.join(nics.unique(["machine", "device"]), on=["machine", "device"], how="left")
    by_gpu = _by_gpu_order(edges)
    named = used.select((~pl.col("device").str.starts_with("NET/")).all()).item()
    same_lists = named and not _lists_differ(used, nics)
    if known.get_column("rail").null_count() == 0:
        return edges.join(known.select("machine", "device", "rail"), on=["machine", "device"], how="left"), "rail numbers", False
    if same_lists:
        contradicted = _contradicts(used, by_gpu)
        return edges.with_columns(rail=pl.col("device")), "device names", contradicted
    if known.get_column("pci").null_count() == 0:
        order = known.with_columns(rail=pl.col("pci").rank("dense").over("machine"))
        return edges.join(order.select("machine", "device", "rail"), on=["machine", "device"], how="left"), "PCI order", False
    if by_gpu is not None and by_gpu.height == used.height:
        return edges.join(by_gpu, on=["machine", "device"], how="left"), "order of GPUs", False
    return edges.with_columns(rail=pl.lit(None, pl.Int64)), "", False


def _lists_differ(used: pl.DataFrame, nics: pl.DataFrame) -> bool:
    """Do the machines list differently named devices? Judged on the lists; on the devices in use where one is missing."""
    listed = nics.join(used.select("machine").unique(), on="machine", how="semi")
    rows = listed if listed.get_column("machine").n_unique() == used.get_column("machine").n_unique() else used
    return rows.group_by("machine").agg(pl.col("device").unique().sort()).get_column("device").n_unique() > 1


def _by_gpu_order(edges: pl.DataFrame) -> pl.DataFrame | None:
    """Ordinal of the lowest device index that uses a NIC without a proxy."""
    direct = edges.filter(pl.col("proxy_rank").is_null() & pl.col("own_dev").str.contains(r"^\d{1,2}$"))
    if direct.height == 0:
        return None
    lowest = direct.group_by("machine", "device").agg(pl.col("own_dev").cast(pl.Int64).min().alias("lowest"))
    return lowest.select("machine", "device", rail=pl.col("lowest").rank("dense").over("machine"))


def _contradicts(used: pl.DataFrame, by_gpu: pl.DataFrame | None) -> bool:
    """One device name, different places in the order of GPUs: the numbering differs between machines."""
    if by_gpu is None or by_gpu.height != used.height:
        return False
    places = by_gpu.group_by("device").agg(pl.col("rail").n_unique().alias("places"))
    return bool(places.select((pl.col("places") > 1).any()).item())


def _ends(edges: pl.DataFrame) -> tuple[pl.DataFrame, bool]:
    """Edges with both ends. From one side only, if every machine enters and leaves a channel on the same pair of NICs."""
    edges = edges.filter(pl.col("rail").is_not_null()).with_columns(pl.col("rail").cast(pl.String), pl.col("cid").cast(pl.Int64))
    send, receive = edges.filter(pl.col("direction") == "send"), edges.filter(pl.col("direction") == "receive")
    edge = ["cid", "channel", "src", "dst"]
    both = send.join(receive, on=edge, suffix="_in", nulls_equal=True).unique(edge)
    both = both.filter(pl.col("machine") != pl.col("machine_in"))
    if both.height:
        return both.select(
            pl.col("cid").fill_null(-1), "channel", machine_out="machine", machine_in="machine_in", rail_out="rail",
            rail_in="rail_in", source="source", line="line",
        ), False  # fmt: skip
    # exit and entry of one machine on one channel: the next machine looks the same, or nothing is known
    through = send.join(receive, on=["cid", "channel", "machine"], suffix="_in", nulls_equal=True)
    looks = through.group_by("cid", "channel").agg(pl.struct("rail", "rail_in").n_unique().alias("looks"))
    through = through.join(looks.filter(pl.col("looks") == 1), on=["cid", "channel"], nulls_equal=True)
    return through.select(
        pl.col("cid").fill_null(-1), "channel", machine_out="machine", machine_in="machine", rail_out="rail",
        rail_in="rail_in", source="source", line="line",
    ), True  # fmt: skip
