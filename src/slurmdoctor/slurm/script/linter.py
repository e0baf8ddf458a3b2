"""Script → its mistakes, by every check of `rules/lint`, and what else it shows of a job that failed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from slurmdoctor.knowledge import fill, holds
from slurmdoctor.model import ScriptEvidence, ScriptMistake, reason
from slurmdoctor.slurm.script import mistakes
from slurmdoctor.slurm.script.model import Script, base
from slurmdoctor.slurm.script.plan import Fact, facts_of, plan_of
from slurmdoctor.slurm.script.tables import Check, Texts, checks, programs

MOST = 5
"""Findings of one check that are shown."""
_ORDER: Mapping[str, int] = {"error": 0, "warning": 1, "note": 2}


def evidence_of(script: Script) -> ScriptEvidence:
    """The script's facts and mistakes, as far as a failure may have to do with them."""
    planned = facts_of(plan_of(script)).values
    facts = {name: planned[name] for name in programs().facts_for_fixes if name in planned}
    if planned.get("fixed_port"):
        facts["master_port"] = planned["fixed_port"]
    name = base(script.name)
    if given := script.directive("signal"):
        facts["signal_given"] = f"--signal={given.value} ({name}:{given.line})"
    notes = [reason("script-cut", name=name, line=script.cut)] if script.cut else []
    notes += [reason("script-unread", name=name, why=script.fault)] if script.fault else []
    return ScriptEvidence(name, facts, tuple(findings(script)), tuple(notes))


def lint(script: Script) -> list[ScriptMistake]:
    """The findings on a script, in the order of its lines, but for those that its comments ask to leave out."""
    ignored = mistakes.ignored_checks(script.text.splitlines())
    return [m for m in findings(script) if not {mistakes.ALL, m.check} & {*ignored.get(m.line, ())}]


def findings(script: Script) -> list[ScriptMistake]:
    """All findings on a script, in the order of its lines."""
    plan = plan_of(script)
    facts = facts_of(plan)
    found: list[ScriptMistake] = []
    for check in checks():
        if check.each is not None:
            for line, names in islice(getattr(mistakes, check.each)(plan), MOST):
                found += _finding(check, line, {**facts.values, **names}, plan.lines)
        elif check.when is not None and holds(check.when, facts.values):
            line = facts.lines.get(check.at or "", facts.lines.get("main", 1))
            found += _finding(check, line, facts.values, plan.lines)
    return sorted(dict.fromkeys(found), key=lambda m: (m.line, _ORDER[m.level]))


def _finding(check: Check, line: int, names: Mapping[str, Fact | None], lines: Sequence[str]) -> list[ScriptMistake]:
    says, why, fix = (_filled(text, names) for text in (check.says, check.why, check.fix))
    text = "".join(lines[line - 1 : line]).strip()
    return [ScriptMistake(check.id, check.level, line, says, why, fix, text, check.causes)] if says else []


def _filled(texts: Texts, names: Mapping[str, Fact | None]) -> str:
    filled = (fill(text, names) for text in ((texts,) if isinstance(texts, str) else texts))
    return next((text for text in filled if text is not None), "")


def wrong(found: Sequence[ScriptMistake]) -> bool:
    """Whether something is wrong: a note alone is not."""
    return any(finding.level != "note" for finding in found)
