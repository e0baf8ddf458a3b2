"""A problem as a person reads it: place, what is wrong, the line with a caret, the mend."""

from __future__ import annotations

from pathlib import Path

from slurmdoctor.knowledge.paths import data_of
from slurmdoctor.knowledge.problems import Problem
from slurmdoctor.report.redact import one_line, redact

WIDTH = 100


def render(problem: Problem) -> str:
    line = _line(problem.place.file, problem.place.line)
    rows = [one_line(f"{problem.place}: {problem.what}")]
    if line is not None:
        gutter = f"{problem.place.line:>5} | "
        column = problem.place.column - 1
        # A long line is shown around the place.
        start = 0 if column < WIDTH - 20 else column - 20
        masked = redact(line)
        if masked != line:  # then no column is where it was
            return "\n".join([*rows, f"{gutter}{masked[:WIDTH].rstrip()}", f"  fix: {one_line(problem.mend)}"])
        shown = line[start : start + WIDTH].rstrip()
        blanks = "".join("\t" if char == "\t" else " " for char in line[start:column])
        rows += [f"{gutter}{shown}", f"{'|':>7} {blanks}^"]
    return "\n".join([*rows, f"  fix: {one_line(problem.mend)}"])


def _line(file: str, number: int) -> str | None:
    try:
        lines = data_of(Path(file)).decode("utf-8", "replace").splitlines()
    except OSError:
        return None
    line = lines[number - 1] if 0 < number <= len(lines) else None
    # What is no printable text is not sent to a terminal.
    return None if line is None else "".join(char if char.isprintable() or char == "\t" else "?" for char in line)
