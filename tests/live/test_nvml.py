"""The driver is faked: no test needs a GPU."""

from __future__ import annotations

import pynvml
import pytest

from ncclcheck.cli.pipeline import WrongCallError, estimate_options
from ncclcheck.live import nvml


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> list[str | bytes]:
    names: list[str | bytes] = []
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlShutdown", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: len(names))
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda index: index)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetName", lambda handle: names[handle])
    return names


def test_names_by_index_whether_text_or_bytes(driver: list[str | bytes]) -> None:
    driver += ["NVIDIA H200", b"NVIDIA H200"]
    assert nvml.gpu_names() == ("NVIDIA H200", "NVIDIA H200")


def test_a_machine_without_gpus_says_so(driver: list[str | bytes]) -> None:
    with pytest.raises(nvml.NoDriverError, match="no GPU"):
        nvml.gpu_names()


def test_a_machine_without_driver_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", refuse)
    with pytest.raises(nvml.NoDriverError):
        nvml.gpu_names()


def test_gpu_local_takes_the_model_of_this_machine(driver: list[str | bytes]) -> None:
    driver.append("NVIDIA H100 80GB HBM3")
    assert estimate_options(gpu="local").gpu == "NVIDIA H100 80GB HBM3"


def test_gpu_local_without_driver_is_a_wrong_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> tuple[str, ...]:
        raise nvml.NoDriverError("Library not found")

    monkeypatch.setattr(nvml, "gpu_names", refuse)
    with pytest.raises(WrongCallError, match="local"):
        estimate_options(gpu="local")
