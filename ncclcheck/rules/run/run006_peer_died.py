"""Ranks lost their connection to another one: they follow from who failed first.

## What it finds

- `Connection closed by remote peer`, in all wordings (2.4 and newer), and `Call to recv from ... failed`
- result 6 in a back trace (`proxy.cc:902 -> 6`): ncclRemoteError, 2.13.4 and newer
- `[Proxy Service] Failed to execute operation`, `[Service thread] Error encountered progressing operation=Connect`,
  `Could not receive type from localRank`: the proxy thread of a rank or of its neighbour is gone
- `[Service thread] Connection closed by localRank` after a warning of the same process, and RAS declaring a peer dead.

One finding for all ranks that say so, with the machines that they name and that complain of nothing themselves: look
there first.

## Why it costs

Nothing of its own. It is the sound of the others stopping; the first cause is reported under its own code (RUN010,
RUN007, HST001, HST005 ...), and this one stands below it.

## Example

    node-3:2137:2150 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer node-7<34561>
    node-3:2137:2150 [0] NCCL INFO misc/socket.cc:752 -> 6

## How to fix

Read the log of the peer that is named, then that of ranks that say nothing of closed connections. Its last lines, its
traceback, `dmesg -T` of its host (OOM killer, Xid) and the launcher's exit codes have the cause. Where no rank failed
and the connection broke: `ss -tni`, idle timeouts of firewalls and load balancers, `dmesg | grep -i link`.

## When it is not a problem

`[Service thread] Connection closed by localRank` is what a healthy run prints at its end. Old releases print
`Connection closed by remote peer` when ranks leave at different times after the last collective.

## References

- NCCL sources: `src/misc/socket.cc`, `src/proxy.cc`, `src/ras/`
- NCCL user guide, Troubleshooting: Errors; Types: ncclRemoteError
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.lost_peers import LostPeers, lost_peers
from ncclcheck.rules.common import counted, listed, no_number, place
from ncclcheck.rules.failures import first_causes
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts

_NEEDS = "WARN lines of NCCL: NCCL_DEBUG=WARN or INFO (at VERSION they are not printed)"
_FIX = "look for what failed first: {}, its traceback, dmesg -T of its host, the exit codes of the launcher"


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    lost = lost_peers(facts)
    if lost is not None:
        yield RULE.finding(
            Severity.INFO,
            Confidence.HIGH,
            _message(lost),
            _FIX.format(f"the log of {listed(lost.origin)}" if lost.origin else "ranks that do not complain of a peer"),
            {"hosts": lost.machines},
            lost.evidence,
            causes=first_causes(facts, "RUN005", "RUN004", "RUN003"),
            **no_number("a consequence of a failure elsewhere"),
        )
    elif not facts.visibility.info and not facts.failures():
        yield NotEvaluated(_NEEDS)


def _message(lost: LostPeers) -> str:
    where = f" on {place(lost.machines, '')}" if lost.machines else ""
    if not lost.sockets:
        who = counted(lost.proxies, "process", "processes")
        return f"Proxy threads of {who}{where} gave up ({lost.words}): that follows from another failure"
    who = counted(lost.sockets, "process", "processes")
    if lost.origin:
        named = listed(lost.origin)
        tail = f"named is {named}, which complains of no peer: it was first, or its path broke"
    else:
        tail = "that follows from who failed first"
    return f"{who}{where} lost a peer ({lost.words}): {tail}"


RULE = Rule(
    code="RUN006",
    name="peer-died",
    severity=Severity.INFO,
    summary="Ranks lost their connection to another one: they follow from who failed first",
    check=check,
    since="0.1.0",
)
