"""What inference is given of one attempt, and how a finding gains a reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from slurmdoctor.model import (
    Cause,
    Event,
    ExitReport,
    Finding,
    Frozen,
    Incident,
    JobRecord,
    Knowledge,
    Observations,
    RankMap,
    Reason,
    Timeline,
    Trait,
)

TELLING = ("root", "either", "confirmation")
"""Roles of events that may start a failure."""
STOPPED = ("terminated", "killed")
"""How processes end that others stop."""


class Case(Frozen):
    """One attempt of a job: what was read of it, what Slurm knows of it, and what the rules say."""

    timeline: Timeline
    observed: Observations
    knowledge: Knowledge
    record: JobRecord | None = None
    exit_status: int | None = None
    """The job's own."""
    failed: bool = False
    """Whether the job is known to have failed, however it ended."""

    @property
    def traits(self) -> Mapping[Trait, frozenset[str]]:
        return self.knowledge.traits

    @property
    def causes(self) -> Mapping[str, Cause]:
        return self.knowledge.causes

    @property
    def events(self) -> Sequence[Event]:
        return self.timeline.events

    @property
    def reports(self) -> Sequence[ExitReport]:
        return self.timeline.reports

    @property
    def rank_map(self) -> RankMap:
        return self.observed.rank_map

    @property
    def timed(self) -> bool:
        """Whether stamps order the events."""
        return self.timeline.order == "timestamps"

    def key(self, incident: Incident) -> tuple[float, int]:
        """What incidents are sorted by: the time, and the place in the text."""
        return self.timeline.key(incident.main)


def because(finding: Finding, *why: Reason) -> Finding:
    """The finding with more reasons, the last ones."""
    return replace(finding, reasons=(*finding.reasons, *why))


def because_first(finding: Finding, *why: Reason) -> Finding:
    """The finding with more reasons, the first ones."""
    return replace(finding, reasons=(*why, *finding.reasons))


def events_of(finding: Finding, *more: Incident) -> list[Event]:
    """The events of the root and of the other incidents of its cause, then those of more incidents."""
    root = (finding.root,) if finding.root is not None else ()
    return [event for incident in (*root, *finding.same, *more) for event in incident.events]


def ranks_of(finding: Finding, *more: Incident) -> set[int]:
    """The ranks that these events are about."""
    return {rank for event in events_of(finding, *more) for rank in event.ranks}


def printed_above(one: Incident, other: Incident) -> bool:
    """Whether `one` is above `other` in the same file."""
    return one.main.hit.source == other.main.hit.source and one.main.order < other.main.order
