import pytest

from ncclcheck.readers.device_names import DeviceName, find_device_names


def only(text: str) -> DeviceName:
    (found,) = find_device_names([(7, text)])
    assert found.line == 7
    return found


@pytest.mark.parametrize(
    "before", ["", "    ", "[1,0]<stdout>:", "0: ", "worker-3 | ", "2026-01-02T03:04:05Z ", "\x1b[32m"]
)
def test_device_line_since_groups_were_added(before: str) -> None:
    text = before + "#  Rank 12 Group  1 Pid  90210 on  gpu-a-07 device  4 [0000:9b:00] NVIDIA H200 NVL\r"
    assert only(text) == DeviceName(7, "gpu-a-07", 90210, 12, 4, "0000:9b:00", "NVIDIA H200 NVL")


def test_device_line_before_groups() -> None:
    text = "#   Rank  3 Pid     61 on   box.example device  3 [0x3d] Quadro GV100"
    assert only(text) == DeviceName(7, "box.example", 61, 3, 3, "0x3d", "Quadro GV100")


def test_bus_id_with_a_long_domain() -> None:
    text = "#  Rank  0 Group  0 Pid 1 on n device  0 [00000009:01:00] NVIDIA GB300\x1b[0m"
    assert (only(text).bus_id, only(text).name) == ("00000009:01:00", "NVIDIA GB300")


def test_listed_gpus() -> None:
    text = "GPU 2: NVIDIA RTX 6000 Ada Generation (UUID: GPU-0a0b0c0d-0000-0000-0000-000000000000)"
    assert only(text) == DeviceName(7, None, None, None, 2, None, "NVIDIA RTX 6000 Ada Generation")
    assert only("n4: GPU 11: Tesla P100-PCIE-16GB").name == "Tesla P100-PCIE-16GB"
    assert only("GPU 0: GeForce GTX 1080 Ti  ").name == "GeForce GTX 1080 Ti"


@pytest.mark.parametrize(
    "text",
    [
        "#  Rank  0 Group  0 Pid    268 on n device  0 [0000:11:00]",  # the name is cut off
        "#  Rank  0 Group  0 Pid XXX on n device  0 [0000:11:00] NVIDIA H100",
        "#  Rank  0 ... device  0",
        "  MIG 3g.40gb     Device  0: (UUID: MIG-00000000-0000-0000-0000-000000000000)",
        "GPU 0: NVIDIA driver has stopped",
        "GPU 3: lost",
        "rank 0 on device 0",
        "NCCL INFO cudaDev 0 device GPU 1: Out of memory",
    ],
)
def test_other_lines(text: str) -> None:
    assert find_device_names([(1, text)]) == []


def test_hostile_lines_take_no_time() -> None:
    many = 200_000
    for text in ("Rank " * many + "device", "GPU 1: " * many, "GPU 1: NVIDIA " + "A" * many, "GPU " + " " * many):
        assert find_device_names([(1, text)]) == []
