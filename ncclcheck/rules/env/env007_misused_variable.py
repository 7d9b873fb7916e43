"""A variable has a value that is valid and does not do what it seems to do.

## What it finds

- `NCCL_IB_HCA=mlx5`: a prefix that every adapter of the driver has. It forces nothing, NCCL falls back to sockets as
  before; and it takes storage and management ports as well as the compute rails.
- `NCCL_SOCKET_IFNAME=ib0` that took `ib0.8001`, `eth1` that took `eth10`: names are prefixes, too, and the first
  match in the system's order is used.
- `NCCL_IB_GID_INDEX=3` on RoCE with 2.21.5 or newer: from then on NCCL picks the entry of each port itself. A fixed
  number is right as long as every port of every host has the wanted address at that place.
- `NCCL_NET_GDR_LEVEL=5`, `NCCL_P2P_LEVEL=2`: digits mean the scale before 2.6 (0 LOC, 1 PIX, 2 PXB, 3 PHB, more SYS).
- Variables that came with a later release than the one in use: not read.
- RCCL's own warning that `HSA_FORCE_FINE_GRAIN_PCIE=1` is missing: without it GPUs of one machine may fail to share
  memory over PCIe (a **warning**, the others are information).

## Why it costs

A wrong idea of what a setting does sends the next search into the wrong direction; by itself the value may cost
nothing. A management port among the devices costs the difference of the rates. Where peer access over PCIe fails,
traffic goes through host memory, or the job stops.

## Example

    gpu-d1:6110:6177 [0] NCCL INFO NCCL_IB_HCA set to mlx5
    gpu-d1:6110:6177 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_bond_0:1/RoCE [RO]; OOB eth0:10.1.0.1<0>

## How to fix

- `NCCL_IB_HCA==mlx5_0,mlx5_1` (whole names) or `NCCL_IB_HCA=^mlx5_bond_0` (all but). To make a missing fabric fail
  at once: `NCCL_NET=IB`.
- `NCCL_SOCKET_IFNAME==ib0` for the whole name.
- Unset `NCCL_IB_GID_INDEX`, or check `show_gids` on every host.
- Levels by name: `NCCL_NET_GDR_LEVEL=SYS`.
- `export HSA_FORCE_FINE_GRAIN_PCIE=1` for AMD GPUs that are joined over PCIe.

## When it is not a problem

Prefixes that single out the compute rails (`ibp`, `rdma`), one adapter per machine, a GID index that connects. These
findings are information: none says that the job is wrong.

## References

- NCCL user guide, Environment Variables: NCCL_IB_HCA, NCCL_SOCKET_IFNAME, NCCL_IB_GID_INDEX, NCCL_NET_GDR_LEVEL
- NCCL sources: `src/misc/utils.cc` (matchIfList), `src/graph/paths.cc` (ncclGetLevel), `src/transport/net_ib`
- RCCL documentation: HSA_FORCE_FINE_GRAIN_PCIE
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ncclcheck.facts.facts import evidence_of, machines_of
from ncclcheck.facts.interfaces import announced
from ncclcheck.facts.releases import release_text
from ncclcheck.facts.settings import Setting, scripts_beside_log, set_to, settings_of
from ncclcheck.facts.variables import device_list, variables
from ncclcheck.rules.common import counted, listed, no_number
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity
from ncclcheck.rules.settings import MOST_SHOWN, NEEDS_SETTINGS, hosts_and_names, proof, written

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts

_DRIVER = re.compile(r"(?:mlx[45]|bnxt_re|irdma|hfi1|efa|rdmap|hns|erdma)_?$")
_OLD_SCALE = ("LOC", "PIX", "PXB", "PHB", "SYS")
_GID_BY_ITSELF_FROM = 22105
_LEVELS = ("NCCL_P2P_LEVEL", "NCCL_NET_GDR_LEVEL")


class _Misuse(NamedTuple):
    setting: Setting
    seems: str
    fix: str


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    missing = facts.notes("rccl_env_missing")
    if missing:
        yield RULE.finding(
            Severity.WARNING,
            Confidence.HIGH,
            f"RCCL misses {listed([seen.value for seen in missing])}: without it AMD GPUs may fail to share memory over"
            " PCIe",
            f"export {missing[0].value} on all ranks",
            {"hosts": machines_of(missing), "variable": tuple(seen.value.partition("=")[0] for seen in missing)},
            evidence_of(missing),
            **no_number("whether these GPUs are joined over PCIe is not in the input"),
        )
    misused = [
        misuse for judge in (_whole_driver, _longer_name, _fixed_gid, _digits, _too_new) for misuse in judge(facts)
    ]
    if misused:
        yield _finding(misused)
    elif not missing and not settings_of(facts):
        yield NotEvaluated(NEEDS_SETTINGS)


def _whole_driver(facts: Facts) -> Iterator[_Misuse]:
    for setting in set_to(facts, "NCCL_IB_HCA"):
        devices = device_list(setting.value)
        if devices.exact or devices.excluded or not any(map(_DRIVER.match, devices.names)):
            continue
        most = max((len(nics) for nics in facts.nic_lists.values()), default=0)
        if most == 1:
            continue  # the only one there is
        taken = f"takes every adapter of the driver ({counted(most, 'device')} here)" if most else "takes every adapter"
        yield _Misuse(
            setting,
            f"{taken}, storage and management ports too, and does not force RDMA",
            "NCCL_IB_HCA==<compute devices>, and NCCL_NET=IB to fail at once where there is no RDMA",
        )


def _longer_name(facts: Facts) -> Iterator[_Misuse]:
    """A whole name, as it looks, that took an interface with a longer one."""
    used = {interface.name for interface in announced(facts)}
    for setting in set_to(facts, "NCCL_SOCKET_IFNAME"):
        interfaces = device_list(setting.value)
        if interfaces.exact or interfaces.excluded:
            continue
        for name in interfaces.names:
            longer = sorted(one for one in used if one.startswith(name) and one != name)
            if longer and name[-1:].isdigit() and name not in used and not longer[0][len(name) :].startswith("np"):
                yield _Misuse(setting, f"is a prefix and took {listed(longer)}", f"NCCL_SOCKET_IFNAME=={name}")


def _fixed_gid(facts: Facts) -> Iterator[_Misuse]:
    if facts.release is None or facts.release < _GID_BY_ITSELF_FROM:
        return
    roce = any(nic.link == "RoCE" for nics in facts.nic_lists.values() for nic in nics)
    for setting in set_to(facts, "NCCL_IB_GID_INDEX"):
        if roce and setting.value.isdigit():
            yield _Misuse(
                setting,
                "pins what this release finds for each port by itself, and is right only where all ports have the"
                " address at that index",
                "unset NCCL_IB_GID_INDEX, or compare show_gids on all hosts",
            )


def _digits(facts: Facts) -> Iterator[_Misuse]:
    written_in_scripts = [one for name in _LEVELS for one in set_to(facts, name) if not one.in_force]
    for setting in (*written_in_scripts, *scripts_beside_log(facts)):
        if setting.name in _LEVELS and setting.value.isdigit():
            name = _OLD_SCALE[min(int(setting.value[:3]), len(_OLD_SCALE) - 1)]
            yield _Misuse(setting, f"counts on the scale before 2.6 and means {name}", f"{setting.name}={name}")


def _too_new(facts: Facts) -> Iterator[_Misuse]:
    newest = facts.releases[-1] if facts.releases else None
    if newest is None or facts.is_rccl:
        return
    for name, settings in settings_of(facts).items():
        variable = variables().get(name)
        if variable is not None and variable.reader == "NCCL" and newest < variable.since and not settings[0].in_force:
            yield _Misuse(
                settings[0],
                f"is not read by {release_text(newest)}: it came with {release_text(variable.since)}",
                f"NCCL {release_text(variable.since)} or newer for {name}",
            )


def _finding(misused: list[_Misuse]) -> Finding:
    settings = [one.setting for one in misused]
    said = [f"{written(one.setting)} {one.seems}" for one in misused]
    return RULE.finding(
        Severity.INFO,
        Confidence.HIGH if all(one.in_force for one in settings) else Confidence.MEDIUM,
        "; ".join(said[:MOST_SHOWN]) + (f"; and {len(said) - MOST_SHOWN} more" if len(said) > MOST_SHOWN else ""),
        "; ".join(dict.fromkeys(one.fix for one in misused[:MOST_SHOWN])),
        hosts_and_names(settings),
        proof(settings),
        **no_number("the value is valid; what it costs depends on what was meant"),
    )


RULE = Rule(
    code="ENV007",
    name="misused-variable",
    severity=Severity.INFO,
    summary="A variable has a value that is valid and does not do what it seems to do",
    check=check,
    since="0.1.0",
)
