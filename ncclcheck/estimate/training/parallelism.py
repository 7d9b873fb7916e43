"""How a training job divides its ranks, and where the groups lie."""

from __future__ import annotations

import re
from typing import NamedTuple

MOST_RANKS = 1 << 20


class Place(NamedTuple):
    """How the ranks of a group lie: nodes, GPUs on each, and groups of this kind that share a node's network."""

    nodes: int
    gpus_per_node: int
    sharing: int

    def __str__(self) -> str:
        if self.nodes == 1:
            return "inside a node"
        shared = f", {self.sharing} such groups on a node" if self.sharing > 1 else ""
        return f"{self.gpus_per_node} on each of {self.nodes} nodes{shared}"


class Plan(NamedTuple):
    """Sizes of the groups of data, tensor, pipeline and expert parallelism. Expert groups divide the data groups.

    Ranks are numbered as Megatron does: tensor groups next to each other, then data, then pipeline stages.
    """

    dp: int = 1
    tp: int = 1
    pp: int = 1
    ep: int = 1

    @property
    def ranks(self) -> int:
        return self.dp * self.tp * self.pp

    def __str__(self) -> str:
        return f"dp={self.dp},tp={self.tp},pp={self.pp}" + (f",ep={self.ep}" if self.ep > 1 else "")


def parse_plan(text: str) -> Plan:
    """ "dp=32,tp=8,pp=1", in any order; what is left out is 1. Raises ValueError with what is accepted."""
    sizes: dict[str, int] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(dp|tp|pp|ep)\s*=\s*(\d{1,7})\s*", part, re.IGNORECASE | re.ASCII)
        if match is None or match[1].lower() in sizes or not 1 <= int(match[2]) <= MOST_RANKS:
            raise ValueError(
                f"cannot read {text!r} as a parallelism plan; write dp=32,tp=8,pp=1 (and ep=8 for experts)"
            )
        sizes[match[1].lower()] = int(match[2])
    plan = Plan(**sizes)
    if plan.ranks > MOST_RANKS:
        raise ValueError(f"a plan of {plan.ranks} ranks is larger than any job ({MOST_RANKS})")
    if plan.dp % plan.ep:
        raise ValueError(f"ep divides dp: experts are spread over data-parallel ranks; got dp={plan.dp}, ep={plan.ep}")
    return plan
