"""`# slurmdoctor: ignore[port-fixed]`: what the script's own comments ask lint to leave out. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence

from slurmdoctor.slurm.script.finds.subject import Occurrence
from slurmdoctor.slurm.script.model import Script

LIST = "unknown_ignores"
"""The name of what `unknown` finds, in `each:` of `checks.yaml`."""
_COMMENT = re.compile(r"#\s*slurmdoctor:\s*ignore(?:\[([^\]]*)\])?", re.I)

Asked = Mapping[int, Sequence[tuple[str, ...]]]
"""Line -> the ids of each comment that holds for it; no ids: all checks."""


def read(script: Script) -> Asked:
    """The comments, each with the line that it holds for: its own, or the next one where it stands alone."""
    found: dict[int, list[tuple[str, ...]]] = {}
    lines = script.text.splitlines()
    for at, line in enumerate(lines, 1):
        if comment := _COMMENT.search(line):
            ids = tuple(one.strip() for one in (comment[1] or "").split(",") if one.strip())
            for number in (at, *_below(lines, at)):
                found.setdefault(number, []).append(ids)
    return found


def _below(lines: Sequence[str], at: int) -> Iterator[int]:
    """The command below a comment that stands alone, with all lines that continue it."""
    if not lines[at - 1].lstrip().startswith("#") or lines[at - 1].startswith("#SBATCH"):
        return
    while at < len(lines) and lines[at].lstrip().startswith("#") and not lines[at].startswith("#SBATCH"):
        at += 1
    for number in range(at, len(lines)):
        yield number + 1
        if not lines[number].rstrip().endswith("\\"):
            return


def covers(asked: Asked, line: int, check: str) -> bool:
    """Whether a comment asks to leave this finding out."""
    return any(not ids or check in ids for ids in asked.get(line, ()))


def unknown(asked: Asked, known: Sequence[str]) -> Iterator[Occurrence]:
    """Ids in the comments that no check has."""
    told: set[str] = set()
    for line, comments in asked.items():
        for name in (one for ids in comments for one in ids):
            if name not in known and name not in told:
                told.add(name)
                near = difflib.get_close_matches(name, known, 1)
                yield Occurrence(line, {"name": name, "near": near[0] if near else None})
