"""Cuts long lines: what of them is looked at around a word, and up to where a block that ends inside of one is read."""

from __future__ import annotations

from slurmdoctor.input.sources import Block

LONG_LINE = 16 * 1024
"""In a line longer than this only the text around the literal is looked at."""
_AROUND = 4 * 1024
"""Bytes before and behind the literal, then."""


def seen_whole(block: Block) -> int:
    """What stands too near to an open end is seen whole in the next block, which begins a stretch before it."""
    return len(block.data) - LONG_LINE if block.open_end else len(block.data) + 1


def piece(block: Block, at: int) -> tuple[int, int, bool]:
    """(start, end, whole) of the line that holds this byte, or of its piece between carriage returns.

    In a long line it is the surroundings of the byte, and `whole` is false.
    """
    data = block.data
    # what is farther away is farther than a line is looked at
    low, high = max(0, at - LONG_LINE - 1), min(len(data), at + LONG_LINE + 1)
    start = max(low, data.rfind(b"\n", low, at) + 1)
    start = max(start, data.rfind(b"\r", start, at) + 1)
    end = data.find(b"\n", at, high)
    cut = end < 0
    end = high if cut else end
    back = data.find(b"\r", at, end)
    if back >= 0:
        cut, end = False, back
    cut = cut and block.open_end
    if end - start > LONG_LINE or cut or (start == 0 and block.open_start):
        # a file cut to nothing while it was written to begins with a hole of NUL bytes
        start = max(start, data.rfind(b"\0", start, at) + 1)
        if end - start > LONG_LINE or cut or (start == 0 and block.open_start):
            return max(start, at - _AROUND), min(end, at + _AROUND), False
    return start, end, True
