"""What rules about NVLink between machines share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.fabric import DOMAIN_GPUS, fabric_states
from ncclcheck.rules import gpus
from ncclcheck.rules.common import compared, no_number

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts
    from ncclcheck.rules.common import Numbers

# NVLink domains over machines are racks of these; newer ones have the same constants.
_RACK_GPU = "GB200"


def sold_in_racks(facts: Facts, estimator: Estimator) -> bool:
    """Do the GPUs' names say that they are those of an NVL72 rack?"""
    known = gpus.classes(facts, estimator)
    return bool(known) and all(gpu.c2c and gpu.nvls for gpu in known)


def over_the_network(facts: Facts, estimator: Estimator) -> Numbers:
    """All ranks in one NVLink domain against the machines that the job has, joined by their network."""
    world, shape = facts.world, estimator.shape
    domain = any(one.cluster for one in fabric_states(facts)) or sold_in_racks(facts, estimator)
    if world is None or not world.nranks or not domain or world.nranks > DOMAIN_GPUS:
        return no_number("what of NVLink the job can still use is not in the input")
    if facts.crossing.answer is not Answer.YES or not (shape.nodes and shape.gpus_per_node):
        return no_number("how many nodes NCCL counts is not in the input")
    gpu = {} if gpus.classes(facts, estimator) else {"gpu": _RACK_GPU}
    together = {"nodes": 1, "gpus_per_node": world.nranks, "intra": "nvlink", **gpu}
    return compared(estimator, together, {"nodes": shape.nodes, "gpus_per_node": shape.gpus_per_node, **gpu})
