"""Did it fail? What was survived does not count, and a log that ends in success has no failure."""

from __future__ import annotations

from collections.abc import Sequence

from slurmdoctor.infer.finding import Finding
from slurmdoctor.model import Event, ExitReport, Incident
from slurmdoctor.timeline.order import Timeline


def drop_survived(timeline: Timeline, finding: Finding, exit_status: int | None = None) -> list[Event]:
    """A rank that went on was not killed by it. Where nothing else is left, what was survived is looked at after all."""
    live = [e for e in timeline.events if not e.survived]
    survived = len(timeline.events) - len(live)
    if any(e.role in ("root", "either", "confirmation") for e in live):
        if survived:
            finding.reasons.append(
                f"{survived} earlier error line{'s' * (survived > 1)} left aside: the job went on after"
            )
        return live
    ended_badly = standing(timeline) or any(e.role == "cascade" for e in live)
    if exit_status:  # it did fail: others may have gone on to the end
        return list(timeline.events)
    ran_to_the_end = timeline.finished is not None and not standing(timeline)
    return list(timeline.events) if ended_badly and not ran_to_the_end else live


def standing(timeline: Timeline) -> list[ExitReport]:
    """Bad endings that still count: not those of a step that was ended before another one ran to its finish."""
    done = timeline.finished
    bad = [r for r in timeline.reports if r.exit.code not in (0, None) or r.exit.signal]
    if done is None:
        return bad
    stops = [e.hit.offset for e in timeline.events if e.rule == "cancelled/step"]
    return [
        r
        for r in bad
        if r.line.source == done.line.source
        and r.exit.signal is None
        and not any(r.line.offset < stop < done.line.offset for stop in stops)
    ]


def decide_whether_failed(
    finding: Finding,
    timeline: Timeline,
    incidents: Sequence[Incident],
    deaths: Sequence[Incident],
    exit_status: int | None,
) -> None:
    """A log that ends in success has no failure, whatever it printed on the way."""
    if exit_status == 0 and not any(i.main.role in ("root", "confirmation") for i in incidents):
        finding.verdict = "no-failure"
        finding.reasons.append("the job's exit status is 0")
        return
    done = timeline.finished
    after = [
        i
        for i in (*incidents, *deaths)
        if done is None or _after(i.main, done.order, done.line.origin.time, done.line.source)
    ]
    telling = [i for i in after if i.main.role in ("root", "either", "confirmation") or i.report is not None]
    if exit_status:
        finding.verdict = "failed"
    elif done is not None and not telling and not standing(timeline):
        finding.verdict = "no-failure"
        finding.reasons.append(f"the program says that it completed: {done.line.text.strip()[:80]}")
    elif telling or standing(timeline) or any(i.main.role == "cascade" for i in after):
        finding.verdict = "failed"
    elif timeline.last_progress is not None:
        finding.verdict = "no-failure"
        finding.reasons.append("steps to the end of the log, and no error that was not survived")
    else:
        finding.verdict = "unknown"


def _after(event: Event, order: int, time: float | None, source: int) -> bool:
    if event.hit.source == source:
        return event.order >= order
    if event.origin.time is not None and time is not None:
        return event.origin.time >= time
    return True
