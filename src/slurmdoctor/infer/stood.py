"""Facts of how a job stood that Slurm or a person ended: since when no step came, and for how long nothing was printed at all."""

from __future__ import annotations

from typing import Any

from slurmdoctor.model import LAST_STAMP, LIMITS, Event, Finding, RunState, Timeline, format_time, parse_time, span
from slurmdoctor.timeline import by_zone

_SHOWN = 60
"""Characters of a line that a fix quotes."""


def stood(finding: Finding, timeline: Timeline, state: RunState) -> dict[str, Any]:
    """`ended`, and what goes with it."""
    last = finding.root.main if finding.root is not None else None
    dated = last is None or last.origin.dated
    facts: dict[str, Any] = {"ended": state.kind, "no_step": state.began and state.began[:_SHOWN]}
    if state.idle is not None and (state.kind == "hung" or state.began is not None):
        facts |= {"idle_min": round(state.idle / 60), "idle": span(state.idle)}
    if state.kind == "hung":
        facts["stalled_since"] = format_time(state.since, dated)
    times = [time for step in timeline.progress if (time := step.shown_time) is not None]
    if state.kind == "progressing" and state.since is not None and state.idle is not None:
        facts["elapsed_h"] = round((state.since + state.idle - min(times)) / 3600, 1)
    if state.kind is None and times:
        facts["last_step_at"] = format_time(times[-1], dated)
    if state.kind is None and finding.record is not None and finding.record.elapsed is not None:
        facts["elapsed_h"] = round(finding.record.elapsed / 3600, 1)
    if state.kind is None and state.began is None and last is not None:
        facts |= _silence(last, dated)
    return {name: value for name, value in facts.items() if value is not None}


def _silence(last: Event, dated: bool) -> dict[str, Any]:
    """How long before Slurm's line, which tells its own time, the log's last stamped line stands."""
    end = parse_time(last.captures.get("at", ""))
    # Slurm's words may stand behind a step that lost its line end, in a line with the step's stamp
    since = parse_time(last.captures[LAST_STAMP]) if LAST_STAMP in last.captures else last.origin.time
    if end is None or since is None or end - since < LIMITS.silence or by_zone(end - since):
        return {}
    return {"silent": span(end - since), "silent_since": format_time(since, dated or LAST_STAMP in last.captures)}
