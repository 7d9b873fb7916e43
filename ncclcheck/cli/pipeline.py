"""All packages joined: from the arguments of a command to what it prints."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ncclcheck import __version__
from ncclcheck.cli.progress import progress

if TYPE_CHECKING:
    from ncclcheck.engine.registry import Registry
    from ncclcheck.engine.report import Report
    from ncclcheck.estimate.model import Model
    from ncclcheck.estimate.options import EstimateOptions
    from ncclcheck.facts.evidence import Evidence
    from ncclcheck.inputs.source import Source
    from ncclcheck.readers.read import Reading
    from ncclcheck.rules.model import Rule

LOOKED_FOR = (
    "nothing to judge here; looked for lines of NCCL ('NCCL INFO', 'NCCL WARN', 'NCCL version'), for last words of"
    " processes and launchers, for outputs of tools (nvidia-smi, ibstat, lspci, dmesg, DCGM, ...) and for topology"
    " files; run the job with NCCL_DEBUG=INFO"
)


JUDGED_TOGETHER = "the inputs hold {} jobs and are judged as one: check them one by one if they differ"

STRANGERS = (
    "outputs of {}: the job's log names {}; what must be known of the job's own machines is not taken from there"
)

# Characters of a line that are quoted as evidence.
MAX_EVIDENCE = 400

# nccl-tests writes its whole environment into its JSON, secrets included: none of it is quoted.
_ENVIRONMENT = re.compile(r'("env"\s*:\s*\[).*')


# So many inputs of which the same is to be told are named on stderr.
MOST_NAMED = 8


# Bytes of small inputs that `parse` reads at once.
PARSED_TOGETHER = 1 << 20


class WrongCallError(ValueError):
    """Options that make no sense; the message is for the user."""


class Checked(NamedTuple):
    """complaints: for stderr. nothing_to_judge: an input could not be read, or an argument named no evidence.
    remarks: for stderr of those who ask (`--verbose`)."""

    report: Report
    complaints: tuple[str, ...]
    remarks: tuple[str, ...]
    nothing_to_judge: bool


class Selection(NamedTuple):
    """The three options about rules, as given."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()


def estimate_options(**given: Any) -> EstimateOptions:
    """What the user knows about the hardware and the model: fields of EstimateOptions, None where not given."""
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.estimate.options import EstimateOptions
    from ncclcheck.facts.shape import JobShape

    told = {name: value for name, value in given.items() if value is not None}
    if told.get("gpu") == "local":
        told["gpu"] = gpus_of_this_machine()[0]
    try:
        options = EstimateOptions(**told)
        Estimator(JobShape(), options)  # knows the GPU classes: complain before gigabytes are read
        return options
    except ValueError as error:
        raise WrongCallError(str(error)) from None


def gpus_of_this_machine() -> tuple[str, ...]:
    """Models of the GPUs of this machine, as `--gpu local` asks for them."""
    from ncclcheck.live import nvml

    try:
        return nvml.gpu_names()
    except nvml.NoDriverError as error:
        raise WrongCallError(f"--gpu local: {error}") from None


def chosen_rules(registry: Registry, selection: Selection) -> tuple[Rule, ...]:
    """The rules that run; a selection that leaves none is a wrong call, not a clean bill."""
    from ncclcheck.engine.selection import UnknownSelectorError, select_rules

    try:
        rules = select_rules(registry.rules, selection.select, selection.ignore, selection.extend_select)
    except UnknownSelectorError as error:
        raise WrongCallError(str(error)) from None
    if not rules:
        raise WrongCallError("the selection leaves no rule to run")
    return rules


