"""What was left to do after the training: an exit status of the launcher's last command, or a run that had nothing to train."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from slurmdoctor.infer.exits import never_ended
from slurmdoctor.model import EXIT_CODE, LIMITS, Finding, Observations, SignalHit, Timeline, number, ranges, reason

_SHOWN = 60


def tell_after_training(finding: Finding, timeline: Timeline, observed: Observations) -> Finding:
    """The finding, with a reason where the training had ended before the failure, or where nothing was trained at all."""
    if finding.verdict == "no-failure":
        return _nothing_trained(finding, timeline, observed)
    done = _trained(finding, timeline)
    if done is None:
        return finding
    return replace(finding, reasons=(reason("trained", text=_said(done)), *finding.reasons))


def after_training_facts(finding: Finding, timeline: Timeline) -> dict[str, Any]:
    """`trained`: the program's own word that it was done; `spared`: the tasks that ended well, if they are each node's first."""
    done = _trained(finding, timeline)
    if done is None:
        return {}
    spared = _each_nodes_first(timeline)
    return {"trained": _said(done)} | ({"spared": spared} if spared else {})


def _trained(finding: Finding, timeline: Timeline) -> SignalHit | None:
    """The program's word that it had completed, above an exit that nothing else explains."""
    root, done, last = finding.root, timeline.finished, timeline.last_progress
    if finding.cause != EXIT_CODE or root is None or done is None or not done.by_program:
        return None
    return done if done.order < root.main.order and (last is None or last.order < done.order) else None


def _said(done: SignalHit) -> str:
    return done.line.text.strip()[:_SHOWN]


def _each_nodes_first(timeline: Timeline) -> str | None:
    """The tasks of which no bad end is told, where each is the lowest of a node whose other tasks all ended with 1."""
    steps = [report for report in timeline.reports if report.kind == "step" and report.tasks]
    left = never_ended(timeline)
    lowest = {min(report.tasks) - 1 for report in steps}
    alike = all(report.exit.code == 1 for report in steps)
    return ranges(left) if left and alike and set(left) == lowest else None


def _nothing_trained(finding: Finding, timeline: Timeline, observed: Observations) -> Finding:
    """A run that loaded a checkpoint and was done at once had nothing left to train."""
    done = timeline.finished
    loaded = [m for m in observed.signals if m.signal.kind == "resumed"]
    if done is None or not loaded or loaded[-1].order > done.order or loaded[-1].line.source != done.line.source:
        return finding
    last = loaded[-1]
    trained = any(step.order > last.order for step in timeline.progress)
    if trained or done.line.offset - last.line.end > LIMITS.few_words:
        return finding
    told = next((m.captures for m in reversed(loaded) if m.captures.get("path")), last.captures)
    step = number(told["step"]) if told.get("step") else None
    nothing = reason("nothing-trained", path=told.get("path"), step=step)
    return replace(finding, reasons=(nothing, *finding.reasons))
