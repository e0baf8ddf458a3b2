"""Did the job fail? What was survived does not count, and a log that ends in success has no failure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from slurmdoctor.model import LIMITS, STEP_CANCELLED, Event, ExitReport, Finding, Incident, Timeline, reason

TELLING = ("root", "either", "confirmation")
"""Roles of events that may start a failure."""


def live_events(timeline: Timeline, exit_status: int | None = None) -> tuple[list[Event], int]:
    """The events that count, and how many were left aside because the job went on after them.

    Where nothing but survived events is left of a job that ended badly, they count after all; without an exit of its own
    only those that were not followed by long work.
    """
    live = [e for e in timeline.events if not e.survived]
    unresolved = unresolved_exits(timeline)
    if exit_status == 0:
        live = [e for e in live if not e.outlived]
        if not unresolved:
            return live, 0
    elif not exit_status and not unresolved and not any(e.role == "cascade" for e in live):
        live = [e for e in live if e.outlived != "likely"]
    if any(e.role in TELLING for e in live):
        return live, len(timeline.events) - len(live)
    if exit_status:  # it did fail: other ranks may have gone on to the end
        return list(timeline.events), 0
    ended_badly = unresolved or any(e.role == "cascade" for e in live)
    ran_to_the_end = timeline.finished is not None and not unresolved
    if not ended_badly or ran_to_the_end:
        return live, 0
    return [e for e in timeline.events if unresolved or e.outlived != "long"], 0


def unresolved_exits(timeline: Timeline) -> list[ExitReport]:
    """Reports of bad exits that still count: not those of a step that was cancelled before another one finished."""
    done, bad = timeline.finished, _bad_exits(timeline)
    if done is None or not done.by_program:
        return bad
    stops = (e.hit.offset for e in timeline.events if e.rule == STEP_CANCELLED)
    last_stop = max((stop for stop in stops if stop < done.line.offset), default=-1)
    return [
        r for r in bad if r.line.source == done.line.source and r.exit.signal is None and r.line.offset >= last_stop
    ]


def _bad_exits(timeline: Timeline) -> list[ExitReport]:
    return [report for report in timeline.reports if report.exit.code not in (0, None) or report.exit.signal]


def decide_whether_failed(
    timeline: Timeline,
    incidents: Sequence[Incident],
    silent: Sequence[Incident],
    exit_status: int | None,
    parting: Collection[str] = (),
) -> Finding:
    """The verdict, before anything is known of the cause.

    `silent` are incidents that only exit reports tell of, `parting` causes that ranks may print as they leave one another.
    """
    if exit_status == 0 and not any(i.main.role in ("root", "confirmation") for i in incidents):
        return Finding("no-failure", reasons=(reason("exit-status-zero"),))
    done = timeline.finished
    proof = [i for i in (*incidents, *silent) if i.report is not None or not all(e.warned for e in i.events)]
    after = [i for i in proof if _stands_after_finish(i.main, timeline) and not _parted(i, timeline, parting)]
    telling = [i for i in after if i.main.role in TELLING or i.report is not None]
    unresolved = unresolved_exits(timeline)
    if exit_status:
        return Finding("failed")
    if done is not None and not telling and not unresolved:
        return Finding("no-failure", reasons=(reason("program-completed", text=done.line.text.strip()[:400]),))
    if telling or unresolved or any(i.main.role == "cascade" for i in after):
        return Finding("failed")
    return _by_steps(timeline)


def _by_steps(timeline: Timeline) -> Finding:
    """The verdict on a log in which nothing failed: whether its steps go to the end."""
    last = timeline.last_progress
    if last is None:
        return Finding("unknown")
    if last.step is not None and last.steps is not None:
        before = next(
            (p.step for p in reversed(timeline.progress[:-1]) if p.source == last.source and p.step), last.step
        )
        if last.steps - last.step >= max(1, last.step - before):
            return Finding("unknown", reasons=(reason("stopped-short", step=last.step, steps=last.steps),))
    elif timeline.cut:
        return Finding("unknown", reasons=(reason("cut-short"),))
    return Finding("no-failure", reasons=(reason("steps-to-the-end"),))


def _parted(incident: Incident, timeline: Timeline, parting: Collection[str]) -> bool:
    """Whether a rank only says that others have left, after the last step of all or the program's own end."""
    if incident.cause not in parting or incident.report is not None or _bad_exits(timeline):
        return False
    last, done = timeline.last_progress, timeline.finished
    ends = [(done.line.source, done.order)] if done is not None and done.by_program else []
    if last is not None and not last.part and last.step is not None and last.step == last.steps:
        ends.append((last.source, last.order))
    return any(source == incident.main.hit.source and order < incident.main.order for source, order in ends)


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
        if len({event.origin.rank, done.line.origin.rank} - {None}) > 1:
            return True  # one rank's goodbye is none of another's
        # what a program has printed but not yet written comes out as it dies, below its last words
        return event.order >= done.order or not (done.by_program or done.order - event.order > LIMITS.held_back)
    if event.origin.time is not None and done.line.origin.time is not None:
        return event.origin.time >= done.line.origin.time
    return True
