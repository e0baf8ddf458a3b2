"""Whatever a log holds, what is read again of it is bounded, what matters is read first, and the report says what was not."""

from __future__ import annotations

import pytest

from hostile import word
from slurmdoctor import diagnose

KINDS = {
    "classes": "{W}Error: {w}",
    "messages": "RuntimeError: {w} {w}",
    "stamped": "2026-11-20 12:01:03,114 ERROR {w}: {w}Error: 3",
    "of-ranks": "[rank{n}]: {W}Error: {w}",
}
"""Lines that are all kinds of their own."""


def flood(line: str, count: int = 4000) -> list[str]:
    return [line.format(n=n, w=word(n), W=word(n).capitalize()) for n in range(count)]


@pytest.mark.parametrize("line", KINDS.values(), ids=KINDS)
def test_one_known_failure_among_thousands_of_kinds_is_the_root(line: str) -> None:
    lines = flood(line)
    lines.insert(2000, "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    found = diagnose("\n".join(lines) + "\n")
    assert found.cause is not None
    assert found.first_failure is not None
    assert (found.cause.id, found.first_failure.rank, found.first_failure.line) == ("cuda-oom", 3, 2001)


@pytest.mark.parametrize("line", KINDS.values(), ids=KINDS)
def test_kinds_that_were_not_told_apart_are_told(line: str) -> None:
    notes = diagnose("\n".join(flood(line)) + "\n").coverage.notes
    assert any("of others were told apart by their class" in note for note in notes)
