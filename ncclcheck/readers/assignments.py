"""Finds environment variables where people write them: job scripts, launch commands, `env` dumps, pod specs, Python.

NCCL prints the variables that it reads. A misspelt one it never prints, so only these lines show it. They prove less: a
script says what was meant to be set, on some rank, perhaps in another run. Values that a shell would have to work out
(`$X`, back-ticks) are left out, and so are comments and what stands in prose.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ncclcheck.readers.hints import ASSIGNS


class Assignment(NamedTuple):
    """A variable and its value as a line gives them."""

    line: int
    name: str
    value: str


_NAME = r"((?:(?:TORCH_|OFI_)?NCCL|UCX|FI)_[A-Z][A-Z0-9_]{1,80}|CUDA_LAUNCH_BLOCKING)"
_VALUE = r"(\"[^\"\n]{0,500}\"|'[^'\n]{0,500}'|[^\s\"';&|<>`]{1,500})"
_RECORD = re.compile(r"NCCL (?:INFO|WARN|TRACE|VERSION|DIAG)\b")

# A launcher's label or a shell's prompt before a line.
_LABEL = re.compile(r"(?:\[[^\]\n]{1,60}\](?:<std(?:out|err)>)?:? ?|(?!\S*(?:NCCL|UCX|FI)_|name:)[\w.@-]{1,80}: )+")
_PROMPT = re.compile(r"(?:\([\w.-]{1,40}\) )?(?:\[?[\w.-]{1,40}@[^$#>\n]{1,80}[$#>]|\$|>|\++) ")
# Command, and what makes the rest of its line assignments.
_SETS = re.compile(r"(?:export|declare -x|typeset -x|env|ENV|-)\s+")
_SPACED = re.compile(rf"(?:setenv|ENV)\s+{_NAME}[ \t]+{_VALUE}\s*\\?$")
_ANY = re.compile(r"([A-Za-z_]\w{0,80})=(\"[^\"\n]{0,500}\"|'[^'\n]{0,500}'|[^\s\"';&|<>`]{0,500})\s*(?:;|&&|\\$)?\s*")
_COMMAND = re.compile(
    r"(?:\S*[/.]|(?:mpirun|mpiexec|srun|jsrun|python|python3|torchrun|deepspeed|accelerate|horovodrun|vllm|bash|sh|exec"
    r"|env|nohup|time|timeout|numactl|taskset|sudo|docker|singularity|apptainer|ray|nsys|ncu|\w+_perf)\b)"
)
_FLAG = re.compile(rf"(?<!\S)(?:(?:-x|-e|--env|--setenv)[ =]+[\"']?{_NAME}=|-?-g?env\s+{_NAME}[ =]+){_VALUE}")
_EXPORT_LIST = re.compile(r"--export(?:=|\s+)(\S{1,2000})")
_YAML = re.compile(rf"\s*(?:-\s+)?[\"']?{_NAME}[\"']?\s*:\s+{_VALUE}\s*,?\s*(?:#.*)?$")
_YAML_NAME = re.compile(rf"\s*(?:-\s+)?\{{?\s*[\"']?name[\"']?\s*:\s*[\"']?{_NAME}[\"']?\s*,?\s*(.*)$")
_YAML_VALUE = re.compile(r"\s*[\"']?value[\"']?\s*:\s*(\"[^\"\n]{0,500}\"|'[^'\n]{0,500}'|[^\s\"',}]{1,500})")
_QUOTED = r"f?(\"[^\"\n]{0,500}\"|'[^'\n]{0,500}'|(?:str\()?-?\d{1,20}\)?)"
_PYTHON = re.compile(rf"environ\[\s*[\"']{_NAME}[\"']\s*\]\s*=\s*{_QUOTED}")
_PYTHON_CALL = re.compile(rf"(?:setdefault|putenv|setenv)\(\s*[\"']{_NAME}[\"']\s*,\s*{_QUOTED}")
_PYTHON_DICT = re.compile(rf"[\"']{_NAME}[\"']\s*:\s*{_QUOTED}")


def find_assignments(block: bytes, first_line: int) -> Iterator[Assignment]:
    """Every line of a block that sets a variable of NCCL's neighbourhood, in order."""
    known: dict[bytes, list[tuple[str, str]]] = {}
    for number, line, after in _candidates(block, first_line):
        if line not in known or after:
            known[line] = list(_read(line.decode("utf-8", "replace"), after))
        for name, value in known[line]:
            yield Assignment(number, name, value)


