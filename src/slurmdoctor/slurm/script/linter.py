"""Script → its mistakes, by every check of `rules/lint`, and what else it shows of a job that failed. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from slurmdoctor.knowledge import fill, holds
from slurmdoctor.model import ScriptEvidence, ScriptMistake, reason
from slurmdoctor.slurm.script import command_checks, text_checks
from slurmdoctor.slurm.script.model import Script
from slurmdoctor.slurm.script.plan import Fact, Occurrence, Plan, facts_of, plan_of
from slurmdoctor.slurm.script.tables import Check, Texts, checks

MOST = 5
"""Findings of one check that are shown."""
_ORDER: Mapping[str, int] = {"error": 0, "warning": 1, "note": 2}
UNKNOWN_IGNORES = "unknown_ignores"
"""The name of what `_unknown` finds, in `each:` of `checks.yaml`."""
_COMMENT = re.compile(r"#\s*slurmdoctor:\s*ignore(?:\[([^\]]*)\])?", re.I)
_MOST_COMMENTS = 50
"""Comments above one command."""
Ignored = Mapping[int, Sequence[tuple[str, ...]]]
"""Line -> the ids of each comment that holds for it; no ids: all checks."""

LISTS: Mapping[str, Callable[[Plan], Iterator[Occurrence]]] = {
    "srun_only": text_checks.srun_only,
    "unexpanded": text_checks.unexpanded,
    "ignored": text_checks.ignored,
    "blanks": text_checks.blanks,
    "commented": text_checks.commented,
    "late_folders": text_checks.late_folders,
    "placeholders": text_checks.placeholders,
    "broken": text_checks.broken,
    "undashed": text_checks.undashed,
    "unset_arrays": text_checks.unset_arrays,
    "other_language": text_checks.other_language,
    "documents": text_checks.documents,
    "bash_only": text_checks.bash_only,
    "line_ends": text_checks.line_ends,
    "no_interpreter": text_checks.no_interpreter,
    "read": text_checks.settings_not_read,
    "mounts": text_checks.mounts,
    "early": command_checks.expanded_early,
    "exported_early": command_checks.exported_early,
    "never_filled": command_checks.never_filled_in,
    "hidden_by_pipe": command_checks.hidden_by_pipe,
    "hidden_by_last": command_checks.hidden_by_last,
    "last_test": command_checks.last_test,
    "after_exec": command_checks.after_exec,
    "background": command_checks.left_in_background,
    "unawaited": command_checks.unawaited,
    "lost_pid": command_checks.lost_pid,
    "array_logs": command_checks.array_logs,
    "shared_outputs": command_checks.shared_outputs,
    "pinned": command_checks.pinned,
    "kept_locally": command_checks.kept_locally,
    "sync_everywhere": command_checks.sync_everywhere,
    "implicit_sync": command_checks.implicit_sync,
}
"""What may be wrong in a script several times, by its name in `each:` of `checks.yaml`."""


def evidence_of(script: Script) -> ScriptEvidence:
    """The script's facts and mistakes, as far as a failure may have to do with them."""
    plan = plan_of(script)
    planned = facts_of(plan).values
    facts = {name: planned[name] for name in plan.programs.facts_for_fixes if name in planned}
    if planned.get("fixed_port"):
        facts["master_port"] = planned["fixed_port"]
    name = script.name.rpartition("/")[2]
    if given := script.directive("signal"):
        facts["signal_given"] = f"--signal={given.value} ({name}:{given.line})"
    notes = [reason("script-cut", name=name, line=script.cut)] if script.cut else []
    notes += [reason("script-unread", name=name, why=script.fault)] if script.fault else []
    return ScriptEvidence(name, facts, tuple(findings(script)), tuple(notes))


def lint(script: Script) -> list[ScriptMistake]:
    """The findings on a script, in the order of its lines, but for those that its comments ask to leave out."""
    comments = _comments(script)
    unknown = [*islice(_unknown(comments), MOST)]
    return [m for m in findings(script, unknown) if not _is_ignored(comments, m)]


def findings(script: Script, unknown: Sequence[Occurrence] = ()) -> list[ScriptMistake]:
    """All findings on a script, in the order of its lines. `unknown`: what its comments ask to ignore, and no check is."""
    plan = plan_of(script)
    facts, lines = facts_of(plan), script.text.splitlines()
    found: list[ScriptMistake] = []
    for check in checks():
        if check.each is not None:
            places = unknown if check.each == UNKNOWN_IGNORES else islice(LISTS[check.each](plan), MOST)
            for place in places:
                found += _finding(check, place.line, {**facts.values, **place.names}, lines)
        elif check.when is not None and holds(check.when, facts.values):
            line = facts.lines.get(check.at or "", facts.lines.get("main", 1))
            found += _finding(check, line, facts.values, lines)
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


# ── comments that leave findings out: `# slurmdoctor: ignore[port-fixed]` ──


def _comments(script: Script) -> Ignored:
    """The comments, each with the line that it holds for: its own, or the next one where it has a line to itself."""
    found: dict[int, Sequence[tuple[str, ...]]] = {}
    above: list[tuple[str, ...]] = []
    for number, line in enumerate(script.text.splitlines(), 1):
        comment = _COMMENT.search(line)
        ids = [tuple(filter(None, map(str.strip, (comment[1] or "").split(","))))] if comment else []
        if line.lstrip().startswith("#") and not line.startswith("#SBATCH"):
            above = [*above, *ids][-_MOST_COMMENTS:]
            found[number] = ids
        else:  # the command below, with all lines that continue it
            found[number] = [*above, *ids] if ids else above
            above = above if line.rstrip().endswith("\\") else []
    return found


def _is_ignored(comments: Ignored, mistake: ScriptMistake) -> bool:
    return any(not ids or mistake.check in ids for ids in comments.get(mistake.line, ()))


def _unknown(comments: Ignored) -> Iterator[Occurrence]:
    """Ids in the comments that no check has."""
    known = [check.id for check in checks()]
    lines = {name: line for line, given in reversed(list(comments.items())) for ids in given for name in ids}
    for name, line in lines.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            yield Occurrence(line, {"name": name, "near": near[0] if near else None})
