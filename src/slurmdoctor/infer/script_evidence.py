"""What the batch script proves of a failure: mistakes that bring its cause about, or that hid its exit status."""

from __future__ import annotations

from msgspec.structs import replace

from slurmdoctor.model import Finding, Knowledge, ScriptEvidence, ScriptMistake, reason

_MOST = 2
"""Mistakes that are shown: a script with more is for `slurmdoctor lint`."""
_OF_THE_SIGNAL = frozenset({"signal-not-handled", "signal-window"})
"""Checks of what becomes of the signal before the limit: they matter where it came."""
_ONLY_AFTER_THE_WORK = frozenset({"background-left", "after-exec", "pid-lost"})
"""Checks of mistakes that matter to a time limit only where the work was done before it."""
_HIDES_EXIT = frozenset({"exit-status-in-pipe", "exit-status-lost"})


def apply_script(finding: Finding, script: ScriptEvidence, knowledge: Knowledge) -> Finding:
    """The finding with the mistakes of the script that bear on it; one of them may prove the cause."""
    if finding.verdict != "failed" or finding.cause is None:
        return finding
    bearing = sorted((m for m in script.mistakes if _applies(m, finding)), key=lambda m: m.level == "note")[:_MOST]
    ended_well = finding.facts.get("script_ended") == 0
    hiding = [m for m in script.mistakes if m.check in _HIDES_EXIT and ended_well][:1]
    if not bearing and not hiding:
        return finding
    proven = finding.cause in knowledge.traits["proven-by-script"] and any(m.level == "error" for m in bearing)
    says = [reason("script-says", script=script.name, line=m.line, says=m.says) for m in (*bearing, *hiding)]
    return replace(
        finding,
        script=script.name,
        mistakes=tuple(bearing),
        hiding=tuple(hiding),
        confidence="high" if proven else finding.confidence,
        reasons=(*finding.reasons, *says),
    )


def _applies(mistake: ScriptMistake, finding: Finding) -> bool:
    """Whether a mistake brings about what was found: a cause, or the one kind of it that a rule tells."""
    if not mistake.causes & {finding.cause, finding.rule}:
        return False
    signalled = bool(finding.facts.get("signalled"))
    if mistake.check in _OF_THE_SIGNAL:
        return signalled
    if mistake.check == "signal-window-short":
        return not signalled  # nothing was saved in the window
    return mistake.check not in _ONLY_AFTER_THE_WORK or finding.facts.get("ended") == "finished"
