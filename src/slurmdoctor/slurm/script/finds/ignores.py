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
_MOST = 50
"""Comments above one command."""

Asked = Mapping[int, Sequence[tuple[str, ...]]]
"""Line -> the ids of each comment that holds for it; no ids: all checks."""


def read(script: Script) -> Asked:
    """The comments, each with the line that it holds for: its own, or the next one where it stands alone."""
    found: dict[int, Sequence[tuple[str, ...]]] = {}
    above: list[tuple[str, ...]] = []
    for number, line in enumerate(script.text.splitlines(), 1):
        comment = _COMMENT.search(line)
        ids = [tuple(filter(None, map(str.strip, (comment[1] or "").split(","))))] if comment else []
        if line.lstrip().startswith("#") and not line.startswith("#SBATCH"):
            above = [*above, *ids][-_MOST:]
            found[number] = ids
        else:  # the command below, with all lines that continue it
            found[number] = [*above, *ids] if ids else above
            above = above if line.rstrip().endswith("\\") else []
    return found


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
