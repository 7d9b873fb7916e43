"""From a job's shape to numbers: candidates, flags, honesty about what was assumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from ncclcheck.estimate.estimates import Estimate
from ncclcheck.estimate.estimator import Estimator
from ncclcheck.estimate.options import EstimateOptions
from ncclcheck.estimate.quantities import parse_params, two_digits
from ncclcheck.estimate.ranges import Range
from ncclcheck.facts.answer import Answer
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.measured import Measured
from ncclcheck.facts.shape import JobShape

YES, NO = Answer.YES, Answer.NO
P2P, SHM = frozenset({"P2P"}), frozenset({"SHM"})

PROVEN = JobShape(
    nodes=2,
    gpus_per_node=8,
    nranks=16,
    gpu_names=("NVIDIA H100 80GB HBM3",),
    nvlink=YES,
    nvls=YES,
    intra=P2P,
    network="ib",
    nics_per_node=8,
    nic_gbit=(400.0,),
    gdr=YES,
)
ON_SOCKETS = JobShape(nodes=2, gpus_per_node=8, nranks=16, network="socket", nics_per_node=1, rdma_seen=True)
ONE_A100_NODE = JobShape(nodes=1, gpus_per_node=8, gpu_names=("A100-SXM4-40GB",), nvlink=NO, intra=SHM)

RDMA, SOCKET = {"network": "ib", "gdr": True}, {"network": "socket"}


def compared(
    shape: JobShape, healthy: Mapping[str, object], actual: Mapping[str, object], options: EstimateOptions | None = None
) -> Estimate:
    estimator = Estimator(shape, options)
    estimate = estimator.compare(healthy, actual)
    assert estimate is not None, estimator.why_not
    for one in (
        estimate.healthy,
        estimate.actual,
        estimate.slowdown,
        estimate.extra_seconds,
        estimate.sync_seconds_healthy,
        estimate.sync_seconds_actual,
    ):
        assert one is not None
        assert 0 <= one.low <= one.expected <= one.high
    assert estimate.slowdown.low >= 1
    return estimate


def width(one: Range) -> float:
    return one.high / one.low


def test_socket_fallback_of_a_known_job() -> None:
    got = compared(PROVEN, RDMA, SOCKET)
    assert got.healthy.expected == pytest.approx(484, abs=1)
    assert got.actual.expected == pytest.approx(3.0)
    assert got.slowdown.expected == pytest.approx(162, abs=1)
    assert got.slowdown.low == pytest.approx(got.healthy.low / got.actual.high)
    assert got.slowdown.high == pytest.approx(got.healthy.high / got.actual.low)
    assert (got.limit_healthy, got.limit_actual) == ("nvlstree", "tcp flow")


def test_a_measurement_below_what_the_fault_explains() -> None:
    point = Measured("all_reduce", 40.0, 40.0, 40.0, 8, 1 << 32, True, True, 16, 2, (), Evidence("t", 1, ""))
    got = compared(replace(PROVEN, measured=point), {"nics": 8}, {"nics": 4})
    assert (got.basis, got.actual.expected) == ("measured", 40.0)
    assert got.alone is not None
    assert got.alone == compared(PROVEN, {"nics": 8}, {"nics": 4}).actual
    assert got.alone.low > 40


def test_a_measurement_rules_out_what_cannot_reach_it() -> None:
    unknown = replace(PROVEN, nodes=4, nranks=32, nic_gbit=())
    point = Measured("all_reduce", 150.0, 150.0, 150.0, 8, 1 << 32, True, True, 32, 4, (), Evidence("t", 1, ""))
    got = compared(replace(unknown, measured=point), {"gdr": True}, {"gdr": False})
    assert compared(unknown, {"gdr": True}, {"gdr": False}).healthy.low < 100  # eight NICs of 100 Gb/s
    assert got.healthy.low > 140
    assert got.inputs["ruled out"] == "1 of 3 configurations: slower than what was measured"


def test_an_input_that_changes_nothing_is_not_listed() -> None:
    single = JobShape(nodes=2, gpus_per_node=1, nranks=2, network="socket", nic_gbit=(1.0,))
    got = compared(single, {}, {"tcp_gbit": 0.1})
    assert "GPU" not in got.inputs
    assert got.basis == "modelled from log"


def test_rates_that_the_product_fixes_are_not_assumed() -> None:
    p4d = JobShape(nodes=2, gpus_per_node=8, nranks=16, network="efa", nics_per_node=4, gdr=YES, intra=P2P)
    known = compared(replace(p4d, gpu_names=("A100-SXM4-40GB",)), {}, {"nics": 2})
    assert known.inputs["NIC rate"] == "100 Gb/s (input)"
    assert "assumed" in compared(replace(p4d, gpu_names=("NVIDIA H100 80GB HBM3",)), {}, {"nics": 2}).inputs["NIC rate"]


def test_before_a_run_what_the_hardware_has_is_taken_to_work() -> None:
    matrix = JobShape(nodes=1, gpus_per_node=8, nranks=8, nvlink=YES, nvlinks=(18,), intra_path="NVL", c2c=NO)
    several = {"nodes": 2, "network": "rdma"}
    got = compared(matrix, {**several, "nics": 8}, {**several, "nics": 4})
    assert got.inputs["GPUDirect RDMA"] == "on (assumed)"
    assert got.inputs["NVLS"] == "on (assumed)"
    assert got.inputs["GPU"] == "H100 SXM or H200 SXM or H20 or B200 SXM or B300 SXM (input)"
    running = compared(replace(matrix, release=(2, 27, 3)), {**several, "nics": 8}, {**several, "nics": 4})
    assert running.inputs["GPUDirect RDMA"] == "on or off (assumed)"


def test_nothing_assumed_is_modelled_from_the_log() -> None:
    got = compared(PROVEN, {"gdr": True}, {"gdr": False})
    assert got.basis == "modelled from log"
    assert got.limit_actual == "bounce node"
    assert not [text for text in got.inputs.values() if "assumed" in text]


def test_unknowns_widen_and_are_listed() -> None:
    narrow, wide = compared(PROVEN, RDMA, SOCKET), compared(ON_SOCKETS, RDMA, SOCKET)
    assert width(wide.healthy) > width(narrow.healthy)
    assert width(wide.slowdown) > width(narrow.slowdown)
    assert wide.basis == "modelled from assumptions"
    assert wide.inputs["NIC rate"] == "100 Gb/s or 200 Gb/s or 400 Gb/s (assumed)"
    assert "H100 SXM" in wide.inputs["GPU"]


def test_flags_narrow() -> None:
    wide = compared(ON_SOCKETS, RDMA, SOCKET)
    gpu = compared(ON_SOCKETS, RDMA, SOCKET, EstimateOptions(gpu="h100"))
    both = compared(ON_SOCKETS, RDMA, SOCKET, EstimateOptions(gpu="h100", nic_gbit=400))
    assert width(both.healthy) < width(gpu.healthy) < width(wide.healthy)
    assert both.inputs["GPU"] == "H100 SXM (--gpu)"
    assert both.inputs["NIC rate"] == "400 Gb/s (--nic-gbps)"


def test_candidates_vary_together() -> None:
    """Four NICs of unknown rate: each rate is compared with itself, so the worst pairing is no mix of two rates."""
    got = compared(replace(PROVEN, nic_gbit=(), nics_per_node=4), {}, {"gdr": False})
    assert got.slowdown.high < got.healthy.high / got.actual.low + 1e-9
    slow = compared(replace(PROVEN, nic_gbit=(100.0,), nics_per_node=4), {}, {"gdr": False})
    assert got.slowdown.low == pytest.approx(slow.slowdown.low)


def test_ten_gigabit_on_sockets_proves_nothing() -> None:
    unreadable = compared(replace(ON_SOCKETS, nic_gbit=(10.0,)), RDMA, SOCKET)
    proven = compared(replace(ON_SOCKETS, nic_gbit=(1.0,)), RDMA, SOCKET)
    assert unreadable.inputs["socket line"] == "10 Gb/s or faster than NCCL's sockets (assumed)"
    assert proven.inputs["socket line"] == "1 Gb/s (input)"
    assert proven.actual.expected == pytest.approx(0.12, abs=0.01)


def test_sockets_do_not_count_as_the_rails_of_the_healthy_job() -> None:
    got = compared(replace(ON_SOCKETS, nic_gbit=(25.0,)), RDMA, SOCKET)
    assert got.inputs["NICs per node"] == "4 or 8 (assumed)"


def test_rdma_means_the_network_of_the_job() -> None:
    shape = replace(PROVEN, network="slingshot", nics_per_node=4, nic_gbit=(200.0,), nodes=8, nranks=64)
    assert compared(shape, {"network": "rdma"}, SOCKET).limit_healthy == "slingshot"


def test_the_network_of_a_single_node_costs_nothing() -> None:
    one = replace(PROVEN, nodes=1, nranks=8, network="socket", gdr=Answer.UNKNOWN, nics_per_node=None, nic_gbit=())
    got = compared(one, RDMA, SOCKET)
    assert got.slowdown == Range(1.0, 1.0, 1.0)
    assert got.extra_seconds == Range(0.0, 0.0, 0.0)
    assert got.basis == "modelled from log"
    assert "NIC rate" not in got.inputs


def test_a_limit_elsewhere_hides_the_change() -> None:
    got = compared(PROVEN, {}, {"nics": 7})
    assert got.slowdown == Range(1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("shape", "healthy", "actual", "low", "high"),
    [
        (ONE_A100_NODE, {"intra": "nvlink"}, {"intra": "shm"}, 15, 30),
        (ONE_A100_NODE, {"intra": "nvlink"}, {}, 15, 30),
        (ONE_A100_NODE, {"intra": "nvlink"}, {"intra": "pcie-cpu"}, 8, 15),
        (ONE_A100_NODE, {"intra": ("pcie-switch", "pcie-cpu")}, {"intra": "shm"}, 1.5, 2.5),
        (replace(PROVEN, nodes=1, nranks=8), {"nvls": True}, {"nvls": False}, 1.25, 1.4),
        (PROVEN, {"redirect": ""}, {"redirect": ("acs", "vm")}, 2, 4),
        (replace(PROVEN, nodes=4, nranks=32), {}, {"crossing_share": 0.5}, 1.0, 1.2),
        (replace(PROVEN, nodes=4, nranks=32), {}, {"nics": 4}, 1.5, 2.1),
        (replace(PROVEN, nodes=4, nranks=32), {}, {"effect": "nic-sys"}, 2, 3),
        (PROVEN, {}, {"protocol": "ll"}, 8, 14),
        (
            replace(PROVEN, nodes=8, gpus_per_node=1, nranks=8, nics_per_node=1),
            {"nodes": 1, "gpus_per_node": 8, "intra": "nvlink"},
            {},
            7,
            12,
        ),
    ],
)
def test_changes_that_rules_ask_for(
    shape: JobShape, healthy: Mapping[str, object], actual: Mapping[str, object], low: float, high: float
) -> None:
    assert low <= compared(shape, healthy, actual).slowdown.expected <= high


def test_an_unmeasured_factor_is_called_an_assumption() -> None:
    got = compared(PROVEN, {}, {"effect": "nic-sys"})
    assert got.basis == "modelled from assumptions"
    assert "reasoned" in got.inputs["factor nic-sys"]
    assert compared(PROVEN, {}, {"effect": "roce-lossy"}).basis == "modelled from log"


@pytest.mark.parametrize(
    "shape",
    [
        JobShape(nodes=2),
        JobShape(nranks=16),
        JobShape(gpus_per_node=8),
        JobShape(nranks=2),
        JobShape(nranks=6, nodes=3),
        JobShape(nodes=2, gpus_per_node=4, nvlink=NO, intra=P2P, intra_path="SYS"),
        JobShape(nodes=2, gpus_per_node=4, gpu_names=("NVIDIA A10G",)),
        JobShape(nodes=2, gpus_per_node=4, c2c=YES),
        JobShape(nodes=2, gpus_per_node=8, nvls=YES),
        JobShape(nodes=2, gpus_per_node=8, nvlink=YES, nvlink_total_gbps=370.8),
        JobShape(nodes=2, gpus_per_node=8, nvlink=YES, nvlink_total_gbps=300.0),
        JobShape(nodes=2, gpus_per_node=8, network="other"),
        JobShape(nodes=2, gpus_per_node=8, network="tcpxo"),
        JobShape(nodes=2, gpus_per_node=8, gpu_names=("Unheard Of 9000", "NVIDIA H200")),
    ],
)
def test_partial_shapes_still_get_an_honest_number(shape: JobShape) -> None:
    got = compared(shape, RDMA, SOCKET)
    assert got.basis == "modelled from assumptions"
    assert 1 < got.slowdown.expected < 500


@pytest.mark.parametrize(
    ("shape", "healthy", "words"),
    [
        (JobShape(), RDMA, "how many nodes"),
        (
            JobShape(nodes=1, gpus_per_node=8, gpu_names=("NVIDIA GeForce RTX 4090",), nvlink=NO, intra=SHM),
            {"intra": "nvlink"},
            "RTX 4090 has no NVLink",
        ),
        (JobShape(nodes=1, gpus_per_node=8, gpu_names=("NVIDIA L4",), nvlink=YES), {}, "fits no class"),
        (JobShape(nodes=1, gpus_per_node=1, nranks=1), {}, "nobody to talk to"),
    ],
)
def test_no_estimate_says_why(shape: JobShape, healthy: Mapping[str, object], words: str) -> None:
    estimator = Estimator(shape)
    assert estimator.compare(healthy, {}) is None
    assert estimator.why_not is not None
    assert words in estimator.why_not
    assert Estimator(PROVEN).why_not is None


def test_expected_bandwidth() -> None:
    got = Estimator(PROVEN).expect()
    assert got is not None
    assert got.busbw.expected == pytest.approx(484, abs=1)
    assert got.limit == "nvlstree"
    assert got.basis == "modelled from log"


def test_seconds_of_a_gradient_synchronisation() -> None:
    """70e9 bf16 gradients over 256 GPUs with eight NDR rails: 140 GB x 2 x 255/256 at 366 GB/s."""
    shape = replace(PROVEN, nodes=32, nranks=256)
    estimator = Estimator(shape, EstimateOptions(params=parse_params("70B"), dtype="bf16"))
    got = estimator.compare(RDMA, SOCKET)
    assert got is not None
    assert got.sync_seconds_healthy is not None
    assert got.sync_seconds_healthy.expected == pytest.approx(0.76, abs=0.02)
    cost = estimator.cost_of(got)
    assert cost.unit == "s per gradient sync of 140 GB"
    assert cost.amount.expected == pytest.approx(93 - 0.76, abs=1)
    assert Estimator(shape).cost_of(compared(shape, RDMA, SOCKET)).unit == "s per gradient sync of 1 GB"


def test_a_job_that_stands_still() -> None:
    cost = Estimator(JobShape(nranks=256)).stops()
    assert cost.unit == "GPU-hours until noticed"
    assert cost.amount.low == pytest.approx(43, abs=1)
    assert (cost.amount.expected, cost.amount.high) == (256, 2048)
    assert Estimator(JobShape()).stops().unit == "GPU-hours per GPU until noticed"


def test_a_known_time_is_no_range() -> None:
    cost = Estimator(JobShape(nranks=256)).stood(600)
    assert cost.amount == Range(256 / 6, 256 / 6, 256 / 6)
    assert cost.unit == "GPU-hours until the watchdog fired"
    assert Estimator(JobShape()).stood(600).unit == "GPU-hours per GPU until the watchdog fired"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("70B", 70e9),
        ("405b", 405e9),
        ("7e9", 7e9),
        ("350M", 350e6),
        ("1.5T", 1.5e12),
        (" 7 b ", 7e9),
        ("1000", 1000.0),
    ],
)
def test_params(text: str, value: float) -> None:
    assert parse_params(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "B", "70GB", "-7e9", "nan", "inf", "1e99", "0", "7e", "７０x", "9" * 400])
def test_params_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="70B"):
        parse_params(text)


@pytest.mark.parametrize("fields", [{"dtype": "int4"}, {"nic_gbit": 0.0}, {"nic_gbit": float("nan")}, {"params": -1.0}])
def test_options_that_are_none(fields: Mapping[str, object]) -> None:
    with pytest.raises(ValueError):
        EstimateOptions(**fields)  # type: ignore[arg-type]


def test_an_unknown_gpu_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="unknown GPU"):
        Estimator(PROVEN, EstimateOptions(gpu="abacus"))


# ---------------------------------------------------------------------------------------------- with a measurement


def measured(busbw: float, collective: str = "all_reduce", spread: float = 0.0) -> Measured:
    return Measured(
        collective, busbw, busbw - spread, busbw + spread, 1 << 27, 8 << 30, True, True, 16, 2, (),
        Evidence("table.txt", 12, ""),
    )  # fmt: skip


def test_a_measurement_stands_for_the_job_as_it_is() -> None:
    plain = compared(PROVEN, RDMA, SOCKET)
    got = compared(replace(PROVEN, measured=measured(2.5)), RDMA, SOCKET)
    assert (got.healthy, got.limit_healthy, got.limit_actual) == (plain.healthy, plain.limit_healthy, "tcp flow")
    assert (got.basis, got.actual) == ("measured", Range(2.5, 2.5, 2.5))
    assert got.slowdown.expected == pytest.approx(plain.healthy.expected / 2.5)
    assert "actual measured 2.5 at 8 GiB, table.txt:12" in got.formula
    assert got.inputs["actual by the model"].startswith(two_digits(plain.actual.expected))


def test_a_measurement_above_what_the_model_has_for_the_fault_makes_the_cost_smaller() -> None:
    plain, got = compared(PROVEN, RDMA, SOCKET), compared(replace(PROVEN, measured=measured(100.0)), RDMA, SOCKET)
    assert got.actual.expected > plain.actual.high
    assert 1 < got.slowdown.expected < plain.slowdown.low


@pytest.mark.parametrize("busbw", [489.0, 900.0])
def test_a_measurement_as_good_as_healthy_shows_no_cost(busbw: float) -> None:
    assert compared(PROVEN, RDMA, SOCKET).healthy.expected < busbw
    got = compared(replace(PROVEN, measured=measured(busbw)), RDMA, SOCKET)
    assert (got.basis, got.slowdown, got.extra_seconds) == ("measured", Range(1, 1, 1), Range(0, 0, 0))


def test_runs_that_differ_widen_the_range() -> None:
    got = compared(replace(PROVEN, measured=measured(20.0, spread=5.0)), RDMA, SOCKET)
    assert got.actual == pytest.approx(Range(15.0, 20.0, 25.0))
    assert got.slowdown.low < got.slowdown.expected < got.slowdown.high


def test_a_measurement_does_not_blame_what_costs_nothing() -> None:
    """The model sees no effect of this change: whatever made the measured job slow, it was something else."""
    slow = replace(PROVEN, measured=measured(50.0))
    for healthy, actual in (({"nics": 8}, {"nics": 8, "channels": 64}), (RDMA, RDMA)):
        assert compared(slow, healthy, actual) == compared(PROVEN, healthy, actual)


def test_a_measurement_of_other_ranks_is_not_that_of_a_part() -> None:
    actual = {"nodes": 2, "gpus_per_node": 1, "network": "socket"}
    slow = replace(PROVEN, measured=measured(2.5))
    assert compared(slow, {**actual, "network": "ib"}, actual).basis != "measured"
    assert compared(slow, RDMA, {**SOCKET, "nodes": 2, "gpus_per_node": 8}).basis == "measured"


def test_other_collectives_tell_where_a_ring_carries_the_all_reduce() -> None:
    gather = replace(PROVEN, measured=measured(2.5, "all_gather"))
    assert compared(gather, RDMA, SOCKET).actual.expected == 2.5
    assert compared(gather, {"gdr": True}, {"gdr": True, "nics": 4}).basis != "measured"  # trees and NVLS


def test_what_the_situation_of_a_measurement_should_give() -> None:
    estimator = Estimator(PROVEN)
    whole, plain = estimator.expect_of(measured(1.0)), estimator.expect()
    assert whole is not None and plain is not None and whole.busbw == plain.busbw
    gather = estimator.expect_of(measured(1.0, "all_gather"))
    assert gather is not None and gather.busbw.expected < whole.busbw.expected
    node = estimator.expect_of(measured(1.0)._replace(ranks=8, nodes=1))
    assert node is not None and node.limit == "nvls"
    for unknown in (measured(1.0, "gather"), measured(1.0)._replace(ranks=24, nodes=None)):
        assert estimator.expect_of(unknown) is None
        assert estimator.why_not
