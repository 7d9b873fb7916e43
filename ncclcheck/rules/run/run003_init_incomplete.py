"""Ranks began init and never finished it, or never came to it.

## What it finds

`Init START` without `Init COMPLETE` (2.18.3 and newer), where an end is on record: an error that NCCL returned, an
abort, a connection given up, PyTorch's watchdog or store timeout, the death of a process, a launcher's or scheduler's
last line, the same ranks starting again. By how far the ranks came:

- some completed, others did not: the others are named
- nobody passed the first exchange, and ranks of the communicator have no line at all: they never arrived. High
  confidence where the input shows processes that stopped before; else their logs may be missing, and the text says so
- nobody passed the first exchange, though all began: they cannot connect, and HST005 or NET002 has the reason
- PyTorch's store counted fewer processes than it waited for (`5/8 clients joined`), or no id of NCCL was left there
- 2.24.3 and newer connect at the first operation: channel lines on some ranks, `Connected all rings` on none.

As soon as one rank passes the first exchange (nodes line, channels, COMPLETE) **all** ranks have arrived, because it is
collective: absent ranks only log elsewhere (LOG003), and only those seen are judged.

## Why it costs

NCCL has no line for a rank that is missing: the root waits in silence, all others behind it, until somebody's timeout
(PyTorch's store: 10 to 30 minutes) or a person ends it. GPUs x time.

## Example

    wave-1:5100:5160 [0] NCCL INFO ncclCommInitRank comm 0x5581 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1b000
    commId 0x1f2e - Init START
    wave-1:5101:5161 [1] NCCL INFO ncclCommInitRank comm 0x55a2 rank 1 nranks 4 ... - Init START
    torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 2/4 clients joined.

## How to fix

Find out what the absent ranks do: `py-spy dump --pid <pid>` on their hosts, their own output, `dmesg -T`.

- Not started: the launcher's node count and processes per node (`--nnodes`, `--nproc-per-node`, `-N`, `-n`), a host
  that is full or drained, an image that is still pulled.
- Started and elsewhere: data loading, compilation, another collective or `new_group` called by some ranks only; all
  ranks must call it in the same order.
- Died before: RUN010 names them.
- All there, no connection: `MASTER_ADDR` and `NCCL_SOCKET_IFNAME` on all hosts, `nc -vz <host> <port>` between them.

## When it is not a problem

Excerpts and logs of jobs that still run have no end on record: not evaluated. Before 2.18.3 there is no START line, so
nothing tells that init was begun. Ranks with NCCL_SPLIT_NOCOLOR do not belong to the split. Ray folds lines of ranks
that look alike (`[repeated 7x across cluster]`): nothing is missing there.

## References

- NCCL sources: `src/init.cc` (initTransportsRank), `src/bootstrap.cc` (bootstrapRoot)
- PyTorch documentation: torch.distributed (init_process_group timeout, TCPStore), torchrun
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ncclcheck.facts.deaths import first_death
from ncclcheck.facts.unfinished import Rendezvous, Unconnected, Unfinished, rendezvous, unconnected, unfinished
from ncclcheck.rules.common import counted, listed, place
from ncclcheck.rules.failures import first_causes, ranks_in_words, standstill
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts

_NEEDS_END = (
    "what became of the job: its output to the end (launcher, watchdog, exit codes); ranks are in the middle of init"
)
_NEEDS_START = "'Init START' or 'Init COMPLETE' lines of a communicator of several ranks (2.18.3 and newer)"
_NEEDS_ALL = "all lines of all ranks: Ray left out those that look alike (RAY_DEDUP_LOGS=0)"
_FIX_ABSENT = (
    "on the hosts of the absent ranks: is the process there (ps, squeue, kubectl get pods), what does it do (py-spy"
    " dump --pid <pid>), what did it print last; compare nnodes and processes per node with {}"
)
_FIX_STUCK = "py-spy dump --pid <pid> of the ranks that are named, and their last lines; all ranks must make the call"
_FIX_CONNECT = "nc -vz <host> <port> between the hosts; the same NCCL_SOCKET_IFNAME on all; firewall and routes"


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    store = rendezvous(facts)
    if store is not None:
        yield _store(facts, estimator, store)
    begun = unfinished(facts)
    ended = [one for one in begun if one.ended and not (one.folded and one.completed)]
    if ended and not (store is not None and store.world is not None and not ended[0].arrived):
        yield _finding(facts, estimator, ended)
    elif not begun and (standing := unconnected(facts)):
        yield _unconnected(facts, estimator, standing[0])
    if any(not one.ended for one in begun):
        yield NotEvaluated(_NEEDS_END)
    if any(one.folded and one.completed for one in begun):
        yield NotEvaluated(_NEEDS_ALL)
    if not any(one.started or one.completed for one in facts.communicators if (one.nranks or 0) > 1):
        yield NotEvaluated(_NEEDS_START)


def _finding(facts: Facts, estimator: Estimator, begun: Sequence[Unfinished]) -> Finding:
    one = begun[0]
    first = first_death(facts)
    died = {death.rank for death in first.deaths if death.rank} if first is not None else set()
    message, confidence, fix, ranks = _told(one, died)
    more = f"; {counted(len(begun) - 1, 'more communicator')} likewise" if len(begun) > 1 else ""
    said, causes = f"{message} ({one.ended}){more}", first_causes(facts)
    return standstill(RULE, estimator, said, confidence, fix, one.machines, ranks, one.evidence, causes)


def _all(nranks: int | None) -> str:
    return "Both ranks" if nranks == 2 else f"All {nranks} ranks"


def _told(one: Unfinished, died: set[str]) -> tuple[str, Confidence, str, tuple[int, ...]]:
    """Message, confidence, fix and the ranks that are meant. died: ranks whose end is on record."""
    stuck, where = ranks_in_words(one.stuck), f" on {place(one.machines, '')}" if one.machines else ""
    if one.completed:
        message = (
            f"{stuck[0].upper()}{stuck[1:]} of {one.nranks}{where} began init and did not complete it, while"
            f" {counted(len(one.completed), 'rank')} did"
        )
        return message, Confidence.MEDIUM if one.beside else Confidence.HIGH, _FIX_STUCK, one.stuck
    if one.arrived:
        message = f"{_all(one.nranks)} met, and {stuck}{where} did not complete init"
        return message, Confidence.HIGH, _FIX_STUCK, one.stuck
    if not one.absent:
        message = f"{_all(one.nranks)} began init and none got through the first exchange between them"
        return message, Confidence.HIGH, _FIX_CONNECT, one.stuck
    if one.failed:
        message = f"{stuck[0].upper()}{stuck[1:]} of {one.nranks}{where} began init and failed in it"
        return message, Confidence.HIGH, "mend what NCCL complained of before it returned", one.stuck
    covered = one.waiting >= len(one.absent)
    if died & {*map(str, one.absent)}:
        covered, known = True, f"rank {min(died & {*map(str, one.absent)}, key=int)} ended before"
    elif covered:
        processes = counted(one.waiting, "process", "processes")
        known = f"{processes} ({listed(one.silent)}) started NCCL and did not come to it"
    else:
        known = "or their logs are missing"
    message = f"{ranks_in_words(one.absent)} of {one.nranks} never arrived at init, {len(one.seen)} waited: {known}"
    fix = _FIX_ABSENT.format(f"the {one.nranks} ranks of the communicator")
    return f"{message[0].upper()}{message[1:]}", Confidence.HIGH if covered else Confidence.MEDIUM, fix, one.absent


def _unconnected(facts: Facts, estimator: Estimator, one: Unconnected) -> Finding:
    message = f"{counted(len(one.connecting), 'rank')} of {one.nranks} began to connect for the first operation"
    if one.idle:
        where = f" on {place(one.machines, '')}" if one.machines else ""
        message += f", {ranks_in_words(one.idle)}{where} did not, and none got through"
    else:
        message += ", and none got through"
    fix = _FIX_STUCK if one.idle else _FIX_CONNECT
    meant = one.idle or one.connecting
    said, causes = f"{message} ({one.ended})", first_causes(facts)
    return standstill(RULE, estimator, said, Confidence.MEDIUM, fix, one.machines, meant, one.evidence, causes)


def _store(facts: Facts, estimator: Estimator, store: Rendezvous) -> Finding:
    causes = first_causes(facts)
    if store.world is not None and store.joined is not None:
        missing = max(store.world - store.joined, 0)
        message = f"{counted(missing, 'process', 'processes')} of {store.world} never came to PyTorch's rendezvous"
        message += f", {store.joined} waited until its timeout"
        fix = _FIX_ABSENT.format(f"the world size of {store.world}")
        return standstill(RULE, estimator, message, Confidence.HIGH, fix, store.machines, (), store.evidence, causes)
    absent = store.absent or 0
    message = f"Rank {absent} did not leave NCCL's id in PyTorch's store, so that the others could not begin init"
    fix = _FIX_ABSENT.format("the world size")
    return standstill(RULE, estimator, message, Confidence.HIGH, fix, store.machines, (absent,), store.evidence, causes)


RULE = Rule(
    code="RUN003",
    name="init-incomplete",
    severity=Severity.ERROR,
    summary="Ranks began init and never finished it, or never came to it",
    check=check,
    since="0.1.0",
)
