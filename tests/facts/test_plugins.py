"""What network plugins say of themselves."""

from __future__ import annotations

import pytest
from fact_samples import facts_of

from ncclcheck.facts.plugins import control_timeouts, without_provider


@pytest.mark.parametrize(
    ("text", "found"),
    [("Only EFA provider is supported", 1), ("Couldn't find any optimal provider", 1),
     ("OFI fi_getinfo() call failed: No data available", 1), ("Support for DMA-BUF registrations: false", 0)],
)  # fmt: skip
def test_the_ofi_plugin_without_a_provider(text: str, found: int) -> None:
    facts = facts_of([f"n1:7:9 [0] ofi_init:700 NCCL WARN NET/OFI {text}"])
    assert len(without_provider(facts)) == found


def test_control_timeouts_are_one_fact_whatever_their_numbers() -> None:
    head = "n{}:7:9 [0] tcpxResult_t tcpxCommProgress(tcpxComm*):1231 NCCL WARN "
    text = "0xa{}:0xb0, nic 0, eth1, 10.0.0.1<7><-10.0.0.2<8> rx rx ctrl timeout cnt 73315{}, nanos 100000{}"
    facts = facts_of([head.format(n % 2) + text.format(n, n, n) for n in range(9)])
    [seen] = control_timeouts(facts)
    assert (seen.machines, seen.count) == (("n0", "n1"), 9)
