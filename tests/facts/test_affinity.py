"""CPUs of NCCL's threads: masks, lists, and which NUMA nodes make up a socket."""

from __future__ import annotations

import pytest
from fact_samples import facts_of

from ncclcheck.facts.affinity import cpu_list, cpu_mask, layouts, list_text, socket_of


@pytest.mark.parametrize(
    ("mask", "cpus"),
    [("ff", range(8)), ("01,00000000,00000001", (0, 64)), ("110000", (16, 20)), ("ff,fff00000", range(20, 40))],
)
def test_masks_have_their_highest_word_first(mask: str, cpus: range | tuple[int, ...]) -> None:
    assert cpu_mask(mask) == frozenset(cpus)


@pytest.mark.parametrize("text", ["X,X", "", "7-3", "0-99999999", "ff", "1,,2"])
def test_lists_that_cannot_be_read(text: str) -> None:
    assert cpu_list(text) is None


def test_lists_are_printed_as_they_are_read() -> None:
    assert list_text(cpu_list("0-3,8,112-167") or frozenset()) == "0-3,8,112-167"


def test_sockets_of_four_numa_nodes() -> None:
    nodes = [frozenset(range(first, first + 16)) for first in (32, 0, 48, 16)]
    assert [socket_of(node, nodes) for node in nodes] == [1, 0, 1, 0]
    assert socket_of(nodes[0], nodes[:1]) is None


def test_a_list_without_a_dash_is_no_mask() -> None:
    line = "aff-1:7:9 [0] NCCL INFO ncclTopoGetCpuAffinity: Affinity for GPU 0 is 16,20. (GPU affinity = 0-31)."
    (layout,) = layouts(facts_of([line]))
    assert layout.bindings[0].cpus == {16, 20}
    assert layout.bindings[0].near == frozenset(range(32))
    assert layout.bindings[0].allowed is None


def test_machines_with_the_same_bindings_are_one_layout() -> None:
    lines = [
        f"aff-{n}:7:9 [0] NCCL INFO Setting affinity for GPU {g} to {m}"
        for n in (1, 2)
        for g, m in ((0, "3"), (1, "c"))
    ]
    (layout,) = layouts(facts_of(lines))
    assert layout.machines == ("aff-1", "aff-2")
    assert [binding.gpu for binding in layout.bindings] == [0, 1]
