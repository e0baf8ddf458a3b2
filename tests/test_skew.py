"""Clocks that differ from node to node: learnt from the steps that both report, said, and only then."""

import pytest

from cases import finding_of, values
from slurmdoctor import diagnose

pytestmark = pytest.mark.usefixtures("golden_verdicts")

FRAMES = 'Traceback (most recent call last):\n{0}: [rank{0}]:   File "/opt/demo/fit.py", line 9, in <module>\n{0}: [rank{0}]:     main()'


def stamp(seconds: float) -> str:
    minutes, rest = divmod(round(seconds * 1000), 60_000)
    return f"2026-04-02 09:{minutes:02d}:{rest // 1000:02d},{rest % 1000:03d}"


def job(ahead: float, slower: float = 0.0) -> str:
    """Ranks 0 and 1 on two nodes; rank 1's clock is `ahead`. Rank 1 fails first, rank 0 twelve seconds after it."""
    lines = [f"{r}: {stamp(0)} INFO starting on cn{r + 1:02d}: rank {r} of 2" for r in (0, 1)]
    for step in range(1, 9):
        lines.append(f"0: {stamp(step * 5)} INFO step {step}/100 loss 2.0")
        lines.append(f"1: {stamp(step * 5 + ahead + slower * step)} INFO step {step}/100 loss 2.0")
    for rank, at, error in ((0, 57.0, "KeyError: 'mask'"), (1, 45.0 + ahead, "ZeroDivisionError: division by zero")):
        lines.append(f"{rank}: {stamp(at)} ERROR stopped")
        lines.append(f"{rank}: [rank{rank}]: {FRAMES.format(rank)}")
        lines.append(f"{rank}: [rank{rank}]: {error}")
    return "\n".join(lines) + "\n"


def test_the_first_failure_is_first_by_aligned_clocks() -> None:
    found = diagnose(job(ahead=300.0))
    assert found.first_failure.rank == 1
    assert values(finding_of(job(ahead=300.0)).how, "first-unexplained")["aligned"] is True
