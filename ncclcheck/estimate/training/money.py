"""What slow steps cost in a day: GPU-hours, and dollars where the price of one is known."""

from __future__ import annotations

from dataclasses import dataclass

from ncclcheck.estimate.ranges import Range

HOURS = 24


@dataclass(frozen=True, slots=True)
class Loss:
    """share: of the GPUs' time that healthy steps would save. per day: gpu_hours, dollars (None: no price).

    gpus, day_share and price: what was multiplied. stops: so much is lost that a precise sum would mislead.
    """

    share: Range
    gpu_hours: Range
    dollars: Range | None
    gpus: int
    day_share: float
    price: float | None
    stops: bool
    formula: str


def loss(share: Range, gpus: int, day_share: float, price: float | None, stops_from: float) -> Loss:
    """share: 1 - healthy / actual time of a step; price: dollars per GPU and hour; stops_from: share of a stop."""
    hours = share.scale(HOURS * gpus * day_share)
    text = f"{HOURS} h x {gpus} GPUs x {share.expected:.3g} x {day_share:g} = {hours.expected:,.0f} GPU-hours a day"
    dollars = None if price is None else hours.scale(price)
    if dollars is not None:
        text += f"; x ${price:g} = ${dollars.expected:,.0f}"
    return Loss(share, hours, dollars, gpus, day_share, price, share.expected > stops_from, text)
