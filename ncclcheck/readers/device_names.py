"""Finds the names of GPUs: in the device list of nccl-tests and in the lines of `nvidia-smi -L`.

One pattern for each of the two lines, not a grammar file: both are single sentences of a fixed word order with one free
text at the end, which gives a grammar nothing to say, and building one takes a hundred times longer than the reading.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceName:
    """One line that names a GPU. What the line does not say is None."""

    line: int
    host: str | None
    pid: int | None
    rank: int | None
    device: int | None
    bus_id: str | None  # as printed: 0x1b before nccl-tests 2.14, 0000:1b:00 since
    name: str


# What the name of a GPU begins with: a maker or a family, or the model alone.
PRODUCT = r"(?:NVIDIA|Tesla|GeForce|Quadro|TITAN|GRID|[ABHLTV][0-9]{1,4})"

# Repetitions are bounded: logs are written by strangers.
_TEST_DEVICE = re.compile(
    r"\bRank[ \t]{1,16}(?P<rank>\d{1,9})[ \t]{1,16}(?:Group[ \t]{1,16}\d{1,9}[ \t]{1,16})?"
    r"Pid[ \t]{1,16}(?P<pid>\d{1,9})[ \t]{1,16}on[ \t]{1,300}(?P<host>\S{1,255})[ \t]{1,16}"
    r"device[ \t]{1,16}(?P<device>\d{1,9})[ \t]{1,16}"
    r"\[(?P<bus_id>0x[0-9a-fA-F]{1,16}|[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-9a-fA-F])?)\]"
    r"[ \t]{1,16}(?P<name>[^\s|\x1b][^|\x1b\r\n]{0,119})",
    re.ASCII,
)
_LISTED = re.compile(r"\bGPU (?P<device>\d{1,4}): (?P<name>[^\s(][^()\r\n]{0,119}?) \(UUID: GPU-", re.ASCII)
# Drivers before 440 print no UUID. `GPU 3: ` also begins messages: a name is a maker's or a model's and ends the line.
_LISTED_OLD = re.compile(
    rf"\bGPU (?P<device>\d{{1,4}}): (?P<name>{PRODUCT}(?:[ -][A-Z0-9][\w.+-]{{0,30}}){{0,6}})\s*$",
    re.ASCII,
)


def find_device_names(lines: Iterable[tuple[int, str]]) -> list[DeviceName]:
    """Every line that names a GPU, in the order of the lines; a device line without a name is left out."""
    found = (_device_name(number, text) for number, text in lines if "device" in text or "GPU " in text)
    return [name for name in found if name is not None]


def _device_name(number: int, text: str) -> DeviceName | None:
    tested = _TEST_DEVICE.search(text)
    if tested:
        return DeviceName(
            line=number,
            host=tested["host"],
            pid=int(tested["pid"]),
            rank=int(tested["rank"]),
            device=int(tested["device"]),
            bus_id=tested["bus_id"],
            name=tested["name"].rstrip(),
        )
    listed = _LISTED.search(text) or _LISTED_OLD.search(text)
    if listed is None:
        return None
    return DeviceName(number, None, None, None, int(listed["device"]), None, listed["name"].rstrip())
