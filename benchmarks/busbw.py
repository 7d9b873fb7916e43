"""The model against published nccl-tests plateaus, by class: as shipped, and with each source left out of the fit.

    python benchmarks/busbw.py POINTS.tsv [--write]

POINTS.tsv: the columns of `ncclcheck estimate --batch`, and class, busbw_GBps, source_url, model_fit. A row counts if
model_fit is yes and class is not "curve". "Left out": all constants are fitted from neutral values to the points of the
other sources (a repository, or one issue of it, is a source), and predict those of this one: the honest figure for a
cluster that nobody has measured. --write puts the table into benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median

from ncclcheck.estimate.fitting import Point, error_of, fit
from ncclcheck.estimate.hardware_table import hardware, hardware_with
from ncclcheck.estimate.limits import slot_gbps
from ncclcheck.estimate.model import Model, shipped_model
from ncclcheck.estimate.questions.batch import read_row

README = Path(__file__).with_name("README.md")
BEGIN, END = "<!-- busbw -->\n", "<!-- end of busbw -->\n"

# Where the fit starts from: round numbers, none of them fitted.
NEUTRAL = {
    **{f"nvlink.{name}.ring_share": 0.9 for name in ("volta", "ampere", "ga10x", "hopper", "blackwell")},
    "nvls.hopper.gbps": 300.0,
    "nvls.blackwell.gbps": 600.0,
    "nvls.nvl72.gbps": 600.0,
    "algorithms.tree_two_nodes": 0.9,
    "algorithms.tree_two_nodes_few": 0.9,
    "algorithms.tree_more_nodes": 0.9,
    "algorithms.tree_intra": 0.5,
    "algorithms.nvlstree": 0.9,
    "pcie.ring_switch": 0.7,
    "pcie.ring_cpu": 0.7,
    "pcie.ring_mixed": 0.5,
    "pcie.gpu_slot": 0.8,
    **{f"pcie.ring_shm.{gen}": 0.3 for gen in (3, 4, 5)},
    **{f"bounce.pair_share.{gen}": 0.3 for gen in (3, 4, 5)},
    "bounce.node_gbps": 60.0,
    "redirect.acs_rail_gbps": 15.0,
    "redirect.node_gbps": 100.0,
    "tcp.line_share": 0.9,
    "tcp.line_share_many": 0.9,
    "tcp.few_gpus_gbps": 2.5,
    "tcp.many_gpus_gbps": 2.5,
    "tcp.tuned_gbps": 5.0,
    **{f"networks.{name}.share": 0.9 for name in ("ib", "roce", "efa", "slingshot", "tcpx", "tcpxo")},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("points", type=Path)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    with args.points.open(newline="", encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines, delimiter="\t") if row["model_fit"] == "yes"]
    rows = [row for row in rows if row["class"] != "curve"]
    text = as_table(rows)
    print(text)
    if args.write:
        page = README.read_text(encoding="utf-8")
        before, _, rest = page.partition(BEGIN)
        README.write_text(before + BEGIN + text + END + rest.partition(END)[2], encoding="utf-8")


def as_table(rows: Sequence[dict[str, str]]) -> str:
    points = [point_of(row) for row in rows]
    sources = sorted({point.source for point in points})
    with ProcessPoolExecutor() as pool:
        left_out = dict(pool.map(_without, sources, [points] * len(sources)))
    shipped = shipped_model()
    classes = sorted({row["class"] for row in rows})
    lines = [
        f"{len(points)} plateaus of {len(sources)} sources.\n\n",
        "| class | points | line rate: median | as shipped: median / p80 / worst | within 25 % | in range |"
        " source left out: median / p80 / worst | within 25 % |\n",
        "| --- | --- | --- | --- | --- | --- | --- | --- |\n",
    ]
    for name in [*classes, "all"]:
        part = [point for row, point in zip(rows, points, strict=True) if name in ("all", row["class"])]
        inside = sum(_inside(point, shipped) for point in part) / len(part)
        by_rate = [abs(_line_rate_gbps(point) / point.busbw_gbps - 1) for point in part]
        fitted = [error_of(point, shipped) for point in part]
        honest = [left_out[point.source][point.name] for point in part]
        lines.append(
            f"| {name.replace('_', ' ')} | {len(part)} | {median(by_rate):.0%} | {_spread(fitted)} | {_near(fitted)} |"
            f" {inside:.0%} | {_spread(honest)} | {_near(honest)} |\n"
        )
    return "".join(lines)


def point_of(row: dict[str, str]) -> Point:
    understood = read_row(row, hardware())
    return Point(row["id"], _source(row["source_url"]), understood.config, understood.size, float(row["busbw_GBps"]))


def _without(source: str, points: Sequence[Point]) -> tuple[str, dict[str, float]]:
    """Errors of a source's points under constants that are fitted to the others."""
    model = Model(hardware_with(fit([point for point in points if point.source != source], NEUTRAL)))
    return source, {point.name: error_of(point, model) for point in points if point.source == source}


def _source(url: str) -> str:
    """A repository, or one of its issues."""
    found = re.match(r"https?://github\.com/[^/]+/[^/]+(?:/(?:issues|pull|discussions)/\d+)?", url)
    return found[0] if found else url


def _inside(point: Point, model: Model) -> bool:
    low, _, high = model.at(point.config, point.size).busbw
    return low <= point.busbw_gbps <= high


def _line_rate_gbps(point: Point) -> float:
    """What the data sheets of the slowest part say: the estimate of those who have no model."""
    config, table = point.config, hardware()
    gpu = table.gpus[config.gpu]
    if config.nodes > 1:
        return config.nics * config.nic_gbit / 8
    if config.intra == "nvlink" and gpu.nvlink is not None:
        links = gpu.nvlinks if config.nvlinks is None else config.nvlinks
        return links * {"ga10x": 14.0, "blackwell": 50.0}.get(gpu.nvlink.generation, 25.0)
    return slot_gbps(config, table)[1]


def _spread(errors: Sequence[float]) -> str:
    ordered = sorted(errors)
    p80 = ordered[min(len(ordered) - 1, int(0.8 * len(ordered)))]
    return f"{median(ordered):.1%} / {p80:.0%} / {ordered[-1]:.0%}"


def _near(errors: Sequence[float]) -> str:
    return f"{sum(error <= 0.25 for error in errors) / len(errors):.0%}"


if __name__ == "__main__":
    main()
