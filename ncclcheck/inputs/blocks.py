"""Cutting a stream of bytes into blocks that end where a line ends.

Only LF ends a line here: CRLF and a lone CR stay in the block for the reader, so that a line number is the one
`sed -n Np` and every editor on Linux show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ncclcheck.inputs.errors import UnreadableInputError

Block = tuple[bytes, int]
"""Whole lines, and the 1-based number of the first of them."""

BLOCK_BYTES = 8 << 20
KEPT_OF_LONG_LINE = 1 << 20


def cut_blocks(
    chunks: Iterator[bytes],
    on_long_line: Callable[[int], None],
    block_bytes: int = BLOCK_BYTES,
    kept: int = KEPT_OF_LONG_LINE,
) -> Iterator[Block]:
    """Blocks of at most `block_bytes`, each ending with LF (the last one as the input ends).

    A line that fits into a block is always whole. A longer one keeps its first `kept` bytes and stays one line, so
    that the numbers of the lines after it hold; `on_long_line` hears its number. That bounds memory whatever comes.
    When `chunks` fails, what came before is given out first; then the failure is raised.
    """
    line = 1
    parts: list[bytes] = []  # at most one block together, not yet given out
    size = 0
    skipping = False  # inside the dropped rest of a long line
    failure: OSError | UnreadableInputError | None = None

    while failure is None:
        try:
            chunk = next(chunks, None)
        except (OSError, UnreadableInputError) as error:
            failure = error
            break
        if chunk is None:
            break
        while chunk:
            if skipping:
                end = chunk.find(b"\n")
                if end < 0:
                    break
                chunk = chunk[end + 1 :]
                skipping = False
                continue
            room = block_bytes - size
            if len(chunk) < room:
                parts.append(chunk)
                size += len(chunk)
                break
            end = chunk.rfind(b"\n", 0, room)
            if end >= 0:
                block = b"".join((*parts, memoryview(chunk)[: end + 1]))
                chunk = chunk[end + 1 :]
            else:
                full = b"".join((*parts, memoryview(chunk)[:room]))
                chunk = chunk[room:]
                end = full.rfind(b"\n")
                if end >= 0:
                    block, chunk = full[: end + 1], full[end + 1 :] + chunk
                else:
                    block = full[:kept] + b"\n"
                    on_long_line(line)
                    skipping = True
            yield block, line
            line += block.count(b"\n")
            parts, size = [], 0

    if parts:
        yield b"".join(parts), line
    if failure is not None:
        raise failure
