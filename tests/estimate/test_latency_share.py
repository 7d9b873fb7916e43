"""How much of the time of calls is latency."""

from __future__ import annotations

import pytest

from ncclcheck.estimate.config import Config, NotModelledError
from ncclcheck.estimate.model import shipped_model
from ncclcheck.estimate.training.latency_share import LatencyShare, latency_share
from ncclcheck.estimate.training.workload import Collective, Workload

TWO_NODES = Config(2, 8, "H100 SXM", network="ib", nics=8, nic_gbit=400)


def share(*sizes: float, calls: float = 10) -> LatencyShare:
    some = tuple(Collective(f"of {size}", "all_reduce", size, calls, 16) for size in sizes)
    return latency_share(shipped_model(), [TWO_NODES], Workload(some, 16, per_step=False))


def test_the_share_falls_as_messages_grow() -> None:
    shares = [share(float(1 << bits)).share.expected for bits in range(10, 34, 2)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.95 and shares[-1] < 0.1
    assert all(0 <= one <= 1 for one in shares)


def test_time_counts_and_not_the_number_of_calls() -> None:
    mixed = share(4096.0, float(1 << 30))
    assert mixed.share.expected < 0.3
    assert share(4096.0, calls=20).seconds.expected == pytest.approx(2 * share(4096.0).seconds.expected)


def test_the_worst_is_the_collective_with_most_latency() -> None:
    assert share(4096.0, float(1 << 20)).worst.nbytes == 1 << 20


def test_nothing_fits() -> None:
    with pytest.raises(NotModelledError):
        latency_share(shipped_model(), [], Workload((Collective("x", "all_reduce", 8.0, 1, 16),), 16))
