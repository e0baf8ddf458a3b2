"""Script → its mistakes, by every check of `rules/lint`, and what else it shows of a job that failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from msgspec import Struct

from slurmdoctor.knowledge import fill, holds
from slurmdoctor.model import ScriptEvidence, ScriptMistake, reason
from slurmdoctor.slurm.script.checks import Check, Texts, load
from slurmdoctor.slurm.script.facts import Fact, read_facts
from slurmdoctor.slurm.script.finds import ignores
from slurmdoctor.slurm.script.finds.cures import read_cures
from slurmdoctor.slurm.script.finds.subject import Occurrence, Subject
from slurmdoctor.slurm.script.model import Script
from slurmdoctor.slurm.script.occurrences import MOST, read_occurrences
from slurmdoctor.slurm.script.programs import programs
from slurmdoctor.slurm.script.steps import main_step, steps

_ORDER: Mapping[str, int] = {"error": 0, "warning": 1, "note": 2}


class Plan(Struct, frozen=True):
    """What a script is going to do: all that the checks may ask for."""

    facts: Mapping[str, Fact]
    lines: Mapping[str, int]
    """Fact -> the line that gives it."""
    lists: Mapping[str, Sequence[Occurrence]]
    cures: Mapping[str, str]
    """Commands as they should be, by the names that fixes use."""


def plan(script: Script) -> Plan:
    """The plan of a script."""
    found, known = steps(script), programs()
    main = main_step(found)
    facts = read_facts(script, main, known)
    subject = Subject(script, found, main, known)
    return Plan(facts.values, facts.lines, read_occurrences(subject), read_cures(subject))


def evidence_of(script: Script) -> ScriptEvidence:
    """The script's facts and mistakes, as far as a failure may have to do with them."""
    planned = plan(script).facts
    facts = {name: planned[name] for name in programs().facts_for_fixes if name in planned}
    if planned.get("fixed_port"):
        facts["master_port"] = planned["fixed_port"]
    name = script.name.rpartition("/")[2]
    if given := script.directive("signal"):
        facts["signal_given"] = f"--signal={given.value} ({name}:{given.line})"
    notes = [reason("script-cut", name=name, line=script.cut)] if script.cut else []
    notes += [reason("script-unread", name=name, why=script.fault)] if script.fault else []
    return ScriptEvidence(name, facts, tuple(findings(script)), tuple(notes))


def lint(script: Script, checks: Sequence[Check] | None = None) -> list[ScriptMistake]:
    """The findings on a script, in the order of its lines, but for those that its comments ask to leave out."""
    checks = load() if checks is None else checks
    asked = ignores.read(script)
    unknown = list(islice(ignores.unknown(asked, [check.id for check in checks]), MOST))
    return [m for m in findings(script, checks, unknown) if not ignores.covers(asked, m.line, m.check)]


def findings(
    script: Script, checks: Sequence[Check] | None = None, unknown: Sequence[Occurrence] = ()
) -> list[ScriptMistake]:
    """All findings on a script, in the order of its lines. `unknown`: what its comments ask to ignore, and no check is."""
    seen = plan(script)
    lines = script.text.splitlines()
    found: list[ScriptMistake] = []
    for check in checks if checks is not None else load():
        if check.each is not None:
            for item in unknown if check.each == ignores.LIST else seen.lists.get(check.each, ()):
                found += _finding(check, item.line, {**seen.facts, **item.names}, lines)
        elif check.when is not None and holds(check.when, seen.facts):
            line = seen.lines.get(check.at or "", seen.lines.get("main", 1))
            found += _finding(check, line, {**seen.facts, **seen.cures}, lines)
    return sorted(dict.fromkeys(found), key=lambda m: (m.line, _ORDER[m.level]))


def _finding(check: Check, line: int, names: Mapping[str, Fact | None], lines: Sequence[str]) -> list[ScriptMistake]:
    says, why, fix = (_filled(text, names) for text in (check.says, check.why, check.fix))
    if not says:
        return []
    text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return [ScriptMistake(check.id, check.level, line, says, why, fix, text, check.causes)]


def _filled(texts: Texts, names: Mapping[str, Fact | None]) -> str:
    filled = (fill(text, names) for text in ((texts,) if isinstance(texts, str) else texts))
    return next((text for text in filled if text is not None), "")


def wrong(found: Sequence[ScriptMistake]) -> bool:
    """Whether something is wrong: a note alone is not."""
    return any(finding.level != "note" for finding in found)
