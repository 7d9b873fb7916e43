"""The units of the estimate, followed by a library that knows them: a factor of 8 or of 1024/1000 does not hide."""

from __future__ import annotations

from typing import Any

import pint
import pytest

from ncclcheck.estimate.config import Config
from ncclcheck.estimate.estimator import Estimator
from ncclcheck.estimate.figures import Answer
from ncclcheck.estimate.hardware_table import hardware
from ncclcheck.estimate.limits import Factors, inside_node, out_of_node
from ncclcheck.estimate.model import shipped_model
from ncclcheck.estimate.options import EstimateOptions
from ncclcheck.estimate.quantities import parse_duration, parse_params, parse_size
from ncclcheck.estimate.questions.bandwidth import bandwidth
from ncclcheck.estimate.questions.changes import WITH
from ncclcheck.estimate.questions.checkpoint import Checkpointing, checkpoint
from ncclcheck.estimate.questions.inference import Serving, inference
from ncclcheck.estimate.questions.job import Job, parse_message
from ncclcheck.estimate.questions.roofline import host_link_gbps
from ncclcheck.estimate.ranges import Range
from ncclcheck.estimate.training.money import loss
from ncclcheck.facts.busbw import busbw_factor
from ncclcheck.facts.shape import JobShape

UNITS: Any = pint.UnitRegistry()
UNITS.define("gpu = []")
UNITS.define("dollar = [money]")
Q = UNITS.Quantity
TABLE, MODEL = hardware(), shipped_model()

# Transfers carry one bit per lane; what is left after the line code (128b/130b, from generation 6 on FLITs).
PCIE = {3: (8, 128 / 130), 4: (16, 128 / 130), 5: (32, 128 / 130), 6: (64, 242 / 256)}


def gbps(quantity: Any) -> float:
    return float(quantity.to("gigabyte / second").magnitude)


def figure(answer: Answer, name: str) -> tuple[float, str]:
    return next((one.value.expected, one.unit) for one in answer.figures if one.name == name)


@pytest.mark.parametrize("rate", [10, 100, 200, 400, 800])
@pytest.mark.parametrize("network", ["ib", "slingshot"])
def test_rails_as_sold_to_gigabytes(rate: int, network: str) -> None:
    config = Config(4, 8, "GB200", network=network, nics=4, nic_gbit=rate)
    share = TABLE.networks[network].share
    assert out_of_node(config, TABLE, Factors()).gbps.expected == pytest.approx(
        gbps(4 * Q(rate, "gigabit / second") * share)
    )


def test_a_socket_line_to_gigabytes() -> None:
    config = Config(2, 1, "A100 PCIe", network="socket", tcp_gbit=10)
    line = Q(10, "gigabit / second") * TABLE.tcp.line_share
    assert out_of_node(config, TABLE, Factors()).gbps.expected == pytest.approx(gbps(line))


@pytest.mark.parametrize("gen", TABLE.pcie.raw_x16_gbps)
@pytest.mark.parametrize("width", [4, 8, 16])
def test_transfers_times_lanes_to_gigabytes(gen: int, width: int) -> None:
    transfers, code = PCIE[gen]
    raw = Q(transfers, "gigabit / second") * width * code  # GT/s: one bit a transfer and lane
    assert TABLE.pcie.raw_gbps(gen, width) == pytest.approx(gbps(raw), rel=1e-3)
    config = Config(1, 4, "A10", "pcie-switch", pcie_gen=gen, pcie_width=width)
    assert inside_node(config, TABLE).gbps.expected == pytest.approx(gbps(raw * TABLE.pcie.ring_switch), rel=1e-3)


def test_links_times_rate_to_gigabytes() -> None:
    gpu = TABLE.gpus["H100 SXM"]
    assert gpu.nvlink is not None
    # What is sold is 900 GB/s, both directions of 18 links; a ring gets less than one direction.
    sold = Q(900, "gigabyte / second") / 2
    ring = inside_node(Config(1, 8, "H100 SXM"), TABLE).gbps.expected
    assert 0.7 * gbps(sold) < ring < gbps(sold)


@pytest.mark.parametrize("size", ["8", "64K", "1M", "1G", "8G", "8GB"])
@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "sendrecv"])
def test_bytes_and_bus_bandwidth_to_seconds(size: str, collective: str) -> None:
    job = Job(2, 8, "H100", "ib", 8, 400.0, collective=collective)
    result = bandwidth(job, parse_message(size), MODEL)
    message = Q(result.before.size, "byte")
    if size.endswith(("K", "M", "G")):
        assert message == Q(int(size[:-1]), f"{size[-1].replace('K', 'Ki').replace('M', 'Mi').replace('G', 'Gi')}B")
    (busbw, unit), (algbw, _), (seconds, second) = (figure(result.answer, name) for name in ("busbw", "algbw", "time"))
    bus = Q(busbw, unit.replace("GB/s", "gigabyte / second"))
    took = message * busbw_factor(collective, 16) / bus
    assert took.to(second).magnitude == pytest.approx(seconds)
    assert gbps(message / Q(seconds, second)) == pytest.approx(algbw)


