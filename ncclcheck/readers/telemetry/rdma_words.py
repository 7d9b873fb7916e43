"""What tools print of RDMA ports, in the words of `telemetry_keys`."""

from __future__ import annotations

_STATES = {"ACTIVE": "active", "DOWN": "down", "INIT": "init", "INITIALIZING": "init", "ARMED": "armed"}
_PHYSICAL = {"LINKUP": "link-up", "POLLING": "polling", "DISABLED": "disabled", "DISABLE": "disabled"}
# Gb/s of one lane as sold, by the word for its speed.
LANE_GBIT = {"SDR": 2.5, "DDR": 5.0, "QDR": 10.0, "FDR10": 10.0, "FDR": 14.0, "EDR": 25.0, "HDR": 50.0, "NDR": 100.0,
             "XDR": 200.0}  # fmt: skip


def state(printed: str) -> str:
    """`4: ACTIVE`, `PORT_ACTIVE (4)`, `Active` -> "active"; an unknown word stays what it is."""
    word = printed.partition(": ")[2] or printed.partition(" (")[0]
    return _STATES.get(word.upper().removeprefix("PORT_"), word.lower())


def physical(printed: str) -> str:
    """`5: LinkUp`, `LINK_UP`, `LinkUp` -> "link-up"."""
    word = printed.partition(": ")[2] or printed.partition(" (")[0]
    return _PHYSICAL.get(word.upper().replace("_", ""), word.lower())


def layer(printed: str) -> str:
    """ "infiniband", "ethernet", or "" for `Unspecified` (EFA)."""
    word = printed.lower()
    return word if word in ("infiniband", "ethernet") else ""


def lanes(printed: str) -> str:
    """ "4" of `(4X NDR)`, "" where it is not said."""
    return printed.partition("X")[0].strip(" (") if "X" in printed else ""


def guid(printed: str) -> str:
    """Digits of a GUID; "" where it is zero: drivers of EFA and some VMs have none."""
    digits = printed.lower().removeprefix("0x").replace(":", "")
    return digits if digits.strip("0") else ""


def gid(printed: str) -> str:
    """A GID in lower case; of a link-local one, whose lower half is made of the adapter's address, "fe80::"."""
    address = printed.lower()
    return "fe80::" if address.startswith("fe80:") else address
