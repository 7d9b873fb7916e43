"""What DCGM's tests say, by hand-written expectation."""

from __future__ import annotations

from telemetry_samples import FIXTURES, read


def diagnoses(name: str) -> list[tuple[int, str, str]]:
    rows = read((FIXTURES / "dcgm-diag" / name).read_bytes()).rows
    return [(row["line"], row["name"], row["text"]) for row in rows if row["key"] == "diagnosis"]


def test_version_4_names_entities_and_severities() -> None:
    assert diagnoses("version-4.json") == [
        (14, "gpu0", "settings software: Persistence Mode: it is off on GPU 0."),
        (28, "gpu1", "pass software"),
        (47, "gpu0", "pass pcie"),
        (56, "gpu1", "fail pcie: Replays of the link of GPU 1 grow by 412 a minute."),
        (70, "", "skip pcie"),
    ]
    rows = read((FIXTURES / "dcgm-diag" / "version-4.json").read_bytes()).rows
    assert [(row["thing"], row["text"]) for row in rows if row["key"] == "driver"] == [("host", "575.57.08")]


def test_version_3_lists_gpus_and_has_holes() -> None:
    """GPUs as text or number, null between tests, text before the object; an unknown word is no pass."""
    assert diagnoses("version-3.txt") == [
        (10, "gpu0", "settings persistence mode: GPU 0 forgets its state."),
        (10, "gpu1", "settings persistence mode: GPU 0 forgets its state."),
        (15, "gpu0", "pass page retirement/row remap"),
        (15, "gpu1", "pass page retirement/row remap"),
        (25, "gpu0", "pass gpu memory"),
        (26, "gpu1", "fail gpu memory: A double bit error."),
        (27, "gpu2", "unknown gpu memory"),
    ]
