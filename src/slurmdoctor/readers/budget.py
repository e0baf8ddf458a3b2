"""Chooses which of the lines that the search found are read again.

No job breaks in hundreds of ways at once. Where thousands of ranks print the same, the first ones become events of their
own; of the others the ranks and the number of lines are kept (`Crowd`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from slurmdoctor.model import MatchGroup, MatchSample, Reason, Rule, Signal, Target, Writer, reason

Item = TypeVar("Item")
FEW = 32
"""Writers of one rule that become events of their own."""
MOST: Mapping[str, int] = {
    "rules": 3000,
    "signals": 1000,
    "exception": 1000,
    "traceback": 1000,
    "reports": 16_384,
    "collective": 16_384,
    "map": 16_384,
    "stack": 4096,
}
"""Places that are read again, by what they are read for: what a job of 16,384 ranks shows once a rank is read whole."""
_PYTHON = ("exception", "traceback")


class Reading(Struct, frozen=True):
    """One line to read again, and what to read it for."""

    source: int
    offset: int
    target: Target
    count: int
    """The lines that its event stands for."""


class Crowd(Struct, frozen=True):
    """A rule, or an exception that no rule knows, and the writers of it that get no event of their own."""

    rule: str | None
    """The rule's id."""
    group: MatchGroup
    kept: frozenset[Writer]
    """The writers that do get one."""


class Plan(Struct, frozen=True):
    """The lines to read again, in the log's order, and the crowds by the line whose event stands for them."""

    places: tuple[Reading, ...]
    crowds: dict[tuple[int, int], list[Crowd]]
    left_out: int = 0
    """Places that were worth reading, and too many."""

    @property
    def notes(self) -> tuple[Reason, ...]:
        """What to tell of it."""
        if not self.left_out:
            return ()
        return (reason("not-read-again", count=self.left_out, total=self.left_out + len(self.places)),)


def plan_reading(groups: Sequence[MatchGroup]) -> Plan:
    """Choose the lines to read again."""
    places: list[Reading] = []
    crowds: dict[tuple[int, int], list[Crowd]] = {}
    left_out = 0
    for kind, chosen in _by_kind(groups).items():
        kept = _within(chosen, MOST[kind])
        worth = sum(len(seen.places) for _, samples in chosen for seen in samples)
        left_out += worth - sum(len(seen.places) for samples in kept for seen in samples)
        for (group, _), samples in zip(chosen, kept, strict=True):
            places += (place for seen in samples for place in _places(seen, group.matcher.target))
            target = group.matcher.target
            crowded = isinstance(target, Rule) or target == "exception"
            if crowded and samples and len(samples) < len(group.writers):
                rule = target.id if isinstance(target, Rule) else None
                own = frozenset((seen.source, seen.label) for seen in samples)
                crowds.setdefault((samples[0].source, samples[0].places[0]), []).append(Crowd(rule, group, own))
    places.sort(key=lambda place: (place.source, place.offset))
    return Plan(tuple(places), crowds, left_out)


def _by_kind(groups: Sequence[MatchGroup]) -> dict[str, list[tuple[MatchGroup, list[MatchSample]]]]:
    """Each group with the samples of its writers that are worth reading, by what they are read for."""
    chosen: dict[str, list[tuple[MatchGroup, list[MatchSample]]]] = {}
    raised: set[Writer] = set()
    # tracebacks last: of a crowd of them, those of the writers whose exceptions are read
    for group in sorted(groups, key=lambda group: group.matcher.target == "traceback"):
        target = group.matcher.target
        if target == "traceback" and group.crowded:
            samples = [group.sample(writer) for writer in sorted(raised & group.writers.keys(), key=group.first_of)]
        else:
            samples = _chosen(group)
        if target == "exception" or (isinstance(target, Rule) and target.applies_to == "exception"):
            raised |= {(seen.source, seen.label) for seen in samples}
        chosen.setdefault(_kind(target), []).append((group, samples))
    return chosen


def _kind(target: Target) -> str:
    """What a line is read for: the key of its limit."""
    if isinstance(target, str):
        return target
    return "rules" if isinstance(target, Rule) else "signals" if isinstance(target, Signal) else "reports"


def _chosen(group: MatchGroup) -> list[MatchSample]:
    """The writers that are worth reading: all, or of a crowd the first ones and the first ones of its last burst."""
    target = group.matcher.target
    few = FEW if isinstance(target, Rule) else FEW // 4 if isinstance(target, Signal) or target in _PYTHON else 0
    if not few or len(group.writers) <= few:
        writers = group.by_first()
    else:
        writers = list(dict.fromkeys([*group.by_first(few), *group.by_last_burst(max(1, few // 4))]))
    return [group.sample(writer) for writer in writers]


def _within(chosen: Sequence[tuple[MatchGroup, list[MatchSample]]], most: int) -> list[list[MatchSample]]:
    """Of each group so much that it is not more than `most` places in all: the first and last writers, and places of each."""
    writers = sum(len(samples) for _, samples in chosen)
    if sum(len(seen.places) for _, samples in chosen for seen in samples) <= most:
        return [samples for _, samples in chosen]
    each, few = max(1, most // writers), writers if writers <= most else most // len(chosen)
    return [
        [replace(seen, places=tuple(_ends(seen.places, each))) for seen in _ends(samples, few)] for _, samples in chosen
    ]


def _ends(items: Sequence[Item], most: int) -> Sequence[Item]:
    """The first ones and the last ones."""
    return items if len(items) <= most else (*items[: most - most // 2], *items[len(items) - most // 2 :])


def _places(seen: MatchSample, target: Target) -> Iterator[Reading]:
    """The lines of one writer. Each event stands for its line; the first one also for those whose places were not kept."""
    for number, offset in enumerate(seen.places):
        yield Reading(seen.source, offset, target, seen.count - len(seen.places) + 1 if number == 0 else 1)
