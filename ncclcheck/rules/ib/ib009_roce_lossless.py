"""RoCE loses packets: counters of discards and repeats rise.

## What it finds

Counters of RoCE ports that rose between two readings, in two outputs of one tool one after the other: `rdma statistic`,
`ethtool -S` or `/sys/class/infiniband`.

| counter | what happened |
| --- | --- |
| `rx_discards_phy`, `tx_discards_phy`, `rx_prio3_discards`, `out_of_buffer` | the adapter dropped packets |
| `packet_seq_err`, `implied_nak_seq_err` | the peer missed a packet and asks for it again |
| `local_ack_timeout_err`, `roce_adp_retrans` | no answer came in time: repeated |
| `rnr_nak_retry_err` | the peer was not ready to take it: repeated |
| `out_of_sequence` | packets came in another order, or one before them was lost |

Which ports are RoCE is told by their link layer (`ibstat`, `ibv_devinfo`, `rdma link`), or by NCCL's list of devices.
Losses are a warning. `out_of_sequence` that rises alone is information: adaptive routing does that.

## Why it costs

RoCE takes up a lost packet by sending everything behind it again, so that loss in a thousandth of the packets can take
most of the bandwidth; a repeat after a timeout stops the connection for milliseconds, and the ring with it. Drops mean
that priority flow control does not work end to end (or is not meant to, and congestion control is not tuned for that).

## Example

    link mlx5_2/1 ... out_of_sequence 17 ... packet_seq_err 5 ...
    link mlx5_2/1 ... out_of_sequence 937 ... packet_seq_err 316 ...

## How to fix

    mlnx_qos -i ens6f0np0                    # PFC on one priority, trust dscp: the same on every host and switch
    ethtool -S ens6f0np0 | grep -E 'discard|prio[0-9]_pause'
    show_gids; cat /sys/class/infiniband/mlx5_2/tc/1/traffic_class

PFC on the priority that the traffic has (`NCCL_IB_TC` sets the class: 106 where the fabric maps DSCP 26 to the lossless
priority), ECN with DCQCN at both ends, the same MTU everywhere. Then read the counters twice again, under load.
Where only the order changes there is nothing to mend if the switches route adaptively.

## When it is not a problem

A counter by itself, however large: it counts from the time that the driver was loaded. Pause frames and congestion
notifications (`rx_prio3_pause`, `np_cnp_sent`) are flow control at work. Fabrics that are meant to lose packets and
repeat single ones (selective repeat), where few are lost. InfiniBand and EFA have other means.

## References

- NVIDIA, Understanding mlx5 Linux counters and status parameters
- NVIDIA, RoCE configuration for lossless networks: mlnx_qos, trust, PFC, ECN
- NCCL user guide, Environment Variables: NCCL_IB_TC, NCCL_IB_TIMEOUT
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.facts import evidence_of, machine_names
from ncclcheck.facts.port_counters import Rise, roce_counters
from ncclcheck.rules.common import compared, listed, no_number, place
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts

_TWICE = "two readings while the job runs: `rdma statistic; sleep 60; rdma statistic`"
_LAYER = "the link layer of the ports whose counters are there: `rdma link` or `ibstat`"
_FIX = (
    "mlnx_qos -i <interface> on every host (PFC on one priority, trust dscp) and the same on the switches; NCCL_IB_TC"
    " for the class of that priority; then `rdma statistic; sleep 60; rdma statistic` under load"
)
_FIX_ORDER = (
    "nothing to do where adaptive routing is on; else two paths of unequal length: compare the switches' ECMP and the"
    " bonds, `rdma statistic; sleep 60; rdma statistic` under load"
)


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    links = {nic.link for nics in facts.nic_lists.values() for nic in nics if nic.link}
    if facts.crossing.answer is Answer.NO or (links and "RoCE" not in links):
        return
    counters = roce_counters(facts)
    losses = [rise for rise in counters.rises if rise.loss]
    if losses:
        yield _finding(Severity.WARNING, estimator, losses)
    elif counters.rises:
        yield _finding(Severity.INFO, estimator, counters.rises)
    elif not counters.compared:
        yield NotEvaluated(_LAYER if counters.no_layer and not counters.read else _TWICE)


def _finding(severity: Severity, estimator: Estimator, rises: Sequence[Rise]) -> Finding:
    machines = machine_names(rises)
    parts = tuple(sorted({rise.part for rise in rises}))
    worst = sorted(rises, key=lambda rise: -rise.by)
    what = listed([f"{rise.counter} by {rise.by} on {rise.part}" for rise in worst], 2)
    lost = severity is Severity.WARNING
    says = "packets are lost and sent again" if lost else "packets change order, as adaptive routing makes them do"
    numbers = compared(estimator, {}, {"effect": "roce-lossy"}) if lost else no_number("order alone loses nothing")
    return RULE.finding(
        severity,
        Confidence.HIGH if lost else Confidence.MEDIUM,
        f"RoCE counters rose on {place(machines, 'a machine')} between two readings ({what}): {says}",
        _FIX if lost else _FIX_ORDER,
        {"hosts": machines, "devices": parts},
        evidence_of(worst),
        **numbers,
    )


RULE = Rule(
    code="IB009",
    name="roce-lossless",
    severity=Severity.WARNING,
    summary="RoCE loses packets: counters of discards and repeats rise",
    check=check,
    since="0.1.0",
)
