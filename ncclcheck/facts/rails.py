"""Which rail is a NIC on, and do ring edges between machines keep theirs?

NCCL does not see the fabric. An inter-node ring edge joins the exit NIC of one node with the entry NIC of the next, so
the test is on the NICs at the two ends of one edge, never on GPU numbers. Indexes are per process and are never
compared between machines as they are.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from ncclcheck.facts.evidence import Evidence


class RingRails(NamedTuple):
    """machines: those whose ring edges were seen. nics_per_machine: fewest net devices in use on one of them.

    matched: ring edges of which both ends were seen. channels: ring channels among them; crossing: those that leave
    their rail, wrap-around edges of alternating rings over an odd number of nodes not counted (`odd_wrap`).
    basis: how rails were told ("rail numbers", "leaf switches", "device names", "PCI order", "order of GPUs") or "".
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


def ring_rails(
    edges: pl.DataFrame, nics: pl.DataFrame, alternating: bool | None, paths: tuple[str, ...]
) -> RingRails | None:
    """Judge the ring edges between machines; None where there are none.

    edges: one row per printed NET ring edge with columns cid, channel, src, dst, src_dev, dst_dev, direction, machine,
    device, own_dev (text), proxy_rank, nodes (of the communicator, null: unknown), source, line. nics: machine, device,
    rail, leaf (rail by the switch behind it), pci. alternating: a ring pattern has crossNic 2; None: no pattern is in
    the input.
    """
    edges = edges.filter(pl.col("machine").is_not_null())
    if edges.height == 0:
        return None
    machines = tuple(edges.get_column("machine").unique().sort())
    per_machine = edges.group_by("machine").agg(pl.col("device").n_unique().alias("devices"))
    fewest = int(per_machine.select(pl.col("devices").min()).item())
    edges, basis, contradicted = _with_rails(edges, nics)
    names_differ = _lists_differ(edges.select("machine", "device"), nics)
    matched, inferred = _ends(edges)
    crossing = matched.filter(pl.col("rail_out") != pl.col("rail_in"))
    wraps = pl.Series(dtype=pl.Int64) if inferred or alternating is False else _wraps(matched, crossing)
    odd_wrap = len(wraps) > 0
    crossing = crossing.filter(~pl.col("cid").is_in(wraps.implode()))
    where = crossing.select("source", "line").sort("source", "line").head(4)
    return RingRails(
        machines=machines, nics_per_machine=fewest, matched=matched.height,
        channels=matched.select("cid", "channel").n_unique() if matched.height else 0,
        crossing=crossing.select("cid", "channel").n_unique() if crossing.height else 0,
        odd_wrap=odd_wrap, basis=basis, contradicted=contradicted, names_differ=names_differ, inferred=inferred,
        evidence=tuple(Evidence(paths[source], line, "") for source, line in where.iter_rows()),
    )  # fmt: skip


def _wraps(matched: pl.DataFrame, crossing: pl.DataFrame) -> pl.Series:
    """Communicators (`cid`) whose rings alternate over an odd number of nodes: one edge of each ring cannot, the wrap
    around, always on one pair of machines; every node on those rings leaves by another NIC than it enters by."""
    here = ["cid", "channel"]
    nodes = matched.group_by("cid").agg(
        pl.coalesce(pl.col("nodes").max(), pl.col("machine_out").n_unique()).alias("nodes")
    )
    pair = pl.concat_str(pl.min_horizontal("machine_out", "machine_in"), pl.max_horizontal("machine_out", "machine_in"),
                         separator=" ")  # fmt: skip
    one_pair = crossing.group_by("cid").agg(pair.n_unique().alias("pairs")).filter(pl.col("pairs") == 1)
    entry = matched.select(*here, machine="machine_in", entry="rail_in")
    leave = matched.select(*here, machine="machine_out", leave="rail_out")
    through = entry.join(leave, on=[*here, "machine"]).join(crossing.select(here).unique(), on=here, how="semi")
    swapping = through.group_by("cid").agg((pl.col("entry") != pl.col("leave")).all().alias("all")).filter("all")
    odd = nodes.filter(pl.col("nodes") % 2 == 1)
    return odd.join(one_pair, on="cid", how="semi").join(swapping, on="cid", how="semi").get_column("cid")


