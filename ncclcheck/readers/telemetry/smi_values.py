"""Values as nvidia-smi prints them, in the words of the fact table; what is no value is None."""

from __future__ import annotations

import re
from typing import NamedTuple

from ncclcheck.readers.telemetry import bus_ids


class Read(NamedTuple):
    text: str
    number: float | None = None


# What stands in the place of a value: with or without brackets, in any place.
_NOTHING = re.compile(
    r"\[?\s*(?:N/?A|Not Supported|Not Available|None Available|Unknown Error|Unknown|Insufficient Permissions"
    r"|Requested functionality has been deprecated|GPU requires reset|GPU is lost|No Permission|Not Found"
    r"|Function Not Found|-)?\s*\]?$",
    re.I,
)
_LOST = re.compile(r"\[?\s*GPU is lost", re.I)
_RESET = re.compile(r"\[?\s*GPU requires reset", re.I)
_NUMBER = re.compile(r"P?([0-9]{1,12}(?:\.[0-9]{1,6})?)(?: ?(?:x|%|[KMGT]i?B|MHz|us))?$")
# with all its parts: `12:30` is a time
_BUS = re.compile(r"[0-9a-f]+:[0-9a-f]+:[0-9a-f]+\.[0-7]$", re.I)
_UUID = re.compile(r"GPU-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$", re.I)
_CLUSTER = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$", re.I)
_FLAGS = {"active": "yes", "yes": "yes", "true": "yes", "not active": "no", "no": "no", "false": "no"}
_SWITCHES = {"enabled": "enabled", "disabled": "disabled", "on": "enabled", "off": "disabled"}
_LONGEST = 80


def is_lost(text: str) -> bool:
    """The tool says so in the place of any value."""
    return _LOST.match(text) is not None


def needs_reset(text: str) -> bool:
    return _RESET.match(text) is not None


def is_nothing(text: str) -> bool:
    return _NOTHING.match(text) is not None


def number(text: str) -> Read | None:
    """`16x`, `100 %`, `131072 MiB`, `P0`, `5`."""
    found = _NUMBER.match(text)
    return Read(found[1], float(found[1])) if found else None


def positive(text: str) -> Read | None:
    """Of a link: 0 is what cannot be read."""
    read = number(text)
    return read if read and read.number else None


def flag(text: str) -> Read | None:
    """`Active`, `Not Active`, `Yes`, `False`."""
    known = _FLAGS.get(text.lower())
    return Read(known) if known else None


def switch(text: str) -> Read | None:
    """`Enabled`, `Off`."""
    known = _SWITCHES.get(text.lower())
    return Read(known) if known else None


def slug(text: str) -> Read | None:
    """`Drain P2P` -> drain-p2p; `None` is a word here."""
    return Read("-".join(text.lower().split())[:_LONGEST]) if not is_nothing(text) else None


def phrase(text: str) -> Read | None:
    return Read(text[:_LONGEST]) if not is_nothing(text) else None


def model(text: str) -> Read | None:
    """A product's name; tables cut long ones, which are none."""
    return phrase(text) if not text.endswith("...") else None


def bus_id(text: str) -> Read | None:
    """`00000000:1B:00.0` -> 0000:1b:00.0; a domain that needs more digits keeps them."""
    name = bus_ids.bus_id(text) if _BUS.match(text) else ""
    return Read(name) if name else None


def uuid(text: str) -> Read | None:
    """Nothing but zeros, as in texts without identifiers, joins nothing."""
    found = _UUID.match(text)
    return Read(text) if found and found[1].strip("0-") else None


def cluster(text: str) -> Read | None:
    """Zeros: the NVSwitches of one machine."""
    return Read(text.lower()) if _CLUSTER.match(text) and text.strip("0-") else None


def fabric_status(text: str) -> Read | None:
    return Read(text.lower()[:_LONGEST]) if not is_nothing(text) else None
