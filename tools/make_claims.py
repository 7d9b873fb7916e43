"""Write docs/claims.md: popular statements, whether they hold, and the right values as the estimate computes them.

The statements stand in tools/claims.toml. A claim's `value` names a function below, whose numbers are put into the text
of `right`. `python tools/make_claims.py` writes the page; a test compares.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from ncclcheck.estimate.config import Config  # noqa: E402
from ncclcheck.estimate.figures import Answer  # noqa: E402
from ncclcheck.estimate.hardware_table import hardware  # noqa: E402
from ncclcheck.estimate.model import shipped_model  # noqa: E402
from ncclcheck.estimate.questions.checkpoint import Checkpointing, checkpoint  # noqa: E402
from ncclcheck.estimate.questions.inference import Serving, inference, memory_left  # noqa: E402
from ncclcheck.estimate.questions.job import Job  # noqa: E402
from ncclcheck.estimate.questions.roofline import critical_batch, host_link_gbps, offload_tax  # noqa: E402
from ncclcheck.estimate.questions.sync import Sync, exposed, synchronisation  # noqa: E402
from ncclcheck.estimate.questions.young_daly import rework_seconds, shares, young  # noqa: E402
from ncclcheck.estimate.ranges import Range  # noqa: E402
from ncclcheck.facts.busbw import busbw_factor  # noqa: E402

PAGE = ROOT / "docs" / "claims.md"
CLAIMS = ROOT / "tools" / "claims.toml"
VERDICTS = ("holds", "holds with a condition", "wrong", "not supported")

_INTRODUCTION = """\
# Popular claims, and what the estimate says of them

Statements about GPUs, networks and what they cost are repeated until nobody asks where they came from. Here are some,
in our words: whether they hold, and the right value. Every number in the third column is computed by ncclcheck's own
model and table when this page is written; `ncclcheck estimate` and its subcommands `sync`, `inference` and `checkpoint`
compute it for other inputs and show the formula with `--explain-estimate`.

*not supported*: neither arithmetic nor a published measurement that we know of shows it. Bandwidth is GB/s of 10^9
bytes; busbw is that of nccl-tests.

