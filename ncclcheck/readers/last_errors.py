"""What PyTorch repeats of NCCL: below the line `Last error:` stands the text of NCCL's last WARN.

    [rank5]: ncclUnhandledCudaError: Call to CUDA function failed.
    [rank5]: Last error:
    [rank5]: Cuda failure 2 'out of memory'

Where NCCL_DEBUG was not set this is all that NCCL said. The text becomes a WARN without a prefix, unless the WARN
itself stands near, or the text is none of NCCL's: writers meet here as everywhere, so wordings that no event has count
only where the line above is PyTorch's as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

LAST_ERROR = "Last error:"
_LAST_ERROR = re.compile(LAST_ERROR.encode() + rb"[ \t]*\r?\n")
# The line above: `ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.`
_ABOVE = re.compile(rb"nccl[A-Z][A-Za-z]{2,40}: [^\n]{0,300}\n$")
_LEVEL = b"NCCL WARN "
# Looked at in a block: more is an input made to cost time.
_MOST = 4_000
_LONGEST_TEXT = 1_024


def with_last_errors(block: bytes, event_of: Callable[[str], str | None], around: Collection[str]) -> bytes:
    """The block, with the level word before such texts. around: events that are not NCCL's."""
    known: dict[bytes, bool | None] = {}
    parts = []
    done = 0
    for number, found in enumerate(_LAST_ERROR.finditer(block)):
        if number == _MOST:
            break
        label = block[block.rfind(b"\n", 0, found.start()) + 1 : found.start()]
        start = found.end() + (len(label) if block.startswith(label, found.end()) else 0)
        end = block.find(b"\n", start, start + _LONGEST_TEXT)
        text = block[start : end if end >= 0 else start + _LONGEST_TEXT].rstrip()
        if text not in known:
            event = event_of(text.decode(errors="replace"))
            repeated = not text or _LEVEL + text in block or event in around
            known[text] = None if repeated else event is not None
        whole = bool(_ABOVE.search(block, max(0, found.start() - _LONGEST_TEXT), found.start() - len(label)))
        if known[text] or (known[text] is False and whole and text[:1].isalpha()):
            parts += [block[done:start], _LEVEL]
            done = start
    return b"".join([*parts, block[done:]]) if parts else block
