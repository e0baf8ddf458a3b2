"""Lets the first events of a rule stand for the many ranks that printed the same and get no event of their own."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from slurmdoctor.knowledge.texts import text
from slurmdoctor.model import Origin, RankMap, Writer
from slurmdoctor.ranks.lines import Lines
from slurmdoctor.readers.budget import Crowd
from slurmdoctor.readers.matches import Place, RuleEvents
from slurmdoctor.search.tally import MOST
from slurmdoctor.search.writer_key import HEAD

_SLURM = text("slurm-line")


def join(
    crowds: Mapping[Place, list[Crowd]],
    events: RuleEvents,
    maps: RankMap,
    lines: Lines,
    origins: Mapping[Place, Origin],
) -> None:
    """Add a crowd's ranks and its number of lines to its event. `origins` are those of the lines that were read already."""
    ranks: dict[Writer, int | None] = {}
    for place, here in crowds.items():
        # the label of a line of slurmstepd is not the rank that the line is about
        of_slurm = any(_SLURM.match(event.hit.text) for event in events.at.get(place, ()))
        for crowd in here:
            rest = [writer for writer in crowd.group.writers if writer not in crowd.kept]
            for writer in rest:
                if writer not in ranks and len(ranks) < MOST:
                    origin = _origin(writer, crowd, lines, origins, of_slurm)
                    ranks[writer] = maps.resolve(origin, writer[0])[0].rank
            others = frozenset(rank for writer in rest if (rank := ranks.get(writer)) is not None)
            more = sum(crowd.group.count_of(writer) for writer in rest)
            events.at[place] = [
                replace(event, others=others, count=event.count + more) if event.rule == crowd.rule.id else event
                for event in events.at.get(place, ())
            ]


def _origin(writer: Writer, crowd: Crowd, lines: Lines, origins: Mapping[Place, Origin], of_slurm: bool) -> Origin:
    """Who a writer is: from a line that was read already, from its label, or from its first line."""
    first = (writer[0], crowd.group.first_of(writer))
    origin = origins.get(first)
    if origin is None and not of_slurm:
        origin = lines.writer(*writer)
    if origin is None:
        origin = lines.peeled(writer[0], lines.text(*first, HEAD).partition(b"\n")[0])[0]
    return origin
