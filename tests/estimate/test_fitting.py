"""Constants from measured points."""

from __future__ import annotations

import pytest

from ncclcheck.estimate.config import Config
from ncclcheck.estimate.fitting import Point, error_of, fit, touched_by
from ncclcheck.estimate.hardware_table import constant, hardware_with
from ncclcheck.estimate.model import Model, shipped_model

RAILS = Config(4, 8, "H100 SXM", network="ib", nics=8, nic_gbit=400)
SOCKETS = Config(4, 8, "H100 SXM", network="socket")
START = {path: constant(path) for path in ("networks.ib.share", "tcp.many_gpus_gbps", "nvlink.ampere.ring_share")}


def measured(config: Config, model: Model, factor: float = 1.0) -> Point:
    return Point("p", "s", config, 8 << 30, model.at(config, 8 << 30).busbw.expected * factor)


def test_constants_are_found_again() -> None:
    site = Model(hardware_with({"networks.ib.share": 0.8, "tcp.many_gpus_gbps": 5.0}))
    found = fit([measured(RAILS, site), measured(SOCKETS, site)], START)
    assert found["networks.ib.share"] == pytest.approx(0.8, rel=0.02)
    assert found["tcp.many_gpus_gbps"] == pytest.approx(5.0, rel=0.02)
    assert found["nvlink.ampere.ring_share"] == START["nvlink.ampere.ring_share"]  # no point speaks of it


def test_an_outlier_does_not_decide() -> None:
    points = [measured(RAILS, shipped_model())] * 3 + [measured(RAILS, shipped_model(), 0.2)]
    assert fit(points, START)["networks.ib.share"] == pytest.approx(START["networks.ib.share"], rel=0.02)


def test_what_points_speak_of() -> None:
    assert touched_by([measured(RAILS, shipped_model())], START) == ["networks.ib.share"]


def test_the_error_is_relative() -> None:
    assert error_of(measured(RAILS, shipped_model(), 0.5), shipped_model()) == pytest.approx(1.0)


@pytest.mark.parametrize("path", ["networks.ib", "networks.ib.limit", "gpu", "nonsense", "networks.ib.share.low"])
def test_only_numbers_of_the_table_are_constants(path: str) -> None:
    with pytest.raises(ValueError, match=path):
        hardware_with({path: 1.0})
