"""Write a synthetic NCCL log: `python benchmarks/generate.py --machines 2 --release 2.26.2 -o run.log`.

The same options give the same bytes. `Shape` says what each option means; from Python:

    from generate import Shape, write
    write(Shape(machines=4, fabric="roce", lines=100_000), "run.log")
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TextIO

from loggen import FABRICS, FAULTS, GPU_KINDS, LAUNCHERS, RELEASES, Shape, ShapeError, lines, machines_for, resolve

__all__ = ["Shape", "ShapeError", "lines", "machines_for", "main", "resolve", "write"]


def write(shape: Shape, path: str | Path) -> int:
    """Write the log of `shape` to a file, streaming. Returns the number of lines."""
    with Path(path).open("w", encoding="utf-8", buffering=1 << 20) as file:
        return _stream(shape, file)


def _stream(shape: Shape, file: TextIO) -> int:
    count, batch = 0, []
    for line in lines(shape):
        batch.append(line)
        if len(batch) == 4096:
            file.write("\n".join(batch) + "\n")
            count += len(batch)
            batch.clear()
    if batch:
        file.write("\n".join(batch) + "\n")
    return count + len(batch)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="generate.py", description="Write a synthetic NCCL log.")
    parser.add_argument("-o", "--output", default="-", help="file to write (default: standard output)")
    parser.add_argument("--lines", type=int, help="wanted number of lines; default: the world communicator alone")
    parser.add_argument("--machines", type=int, help="default: what suits --lines, else 2")
    parser.add_argument("--gpus", type=int, default=8, help="GPUs per machine")
    parser.add_argument("--nics", type=int, help="NICs per machine")
    parser.add_argument("--channels", type=int, help="channels of the world communicator")
    releases = f"any of 2.7.3 to 2.30.7, for example {', '.join(RELEASES)}"
    parser.add_argument("--release", default="2.26.2", help=releases)
    parser.add_argument("--fabric", choices=FABRICS, default="ib")
    parser.add_argument("--gpu", choices=GPU_KINDS, default="nvlink", help="how the GPUs of a machine are joined")
    parser.add_argument("--nvls", action=argparse.BooleanOptionalAction, help="NVLink multicast (Hopper and newer)")
    parser.add_argument("--vm", action="store_true", help="a virtual machine with a topology file")
    parser.add_argument("--alternate", action="store_true", help="rings that swap NICs on odd machines")
    parser.add_argument("--verbose", action="store_true", help="with the lines of the subsystems NET and GRAPH")
    parser.add_argument("--launcher", choices=LAUNCHERS, default="none", help="labels in front of the lines")
    parser.add_argument("--other", type=float, default=0.0, help="share of training output, 0 to 0.9")
    parser.add_argument("--fault", choices=FAULTS)
    parser.add_argument("--fault-machine", type=int, help="default: the last one")
    parser.add_argument("--seed", type=int, default=1)
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = vars(_parser().parse_args(arguments))
    output = options.pop("output")
    if options["machines"] is None:
        options["machines"] = machines_for(options["lines"]) if options["lines"] else 2
    try:
        shape = resolve(Shape(**options))
    except ShapeError as error:
        print(f"generate.py: {error}", file=sys.stderr)
        return 2
    if output == "-":
        sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
        try:
            _stream(shape, sys.stdout)
        except BrokenPipeError:
            sys.stderr.close()
            return 0
    else:
        print(f"{output}: {write(shape, output)} lines", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
