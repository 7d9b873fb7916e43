"""How many GPUs of a machine share a net device, by the ring channels between machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.hcas import Listing, listings, near_devices, used_devices
from ncclcheck.facts.question import question
from ncclcheck.facts.traffic import Traffic


class Sharing(NamedTuple):
    """One machine of the largest communicator that has rings between machines, with all its ranks in the input.

    load: ring channels that enter or leave by each net device. idle: devices of the same link layer and rate that carry
    nothing. near: idle devices that a matrix shows beside a GPU; None: nothing tells. channels: of the whole ring.
    """

    machine: str
    ranks: int
    load: Mapping[str, int]
    idle: tuple[str, ...]
    near: tuple[str, ...] | None
    listed: tuple[str, ...]
    channels: int
    evidence: tuple[Evidence, ...]

    @property
    def uneven(self) -> bool:
        """A device idles while another carries twice the mean, and fewer are in use than there are ranks."""
        mean = sum(self.load.values()) / (len(self.load) + len(self.idle))
        return bool(self.idle) and len(self.load) < self.ranks and max(self.load.values()) >= 2 * mean


@question
def nic_sharing(facts: Traffic) -> tuple[Sharing, ...]:
    """By machine; empty where no ring is connected or no machine shows all its ranks."""
    edges = facts.ring_edge_table.filter(pl.col("cid") >= 0)
    if edges.height == 0 or not facts.rings_connected:
        return ()
    edges = edges.filter(pl.col("cid") == pl.col("cid").min())  # communicators are numbered by size
    whole = _whole_machines(facts, int(edges.item(0, "cid")))
    channels = edges.get_column("channel").n_unique()
    edges = _with_whole_rings(edges.join(whole, on="machine"), channels).sort("source", "line")
    loads = edges.group_by("machine", "device", maintain_order=True).agg(
        pl.struct("channel", "direction", "src", "dst").n_unique().alias("ends"),
        pl.col("ranks").first(),
        pl.struct("source", "line").sort_by("source", "line").first().alias("where"),
    )  # fmt: skip
    lists = {listing.machine: listing for listing in listings(facts)}
    fewest: dict[int, int] = {}
    for one in lists.values():
        fewest[one.job] = min(len(one.devices), fewest.get(one.job, len(one.devices)))
    used, near = used_devices(facts), near_devices(facts)
    found = []
    for (machine,), rows in loads.group_by("machine", maintain_order=True):
        name, load = str(machine), dict(rows.select("device", "ends").iter_rows())
        listing = lists.get(name)
        # rings have no more rails than the machine with the fewest
        room = listing is not None and len(load) < fewest[listing.job]
        idle = _idle(listing, load, used.get(name, frozenset())) if room else ()
        found.append(
            Sharing(
                name, int(rows.item(0, "ranks")), load, idle,
                tuple(device for device in idle if device in near) if near else None,
                lists[name].names if name in lists else (), channels,
                tuple(facts.evidence(line["source"], line["line"]) for line in rows.get_column("where").head(2)),
            )
        )  # fmt: skip
    return tuple(sorted(found))


def _whole_machines(facts: Traffic, cid: int) -> pl.DataFrame:
    """`machine`, `ranks`: machines of which every rank of the communicator is in the input, if there are several."""
    members = facts.members.filter((pl.col("cid") == cid) & pl.col("machine").is_not_null())
    counts = members.group_by("machine").agg(
        pl.col("rank").n_unique().cast(pl.Int64).alias("ranks"), pl.col("local_ranks", "nranks").max()
    )
    complete = counts.get_column("ranks").sum() == counts.get_column("nranks").max()
    whole = counts if complete else counts.filter(pl.col("ranks") >= pl.col("local_ranks"))
    return whole.select("machine", "ranks")


def _with_whole_rings(edges: pl.DataFrame, channels: int) -> pl.DataFrame:
    """Edges of machines that every ring enters and leaves: where not, lines are missing."""
    ends = pl.struct("channel", "direction").n_unique().over("machine")
    return edges.filter(ends >= 2 * channels)


def _idle(listing: Listing | None, load: Mapping[str, int], used: frozenset[str]) -> tuple[str, ...]:
    """Devices like those in use that carry nothing."""
    if listing is None or not listing.whole:
        return ()
    at_work = [device for device in listing.devices if device.name in load]
    kinds = {(device.link, device.gbit, device.bond) for device in at_work}
    return tuple(
        device.name
        for device in listing.devices
        if device.name not in used and (device.link, device.gbit, device.bond) in kinds
    )
