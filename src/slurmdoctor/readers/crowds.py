"""Lets the first events of a rule stand for the many ranks that printed the same and get no event of their own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from slurmdoctor.knowledge import text
from slurmdoctor.model import Event, Origin, RankMap, Writer
from slurmdoctor.ranks import Lines
from slurmdoctor.readers.budget import Crowd
from slurmdoctor.readers.matches import Place, RuleEvents
from slurmdoctor.search import HEAD, MOST

_SLURM = text("slurm-line")


class Crowds:
    """The ranks of the crowds, each writer's looked up once."""

    def __init__(
        self, crowds: Mapping[Place, list[Crowd]], maps: RankMap, lines: Lines, origins: Mapping[Place, Origin]
    ) -> None:
        """`origins` are those of the lines that were read already."""
        self._crowds = crowds
        self._maps = maps
        self._lines = lines
        self._origins = origins
        self._ranks: dict[Writer, int | None] = {}

    def join(self, events: RuleEvents) -> None:
        """Add to each rule's event its crowd's ranks and number of lines."""
        for place, here in self._crowds.items():
            for crowd in (one for one in here if one.rule is not None):
                events.at[place] = [
                    self._with(event, crowd) if event.rule == crowd.rule else event
                    for event in events.at.get(place, ())
                ]

    def raisers(self, events: Iterable[Event], known: Collection[Place]) -> list[Event]:
        """The events, with the crowds of those who raised what no rule knows; `known` are the places of rules' events."""
        return [self._with(event, crowd) if (crowd := self._raised(event, known)) else event for event in events]

    def _raised(self, event: Event, known: Collection[Place]) -> Crowd | None:
        here = () if event.hit.place in known else self._crowds.get(event.hit.place, ())
        return next((crowd for crowd in here if crowd.rule is None), None)

    def _with(self, event: Event, crowd: Crowd) -> Event:
        # the label of a line of slurmstepd is not the rank that the line is about
        of_slurm = _SLURM.match(event.hit.text) is not None
        rest = [writer for writer in crowd.group.writers if writer not in crowd.kept]
        for writer in rest:
            if writer not in self._ranks and len(self._ranks) < MOST:
                origin = _origin(writer, crowd, self._lines, self._origins, of_slurm)
                self._ranks[writer] = self._maps.resolve(origin, writer[0])[0].rank
        others = frozenset(rank for writer in rest if (rank := self._ranks.get(writer)) is not None)
        more = sum(crowd.group.count_of(writer) for writer in rest)
        return replace(event, others=others, count=event.count + more)


def _origin(writer: Writer, crowd: Crowd, lines: Lines, origins: Mapping[Place, Origin], of_slurm: bool) -> Origin:
    """Who a writer is: from a line that was read already, from its label, or from its first line."""
    first = (writer[0], crowd.group.first_of(writer))
    origin = origins.get(first)
    if origin is None and not of_slurm:
        origin = lines.writer(*writer)
    if origin is None:
        origin = lines.peeled(writer[0], lines.text(*first, HEAD).partition(b"\n")[0])[0]
    return origin
