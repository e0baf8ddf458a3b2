"""Script → findings: every check of `rules/lint` on the plan of the script. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slurmdoctor.knowledge.expressions import fill, holds
from slurmdoctor.model import ScriptMistake
from slurmdoctor.slurm.script.checks import Check, load
from slurmdoctor.slurm.script.facts import Fact
from slurmdoctor.slurm.script.model import Script
from slurmdoctor.slurm.script.plan import plan

_ORDER: Mapping[str, int] = {"error": 0, "warning": 1, "note": 2}
MOST = 5
"""Findings of one check that are shown."""


def lint(script: Script, checks: Sequence[Check] | None = None) -> list[ScriptMistake]:
    """The findings on a script, in the order of its lines."""
    seen = plan(script)
    lines = script.text.splitlines()
    found: list[ScriptMistake] = []
    for check in checks if checks is not None else load():
        if check.each is not None:
            for item in seen.lists.get(check.each, ())[:MOST]:
                found += _finding(check, item.line, {**seen.facts, **item.names}, lines)
        elif check.when is not None and holds(check.when, seen.facts):
            found += _finding(check, seen.lines.get(check.at or "", seen.lines.get("main", 1)), seen.facts, lines)
    return sorted(dict.fromkeys(found), key=lambda m: (m.line, _ORDER[m.level]))


def _finding(check: Check, line: int, names: Mapping[str, Fact | None], lines: Sequence[str]) -> list[ScriptMistake]:
    filled = [fill(text, names) for text in (check.says, check.why, check.mend)]
    if filled[0] is None:
        return []
    says, why, mend = (text or "" for text in filled)
    text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return [ScriptMistake(check.id, check.level, line, says, why, mend, text, check.causes)]


def wrong(found: Sequence[ScriptMistake]) -> bool:
    """Whether something is wrong: a note alone is not."""
    return any(finding.level != "note" for finding in found)
