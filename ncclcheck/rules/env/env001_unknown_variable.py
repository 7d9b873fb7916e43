"""A variable is set whose name no release of NCCL and no plugin knows.

## What it finds

Names that begin like a variable of NCCL, PyTorch's NCCL backend, aws-ofi-nccl, UCX or libfabric and that nothing
reads: misspelt ones (the nearest real name is offered), and names that job scripts copy from each other although no
release ever read them. NCCL prints the variables that it reads and says nothing of the others, so a log alone cannot
show them. They are found where people write them: `export`, `NAME=value` before a command or alone on its line (`env`
dumps), `mpirun -x`, `-genv`, `docker -e`, `srun --export`, pod specs, Dockerfiles, `os.environ[...]`. Comments and
prose are not read.

A warning where a real name is close, at high confidence for misspellings that are seen often. Information at low
confidence where nothing is close: the name may be a shell variable of the script, or belong to a plugin or to a build
that is not in the tables.

## Why it costs

The setting that was meant is not in force, and nothing says so: the job runs on the default, and whoever reads the
script believes otherwise. `NCCL_IB_GIDINDEX=3` leaves the GID index to NCCL, `NCCL_NVLS_DISABLE=1` leaves NVLS on.
What that costs is what the setting was there to avoid: there is a number where the input shows that very loss (sockets
with one thread, memory that the NIC does not read itself).

## Example

    export NCCL_IB_GIDINDEX=3
    mpirun -x NCCL_DEBUG=INFO -x NCCL_SOCKET_IF_NAME=bond0 ./train

## How to fix

Correct the name, and check that NCCL prints it: every variable that NCCL reads and that is set shows up as
`NCCL_X set by environment to V` at `NCCL_DEBUG=INFO` (with ENV in `NCCL_DEBUG_SUBSYS`). A name that does not show up
on any rank is not read:

    grep -ho 'NCCL_[A-Z0-9_]* set by environment' run.log | sort | uniq -c

## When it is not a problem

Variables of plugins, profilers, tuners and tests are known by their families (`NCCL_FASTRAK_`, `NCCL_INSPECTOR_`,
`NCCL_UCX_`, `NCCL_TESTS_` and others), those of build systems and images (`NCCL_HOME`, `NCCL_VERSION`) as well.
libfabric and UCX have hundreds of variables: of theirs only near misses of a common one are reported. What NCCL
itself prints as set is read, whatever the tables say.

## References

- NCCL user guide, Environment Variables
- NCCL sources: `src/misc/param.cc` (a variable is printed when it is first read)
- PyTorch documentation, ProcessGroupNCCL Environment Variables; aws-ofi-nccl, `doc/` and `include/nccl_ofi_param.h`
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.settings import Setting, settings_of
from ncclcheck.facts.variables import known, meant, variables
from ncclcheck.rules.common import compared, counted, listed, no_number
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity
from ncclcheck.rules.settings import MOST_SHOWN, NEEDS_SCRIPT, by_scripts, hosts_and_names, proof, written

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts
    from ncclcheck.rules.common import Numbers

_CHECK = "grep 'set by environment' in a log of NCCL_DEBUG=INFO: what is not printed there is not read"


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    if not by_scripts(facts):
        yield NotEvaluated(NEEDS_SCRIPT)
        return
    unread = [
        setting
        for name, settings in settings_of(facts).items()
        for setting in settings[:1]
        if not setting.in_force and not known(name)
    ]
    near = {setting.name: name for setting in unread if (name := _meant(setting.name)) is not None}
    if near:
        yield _misspelt([setting for setting in unread if setting.name in near], near, estimator)
    foreign = [setting for setting in unread if setting.name not in near and _nccl(setting.name)]
    if foreign and not facts.is_rccl:
        yield _nobody(foreign)


def _nccl(name: str) -> bool:
    return "NCCL_" in name


def _meant(name: str) -> str | None:
    """libfabric and UCX read far more than the tables hold: only long names that differ in a letter are misspelt."""
    other = meant(name)
    if other is None or _nccl(name):
        return other
    return other if len(name) >= 10 and abs(len(name) - len(other)) <= 1 and other[:4] == name[:4] else None


def _misspelt(settings: list[Setting], near: dict[str, str], estimator: Estimator) -> Finding:
    often = all(variables().get(setting.name) is not None for setting in settings)
    pairs = [f"{setting.name} (meant: {near[setting.name]}?)" for setting in settings]
    return RULE.finding(
        Severity.WARNING,
        Confidence.HIGH if often else Confidence.MEDIUM,
        f"{listed(pairs, MOST_SHOWN)} {_is(settings)} set in the input and nothing reads {_it(settings)}: no release of"
        " NCCL or of its plugins has the name",
        f"{'; '.join(_instead(setting, near[setting.name]) for setting in settings[:MOST_SHOWN])}; then {_CHECK}",
        hosts_and_names(settings),
        proof(settings),
        **_numbers({near[setting.name] for setting in settings}, estimator),
    )


def _numbers(meant: set[str], estimator: Estimator) -> Numbers:
    """What the job would gain from the settings that were meant, where it shows that it lacks just that."""
    shape = estimator.shape
    if shape.network == "socket" and meant & {"NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD"}:
        return compared(estimator, {"tcp_tuned": True}, {"tcp_tuned": False})
    if shape.gdr is Answer.NO and "NCCL_NET_GDR_LEVEL" in meant:
        return compared(estimator, {"gdr": True}, {"gdr": False})
    return no_number("the job runs as if the variable were unset: the cost is that of the setting that was meant")


def _instead(setting: Setting, name: str) -> str:
    """The right name with the value, turned round where ENABLE stands for DISABLE."""
    words, other = setting.name.split("_"), name.split("_")
    turned = ("ENABLE" in other) != any(word.startswith("ENABLE") for word in words) and (
        "ENABLE" in other or "DISABLE" in other
    )
    told = any(word.startswith(("ENABLE", "DISABLE")) for word in words)
    value = {"0": "1", "1": "0"}.get(setting.value, setting.value) if turned and told else setting.value
    return f"{name}={value} instead of {written(setting)}"


def _nobody(settings: list[Setting]) -> Finding:
    names = [setting.name for setting in settings]
    return RULE.finding(
        Severity.INFO,
        Confidence.LOW,
        f"{listed(names, MOST_SHOWN)} {_is(settings)} set in the input and no release of NCCL is known to read"
        f" {_it(settings)}",
        f"remove {_it(settings)}, unless a plugin or the script itself reads {_it(settings)}: {_CHECK}",
        hosts_and_names(settings),
        proof(settings),
        **no_number(f"{counted(len(names), 'variable')} without effect on NCCL"),
    )


def _is(settings: list[Setting]) -> str:
    return "is" if len(settings) == 1 else "are"


def _it(settings: list[Setting]) -> str:
    return "it" if len(settings) == 1 else "them"


RULE = Rule(
    code="ENV001",
    name="unknown-variable",
    severity=Severity.WARNING,
    summary="A variable is set whose name no release of NCCL and no plugin knows",
    check=check,
    since="0.1.0",
)
