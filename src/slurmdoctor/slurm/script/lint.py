"""Script → findings: every check of `rules/lint`, asked of what the script is going to do. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slurmdoctor.report.remedies import fill
from slurmdoctor.slurm.script.checks import Check, Level, holds, load
from slurmdoctor.slurm.script.model import Script
from slurmdoctor.slurm.script.plan import Plan, plan, traps_signal

_ORDER: Mapping[str, int] = {"error": 0, "warning": 1, "note": 2}
MOST = 5
"""Findings of one check that are shown."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """One finding, with the line, the reason and the mend."""

    check: str
    level: Level
    line: int
    says: str
    why: str
    mend: str
    text: str
    causes: frozenset[str] = frozenset()


def lint(script: Script, checks: Sequence[Check] | None = None) -> list[Mistake]:
    """What is wrong with a script, in the order of its lines."""
    ours, known = load()
    seen = complete(plan(script, known), script)
    lines = script.text.splitlines()
    found: list[Mistake] = []
    for check in checks if checks is not None else ours:
        if check.each is not None:
            for item in seen.lists.get(check.each, ())[:MOST]:
                found += _mistake(check, item.line, {**seen.facts, **item.names}, lines)
        elif check.when is not None and holds(check.when, seen.facts):
            found += _mistake(check, seen.lines.get(check.at or "", seen.lines.get("main", 1)), seen.facts, lines)
    return sorted(dict.fromkeys(found), key=lambda m: (m.line, _ORDER[m.level]))


def complete(seen: Plan, script: Script) -> Plan:
    """What follows from the plan: products of sizes, and what the script does beside its steps."""
    facts = seen.facts
    if facts.get("signal"):
        facts["signal_handled"] = traps_signal(script, facts["signal"])
    sizes = {name: _size(facts.get(name)) or 1 for name in ("tp", "pp", "cp", "ep")}
    told = any(isinstance(facts.get(name), int) for name in sizes)
    for name, value in sizes.items():
        if told and (name not in facts or isinstance(facts[name], int)):
            facts.setdefault(name, value)
    if told:
        if "etp" not in facts:
            facts["etp"] = sizes["tp"]
        ranks = sizes["tp"] * sizes["pp"] * sizes["cp"]
        facts["model_ranks"] = ranks
        if expert_tensor := _size(facts["etp"]):
            facts["expert_ranks"] = expert_tensor * sizes["ep"] * sizes["pp"]
        if isinstance(facts.get("world"), int) and facts["world"] % ranks == 0:
            facts["data_parallel"] = facts["world"] // ranks
        for name in ("tp", "pp", "cp", "ep"):
            if name in seen.lines:
                seen.lines.setdefault("tp", seen.lines[name])
    uv = next((c for c in script.commands if (c.words and c.words[0].text == "uv") or "uv" in c.args[:6]), None)
    if uv is not None:
        seen.put("uses_uv", True, uv.line)
    facts["megatron_path"] = bool(re.search(r"PYTHONPATH=\S*Megatron-LM", script.text)) or None
    facts["clears_experiments"] = bool(re.search(r"\brm\s+-\w*r\w*\s+\S*nemo_experiments", script.text)) or None
    return seen


def _size(value: Any) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _mistake(check: Check, line: int, names: Mapping[str, Any], lines: Sequence[str]) -> list[Mistake]:
    filled = [fill(text, names) for text in (check.says, check.why, check.mend)]
    if filled[0] is None:
        return []
    says, why, mend = (text or "" for text in filled)
    text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return [Mistake(check.id, check.level, line, says, why, mend, text, check.causes)]


def wrong(found: Sequence[Mistake]) -> bool:
    """Whether something is wrong: a note alone is not."""
    return any(mistake.level != "note" for mistake in found)