def test_a_slowdown_has_no_unit() -> None:
    result = bandwidth(Job(2, 8, "H100", "ib", 8, 400.0), 2**33, MODEL, (WITH["acs"],))
    assert result.after is not None and result.slowdown is not None
    ratio = Q(result.before.busbw.expected, "gigabyte / second") / Q(result.after.busbw.expected, "gigabyte / second")
    assert result.slowdown.expected == pytest.approx(ratio.to("dimensionless").magnitude)


def test_parameters_to_seconds_of_a_synchronisation() -> None:
    shape = JobShape(nodes=32, gpus_per_node=8, nranks=256, network="ib", nics_per_node=8, nic_gbit=(400.0,))
    estimator = Estimator(shape, EstimateOptions(gpu="H100", params=parse_params("70B"), dtype="bf16"))
    got = estimator.compare({}, {"network": "socket"})
    assert got is not None and got.sync_seconds_actual is not None
    gradients = Q(70e9, "") * Q(16, "bit")
    assert got.sync_bytes == gradients.to("byte").magnitude
    took = gradients * busbw_factor("all_reduce", 256) / Q(got.actual.expected, "gigabyte / second")
    assert took.to("second").magnitude == pytest.approx(got.sync_seconds_actual.expected, rel=1e-6)


def test_standing_still_to_gpu_hours() -> None:
    lost = Estimator(JobShape(nranks=256)).stood(600).amount.expected
    assert lost == pytest.approx((256 * UNITS.gpu * Q(600, "second")).to("gpu * hour").magnitude)


def test_gpu_hours_to_dollars() -> None:
    answer = checkpoint(
        Checkpointing(
            write_seconds=120.0, gpus=256, gpu_price=2.5, mtbf_seconds=parse_duration("6h"), timeout_seconds=600.0
        ),
        TABLE,
    )
    hours, hours_unit = figure(answer, "GPU-hours per timeout")
    dollars, money = figure(answer, "cost per timeout")
    lost = 256 * UNITS.gpu * Q(600, "second")
    assert (hours_unit, money) == ("GPU-hours", "$")
    assert hours == pytest.approx(lost.to("gpu * hour").magnitude)
    assert dollars == pytest.approx((lost * Q(2.5, "dollar / gpu / hour")).to("dollar").magnitude)


def test_a_lost_share_of_a_day_to_dollars() -> None:
    lost = loss(Range(0.1, 0.25, 0.5), 256, 0.5, 2.5, 0.9)
    work = 256 * UNITS.gpu * Q(0.5, "day") * 0.25
    assert lost.gpu_hours.expected == pytest.approx(work.to("gpu * hour").magnitude)
    assert lost.dollars is not None
    assert lost.dollars.expected == pytest.approx((work * Q(2.5, "dollar / gpu / hour")).to("dollar").magnitude)


def test_weights_to_milliseconds() -> None:
    milliseconds, unit = figure(inference(Serving(params=70e9, gpu="H200", tp=2), MODEL), "decode floor")
    read = Q(70e9, "") * Q(16, "bit") / (2 * Q(TABLE.gpus["H200 SXM"].memory_gbps, "gigabyte / second"))
    assert unit.startswith("ms")
    assert milliseconds == pytest.approx(read.to("millisecond").magnitude)


def test_the_host_link_stays_below_its_lanes() -> None:
    for gpu in TABLE.gpus.values():
        transfers, code = PCIE[gpu.pcie_gen]
        raw = gbps(Q(transfers, "gigabit / second") * gpu.pcie_width * code)
        if not gpu.c2c:
            assert host_link_gbps(gpu, TABLE).high < raw


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [("80GiB", "gibibyte", 80), ("140GB", "gigabyte", 140), ("1.5TB", "terabyte", 1.5), ("64KiB", "kibibyte", 64)],
)
def test_sizes(text: str, unit: str, value: float) -> None:
    assert parse_size(text) == pytest.approx(Q(value, unit).to("byte").magnitude)


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [("6h", "hour", 6), ("250ms", "millisecond", 250), ("2d", "day", 2), ("10m", "minute", 10)],
)
def test_durations(text: str, unit: str, value: float) -> None:
    assert parse_duration(text) == pytest.approx(Q(value, unit).to("second").magnitude)