def _candidates(block: bytes, first_line: int) -> Iterator[tuple[int, bytes, str]]:
    """Number and text of lines that may set something, with the next line where a value may stand there."""
    starts: set[int] = set()
    for quick in ASSIGNS:
        starts.update(block.rfind(b"\n", 0, found.start()) + 1 for found in quick.finditer(block))
    number, counted = first_line, 0
    for start in sorted(starts):
        number += block.count(b"\n", counted, start)
        counted = start
        end = block.find(b"\n", start)
        end = len(block) if end < 0 else end
        line = block[start : min(end, start + 4000)]
        after = block[end + 1 : end + 600].partition(b"\n")[0] if b"name" in line else b""
        yield number, line, after.decode("utf-8", "replace")


def _read(line: str, after: str) -> Iterator[tuple[str, str]]:
    text = re.sub(r"\x1b\[[0-9;]*m", "", line).strip()
    if _RECORD.search(text):
        return
    text = _unlabelled(text)
    if text.startswith(("#", "//", "%", "*")) and not text.startswith("#SBATCH"):
        return
    text = re.sub(r"\s#\s.*$", "", text)
    for name, value in _found(text, after):
        plain = _plain(value)
        if plain is not None:
            yield name, plain


def _unlabelled(text: str) -> str:
    for before in (_LABEL, _PROMPT):
        found = before.match(text)
        text = text[found.end() :] if found else text
    return text


def _found(text: str, after: str) -> Iterable[tuple[str, str]]:
    """The first way of writing that fits the line."""
    if spaced := _SPACED.match(text):
        return [(spaced[1], spaced[2])]
    if named := _YAML_NAME.match(text):
        value = _YAML_VALUE.match(named[2]) or _YAML_VALUE.match(after)
        return [(named[1], value[1])] if value else []
    if whole := _YAML.match(text):
        return [(whole[1], whole[2])]
    python = [*_PYTHON.findall(text), *_PYTHON_CALL.findall(text), *_PYTHON_DICT.findall(text)]
    if python:
        return python
    return dict.fromkeys([*_statement(text), *_flags(text)])  # declare -x looks like a flag, too


def _flags(text: str) -> Iterator[tuple[str, str]]:
    for name, other, value in _FLAG.findall(text):
        yield name or other, value
    for items in _EXPORT_LIST.findall(text):
        for item in items.strip("\"'").split(","):
            if assigned := re.fullmatch(rf"{_NAME}=(.+)", item):
                yield assigned[1], assigned[2]


def _statement(text: str) -> Iterator[tuple[str, str]]:
    """`export A=1 B=2`, `A=1` on a line of its own, `A=1 B=2 command`."""
    command = _SETS.match(text)
    place = command.end() if command else 0
    found = []
    while assigned := _ANY.match(text, place):
        found.append((assigned[1], assigned[2]))
        place = assigned.end()
        if again := _SETS.match(text, place):
            place = again.end()
    rest = text[place:].strip()
    if not rest or rest == "\\" or command or _COMMAND.match(rest):
        yield from ((name, value) for name, value in found if re.fullmatch(_NAME, name))


def _plain(value: str) -> str | None:
    """The value without quotes; None where a shell would have to work it out, or where there is none."""
    text = value.strip().rstrip("\\").strip()
    if text[:1] in "\"'" and text[-1:] == text[:1]:
        text = text[1:-1]
    text = text.removeprefix("str(").rstrip(")").strip()
    return None if not text or any(mark in text for mark in "$`{}<>") else text
