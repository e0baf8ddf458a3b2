"""The nodes on which more jobs fail than chance explains: the test, the table, and the line that leaves them out."""

from __future__ import annotations

from slurmdoctor.report import one_line, plural
from slurmdoctor.report.page.tags import LONGEST, Markup, sentence, tag
from slurmdoctor.survey.answers import Answers, Nodes, Suspect
from slurmdoctor.survey.page.figures import hours, listed, name, note, short
from slurmdoctor.survey.page.tables import table

_MOST, _CAUSES = 25, 4
_HEADS = (
    "Node",
    "Failures#",
    "By chance#",
    "Surely its own#",
    "Jobs#",
    "Hours#",
    "Users#",
    "Causes",
    "Chance of so many",
)


def nodes(answers: Answers) -> list[Markup | None]:
    """Said plainly, too, where no node could be tested and where none fails more than chance."""
    tested = answers.nodes
    if not tested.tested:
        return [
            tag("p", "No node could be tested: no failure that a node can bring about names its node."),
            _left_out(tested),
        ]
    test = tag("p", sentence(tested.test)) if tested.test else None
    few = (
        "No job of the dataset went well, so hours are of failed jobs only, and the test says less."
        if tested.failed_only
        else ""
    )
    base = f"{plural(tested.tested, 'node')} tested, {plural(tested.failures, 'failure')} in {hours(tested.hours)} node hours"
    if not tested.suspects:
        return [tag("p", f"No node fails more than chance explains: {base}."), test, note(few), _left_out(tested)]
    shown = tested.suspects[:_MOST]
    more = len(tested.suspects) - len(shown)
    return [
        table(f"Suspects of {base}.", _HEADS, map(_row, shown)),
        note(f"{plural(more, 'more suspect')} not shown." if more else "", few),
        *_exclude(tested),
        test,
        _left_out(tested),
    ]


def _row(one: Suspect) -> list[str]:
    causes = (f"{short(cause, 40)} {count:,}" for cause, count in one.causes)
    return [
        name(one.node), f"{one.failures:,}", hours(one.expected), f"{one.certain:,}", f"{one.jobs:,}", hours(one.hours),
        f"{one.users:,}", listed(causes, len(one.causes), _CAUSES), _chance(one.chance),
    ]  # fmt: skip


def _chance(value: float) -> str:
    """`0.021`, `1 in 110,000`."""
    if value >= 0.001:
        return f"{value:.2g}"
    return f"1 in {1 / value:,.0f}" if value > 1e-9 else "under 1 in a billion"


def _exclude(tested: Nodes) -> list[Markup]:
    left = [tag("p", not_names(tested), class_="note")] if tested.not_names else []
    if not tested.exclude:
        return left
    line = one_line(tested.exclude)
    if len(line) > LONGEST:
        return [tag("p", "The line that excludes them is too long for this page; the JSON has it.", class_="note")]
    return [
        tag(
            "p",
            "Leave them out until they are checked:"
            if len(tested.suspects) > 1
            else "Leave it out until it is checked:",
        ),
        tag("pre", tag("code", line), class_="log"),
        *left,
    ]


def not_names(tested: Nodes) -> str:
    return f"The line is without {plural(tested.not_names, 'suspect')} whose name sbatch would not take."


def _left_out(tested: Nodes) -> Markup | None:
    counts = (
        (tested.of_programs, "that no node brings about (errors of the program, cancellations)"),
        (tested.without_node, "whose node is not known"),
        (tested.counted_already, "of the same user's same trouble, counted once"),
    )
    told = "; ".join(f"{count:,} {why}" for count, why in counts if count)
    jobs = (
        f"Node hours leave out {plural(tested.jobs_left_out, 'job')} whose nodes or hours are not known."
        if tested.jobs_left_out
        else ""
    )
    return note(f"Failures left out: {told}." if told else "", jobs)
