"""What names the machine of an output in a text: labels before its lines, headings and prompts above it."""

from __future__ import annotations

import re
from typing import NamedTuple

from ncclcheck.readers.labels import is_word, parse_label

_HOST = r"[A-Za-z0-9][A-Za-z0-9._-]*"
# What a launcher may put before each line; a tool's own lines that look like it are those of an open output.
# `[12345.678901] ` is the kernel's.
LABEL = re.compile(
    r"\[(?!\d+\.\d+\])[^\]\s]{1,80}\](?:<std[a-z]+>)?(?: (?:out|err):|:)? ?|[\w.-]{1,80}(?::(?!\d)| *\|) ?", re.ASCII
)
# `[node1] `, Fabric's `[root@node1:22] out: `, `node1| `; before ` | ` Docker Compose names a container.
_NAMING_LABEL = re.compile(rf"\[(?:[\w.-]+@)?({_HOST})(?::\d+)?\](?: (?:out|err):)? ?|({_HOST})\| ?")
_GPU_LABEL = re.compile(r"((?:gpu|cuda|device)[\w.-]*\d[\w.-]*): ?", re.I)

# Beside machines such places name versions and dates, devices, tools and other software, steps of a script.
_NO_MACHINE = re.compile(
    r"(?i)(?!\d+\.\d+\.\d+\.\d+$)v?[\d.-]+(?:T\d.*)?"
    r"|(?:mlx\d_(?:bond_)?|bnxt_re|irdma|efa_|rdmap|rocep|ibp?|hfi\d_|cxi|eth|en[opsx]|bond|nvidia|nvme|nvlink|nvswitch"
    r"|numa)\d\w*"
    r"|(?:nvidia-(?:smi|driver|peermem|fabric)|nccl-tests?|ibv_|ib_|dcgm|lspci|dmesg|journalctl|ulimit|lscpu|numactl|lsmod"
    r"|ethtool|topo)[\w.-]*"
    r"|(?:python|(?:py)?torch|driver|ubuntu|gcc|glibc|libnccl|nccl|rocm|rccl|m?ofed|kernel|linux|cudnn|openmpi|ucx)"
    r"[_-]?\d[\w.-]*"
    r"|(?:step|part|phase|round|run|test|job|slurm|section|bf|fp|tf|int|sha|md|default)[._-]?\d+"
    r"|gpu\d|[abhv][1-3]00|gb[23]00|l40s?|mi\d{3}x?"
)
_GPU_MACHINE = re.compile(r"(?i)gpu[._-]?\d[\w.-]*")
_EXTENSION = re.compile(r"\.(?:txt|log|out|err|md|json|xml|csv|prom|html?|sh|py|gz|conf|yaml|yml)$")

# `user@node1:~$ ibstat`, `(venv) [root@node1 ~]# ibstat`, also behind a time; banners name addresses of people.
_PROMPT = re.compile(r"[>\s\d:.TZ/-]{0,40}(?:\([\w.-]+\) ?)?\[?[\w.-]+@([\w.-]+)[: ][^#$]{0,80}[#$] ")
_RULE = re.compile(r"-{8,}")
# Between two rules, dshbak and clush: `node1`, `node[1-4,7],login1 (6)`
_RULED = re.compile(r"([A-Za-z0-9][\w.,-]*(?:\[[\d,-]+\][\w.,-]*)*)(?: \(\d+\))?", re.ASCII)
_FOLDED = re.compile(r"\[[\d,-]+\]")
# `=== node1 ===`, `##### host: node1 #####`
_FRAMED = re.compile(r"([=#*-])\1+ (?:(?:host|hostname|node):? )?(\S+) \1{2,}", re.I)
# head and tail of several files
_FILE = re.compile(r"==> ((?!/)\S+) <==")
# Ansible, pssh
_TOOLS_OWN = re.compile(
    rf"(?i)({_HOST}) \| (?:changed|success|failed!?|unreachable!?)(?: \| rc=-?\d+ >>| => \{{)"
    rf"|\[\d+\] [\d:]{{8}} \[(?:SUCCESS|FAILURE)\] ({_HOST})(?: .*)?"
)
# For Polars: may the line be a prompt, or the end of a heading?
SIGNS = (
    r"@[0-9A-Za-z_.-]+[: ]|^-{8,}\s*$|^[=#*-]{2,}>? [^ ]+ (?:[^ ]+ )?<?[=#*-]{2,}\s*$"
    r"|^[0-9A-Za-z._-]+ \| [A-Za-z]+!? (?:\| rc=|=> )|^\[[0-9]+\] [0-9:]{8} \[(?:SUCCESS|FAILURE)\] "
)


class Sign(NamedTuple):
    """host: of the outputs below; None where it is several machines or a file. ends: what was open above ends here."""

    host: str | None
    ends: bool


def host_of_label(label: str) -> str | None:
    """Before a line of a log `gpu-7:` may be a device; before an output of a tool it is a machine."""
    host = parse_label(label).host
    if host:
        return host
    gpu = _GPU_LABEL.fullmatch(label)
    if gpu:
        return gpu[1]
    named = _NAMING_LABEL.fullmatch(label)
    name = (named[1] or named[2]) if named else ""
    return name if _is_machine(name) else None


def find_sign(text: str, above: list[str]) -> Sign | None:
    """What a line, and the two above it, say of the machine of the outputs below."""
    text = text.rstrip()
    if _RULE.fullmatch(text):
        return _ruled(*above) if len(above) == 2 else None
    own = _TOOLS_OWN.fullmatch(text)
    if own:
        host = own[1] or own[2]
        return Sign(None if host == "localhost" else host, ends=True)
    file = _FILE.fullmatch(text)
    if file:
        name = file[1].rsplit("/", 1)[-1]
        return Sign(name if _may_head(name) and not _EXTENSION.search(name) else None, ends=True)
    framed = _FRAMED.fullmatch(text)
    if framed:
        return Sign(framed[2], ends=True) if _may_head(framed[2]) else None
    prompt = _PROMPT.match(text + " ")
    return Sign(prompt[1], ends=False) if prompt else None


def _ruled(rule: str, text: str) -> Sign | None:
    named = _RULED.fullmatch(text.rstrip())
    if named is None or not _RULE.fullmatch(rule.rstrip()):
        return None
    machines = _FOLDED.sub("1", named[1]).split(",")
    if not all(map(_may_head, machines)):
        return None
    return Sign(named[1] if machines == [named[1]] else None, ends=True)


def _may_head(name: str) -> bool:
    """In headings, words with a dash are mostly names of tools and of what they show: machines are numbered."""
    return re.fullmatch(_HOST, name) is not None and any(map(str.isdigit, name)) and _is_machine(name)


def _is_machine(name: str) -> bool:
    if _NO_MACHINE.fullmatch(name):
        return False
    return _GPU_MACHINE.fullmatch(name) is not None or not is_word(name)
