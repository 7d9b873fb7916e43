"""What the rows of nccl-tests mean: the collective, the ranks, and which rows are to be believed.

busbw is algbw times a factor that depends on the collective and on the number of ranks alone (`facts/busbw.py`). So the
two columns tell the ranks where the devices are not listed, and a row whose columns fit no number of ranks was not
printed by the test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import ceil, floor, inf, isfinite
from typing import Any, NamedTuple

from ncclcheck.facts.busbw import SHARED, busbw_factor
from ncclcheck.readers.nccl_tests import Half, PerfRow, PerfTable

# Names of the programs, as the estimate calls their collectives.
COLLECTIVES = {
    "all_reduce": "all_reduce", "all_gather": "all_gather", "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all", "alltoallv": "all_to_allv", "broadcast": "broadcast", "reduce": "reduce",
    "sendrecv": "sendrecv", "gather": "gather", "scatter": "scatter", "hypercube": "hypercube",
}  # fmt: skip
_OWN_PART = SHARED - {"all_to_allv"}
_BYTES = {
    "int8": 1, "uint8": 1, "char": 1, "half": 2, "bfloat16": 2, "int32": 4, "uint32": 4, "int": 4, "float": 4,
    "int64": 8, "uint64": 8, "double": 8,
}  # fmt: skip
# Until 2.12 the last column is the largest relative error; sums of many ranks reach 1e-6 in float, 1e-3 in half.
_LARGEST_ERROR = {"half": 1e-2, "bfloat16": 1e-1}
_LARGEST_ERROR_ELSE = 1e-5
_MOST_RANKS = 1 << 20
# A ratio that asks for more ranks than this is rather that of another collective.
_LIKELY_RANKS = 1 << 10
_LARGEST = 1 << 62
# Above this algbw (GB/s) or time (us) there is no machine.
_FASTEST = 1e6


class Numbers(NamedTuple):
    """The numbers of a half and how far each may be off by rounding."""

    time: float
    algbw: float
    busbw: float
    wrong: float | None
    algbw_off: float
    busbw_off: float

    def fits(self, factor: float) -> bool:
        """Can busbw be algbw times this, by the digits that are printed?"""
        return abs(self.busbw - factor * self.algbw) <= self.busbw_off + factor * self.algbw_off


Usable = tuple[PerfRow, Numbers]


def measurement_rows(source: int, tables: Iterable[PerfTable], first: int = 0) -> Iterator[dict[str, Any]]:
    """Rows of the fact table, one per printed row of an input. first: number of its first table."""
    for number, table in enumerate(tables, first):
        judged = [(row, *_judged(row)) for row in table.rows]
        usable = [(row, out or inside) for row, out, inside, refused in judged if not refused]
        rows = [(row, numbers) for row, numbers in usable if numbers is not None]
        world = _world(table)
        collectives, certain = _collective(table, rows, world)
        ranks = _ranks(collectives, rows, world)
        head = _head(table, ranks, " or ".join(collectives), certain)
        for row, out, inside, refused in judged:
            refused = refused or _impossible(collectives, [one for one in (out, inside) if one], ranks)
            yield {
                **head, "table": number, "source": source, "line": row.line, "size": _small(row.size),
                "count": _small(row.count), "type": row.type, "redop": row.redop, "root": row.root,
                **_columns("", None if refused else out), **_columns("in_", None if refused else inside),
                "refused": refused or None,
            }  # fmt: skip


def _head(table: PerfTable, ranks: int | None, collective: str, certain: bool) -> dict[str, Any]:
    settings = table.settings
    hosts = sorted({device.host for device in table.devices})
    models = sorted({device.model for device in table.devices if device.model})
    listed = _world(table)
    return {
        "collective": collective or None, "named": certain, "ranks": ranks,
        "nodes": len(hosts) if hosts and ranks is not None and ranks == listed else None,
        "hosts": hosts, "gpu": ", ".join(models) or None, "threads": settings.get("threads"),
        "gpus": settings.get("gpus"), "iters": settings.get("iters"), "warmup": settings.get("warmup"),
        "validation": settings.get("validation"), "release": table.release or None, "cpu_time": table.cpu_time,
        "concluded": table.concluded, "wrong_values": table.wrong_values,
    }  # fmt: skip


def _columns(prefix: str, numbers: Numbers | None) -> dict[str, float | None]:
    if numbers is None:
        return {}
    return {
        f"{prefix}us": numbers.time, f"{prefix}algbw": numbers.algbw, f"{prefix}busbw": numbers.busbw,
        f"{prefix}wrong": numbers.wrong,
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------------- one row


def _judged(row: PerfRow) -> tuple[Numbers | None, Numbers | None, str]:
    """The numbers of both halves, and why the row must not be used ("": it may be)."""
    if row.damage:
        return None, None, row.damage
    if row.size > _LARGEST or row.count > _LARGEST:
        return None, None, "a size that no memory holds"
    found: list[Numbers | None] = []
    for half in (row.out_of_place, row.in_place):
        if half is None:
            found.append(None)
            continue
        if any("X" in text for text in (half.time, half.algbw, half.busbw)):
            return None, None, "placeholders in place of numbers"
        numbers = _numbers(half, row.type)
        if numbers is None or not all(map(isfinite, numbers[:3])):
            return None, None, "not a number, or infinite"
        if min(numbers[:3]) < 0:
            return None, None, "a negative number"
        if max(numbers.algbw, numbers.busbw) > _FASTEST:
            return None, None, "faster than any machine"
        found.append(numbers)
    out, inside = found
    return out, inside, "" if found != [None, None] else "no numbers"


def _numbers(half: Half, kind: str) -> Numbers | None:
    try:
        time, algbw, busbw = (float(text) for text in (half.time, half.algbw, half.busbw))
        wrong = None if half.wrong is None else float(half.wrong)
    except ValueError:
        return None
    if half.relative and wrong is not None:
        wrong = 0.0 if 0 <= wrong <= _LARGEST_ERROR.get(kind, _LARGEST_ERROR_ELSE) else wrong
    return Numbers(time, algbw, busbw, wrong, _rounding(half.algbw), _rounding(half.busbw))


def _rounding(text: str) -> float:
    """Half a unit of the last digit that is printed, and a little for those who round half numbers down."""
    mantissa, _, exponent = text.lower().partition("e")
    digits = len(mantissa.partition(".")[2])
    return float(0.51 * 10.0 ** (min(int(exponent or 0), 300) - digits))


# ------------------------------------------------------------------------------------------------------- one table


def _world(table: PerfTable) -> int | None:
    """Ranks of the communicator by the list of devices; the list may leave out the middle. NCCL_TESTS_SPLIT makes
    groups of the ranks: the largest counts."""
    if not table.devices:
        return None
    if any(device.group for device in table.devices):
        groups = [device.group for device in table.devices]
        return max(groups.count(group) for group in set(groups)) * table.ranks_each
    ranks = max(device.rank for device in table.devices) + table.ranks_each
    return ranks if ranks <= _MOST_RANKS else None


def _collective(table: PerfTable, rows: Sequence[Usable], world: int | None) -> tuple[tuple[str, ...], bool]:
    """The collectives that it may be (one, where that is certain; none where nothing tells), and whether the test
    itself names it."""
    named = COLLECTIVES.get(table.program.removesuffix("_perf").lower())
    if named or not rows:
        return ((named,) if named else ()), named is not None
    row, numbers = max(rows, key=lambda one: one[0].size)
    told = _by_cells(table, row)
    fitting = tuple(name for name in told if _fits_some(name, numbers, world)) or told
    mentioned = COLLECTIVES.get(table.mentioned.removesuffix("_perf").lower(), "")
    return ((mentioned,) if mentioned in fitting else fitting), False


def _by_cells(table: PerfTable, row: PerfRow) -> tuple[str, ...]:
    """Collectives that print such cells."""
    reduces = row.redop not in (None, "none")
    if row.root is not None and row.root >= 0:
        return ("reduce",) if reduces else ("broadcast", "gather", "scatter")
    if _parts(row) > 1:
        if reduces:
            return ("reduce_scatter",)
        if row.root is None:  # until 2.12: a table without the column, or an empty cell
            return ("all_to_all",) if table.redops_shown else ("all_gather",)
        return ("all_gather", "all_to_all")
    if not reduces:
        return ("sendrecv", "broadcast")
    out, inside = row.out_of_place, row.in_place
    if out and out.wrong is not None and inside:  # what sendrecv does in place is never checked
        return ("sendrecv",) if inside.wrong is None else ("all_reduce",)
    return ("all_reduce", "sendrecv")


def _parts(row: PerfRow) -> int:
    """Ranks whose parts make up the size, where count is the part of one; 0: not known."""
    return row.size // (row.count * _BYTES[row.type]) if row.count and row.type in _BYTES else 0


def _fits_some(collective: str, numbers: Numbers, world: int | None) -> bool:
    if world is not None and world > 1 and numbers.fits(busbw_factor(collective, world)):
        return True
    low, high = _span(collective, numbers)
    return low <= min(high, _LIKELY_RANKS)


def _ranks(collectives: Sequence[str], rows: Sequence[Usable], world: int | None) -> int | None:
    """Ranks that the largest row fits: those of the device list, else the only number that does."""
    factors = {busbw_factor(name, 4) for name in collectives}
    if not rows or len(factors) != 1:
        return world
    collective = collectives[0]
    row, numbers = max(rows, key=lambda one: one[0].size)
    told = [one for _, one in rows if one.busbw > 0 or one.algbw > 1]
    for ranks in (world, _parts(row) if collective in _OWN_PART else None):
        if ranks and (not told or numbers.fits(busbw_factor(collective, ranks))):
            return ranks
    spans = [(low, high) for low, high in (_span(collective, one) for one in told) if low <= high]
    low, high = max((low for low, _ in spans), default=1.0), min((high for _, high in spans), default=inf)
    return int(low) if low == high else None


def _span(collective: str, numbers: Numbers) -> tuple[float, float]:
    """Lowest and highest number of ranks that the two columns allow; nothing between: low > high."""
    least = max(numbers.algbw - numbers.algbw_off, 0.0)
    most_ratio = (numbers.busbw + numbers.busbw_off) / least if least else inf
    least_ratio = max(numbers.busbw - numbers.busbw_off, 0.0) / (numbers.algbw + numbers.algbw_off)
    top = 2.0 if collective == "all_reduce" else 1.0
    if top == 1.0 and collective not in SHARED:
        return (2.0, inf) if least_ratio <= 1.0 <= most_ratio else (inf, 2.0)
    if least_ratio > top or (numbers.algbw == 0 and numbers.busbw == 0):
        return (2.0, inf) if least_ratio <= top else (inf, 2.0)
    low = ceil(top / (top - least_ratio) - 1e-9) if least_ratio < top else _MOST_RANKS
    high = floor(top / (top - most_ratio) + 1e-9) if most_ratio < top else inf
    return float(max(low, 1)), float(high)


def _impossible(collectives: Sequence[str], halves: Sequence[Numbers], ranks: int | None) -> str:
    """Why the columns cannot be of this run, or ""."""
    names = collectives or ("all_reduce", "all_gather", "broadcast")
    for numbers in halves:
        if ranks is not None:
            fits = any(numbers.fits(busbw_factor(name, ranks)) for name in names)
        else:
            fits = any(low <= high for low, high in (_span(name, numbers) for name in names))
        if not fits:
            whose = f"{ranks} ranks" if ranks is not None else "any number of ranks"
            return f"busbw / algbw is not what {whose} give: edited or invented"
    return ""


def _small(number: int) -> int | None:
    return number if number <= _LARGEST else None
