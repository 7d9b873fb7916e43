"""What the numbers of a finding rest on, and what of it had to be assumed."""

from __future__ import annotations

from collections.abc import Sequence

from ncclcheck.estimate.candidates import Candidates
from ncclcheck.estimate.comparison import Pair
from ncclcheck.estimate.estimates import Changes
from ncclcheck.estimate.model import Model


def inputs_of(
    found: Candidates, pairs: Sequence[Pair], healthy: Changes, actual: Changes, model: Model
) -> tuple[dict[str, str], bool]:
    """What the numbers rest on, by name, and whether any of it had to be assumed."""
    given = healthy.keys() & actual.keys()
    inputs, assumed = {"site": model.site} if model.site else {}, False
    for name, entry in found.inputs.items():
        if given.issuperset(entry.fields) or not _matters(entry.fields[0], pairs):
            continue
        if len(pairs) == 1 and len(entry.values) > 1:  # whichever it is, the numbers are the same
            continue
        inputs[name] = str(entry)
        assumed |= entry.origin == "assumed"
    for name, changes in (("healthy", healthy), ("actual", actual)):
        if changes:
            inputs[name] = ", ".join(f"{key} = {_text(value)}" for key, value in changes.items())
    for name in {name for pair in pairs for name in pair.after.effects}:
        effect = model.table.effects[name]
        inputs[f"factor {name}"] = f"{effect.factor.text} ({effect.source})"
        assumed |= not effect.measured
    if any(pair.after.crossing_share for pair in pairs):
        inputs["factor crossing"] = f"{model.table.effects['crossing'].factor.text} of the rate (assumed)"
        assumed = True
    return inputs, assumed


def _matters(field: str, pairs: Sequence[Pair]) -> bool:
    """Does this Config field enter any of the pairs?"""
    sides = [config for pair in pairs for config in (pair.before, pair.after)]
    between = [config for config in sides if config.nodes > 1]
    if field == "intra":
        return any(config.gpus_per_node > 1 for config in sides)
    if field == "nvls":
        return any(config.intra == "nvlink" and config.gpus_per_node > 1 for config in sides)
    if field == "network":
        return bool(between)
    if field in ("nics", "nic_gbit", "gdr"):
        return any(config.network != "socket" for config in between)
    if field == "tcp_gbit":
        return any(config.network == "socket" for config in between)
    return True


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return " or ".join(map(_text, value))
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value) or "none"
