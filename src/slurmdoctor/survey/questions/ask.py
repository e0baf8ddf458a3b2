"""All questions to a dataset in one: folder in, answers out."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from slurmdoctor.model import Knowledge
from slurmdoctor.survey.answers import Answers, Cost
from slurmdoctor.survey.questions import counts, nodes, times
from slurmdoctor.survey.questions.blocks import Clusters, clusters
from slurmdoctor.survey.questions.table import ALL, Choice, Kinds, kinds_of, opened, unfinished


def ask(folder: str, knowledge: Knowledge, choice: Choice = ALL) -> Answers:
    """What the chosen rows of a dataset say together. Raises a UserError where it cannot be read."""
    titles = {name: cause.title for name, cause in knowledge.causes.items()}
    with opened(folder, choice) as connection:
        found = _answers(connection, kinds_of(knowledge), titles, choice)
    return replace(found, lacks=tuple(unfinished(folder)))


class Sides(Struct, frozen=True):
    """What a comparison needs of two datasets."""

    before: Answers
    after: Answers
    clusters: Clusters
    tested: tuple[set[str], set[str]]
    """The nodes that the test of each side is of; empty where no node is suspected."""


def ask_both(folders: tuple[str, str], knowledge: Knowledge, choices: tuple[Choice, Choice]) -> Sides:
    """What two datasets say, and how far the jobs of one user fail together."""
    titles, kinds = {name: cause.title for name, cause in knowledge.causes.items()}, kinds_of(knowledge)
    with opened(folders[0], choices[0]) as one, opened(folders[1], choices[1]) as other:
        before, after = (
            _answers(side, kinds, titles, choice) for side, choice in zip((one, other), choices, strict=True)
        )
        suspected = before.nodes.suspects or after.nodes.suspects
        tested = nodes.tested(one, kinds) if suspected else set(), nodes.tested(other, kinds) if suspected else set()
        return Sides(before, after, clusters(one, other, kinds), tested)


def by_cause_and_partition(folder: str, choice: Choice = ALL) -> list[tuple[dict[str, str], Cost]]:
    """The costs of failures by cluster, partition and cause."""
    with opened(folder, choice) as connection:
        return counts.by_cause_and_partition(connection)


def _answers(connection: Any, kinds: Kinds, titles: dict[str, str], choice: Choice) -> Answers:
    known = counts.headline(connection)
    period, periods = counts.periods(connection, titles)
    sizes, sizes_left_out = times.sizes(connection, kinds)
    repeats, chains, runs, hours = times.repeats(connection, kinds)
    return Answers(
        **known,
        causes=counts.causes(connection, known["failed"], titles),
        period=period,
        periods=periods,
        partitions=counts.by("partition", connection),
        users=counts.by("user", connection),
        nodes=nodes.nodes(connection, kinds),
        sizes=sizes,
        sizes_left_out=sizes_left_out,
        delays=times.delays(connection, kinds),
        repeats=repeats,
        repeats_in_all=chains,
        repeated_jobs=runs,
        repeated_gpu_hours=hours,
        unknown=counts.unknown(connection, kinds, known["failed"]),
        filters=_filters(choice),
    )


def _filters(choice: Choice) -> tuple[tuple[str, str], ...]:
    """The options that a report was restricted by."""
    named = [("since", choice.since), ("until", choice.until)]
    said = [(name, f"{moment:%Y-%m-%d %H:%M}".removesuffix(" 00:00")) for name, moment in named if moment]
    lists = [("user", choice.users), ("partition", choice.partitions), ("cluster", choice.clusters)]
    return (*said, *((name, ", ".join(wanted)) for name, wanted in lists if wanted))