`python tools/make_claims.py` writes this page from tools/claims.toml.
"""

TABLE, MODEL = hardware(), shipped_model()
H100, H200 = TABLE.gpus["H100 SXM"], TABLE.gpus["H200 SXM"]
LLAMA = Serving(params=70e9, layers=80, kv_heads=8, head_dim=128, context=8192, batch=256, gpu="H100")
RAILS = Config(2, 8, "H100 SXM", network="ib", nics=8, nic_gbit=400)
BIG_JOB = Job(nodes=32, gpus_per_node=8, gpu="H100", network="ib", nics=8, nic_gbit=400)
SIX_HOURS, PRICE = 6 * 3600.0, 1.86
NVLINK_GBPS = {"hopper": 25.0, "blackwell": 50.0}  # one link as sold, one direction


def weights() -> tuple[float, ...]:
    """GB, GiB."""
    return LLAMA.weight_bytes / 1e9, LLAMA.weight_bytes / 2**30


def decode_floors() -> tuple[float, ...]:
    """ms on H200 and H100 by the data sheet; low and high of each at 75 to 90 % of it."""
    floors = [
        _value(inference(Serving(params=70e9, gpu=gpu), MODEL), "decode floor").expected for gpu in ("H200", "H100")
    ]
    share = TABLE.decode.memory_share
    return *floors, *(floor / part for floor in floors for part in (share.high, share.expected))


def h200_latency() -> tuple[float, ...]:
    """%"""
    return (100 * (1 - H100.memory_gbps / H200.memory_gbps),)


def critical_batches() -> tuple[float, ...]:
    return tuple(found.expected for gpu in (H100, H200) if (found := critical_batch(gpu, "bf16")))


def kv_cache() -> tuple[float, ...]:
    """GB of the batch, bytes of a token, GB of a sequence, sequences in 32 GB, TB without grouped heads."""
    answer = inference(LLAMA, MODEL)
    one = _value(answer, "KV cache per sequence").expected
    ungrouped = inference(replace(LLAMA, kv_heads=64), MODEL)
    batch = "KV cache of the batch"
    token = _value(answer, "KV cache per token").expected * 1e3
    return _value(answer, batch).expected, token, one, 32 / one, _value(ungrouped, batch).expected / 1e3


def h200_room() -> tuple[float, ...]:
    """What the weights leave on H200 against H100, on 2, 4, 8 GPUs."""
    asks = [replace(LLAMA, tp=tp) for tp in (2, 4, 8)]
    return tuple(
        memory_left(ask, H200.memory_gbytes * 1e9) / memory_left(ask, H100.memory_gbytes * 1e9) for ask in asks
    )


def memory_of_4090() -> tuple[float, ...]:
    return (TABLE.gpus["RTX 4090"].memory_gbps,)


def pcie4() -> tuple[float, ...]:
    return TABLE.pcie.raw_gbps(4, 16), host_link_gbps(TABLE.gpus["RTX 4090"], TABLE).expected


def offload() -> tuple[float, ...]:
    """Times: 4090 on the raw rate, 4090, H100."""
    card = TABLE.gpus["RTX 4090"]
    reached = (offload_tax(gpu, TABLE) for gpu in (card, H100))
    return card.memory_gbps / TABLE.pcie.raw_gbps(4, 16), *(tax.expected for tax in reached if tax)


def gradients_on_cards() -> tuple[float, ...]:
    """busbw over PCIe with peer access; through host memory: expected, low, high."""
    peer, host = (_busbw(Config(1, 8, "RTX 4090", path)) for path in ("pcie-cpu", "shm"))
    return peer.expected, host.expected, host.low, host.high


def nvlink4() -> tuple[float, ...]:
    return _nvlink("H100 SXM", "hopper")


def nvlink5() -> tuple[float, ...]:
    return _nvlink("B200 SXM", "blackwell")


def nvl72() -> tuple[float, ...]:
    two_nodes = replace(RAILS, gpu="B200 SXM")
    return _busbw(Config(1, 72, "GB200")).expected, _busbw(two_nodes).expected


def small_all_reduce() -> tuple[float, ...]:
    return TABLE.decode.nvlink_us.low, TABLE.decode.nvlink_us.high


def remote_memory() -> tuple[float, ...]:
    return (H100.memory_gbps / (H100.nvlinks * NVLINK_GBPS["hopper"]),)


def ndr() -> tuple[float, ...]:
    return 400 / 8, 400 / 8 * TABLE.networks["ib"].share


def volume() -> tuple[float, ...]:
    return busbw_factor("all_reduce", 8), busbw_factor("all_reduce", 256)


def sync_70b() -> tuple[float, ...]:
    """s: bf16 on 8 rails, low, high; fp32; one rail; sockets; busbw that would take 1.2 s."""
    rails = _sync(BIG_JOB)
    others = (
        _sync(BIG_JOB, "fp32"),
        _sync(replace(BIG_JOB, nics=1)),
        _sync(replace(BIG_JOB, network="socket", nics=None, nic_gbit=25)),
    )
    claimed = 140 * busbw_factor("all_reduce", 256) / 1.2
    return rails.expected, rails.low, rails.high, *(one.expected for one in others), claimed


def roce() -> tuple[float, ...]:
    """%: healthy, and low and high of a fabric that drops packets."""
    ib, healthy = _busbw(RAILS), _busbw(replace(RAILS, network="roce"))
    lossy = TABLE.effects["roce-lossy"].factor
    return 100 * healthy.expected / ib.expected, 100 * lossy.low, 100 * lossy.high


def crossing() -> tuple[float, ...]:
    rate = TABLE.effects["crossing"].factor
    return rate.low, rate.high


def latencies() -> tuple[float, ...]:
    inside, between = TABLE.decode.nvlink_us, TABLE.decode.network_us
    return inside.low, inside.high, between.low, between.high


def ddp_on_ethernet() -> tuple[float, ...]:
    sockets = replace(BIG_JOB, network="socket", nics=None, nic_gbit=25)
    return _sync(replace(BIG_JOB, network="roce")).expected, _sync(sockets).expected


def sockets() -> tuple[float, ...]:
    eight = replace(RAILS, nodes=8)
    return _busbw(replace(eight, network="socket", nics=0)).expected, _busbw(eight).expected


def three_us() -> tuple[float, ...]:
    """GB/s of one access at a time, accesses under way for the whole rate, the rate."""
    one = 128 / 3e-6 / 1e9
    return one, H100.memory_gbps / one, H100.memory_gbps


def vm_between_nodes() -> tuple[float, ...]:
    return _busbw(RAILS).expected, _busbw(replace(RAILS, redirect="vm")).expected


def gdr() -> tuple[float, ...]:
    """us; % of the bandwidth that is left."""
    four = replace(RAILS, nodes=4)
    left = 100 * _busbw(replace(four, gdr=False)).expected / _busbw(four).expected
    return TABLE.decode.network_us.low, TABLE.decode.network_us.high, left


def gain() -> tuple[float, ...]:
    """s of a step that computes for 8 s, of one that computes for 2 s; low and high of each."""
    slow = Config(32, 8, "H100 SXM", network="ib", nics=8, nic_gbit=400, gdr=False)
    work = 140 * busbw_factor("all_reduce", slow.ranks)
    busbw = _busbw(slow)
    sync = Range(work / busbw.high, work / busbw.expected, work / busbw.low)
    steps: list[float] = []
    for compute in (8.0, 2.0):
        left = exposed(sync, compute, TABLE.overlap["ddp"])
        steps += (compute + left.expected, compute + left.low, compute + left.high)
    return tuple(steps)


def no_p2p() -> tuple[float, ...]:
    return tuple(_busbw(Config(1, 8, "A100 SXM", path)).expected for path in ("nvlink", "shm"))


def one_gbe() -> tuple[float, ...]:
    return (_busbw(Config(2, 8, "H100 SXM", network="socket", tcp_gbit=1)).expected,)


def restart() -> tuple[float, ...]:
    return TABLE.checkpoint.restart_seconds.low / 60, TABLE.checkpoint.restart_seconds.high / 60


def notices() -> tuple[float, ...]:
    if TABLE.notice_seconds["azure"] != TABLE.notice_seconds["google"]:
        raise ValueError("the claim says that they are the same")
    return TABLE.notice_seconds["aws"], TABLE.notice_seconds["azure"]


def one_preemption() -> tuple[float, ...]:
    """s of work, s with the restart."""
    ask = Checkpointing(write_seconds=2, interval_seconds=60, mtbf_seconds=SIX_HOURS, restart_seconds=600)
    return rework_seconds(60, SIX_HOURS), _value(checkpoint(ask, TABLE), "lost per event").expected


def price_of_one() -> tuple[float, ...]:
    """$ of the worst case, a whole interval: one GPU, 256, 256 with a restart of 10 min."""
    minute = PRICE / 60
    return minute, 256 * minute, 256 * (minute + 600 / 3600 * PRICE)


def four_preemptions() -> tuple[float, ...]:
    """$ per day and GPU: work of a whole interval each, restarts, checkpoints."""
    lost = shares(60, 2, SIX_HOURS, 0)
    return 4 * PRICE / 60, 4 * 600 / 3600 * PRICE, 24 * lost.writing * PRICE


def intervals() -> tuple[float, ...]:
    """s, min, and % that the second one loses beside the restarts."""
    long = young(120, SIX_HOURS)
    return young(2, SIX_HOURS), long / 60, 100 * shares(long, 120, SIX_HOURS, 0).lost


def write_times() -> tuple[float, ...]:
    """TB; s on one drive, fastest and slowest; s on 8 nodes."""
    state = _value(checkpoint(Checkpointing(params=70e9), TABLE), "state")
    one = [_write(rate, 1) for rate in (7, 2)]
    eight = _write(2, 8)
    return state.low / 1e3, state.high / 1e3, one[0].low, one[1].high, eight.low, eight.high


def upload() -> tuple[float, ...]:
    return (_value(checkpoint(Checkpointing(params=70e9), TABLE), "state").expected / 60,)


def watchdog() -> tuple[float, ...]:
    answer = checkpoint(Checkpointing(gpus=256, gpu_price=2, timeout_seconds=TABLE.watchdog.seconds), TABLE)
    return _value(answer, "GPU-hours per timeout").expected, _value(answer, "cost per timeout").expected


VALUES: dict[str, Callable[[], tuple[float, ...]]] = {
    function.__name__: function
    for function in (
        weights, decode_floors, h200_latency, critical_batches, kv_cache, h200_room, memory_of_4090, pcie4, offload,
        gradients_on_cards, nvlink4, nvlink5, nvl72, small_all_reduce, remote_memory, ndr, volume, sync_70b, roce,
        crossing, latencies, ddp_on_ethernet, sockets, three_us, vm_between_nodes, gdr, gain, no_p2p, one_gbe, restart,
        notices, one_preemption, price_of_one, four_preemptions, intervals, write_times, upload, watchdog,
    )
}  # fmt: skip


def _value(answer: Answer, name: str) -> Range:
    return next(one.value for one in answer.figures if one.name == name)


def _busbw(config: Config) -> Range:
    return MODEL.plateau(config).busbw


def _nvlink(gpu: str, generation: str) -> tuple[float, ...]:
    """GB/s one way, ring, NVLS."""
    ring, nvls = (_busbw(Config(1, 8, gpu, nvls=on)).expected for on in (False, True))
    return TABLE.gpus[gpu].nvlinks * NVLINK_GBPS[generation], ring, nvls


def _sync(job: Job, dtype: str = "bf16") -> Range:
    return _value(synchronisation(Sync(70e9, dtype, job), MODEL), "gradient sync")


def _write(gbps: float, writers: int) -> Range:
    return _value(
        checkpoint(Checkpointing(params=70e9, write_gbps=gbps, writers=writers), TABLE), "writing a checkpoint"
    )


class Claim(NamedTuple):
    """value: a name in VALUES, or "". right: text with a place for each of its numbers."""

    topic: str
    says: str
    verdict: str
    why: str
    value: str = ""
    right: str = ""

    def right_value(self) -> str:
        """Raises KeyError, IndexError or ValueError where text and value do not belong together."""
        if not self.value:
            return ""
        numbers = VALUES[self.value]()
        if self.right.count("{") != len(numbers):
            raise ValueError(f"{self.value} has {len(numbers)} numbers, its text has {self.right.count('{')} places")
        return self.right.format(*numbers)


def claims() -> list[Claim]:
    return [Claim(**row) for row in tomllib.loads(CLAIMS.read_text(encoding="utf-8"))["claim"]]


def page(rows: Iterable[Claim]) -> str:
    """The page as Markdown."""
    text, topic = [_INTRODUCTION], ""
    for claim in rows:
        if claim.topic != topic:
            topic = claim.topic
            text += [
                *([""] if len(text) > 1 else []),
                f"## {topic}",
                "",
                _line("claim", "verdict", "right value", "why"),
            ]
            text.append(_line(*["---"] * 4))
        text.append(_line(claim.says, f"**{claim.verdict}**", claim.right_value(), claim.why))
    return "\n".join(text) + "\n"


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    rows = claims()
    PAGE.write_text(page(rows), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {len(rows)} claims")


if __name__ == "__main__":
    main()
