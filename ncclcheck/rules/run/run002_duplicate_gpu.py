"""Two ranks of one communicator use the same GPU.

## What it finds

NCCL's own warning, in all wordings:
- until 2.29.7 `Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1a000`
- 2.30.3 and 2.30.4 `Multiple ranks detected using the same GPU on this node. Set NCCL_MULTI_RANK_GPU_ENABLE=1 ...`
- 2.30.7 `Multiple Ranks are using the same GPU/Partition. ...`

Without the warning (stderr thrown away, an excerpt): two ranks of one communicator on the same machine with the same
busId in their `Init START` or `Init COMPLETE` lines, where neither MIG nor NCCL_MULTI_RANK_GPU_ENABLE is in play;
confidence medium.

## Why it costs

Init ends with result 5 (invalid usage) on the ranks concerned, and all others wait for them until the watchdog fires:
GPUs x time until noticed. Where several ranks per GPU are allowed (2.30.3 and newer) they share its memory and its
links, and NVLS is off.

## Example

    slurm-g1:7710:7772 [0] init.cc:943 NCCL WARN Duplicate GPU detected : rank 0 and rank 2 both on CUDA device 31000
    slurm-g1:7710:7772 [0] NCCL INFO init.cc:1492 -> 5

Four processes on two GPUs, each GPU twice: the launch was doubled.

## How to fix

Print what each rank sees, before the framework starts:

    srun bash -c 'echo $(hostname) rank=$SLURM_PROCID local=$SLURM_LOCALID cvd=$CUDA_VISIBLE_DEVICES'

- No device chosen: `torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))` (or `SLURM_LOCALID`,
  `OMPI_COMM_WORLD_LOCAL_RANK`) **before** the first CUDA or NCCL call, and `device_id=` to `init_process_group`.
- Launched twice: srun with n tasks per node that each run torchrun or accelerate with n processes. Use
  `--ntasks-per-node=1` with torchrun, or no torchrun.
- `--gpus-per-task=1` gives each task one visible device, number 0; LOCAL_RANK 1 is then out of range or wraps. Use
  either the binding or the index, not both; `CUDA_VISIBLE_DEVICES` with a duplicate in it does the same.
- Ray, vLLM, SGLang: tensor-parallel size above the number of GPUs, or two engines placed on one GPU (fractions).
- More ranks per node than GPUs: `nvidia-smi -L | wc -l` against the launcher's processes per node.
- MIG: one instance per rank, and NCCL does not connect instances of one GPU.
- On purpose, for tests: 2.30.3 and newer with `NCCL_MULTI_RANK_GPU_ENABLE=1`.

## When it is not a problem

Equal bus ids on **different machines** are normal: machines of one kind are built alike. Some virtual machines print
bus id 0 for all devices. One process may drive eight GPUs; that is eight ranks on eight devices. Two communicators
may use the same GPU. Containers on one machine may each see a device 0 at different addresses.

## References

- huggingface/accelerate issue 2246: launcher inside srun
- NCCL sources: `src/init.cc` (duplicate check), `src/graph/topo.cc` (2.30)
- NCCL user guide, Creating a communicator: one device per rank; Environment Variables: NCCL_MULTI_RANK_GPU_ENABLE
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.facts import evidence_of, machine_names, machines_of
from ncclcheck.facts.gpu_parts import gpu_parts
from ncclcheck.rules.common import counted, is_on, listed, place, stopped
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.evidence import Evidence
    from ncclcheck.facts.facts import Facts
    from ncclcheck.facts.seen import Failure, SharedGpu

_FIX = (
    "one GPU per rank: torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) before the first CUDA call; srun"
    " --ntasks-per-node=1 when the launcher (torchrun, accelerate) starts the ranks itself; compare nvidia-smi -L with"
    " the processes per node"
)
_NEEDS = "'Init START' or 'Init COMPLETE' lines (busId and nvmlDev of each rank), or NCCL's WARN lines"


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    warned = facts.failures("duplicate_gpu")
    if warned:
        yield _from_warnings(facts, estimator, warned)
    elif facts.shared_gpus and not _on_purpose(facts):
        yield _from_bus_ids(estimator, facts.shared_gpus)
    elif not facts.ranks_with_device and not facts.rings_connected:
        yield NotEvaluated(_NEEDS)


def _on_purpose(facts: Facts) -> bool:
    """Instances of a MIG device share a bus id, and newer releases allow several ranks per GPU."""
    allowed = any(is_on(seen.value) for seen in facts.settings("NCCL_MULTI_RANK_GPU_ENABLE"))
    divided = any(gpu.first("mig", "enabled") for gpu in gpu_parts(facts))
    return allowed or divided or any("MIG" in name for name in facts.gpu_names)


def _from_warnings(facts: Facts, estimator: Estimator, warned: tuple[Failure, ...]) -> Finding:
    """NCCL names pairs, each from both sides, in its older wording; the newer ones name nobody."""
    pairs = [failure.fields for failure in warned if "rank_a" in failure.fields]
    ranks = {pair[side] for pair in pairs for side in ("rank_a", "rank_b") if side in pair}
    gpus = {(failure.machines, failure.fields["bus_id"]) for failure in warned if "bus_id" in failure.fields}
    machines = machines_of(warned)
    if not pairs:
        here = [shared for shared in facts.shared_gpus if shared.machine in machines]
        ranks = {str(rank) for shared in here for rank in shared.ranks}
        gpus = {((shared.machine,), shared.bus_id) for shared in here}
    return _finding(estimator, Confidence.HIGH, ranks, len(gpus), machines, evidence_of(warned))


def _from_bus_ids(estimator: Estimator, shared: tuple[SharedGpu, ...]) -> Finding:
    ranks = {str(rank) for one in shared for rank in one.ranks}
    machines = machine_names(shared)
    return _finding(estimator, Confidence.MEDIUM, ranks, len(shared), machines, evidence_of(shared))


def _finding(
    estimator: Estimator,
    confidence: Confidence,
    ranks: set[str],
    gpus: int,
    machines: tuple[str, ...],
    evidence: tuple[Evidence, ...],
) -> Finding:
    ordered = tuple(sorted(ranks, key=int))
    who = f"Ranks {listed(ordered, 8)} of one communicator share" if ranks else "Several ranks share"
    return RULE.finding(
        Severity.ERROR,
        confidence,
        f"{who} {counted(gpus, 'GPU') if gpus else 'a GPU'} on {place(machines, 'one machine')}",
        _FIX,
        {"hosts": machines, "ranks": ordered} if ordered else {"hosts": machines},
        evidence,
        **stopped(estimator),
    )


RULE = Rule(
    code="RUN002",
    name="duplicate-gpu",
    severity=Severity.ERROR,
    summary="Two ranks of one communicator use the same GPU",
    check=check,
    since="0.1.0",
)
