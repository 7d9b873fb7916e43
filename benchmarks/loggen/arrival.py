"""The order in which lines arrive in one file, and what else arrives between them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence


def interleave(rng: random.Random, streams: Iterable[list[str]]) -> Iterator[str]:
    """Lines of many processes as they arrive in one pipe: short bursts, each stream in its own order."""
    open_ = [(stream, 0) for stream in streams if stream]
    draw = rng.random
    while open_:
        at = int(draw() * len(open_))
        stream, position = open_[at]
        end = position + 1 + int(draw() * 5)
        yield from stream[position:end]
        if end < len(stream):
            open_[at] = (stream, end)
        else:
            open_[at] = open_[-1]
            open_.pop()


def with_training(rng: random.Random, log: Iterable[str], share: float, labels: Sequence[str]) -> Iterator[str]:
    """Training output between the lines, until it is `share` of all."""
    rate, due, count = share / (1 - share), 0.0, 0
    for line in log:
        yield line
        due += rate
        while due >= 1:
            due -= 1
            count += 1
            yield rng.choice(labels) + training_line(count)


def training_line(count: int) -> str:
    kind = count % 7
    clock = f"{count // 60 % 60:02d}:{count % 60:02d}"
    if kind == 3:
        return f"Epoch 1:  {count % 100:2d}%|{'█' * (count % 10):10s}| {count}/9000 [{clock}<12:31,  3.1it/s]"
    if kind == 5:
        return f"2026-04-11 09:{clock},{count % 1000:03d} [INFO] trainer.data: shard {count % 512} ready: 4096 samples"
    return (
        f" iteration {count:8d}/  500000 | consumed samples: {count * 1024:12d} | elapsed time per iteration (ms): "
        f"{2400 + count % 97:.1f} | learning rate: 1.500E-04 | lm loss: {9 - count % 800 / 100:.6E} |"
    )
