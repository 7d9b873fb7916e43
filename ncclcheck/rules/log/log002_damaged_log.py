"""Lines of the log are torn, cut short or of unknown form.

## What it finds

- **Torn**: a record begins in the middle of another one, because several processes write to one pipe, and part of the
  first one is nowhere to be found.
- **Cut short**: a record stops before its last word: the input ends there, a console cut long lines, or NCCL itself
  did (until 2.28.9 prefix and text share 1024 bytes).
- **Mended**: lines with the records of several writers that could be taken apart, and halves of a record that were put
  together again, because only together they are a line that NCCL prints. They lose nothing and are counted.
- **Unknown**: half of the records or more have a form that NCCL is not known to print, not even in a subsystem that no
  rule needs: those of a newer release, of a plugin, or an edited log.

Long `Trees` and ring order lines that end in the middle of a number list are cut by NCCL in every release, and no
damage.

## Why it costs

Nothing by itself. What a lost line said is missing from every count and comparison: a rank seems absent (LOG003), an
edge or a setting is not seen. A warning that was torn may be the one that mattered. A number cut in the middle looks
like a smaller one, which no program can tell.

## Example

    hgx17:4711:4790 [4] NCCL INFO Channel 02/0 : 4[4] -> 5[5] via P2P/CUhgx18:912:987 [5] NCCL INFO Connected all rings

The rest of the first record, `MEM`, is not on one of the next lines: torn.

## How to fix

One file per process; nothing can be torn then:

    export NCCL_DEBUG_FILE=/scratch/$SLURM_JOB_ID/nccl.%h.%p.log      # directory on a file system of all hosts
    ncclcheck check /scratch/$SLURM_JOB_ID

Where it has to be one stream, let the launcher write whole lines: `srun --label` (without `--unbuffered`, which hands
on whatever a read returned), `mpirun --tag-output`, `torchrun --tee 3 --log-dir logs`. Consoles and log collectors cut
long lines: take the file, not what a terminal or web page shows. For records of unknown form update ncclcheck if NCCL
is newer.

## When it is not a problem

A few torn lines among ten thousand ranks on one pipe are ordinary, and findings with evidence stand as they are.
An excerpt that ends in the middle of a line lacks just that line.

## References

- NCCL sources: `src/debug.cc` (one write per line; the 1024 bytes)
- NCCL user guide, Environment Variables: NCCL_DEBUG_FILE
- POSIX, write(): writes to a pipe of more than PIPE_BUF bytes (4096 on Linux) may be interleaved; buffered writers
  cut lines anywhere
- Slurm documentation: srun (`--label`, `--unbuffered`)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.damage import Damage, damage
from ncclcheck.rules.common import counted, listed
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts

# From this share of unknown records on they may hide what matters; some are in every log of many subsystems.
_SHARE, _FEWEST = 0.5, 3
_MOST_EVIDENCE = 6

_ONE_FILE = (
    "write a file per process (NCCL_DEBUG_FILE=/shared/nccl.%h.%p.log), or have the launcher keep lines whole (srun"
    " --label without --unbuffered, mpirun --tag-output)"
)
_WHOLE = "give the whole log: the file, not an excerpt or what a console shows"
_UPDATE = "update ncclcheck if NCCL is newer; give the log as NCCL wrote it, unedited"


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    found = damage(facts)
    if not found.records:
        yield NotEvaluated("an NCCL log")
    elif found.lost or found.joined or found.mended or _strange(found):
        yield _finding(found)


def _strange(found: Damage) -> bool:
    return found.unknown >= _FEWEST and found.unknown >= _SHARE * found.records


def _finding(found: Damage) -> Finding:
    kinds = ["torn", "cut"] if found.lost else ["mended", "joined"]
    kinds += ["unknown"] if _strange(found) else []
    evidence = [one for kind in kinds for one in found.evidence.get(kind, ())]
    return RULE.finding(
        severity=Severity.INFO,
        confidence=Confidence.HIGH,
        message="; ".join(_sentences(found)),
        fix=_fix(found),
        evidence=tuple(evidence[:_MOST_EVIDENCE]),
        no_estimate_because="damage to the log costs no bandwidth",
    )


def _sentences(found: Damage) -> Iterator[str]:
    if found.lost:
        torn = f"{found.torn} torn by another writer" if found.torn else ""
        where = " where the input ends" if found.cut == found.at_end else ""
        cut = f"{found.cut} cut short{where}" if found.cut else ""
        yield (
            f"Damaged lines of NCCL: {listed([part for part in (torn, cut) if part])} (of"
            f" {counted(found.records, 'record')}); what was lost there is in no count or comparison"
        )
    if found.joined or found.mended:
        apart = counted(found.joined + found.mended, "line")
        yield f"{apart} with records of several writers could be taken apart without loss"
    if _strange(found):
        share = f"{found.unknown} of {counted(found.records, 'record')} ({100 * found.unknown / found.records:.0f}%)"
        yield f"{share} have no known form: a newer release, a plugin, or an edited log"


def _fix(found: Damage) -> str:
    if found.torn or found.joined or found.mended:
        return _ONE_FILE
    return _WHOLE if found.cut else _UPDATE


RULE = Rule(
    code="LOG002",
    name="damaged-log",
    severity=Severity.INFO,
    summary="Lines of the log are torn, cut short or of unknown form",
    check=check,
    since="0.1.0",
)
