"""The page of popular claims follows its data and the model, and its values are the known ones."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
tool = importlib.import_module("tools.make_claims")


def test_the_page_is_up_to_date() -> None:
    assert tool.PAGE.read_text(encoding="utf-8") == tool.page(tool.claims()), "run python tools/make_claims.py"


def test_every_claim_is_judged_and_says_why() -> None:
    rows = tool.claims()
    for claim in rows:
        assert claim.verdict in tool.VERDICTS, claim.says
        assert claim.why.endswith(".") and claim.says.endswith("."), claim.says
        assert bool(claim.value) == bool(claim.right), claim.says
        assert "|" not in "".join(claim), claim.says
    assert len({claim.says for claim in rows}) == len(rows)
    assert {claim.value for claim in rows} - {""} == set(tool.VALUES)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("weights", (140, 130.4)),
        ("decode_floors", (29.2, 41.8, 32.4, 38.9, 46.4, 55.7)),
        ("h200_latency", (30.2,)),
        ("critical_batches", (295, 206)),
        ("kv_cache", (687, 327_680, 2.68, 12, 5.5)),
        ("h200_room", (7.1, 2.36, 1.98)),
        ("memory_of_4090", (1008,)),
        ("pcie4", (31.5, 26)),
        ("offload", (32, 39, 61)),
        ("nvlink4", (450, 364, 478)),
        ("nvlink5", (900, 680, 838)),
        ("remote_memory", (7.4,)),
        ("ndr", (50, 48)),
        ("volume", (1.75, 1.992)),
        ("one_preemption", (30, 630)),
        ("price_of_one", (0.031, 7.9, 87)),
        ("four_preemptions", (0.124, 1.24, 1.5)),
        ("write_times", (0.98, 1.12, 140, 560, 61, 70)),
        ("upload", (16.3,)),
        ("watchdog", (43, 85)),
        ("one_gbe", (0.12,)),
        ("notices", (120, 30)),
    ],
)
def test_known_values(name: str, known: tuple[float, ...]) -> None:
    assert tool.VALUES[name]() == pytest.approx(known, rel=0.03)


def test_70b_over_256_gpus() -> None:
    bf16, low, high, fp32, one_rail, sockets, claimed = tool.VALUES["sync_70b"]()
    assert low < 0.72 <= bf16 <= 0.79 < high
    assert fp32 == pytest.approx(2 * bf16, rel=0.01)
    assert one_rail == pytest.approx(5.8, rel=0.05)
    assert 90 <= sockets <= 140
    assert claimed == pytest.approx(232, rel=0.005)


def test_checkpoint_intervals() -> None:
    short, long, lost = tool.VALUES["intervals"]()
    assert short == pytest.approx(294, abs=0.5)
    assert long == pytest.approx(38, abs=0.1)
    assert lost == pytest.approx(10.5, abs=0.5)  # known to first order


def test_text_and_value_of_a_claim_belong_together() -> None:
    claim = tool.Claim("Inference", "says.", "holds", "why.", "weights", "{:.0f} GB")
    with pytest.raises(ValueError, match="weights has 2 numbers, its text has 1 places"):
        claim.right_value()
    assert claim._replace(right="{:.0f} and {:.1f}").right_value() == "140 and 130.4"
