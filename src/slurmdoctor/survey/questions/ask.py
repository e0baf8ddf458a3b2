"""All questions to a dataset in one: folder in, answers out."""

from __future__ import annotations

from typing import Any

from slurmdoctor.model import Knowledge
from slurmdoctor.survey.answers import Answers, Cost
from slurmdoctor.survey.questions import counts, nodes, times
from slurmdoctor.survey.questions.table import ALL, Choice, Kinds, kinds_of, opened


def ask(folder: str, knowledge: Knowledge, choice: Choice = ALL) -> Answers:
    """What the chosen rows of a dataset say together. Raises a UserError where it cannot be read."""
    titles = {name: cause.title for name, cause in knowledge.causes.items()}
    with opened(folder, choice) as connection:
        return _answers(connection, kinds_of(knowledge), titles, choice)


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
