"""The collectives of a step: their volumes as the plans have them, and where their ranks lie."""

from __future__ import annotations

from dataclasses import replace
from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncclcheck.estimate.hardware_table import hardware
from ncclcheck.estimate.options import EstimateOptions
from ncclcheck.estimate.training.log_calls import of_log
from ncclcheck.estimate.training.parallelism import Plan, parse_plan
from ncclcheck.estimate.training.workload import Collective, Workload, of_plan
from ncclcheck.facts.picture import CommunicatorKind, JobPicture, OperationKind

TRAINING = hardware().training
LLAMA = EstimateOptions(params=70e9, layers=80, hidden=8192, plan=Plan(dp=32, tp=8), tokens_per_gpu=8192)


def collectives(options: EstimateOptions, ranks: int | None = None) -> dict[str, Collective]:
    return {one.name: one for one in of_plan(options, TRAINING, ranks).collectives}


def volume(one: Collective) -> float:
    return one.nbytes * one.calls


def test_gradients_of_data_parallel() -> None:
    found = collectives(EstimateOptions(params=70e9, zero=0), ranks=256)
    assert list(found) == ["all_reduce of DDP"]
    assert volume(found["all_reduce of DDP"]) == 140e9
    assert found["all_reduce of DDP"].ranks == 256


@pytest.mark.parametrize("stage", [1, 2])
def test_zero_scatters_and_gathers_the_same_bytes(stage: int) -> None:
    found = collectives(replace(LLAMA, zero=stage))
    scatter, gather = found[f"reduce_scatter of ZeRO-{stage}"], found[f"all_gather of ZeRO-{stage}"]
    assert volume(scatter) == volume(gather) == 140e9 / 8
    assert (scatter.ranks, scatter.stride) == (32, 8)


def test_fsdp_moves_three_times_its_parameters() -> None:
    found = collectives(replace(LLAMA, zero=3))
    gather, scatter = found["all_gather of FSDP"], found["reduce_scatter of FSDP"]
    assert volume(gather) == pytest.approx(2 * 140e9 / 8)
    assert volume(scatter) == pytest.approx(140e9 / 8)
    assert gather.calls == 160  # twice in each layer
    again = collectives(replace(LLAMA, zero=3, micro_batches=4))
    assert volume(again["all_gather of FSDP"]) == pytest.approx(4 * volume(gather))


def test_tensor_parallel_reduces_activations_four_times_a_layer() -> None:
    one = collectives(LLAMA)["all_reduce of TP"]
    assert one.calls == 4 * 80
    assert one.nbytes == 8 * 8192 * 8192 * 2  # the tokens of the eight GPUs of a replica
    parts = collectives(replace(LLAMA, micro_batches=8))["all_reduce of TP"]
    assert volume(parts) == volume(one)
    assert parts.calls == 8 * one.calls


def test_pipeline_sends_activations_and_idles() -> None:
    options = replace(LLAMA, plan=Plan(dp=8, tp=8, pp=4), micro_batches=16)
    sends = collectives(options)["send and receive of PP"]
    assert (sends.ranks, sends.stride, sends.calls) == (2, 64, 32)
    assert sends.nbytes == 8192 * 32 / 16 * 8192 * 2 / 8
    assert of_plan(options, TRAINING, None).bubble == 3 / 16
    assert of_plan(LLAMA, TRAINING, None).bubble == 0
    assumed = of_plan(replace(options, micro_batches=None), TRAINING, None)
    assert ("micro-batches", "16", "assumed") in assumed.givens


def test_experts_exchange_tokens_and_have_fewer_replicas() -> None:
    options = EstimateOptions(
        params=46.7e9, active_params=12.9e9, layers=32, hidden=4096, plan=Plan(dp=64, ep=8), tokens_per_gpu=4096
    )
    found = collectives(options)
    exchange = found["all_to_all of EP"]
    assert (exchange.ranks, exchange.calls) == (8, 4 * 32)
    assert exchange.nbytes == 4096 * 2 * 4096 * 2
    assert collectives(replace(options, experts_per_token=4))["all_to_all of EP"].nbytes == 2 * exchange.nbytes
    assert found["all_reduce of DDP for experts"].ranks == 8
    assert volume(found["all_reduce of DDP for experts"]) == pytest.approx((46.7e9 - 12.9e9) / 8 * 2)
    assert volume(found["all_reduce of DDP"]) == pytest.approx(12.9e9 * 2)


def test_activations_need_tokens() -> None:
    got = of_plan(replace(LLAMA, tokens_per_gpu=None), TRAINING, None)
    assert [one.kind for one in got.collectives] == ["ddp"]
    assert got.remarks == ("the communication of TP is left out: it needs --tokens-per-gpu",)
    assert got.flops is None


@pytest.mark.parametrize(("params", "layers", "hidden"), [(7e9, 32, 4096), (70e9, 80, 8192), (405e9, 126, 16384)])
def test_the_shape_of_a_model_is_guessed_well(params: float, layers: int, hidden: int) -> None:
    got = {one.name: one for one in of_plan(EstimateOptions(params=params, zero=0), TRAINING, 8).givens}
    assert float(got["layers"].value) == pytest.approx(layers, rel=0.15)
    assert float(got["hidden size"].value) == pytest.approx(hidden, rel=0.15)
    assert got["layers"].origin.startswith("assumed")