def _with_rails(edges: pl.DataFrame, nics: pl.DataFrame) -> tuple[pl.DataFrame, str, bool]:
    """Add `rail`, by the first way that all machines can answer; and whether device order contradicts device names."""
    used = edges.select("machine", "device").unique()
    known = used.join(nics.unique(["machine", "device"]), on=["machine", "device"], how="left")
    by_gpu = _by_gpu_order(edges)
    named = used.select((~pl.col("device").str.starts_with("NET/")).all()).item()
    same_lists = named and not _lists_differ(used, nics)
    if known.get_column("rail").null_count() == 0:
        return (
            edges.join(known.select("machine", "device", "rail"), on=["machine", "device"], how="left"),
            "rail numbers",
            False,
        )
    if known.get_column("leaf").null_count() == 0:
        wired = known.select("machine", "device", rail="leaf")
        return edges.join(wired, on=["machine", "device"], how="left"), "leaf switches", False
    if same_lists:
        contradicted = _contradicts(used, by_gpu)
        return edges.with_columns(rail=pl.col("device")), "device names", contradicted
    if known.get_column("pci").null_count() == 0:
        order = known.with_columns(rail=pl.col("pci").rank("dense").over("machine"))
        return (
            edges.join(order.select("machine", "device", "rail"), on=["machine", "device"], how="left"),
            "PCI order",
            False,
        )
    if by_gpu is not None and by_gpu.height == used.height:
        return edges.join(by_gpu, on=["machine", "device"], how="left"), "order of GPUs", False
    return edges.with_columns(rail=pl.lit(None, pl.Int64)), "", False


def _lists_differ(used: pl.DataFrame, nics: pl.DataFrame) -> bool:
    """Do the machines list differently named devices? By the lists; by the devices in use where one is missing."""
    listed = nics.join(used.select("machine").unique(), on="machine", how="semi")
    rows = listed if listed.get_column("machine").n_unique() == used.get_column("machine").n_unique() else used
    return rows.group_by("machine").agg(pl.col("device").unique().sort()).get_column("device").n_unique() > 1


def _by_gpu_order(edges: pl.DataFrame) -> pl.DataFrame | None:
    """Ordinal of the lowest device index that uses a NIC without a proxy."""
    direct = (
        edges.filter(pl.col("proxy_rank").is_null()).with_columns(gpu=_gpu_number(pl.col("own_dev"))).drop_nulls("gpu")
    )
    if direct.height == 0:
        return None
    lowest = direct.group_by("machine", "device").agg(pl.col("gpu").min().alias("lowest"))
    return lowest.select("machine", "device", rail=pl.col("lowest").rank("dense").over("machine"))


def _gpu_number(bracket: pl.Expr) -> pl.Expr:
    """A device index, or a bus id as a number: devices are counted in that order."""
    bus = bracket.str.strip_prefix("0x").str.to_integer(base=16, strict=False)
    return pl.when(bracket.str.starts_with("0x")).then(bus).otherwise(bracket.cast(pl.Int64, strict=False))


def _contradicts(used: pl.DataFrame, by_gpu: pl.DataFrame | None) -> bool:
    """One device name, different places in the order of GPUs: the numbering differs between machines."""
    if by_gpu is None or by_gpu.height != used.height:
        return False
    places = by_gpu.group_by("device").agg(pl.col("rail").n_unique().alias("places"))
    return bool(places.select((pl.col("places") > 1).any()).item())


def _ends(edges: pl.DataFrame) -> tuple[pl.DataFrame, bool]:
    """Edges with both ends. By one side only, if every machine enters and leaves a channel on the same two NICs."""
    edges = edges.filter(pl.col("rail").is_not_null()).with_columns(
        pl.col("rail").cast(pl.String), pl.col("cid").cast(pl.Int64)
    )
    send, receive = edges.filter(pl.col("direction") == "send"), edges.filter(pl.col("direction") == "receive")
    edge = ["cid", "channel", "src", "dst", "src_dev", "dst_dev"]
    both = send.join(receive, on=edge, suffix="_in", nulls_equal=True, maintain_order="left")
    both = both.unique(edge, keep="first", maintain_order=True).filter(pl.col("machine") != pl.col("machine_in"))
    if both.height:
        return _as_matched(both), False
    # exit and entry of one machine on one channel: the next machine looks the same, or nothing is known
    through = send.join(receive, on=["cid", "channel", "machine"], suffix="_in", maintain_order="left")
    looks = through.group_by("cid", "channel").agg(pl.struct("rail", "rail_in").n_unique().alias("looks"))
    through = through.join(looks.filter(pl.col("looks") == 1), on=["cid", "channel"], how="semi", maintain_order="left")
    return _as_matched(through.with_columns(machine_in="machine")), True


def _as_matched(pairs: pl.DataFrame) -> pl.DataFrame:
    return pairs.select("cid", "channel", "machine_in", "rail_in", "nodes", "source", "line", machine_out="machine",
                        rail_out="rail")  # fmt: skip
