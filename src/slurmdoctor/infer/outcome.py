"""Did the job fail? What was survived does not count, and a log that ends in success has no failure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from slurmdoctor.model import Event, ExitReport, Finding, Incident, Timeline
from slurmdoctor.model.causes import STEP_CANCELLED
from slurmdoctor.model.finding import reason

TELLING = ("root", "either", "confirmation")
"""Roles of events that may start a failure."""


def live_events(timeline: Timeline, exit_status: int | None = None) -> tuple[list[Event], int]:
    """The events that count, and how many were left aside because the job went on after them.

    Where nothing but survived events is left of a job that ended badly, they count after all; without an exit of its own
    only those that were not followed by long work.
    """
    live = [e for e in timeline.events if not e.survived]
    if any(e.role in TELLING for e in live):
        return live, len(timeline.events) - len(live)
    if exit_status:  # it did fail: other ranks may have gone on to the end
        return list(timeline.events), 0
    unresolved = unresolved_exits(timeline)
    ended_badly = unresolved or any(e.role == "cascade" for e in live)
    ran_to_the_end = timeline.finished is not None and not unresolved
    if not ended_badly or ran_to_the_end:
        return live, 0
    return [e for e in timeline.events if unresolved or not e.outlived], 0


def unresolved_exits(timeline: Timeline) -> list[ExitReport]:
    """Reports of bad exits that still count: not those of a step that was cancelled before another one finished."""
    done = timeline.finished
    bad = [r for r in timeline.reports if r.exit.code not in (0, None) or r.exit.signal]
    if done is None:
        return bad
    stops = (e.hit.offset for e in timeline.events if e.rule == STEP_CANCELLED)
    last_stop = max((stop for stop in stops if stop < done.line.offset), default=-1)
    return [
        r for r in bad if r.line.source == done.line.source and r.exit.signal is None and r.line.offset >= last_stop
    ]


def decide_whether_failed(
    timeline: Timeline,
    incidents: Sequence[Incident],
    silent: Sequence[Incident],
    exit_status: int | None,
) -> Finding:
    """The verdict, before anything is known of the cause. `silent` are incidents that only exit reports tell of."""
    if exit_status == 0 and not any(i.main.role in ("root", "confirmation") for i in incidents):
        return Finding("no-failure", reasons=(reason("exit-status-zero"),))
    done = timeline.finished
    after = [i for i in (*incidents, *silent) if _stands_after_finish(i.main, timeline)]
    telling = [i for i in after if i.main.role in TELLING or i.report is not None]
    unresolved = unresolved_exits(timeline)
    if exit_status:
        return Finding("failed")
    if done is not None and not telling and not unresolved:
        return Finding("no-failure", reasons=(reason("program-completed", text=done.line.text.strip()[:80]),))
    if telling or unresolved or any(i.main.role == "cascade" for i in after):
        return Finding("failed")
    if timeline.last_progress is not None:
        return Finding("no-failure", reasons=(reason("steps-to-the-end"),))
    return Finding("unknown")


def with_survived(finding: Finding, survived: int) -> Finding:
    """The finding, with a first reason that says how many events were left aside."""
    if not survived:
        return finding
    return replace(finding, reasons=(reason("survived", count=survived), *finding.reasons))


def _stands_after_finish(event: Event, timeline: Timeline) -> bool:
    """Whether an event came after the line that says that the program completed."""
    done = timeline.finished
    if done is None:
        return True
    if event.hit.source == done.line.source:
        return event.order >= done.order
    if event.origin.time is not None and done.line.origin.time is not None:
        return event.origin.time >= done.line.origin.time
    return True
