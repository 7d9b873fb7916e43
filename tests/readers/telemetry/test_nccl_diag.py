"""What NCCL's own diagnostics say, by hand-written expectation."""

from __future__ import annotations

from telemetry_samples import FIXTURES, read

COMM = "007c01d2e3f4a5b6"


def test_two_reports_are_told_apart() -> None:
    rows = read((FIXTURES / "nccl-diag" / "two-reports.txt").read_bytes()).rows
    said = [(row["output"], row["text"]) for row in rows if row["key"] == "diagnosis"]
    assert said[0] == (0, "ok net bw: skipped (single host or no network transport)")
    assert said[1][1].startswith("info p2p: write mismatch srcRank=2")
    first = {output for output, text in said if "GPU-to-GPU" in text}
    second = {output for output, text in said if "GPU inventory" in text}
    assert len(first) == len(second) == 1 and first != second
    assert [row["number"] for row in rows if row["key"] == "diagnosed_ranks"] == [4, 4]
    assert {row["host"] for row in rows} == {"fir-03", "fir-03.lab"}


def test_ranks_and_hosts_with_faults() -> None:
    rows = read((FIXTURES / "nccl-diag" / "two-reports.txt").read_bytes()).rows
    found = {(row["thing"], row["name"], row["key"], row["text"]) for row in rows if row["thing"] != "job"}
    assert found == {
        ("rank", f"{COMM}/1", "ecc_uncorrected", "yes"),
        ("rank", f"{COMM}/3", "ecc_uncorrected", "yes"),
        ("rank", f"{COMM}/3", "nvlinks_inactive", "yes"),
        ("host", "", "xid", "94"),
        ("host", "", "sxid", "fatal"),
    }
    assert [row["host"] for row in rows if row["key"] in ("xid", "sxid")] == ["fir-03.lab"] * 2
    texts = [row["text"] for row in rows if row["key"] == "diagnosis"]
    assert "info NCCL environment: NCCL_IB_HCA=(unset) on ranks {3}" in texts
    assert any(text.startswith("info SXid 20034") for text in texts)


def test_the_host_may_be_missing() -> None:
    rows = read((FIXTURES / "nccl-diag" / "without-host.txt").read_bytes()).rows
    assert [row["text"] for row in rows if row["key"] == "diagnosis"] == [
        "ok p2p: verified P2P access in both directions between every GPU pair (12 peer accesses)"
    ]
    assert {row["host"] for row in rows} == {None}
