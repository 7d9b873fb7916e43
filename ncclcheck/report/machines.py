"""What tables and tools tell of machines: which NIC is near which GPU, and where outputs contradict each other."""

from __future__ import annotations

from collections.abc import Sequence

from ncclcheck.facts.nearness import GpuSeat, Nearness
from ncclcheck.facts.parts import Contradiction
from ncclcheck.report.numbers import counted
from ncclcheck.report.page import Page

_TABLES_SHOWN = 2
_CONTRADICTIONS_SHOWN = 3


def write_machines(
    page: Page, tables: Sequence[Nearness], contradictions: Sequence[Contradiction], verbose: bool
) -> None:
    shown = tables if verbose else tables[:_TABLES_SHOWN]
    for one in shown:
        page.labelled("paths", _table(one), indent=0)
    if len(shown) < len(tables):
        page.line(f"{counted(len(tables) - len(shown), 'more table')} of paths (-v shows them)", indent=7)
    said = contradictions if verbose else contradictions[:_CONTRADICTIONS_SHOWN]
    for each in said:
        page.labelled("differ", (_contradiction(each), "yellow"), indent=0)
    if len(said) < len(contradictions):
        page.line(f"{len(contradictions) - len(said)} more that differ (-v shows them)", indent=7)


def _table(one: Nearness) -> str:
    """`run.txt:3: 8 GPUs, 18 NVLinks each; one NIC per GPU: 0 mlx5_0, 1 mlx5_1 (PXB); near no GPU: mlx5_8`."""
    links = [seat.links for seat in one.seats]
    parts = [counted(len(one.seats), "GPU")]
    if None not in links and any(links):
        parts[0] += f", {links[0]} NVLinks each" if len(set(links)) == 1 else f", NVLinks {'/'.join(map(str, links))}"
    told = [seat for seat in one.seats if seat.path]
    if any(seat.nics for seat in told):
        seats = ", ".join(_seat(seat) for seat in told)
        parts.append(f"{one.sharing or 'nearest NICs'}: {seats}")
    elif told:
        parts.append(f"every NIC is equally far ({told[0].path}): the table does not tell which is near")
    if 0 < len(told) < len(one.seats):
        parts.append(f"the rows of {counted(len(one.seats) - len(told), 'GPU')} are not whole")
    if one.others:
        parts.append(f"near no GPU: {', '.join(one.others)}")
    return f"{one.evidence.path}:{one.evidence.line}: {'; '.join(parts)}"


def _seat(seat: GpuSeat) -> str:
    return f"{seat.gpu.removeprefix('GPU')} {'+'.join(seat.nics)} ({seat.path})"


def _contradiction(one: Contradiction) -> str:
    """`GPU 0000:1b:00.0 of n1, pcie_lanes_max: 16 (nvidia-smi-q, a.txt:12) or 8 (nvidia-smi-csv, b.txt:3)`."""
    said = [f"{value.text} ({value.kind}, {value.evidence.path}:{value.evidence.line})" for value in one.values]
    of = f" of {one.place.machine}" if one.place.machine else ""
    return f"{one.thing} {one.name}{of}, {one.key}: {' or '.join(said)}"
