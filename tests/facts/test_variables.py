"""What is known of variables: values, releases, near names, lists of algorithms and devices."""

from __future__ import annotations

import pytest

from ncclcheck.facts.variables import agreement, choice, device_list, known, meant, variables


@pytest.mark.parametrize(
    ("name", "real"),
    [
        ("NCCL_IB_GIDINDEX", "NCCL_IB_GID_INDEX"),  # seen often
        ("NCCL_SOCKET_IF_NAME", "NCCL_SOCKET_IFNAME"),
        ("NCCL_IFNAME_SOCKET", "NCCL_SOCKET_IFNAME"),  # words in another order
        ("NCCL_NVLS_DISABLE", "NCCL_NVLS_ENABLE"),  # turned round
        ("NCCL_DEBG", "NCCL_DEBUG"),
        ("NCCL_GDR_LEVEL", "NCCL_NET_GDR_LEVEL"),  # a word is missing
        ("NCCL_IB_QPS_PER_CONN", "NCCL_IB_QPS_PER_CONNECTION"),
        ("NCCL_NET_QUEUE_SLOTS", None),
        ("NCCL_TIMEOUT", None),  # several have it
    ],
)
def test_the_name_that_was_meant(name: str, real: str | None) -> None:
    assert not known(name)
    assert meant(name) == real


@pytest.mark.parametrize(
    "name", ["NCCL_ALGO", "NCCL_FASTRAK_ANYTHING", "OFI_NCCL_PROTOCOL", "NCCL_HOME", "FI_PROVIDER"]
)
def test_names_that_somebody_reads(name: str) -> None:
    assert known(name)


def test_every_successor_is_known() -> None:
    assert [row.name for row in variables().values() if row.real and not known(row.real)] == []


@pytest.mark.parametrize(
    ("name", "value", "right"),
    [
        ("NCCL_IB_TC", "255", True), ("NCCL_IB_TC", "-1", True), ("NCCL_IB_TC", "256", False),
        ("NCCL_IB_DISABLE", "1", True), ("NCCL_IB_DISABLE", "true", False), ("NCCL_CUMEM_ENABLE", "-2", True),
        ("NCCL_P2P_LEVEL", "NVL", True), ("NCCL_P2P_LEVEL", "nvl", False), ("NCCL_P2P_LEVEL", "3", True),
        ("NCCL_LAUNCH_MODE", "group", True), ("NCCL_NTHREADS", "256", True), ("NCCL_NTHREADS", "384", False),
        ("NCCL_HOSTID", "anything at all", True), ("NCCL_IB_TIMEOUT", "23", True),
    ],
)  # fmt: skip
def test_values(name: str, value: str, right: bool) -> None:
    assert variables()[name].allows(value) is right


def test_defaults_follow_the_release() -> None:
    gid = variables()["NCCL_IB_GID_INDEX"]
    assert (gid.default(21805), gid.default(22105), gid.default(None)) == ("0", "-1", None)
    assert variables()["NCCL_WORK_FIFO_DEPTH"].read_by(21403)
    assert not variables()["NCCL_WORK_FIFO_DEPTH"].read_by(22203)


def test_what_an_algorithm_list_leaves() -> None:
    two = choice("NCCL_ALGO", "ring,TREE", 21805)
    assert (two.taken, two.unknown, two.empty) == (("Tree", "Ring"), (), 0)
    assert choice("NCCL_ALGO", "^NVLS", 21805).left_out == ("NVLS",)
    assert choice("NCCL_ALGO", "Tree,,Ring", 21805).empty == 1
    assert choice("NCCL_ALGO", "allreduce:tree;broadcast:ring", 22403).taken == ("Tree",)
    assert choice("NCCL_ALGO", "allreduse:tree", 22403).functions == ("allreduse",)


def test_names_of_other_releases_are_unknown_only_where_init_fails_by_them() -> None:
    assert choice("NCCL_ALGO", "Ring,NVLS", 21403).unknown == ()
    assert choice("NCCL_ALGO", "Ring,CollNet", 22403).unknown == ("CollNet",)
    assert choice("NCCL_ALGO", "Three", None).unknown == ("Three",)


def test_device_lists() -> None:
    assert device_list("^=mlx5_1:1,mlx5_2") == (True, True, ("mlx5_1", "mlx5_2"))
    assert device_list("eth") == (False, False, ("eth",))


def test_who_must_agree() -> None:
    assert [agreement(name) for name in ("NCCL_PROTO", "NCCL_IB_HCA", "NCCL_IB_TIMEOUT")] == ["job", "host", ""]