def test_one_given_number_of_the_shape_gives_the_other() -> None:
    for options in (EstimateOptions(params=70e9, layers=80), EstimateOptions(params=70e9, hidden=8540)):
        got = {one.name: one.value for one in of_plan(options, TRAINING, 8).givens}
        assert isclose(12 * float(got["layers"]) * float(got["hidden size"]) ** 2, 70e9, rel_tol=0.01)


def test_a_plan_of_other_ranks_is_told() -> None:
    assert of_plan(LLAMA, TRAINING, 256).remarks == ()
    (remark,) = of_plan(LLAMA, TRAINING, 16).remarks
    assert "dp=32,tp=8,pp=1 are 256 ranks and the input shows 16" in remark


@pytest.mark.parametrize(
    ("ranks", "stride", "per_node", "place"),
    [
        (8, 1, 8, (1, 8, 1)),  # tensor parallel
        (32, 8, 8, (32, 1, 8)),  # data parallel beside it
        (64, 1, 8, (8, 8, 1)),
        (32, 2, 8, (8, 4, 2)),
        (4, 2, 8, (1, 4, 1)),
        (8, 16, 8, (8, 1, 8)),  # tensor groups of 16 lie on two nodes
        (16, 1, 8, (2, 8, 1)),
        (64, 1, 72, (1, 64, 1)),
        (256, 8, 4, (256, 1, 4)),
        (2, 64, 8, (2, 1, 8)),
        (5, 1, 3, (2, 3, 1)),
    ],
)
def test_where_groups_lie(ranks: int, stride: int, per_node: int, place: tuple[int, int, int]) -> None:
    assert Collective("x", "all_reduce", 1, 1, ranks, stride).place(per_node) == place


@given(st.integers(2, 100_000), st.integers(1, 1024), st.integers(1, 144))
def test_every_rank_has_a_place(ranks: int, stride: int, per_node: int) -> None:
    place = Collective("x", "all_reduce", 1, 1, ranks, stride).place(per_node)
    assert place.nodes * place.gpus_per_node >= ranks
    assert place.gpus_per_node * place.sharing <= max(per_node, place.gpus_per_node)
    assert place.nodes == 1 or (place.nodes - 1) * place.gpus_per_node < ranks


@pytest.mark.parametrize(
    ("text", "plan"),
    [
        ("dp=32,tp=8,pp=1", Plan(32, 8, 1)),
        ("tp=8", Plan(1, 8, 1)),
        (" PP=4 , dp=2,ep=2", Plan(2, 1, 4, 2)),
    ],
)
def test_plans(text: str, plan: Plan) -> None:
    assert parse_plan(text) == plan
    assert parse_plan(str(plan)) == plan


@pytest.mark.parametrize(
    "text",
    ["", "dp", "dp=", "dp=0", "dp=-1", "dp=1e3", "dp=nan", "dp=8,dp=8", "xp=2", "dp=8;tp=2", "dp=９",
     "dp=9999999,tp=999", "dp=8,ep=3", "dp=99999999999999999999"],
)  # fmt: skip
def test_plans_that_are_none(text: str) -> None:
    with pytest.raises(ValueError):
        parse_plan(text)


LOGGED = JobPicture(
    "NCCL", "2.21.5", "", "", 4, 32, 32, (), (CommunicatorKind(1, 32, 4, "several per node"),
    CommunicatorKind(4, 8, 1, "inside one node"), CommunicatorKind(8, 4, 4, "one rank per node")), (), (),
)  # fmt: skip


def logged(*operations: OperationKind) -> Workload | None:
    return of_log(replace(LOGGED, operations=operations))


def test_calls_of_the_log_are_those_of_one_rank() -> None:
    got = logged(
        OperationKind("AllReduce", 500, "float32", 2000, 32, 320),
        OperationKind("AllGather", 500, "bfloat16", 1000, 8, 64),
        OperationKind("Send", 4, "float32", 16, 4, 32),
        OperationKind("Recv", 4, "float32", 16, 4, 32),
        OperationKind("Gather", 4, "float32", 16, 4, 32),
        OperationKind("AllReduce", 7, "", None, 32, 1),
        OperationKind("AllReduce", 7, "float32", 28, None, 1),
    )
    assert got is not None
    reduce, gather, send = got.collectives
    assert (reduce.op, reduce.nbytes, reduce.calls, reduce.place(8)) == ("all_reduce", 2000, 10, (4, 8, 1))
    assert (gather.op, gather.nbytes, gather.calls, gather.place(8)) == ("all_gather", 8000, 2, (1, 8, 1))
    assert (send.op, send.nbytes, send.calls, send.place(8)) == ("sendrecv", 16, 1, (2, 1, 8))
    assert not got.per_step
    assert any("AllReduce, Gather" in remark for remark in got.remarks)


def test_a_log_without_calls_or_ranks_has_no_workload() -> None:
    assert logged() is None
    assert logged(OperationKind("Recv", 4, "float32", 16, 4, 32)) is None
    call = OperationKind("AllReduce", 500, "float32", 2000, 32, 320)
    assert of_log(replace(LOGGED, operations=(call,), ranks_seen=0)) is None
