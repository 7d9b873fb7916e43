"""What NCCL's tuner chose, whatever the release calls it."""

from __future__ import annotations

import pytest
from fact_samples import facts_of

from ncclcheck.facts.operations import choices
from ncclcheck.facts.picture import ChoiceKind

HEAD = "larch-07:4410:4462 [1] NCCL INFO "


@pytest.mark.parametrize(
    ("message", "choice"),
    [
        ("8388608 Bytes -> Algo 1 proto 2 time 210.500000", ChoiceKind("", 8388608, "ring", "simple", 3)),
        ("AllGather: 524288 Bytes -> Algo 4 proto 2 time 31.2", ChoiceKind("AllGather", 524288, "nvls", "simple", 3)),
        (
            "AllReduce: 2048 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..3}",
            ChoiceKind("AllReduce", 2048, "tree", "ll", 3),
        ),
        (
            "AllReduce [Symmetric]: 16384 Bytes -> Kernel AllReduce_RSxLD_AGxST nchannels 8 nthreads 512 nWorks 1",
            ChoiceKind("AllReduce", 16384, "AllReduce_RSxLD_AGxST", "", 3),
        ),
    ],
)
def test_choices_are_counted_by_operation_and_size(message: str, choice: ChoiceKind) -> None:
    assert choices(facts_of([HEAD + message] * 3)) == (choice,)


def test_what_moves_most_comes_first() -> None:
    small = ["AllReduce: 1024 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..3}"] * 5
    large = ["AllReduce: 33554432 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15}"]
    assert [one.nbytes for one in choices(facts_of([HEAD + text for text in small + large]))] == [33554432, 1024]
