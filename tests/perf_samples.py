"""Tables as releases of nccl-tests print them, with invented machines and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BYTES = {"float": 4, "half": 2, "bfloat16": 2, "int8": 1, "double": 8}
# What redop and root are, per program, from 2.13 on.
CELLS = {
    "all_reduce": ("sum", "-1"), "all_gather": ("none", "-1"), "reduce_scatter": ("sum", "-1"),
    "alltoall": ("none", "-1"), "broadcast": ("none", "0"), "reduce": ("sum", "0"), "sendrecv": ("sum", "-1"),
    "gather": ("none", "0"),
}  # fmt: skip
PARTS = ("all_gather", "reduce_scatter", "alltoall")


@dataclass(frozen=True)
class Run:
    """One run: `points` are sizes in bytes with the busbw that they reach out of place and in place, in GB/s."""

    points: Sequence[tuple[int, float, float]]
    program: str = "all_reduce"
    release: str = "2.19"
    ranks: int = 8
    hosts: Sequence[str] = ("gx-07",)
    model: str = "NVIDIA H200"
    wrong: str = "0"
    type: str = "float"
    devices: bool = True
    cpu_time: bool = False
    iterations: bool = False
    stamps: bool = False

    @property
    def old(self) -> bool:
        return self.release < "2.13"

    @property
    def factor(self) -> float:
        n = self.ranks
        if self.program == "all_reduce":
            return 2 * (n - 1) / n
        return (n - 1) / n if self.program in (*PARTS, "gather") else 1.0

    def lines(self) -> list[str]:
        return [*self.head(), *self.column_lines(), *self.rows(), *self.end()]

    def head(self) -> list[str]:
        lines = []
        if self.release >= "2.18":
            lines.append(f"# nccl-tests version {self.release}.2 nccl-headers=22807 nccl-library=22807")
        if self.release >= "2.17":
            lines.append(f"# Collective test starting: {self.program}_perf")
        sizes = [size for size, *_ in self.points]
        settings = f"# nThread 1 nGpus 1 minBytes {min(sizes)} maxBytes {max(sizes)} step: 4(factor)"
        more = " validation: 1" if self.old else " agg iters: 1 validation: 1 graph: 0"
        lines += [f"{settings} warmup iters: 3 iters: 30{more} ", "#"]
        if self.devices:
            lines += ["# Using devices", *self.device_lines(), "#"]
        return lines

    def device_lines(self) -> list[str]:
        each = self.ranks // len(self.hosts)
        lines = []
        for rank in range(self.ranks):
            host, device = self.hosts[rank // each], rank % each
            group = "" if self.release < "2.14" else " Group  0"
            bus = f"0x{16 + device:x}" if self.release < "2.14" else f"0000:{16 + device:x}:00"
            lines.append(
                f"#  Rank {rank:2}{group} Pid {7100 + rank:6} on {host:>10} device {device:2} [{bus}] {self.model}"
            )
        return lines

    def column_lines(self) -> list[str]:
        time, wrong = "cputime" if self.cpu_time else "time", "error" if self.old else "#wrong"
        half = f"{time:>7}  {'algbw':>6}  {'busbw':>6}  {wrong:>6}"
        if self.iterations:
            half += "  " + "  ".join(f"{name:>7}" for name in ("i_min", "i_max", "i_p99", "i_cv%"))
        redop = "" if self.old and self.program == "all_gather" else f"  {'redop':>6}"
        root = "" if self.old else f"  {'root':>6}"
        stamp = f"  {'timestamp':>19}" if self.stamps else ""
        ids = f"{'size':>10}  {'count':>12}  {'type':>8}{redop}{root}"
        return [f"# {ids}  {half}  {half}{stamp}", f"# {'(B)':>10}  {'(elements)':>12}"]

    def rows(self) -> list[str]:
        return [self.row(*point) for point in self.points]

    def row(self, size: int, out: float, inside: float | None) -> str:
        redop, root = CELLS[self.program]
        count = size // BYTES[self.type] // (self.ranks if self.program in PARTS else 1)
        ids = f"{size:>12}  {count:>12}  {self.type:>8}"
        if self.old:
            ids += "" if self.program == "all_gather" else f"  {'' if self.program == 'alltoall' else redop:>6}"
        else:
            ids += f"  {redop:>6}  {root:>6}"
        halves = [self.half(size, out)] + ([] if inside is None else [self.half(size, inside)])
        return "  ".join([ids, *halves]) + ("  2026-03-04 05:06:07" if self.stamps else "")

    def half(self, size: int, busbw: float) -> str:
        algbw = busbw / self.factor if self.factor else size / 12.5e3
        micros = size / algbw / 1e3 if algbw else 9.87
        text = f"{number(micros, 7)}  {number(algbw, 6)}  {number(busbw, 6)}  {self.wrong:>6}"
        if self.iterations:
            text += "".join(f"  {number(value, 7)}" for value in (micros * 0.9, micros * 1.2, micros * 1.1, 3.4))
        return text

    def end(self) -> list[str]:
        average = sum(out for _, out, _ in self.points) / len(self.points)
        lines = ["# Out of bounds values : 0 OK", f"# Avg bus bandwidth    : {average:g} ", "#"]
        return lines if self.release < "2.17" else [*lines, f"# Collective test concluded: {self.program}_perf"]


def number(value: float, width: int) -> str:
    """As many decimals as fit."""
    for decimals in (2, 1, 0):
        text = f"{value:{width}.{decimals}f}"
        if len(text) <= width:
            return text
    return f"{value:{width}.1e}"
