"""Chooses which of the lines that the search found are read again.

No job breaks in hundreds of ways at once. Where thousands of ranks print the same, the first ones become events of their
own; of the others the ranks and the number of lines are kept (`Crowd`).
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from slurmdoctor.model import MatchGroup, MatchSample, Rule, Signal, Target, Writer

FEW = 32
"""Writers of one rule that become events of their own."""
_FEWEST = 4
_MOST_READ = 6000
"""Places of rules, signals and exceptions that are read again; where more were kept, it is fewer writers of each."""
_PYTHON = ("exception", "traceback")


class Place(Struct, frozen=True):
    """One line to read again, and what to read it for."""

    source: int
    offset: int
    target: Target
    count: int
    """The lines that its event stands for."""


class Crowd(Struct, frozen=True):
    """A rule and the writers of it that get no event of their own."""

    rule: Rule
    group: MatchGroup
    kept: frozenset[Writer]
    """The writers that do get one."""


class Plan(Struct, frozen=True):
    """The lines to read again, in the log's order, and the crowds by the line whose event stands for them."""

    places: tuple[Place, ...]
    crowds: dict[tuple[int, int], list[Crowd]]


def plan(groups: Sequence[MatchGroup]) -> Plan:
    """Choose the lines to read again."""
    places: list[Place] = []
    crowds: dict[tuple[int, int], list[Crowd]] = {}
    raised: set[Writer] = set()
    most = _affordable(groups)
    # tracebacks last: of a crowd of them, those of the writers whose exceptions are read
    for group in sorted(groups, key=lambda group: group.matcher.target == "traceback"):
        target = group.matcher.target
        chosen = _chosen(group, most)
        if target == "exception" or (isinstance(target, Rule) and target.applies_to == "exception"):
            raised |= {(seen.source, seen.label) for seen in chosen}
        elif target == "traceback" and group.crowded:
            chosen = [group.sample(writer) for writer in sorted(raised & group.writers.keys(), key=group.first_of)]
        for seen in chosen:
            for number, offset in enumerate(seen.places):
                # each event stands for its line; the first one also for those whose places were not kept
                count = seen.count - len(seen.places) + 1 if number == 0 else 1
                places.append(Place(seen.source, offset, target, count))
        if isinstance(target, Rule) and len(chosen) < len(group.writers):
            kept = frozenset((seen.source, seen.label) for seen in chosen)
            crowds.setdefault((chosen[0].source, chosen[0].places[0]), []).append(Crowd(target, group, kept))
    places.sort(key=lambda place: (place.source, place.offset))
    return Plan(tuple(places), crowds)


def _affordable(groups: Sequence[MatchGroup]) -> int:
    """Writers of one rule that are read again: fewer of each where very many rules match."""
    most = FEW
    while most > _FEWEST:
        chosen = ((group, _few(group.matcher.target, most)) for group in groups)
        if sum(min(few, len(g.writers)) * (1 if g.crowded else g.matcher.keep) for g, few in chosen) <= _MOST_READ:
            break
        most //= 2
    return most


def _few(target: Target, most: int) -> int:
    """Writers of this target that are read again; 0 for all of them."""
    if isinstance(target, Rule):
        return most
    return most // 4 if isinstance(target, Signal) or target in _PYTHON else 0


def _chosen(group: MatchGroup, most: int) -> list[MatchSample]:
    """The writers that are read again: all, or of a crowd the first ones and the first ones of its last burst."""
    few = _few(group.matcher.target, most)
    if not few or len(group.writers) <= few:
        writers = group.by_first()
    else:
        writers = list(dict.fromkeys([*group.by_first(few), *group.by_last_burst(max(1, few // 4))]))
    return [group.sample(writer) for writer in writers]