def run_check(
    paths: Sequence[str], selection: Selection, options: EstimateOptions, model: Model | None = None
) -> Checked:
    """Read, judge, report. model: None: with the constants of the package."""
    from ncclcheck.engine.registry import load_registry
    from ncclcheck.engine.report import InputSummary, Measurement, Report
    from ncclcheck.engine.run import evaluate, unexplained_warnings
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.estimate.training.log_calls import of_log
    from ncclcheck.facts.facts import Facts
    from ncclcheck.inputs.expand import expand
    from ncclcheck.inputs.meter import Meter
    from ncclcheck.readers.read import read_sources
    from ncclcheck.rules.common import listed

    registry = load_registry()
    rules = chosen_rules(registry, selection)
    meter = Meter()
    with progress(meter):
        expansion = expand(paths, meter)
        reading = read_sources(expansion.sources)
        meter.doing = "judging"
        facts = Facts(reading.tables, [source.name for source in expansion.sources])
        picture = facts.picture()
        estimator = Estimator(facts.shape(), options, model, logged=of_log(picture))
        evaluation = evaluate(facts, estimator, rules)
        measurements = tuple(Measurement(one, estimator.expect_of(one)) for one in facts.measured)
        step = estimator.step()

    inputs = tuple(
        InputSummary(source.name, row.kinds, row.lines, row.recognised, row.unrecognised, source.error)
        for source, row in zip(expansion.sources, reading.inputs, strict=True)
    )
    left = unexplained_warnings(facts, evaluation.findings)
    lines = [one for finding in evaluation.findings for one in finding.evidence]
    quote = quoter([*lines, left.first] if left else lines, expansion.sources)
    findings = tuple(replace(one, evidence=tuple(map(quote, one.evidence))) for one in evaluation.findings)
    left = replace(left, first=quote(left.first)) if left else None
    report = Report(
        version=__version__,
        inputs=inputs,
        job=picture,
        rules=evaluation.verdicts,
        findings=findings,
        unexplained=left,
        measurements=measurements,
        step=step,
        no_step_because=None if step else estimator.why_no_step,
        site=estimator.model.site,
        nearness=facts.nearness,
        contradictions=facts.contradictions,
    )
    telling = {row.path for row in inputs if row.kinds or row.recognised}
    trouble = judge_inputs(expansion.sources, telling)
    remarks = [f"internal error in rule {crash}" for crash in evaluation.crashes]
    if expansion.skipped:
        remarks.append(f"skipped in directories and archives: {expansion.skipped} (hidden, binary, or no regular file)")
    others = (
        [STRANGERS.format(*(listed(names, MOST_NAMED) for names in (facts.strangers, facts.machines)))]
        if facts.strangers
        else []
    )
    together = [JUDGED_TOGETHER.format(facts.jobs)] if facts.jobs > 1 else []
    left_out = unused(expansion.sources, reading)
    complaints = (*registry.problems, *notes(expansion.sources), *left_out, *together, *others, *trouble)
    return Checked(report, complaints, tuple(remarks), bool(trouble))


def quoter(evidence: Iterable[Evidence], sources: Sequence[Source]) -> Callable[[Evidence], Evidence]:
    """Fills in the text of these lines: facts keep line numbers only."""
    wanted: dict[str, set[int]] = {}
    for one in evidence:
        wanted.setdefault(one.path, set()).add(one.line)
    texts = {source.name: source.quote(wanted[source.name]) for source in sources if source.name in wanted}

    def quote(one: Evidence) -> Evidence:
        text = texts.get(one.path, {}).get(one.line, "").rstrip()
        return one._replace(text=_ENVIRONMENT.sub(r"\1 ...", text)[:MAX_EVIDENCE])

    return quote


def judge_inputs(sources: Sequence[Source], telling: set[str]) -> list[str]:
    """What to say about inputs that could not be read, and about arguments none of whose inputs tells anything.

    A directory or a glob is one argument: a silent file among others that speak is nothing to complain about.
    """
    trouble = _together((source.name, source.error) for source in sources if source.error)
    silent: dict[str, bool] = {}
    for source in sources:
        silent[source.argument] = silent.get(source.argument, True) and source.name not in telling and not source.error
    return trouble + [f"{argument}: {LOOKED_FOR}" for argument, is_silent in silent.items() if is_silent]


def notes(sources: Sequence[Source]) -> list[str]:
    """What the user should know although nothing is wrong."""
    return _together((source.name, note) for source in sources for note in source.notes)


def unused(sources: Sequence[Source], reading: Reading) -> list[str]:
    """What readers could not use of the inputs."""
    return _together((s.name, note) for s, row in zip(sources, reading.inputs, strict=True) for note in row.notes)


def _together(said: Iterable[tuple[str, str]]) -> list[str]:
    """A line each; but what is the same of thousands of files is said once. (The report names them all.)"""
    names: dict[str, list[str]] = {}
    for name, text in said:
        names.setdefault(text, []).append(name)
    lines: list[str] = []
    for text, of in names.items():
        named = of if len(of) <= MOST_NAMED else [f"{of[0]} and {len(of) - 1} more"]
        lines += [f"{name}: {text}" for name in named]
    return lines


def run_parse(sources: Iterable[Source]) -> Iterator[dict[str, Any]]:
    """One object per NCCL record, input by input."""
    from ncclcheck.readers.records import parse_records

    for some in _in_groups(sources):
        yield from parse_records(*some)


def _in_groups(sources: Iterable[Source]) -> Iterator[list[Source]]:
    """Small ones together; one of unknown size alone."""
    group: list[Source] = []
    size = 0
    for source in sources:
        if group and (source.size is None or size + source.size > PARSED_TOGETHER):
            yield group
            group, size = [], 0
        group.append(source)
        size += PARSED_TOGETHER if source.size is None else source.size
    if group:
        yield group
