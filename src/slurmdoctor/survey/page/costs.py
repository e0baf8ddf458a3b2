"""What the failures cost: by cause, by partition and by user, as tables with bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slurmdoctor.report import plural
from slurmdoctor.report.page.tags import Content, Markup, fold, join, tag
from slurmdoctor.survey.answers import Answers, Cost
from slurmdoctor.survey.page.figures import UNKNOWN, code, gpu_hours, hours, known, name, note, of, share, short
from slurmdoctor.survey.page.tables import length, measure, table

_OPEN_CAUSES, _MOST_CAUSES, _MOST_GROUPS = 12, 40, 10


def costliest(costs: Sequence[Cost], answers: Answers) -> list[Cost]:
    """In the order of what they cost; where the hours of most are not known, of their jobs."""
    if answers.by_hours:
        return sorted(costs, key=lambda cost: (-cost.gpu_hours_lost, -cost.jobs, cost.what))
    return sorted(costs, key=lambda cost: (-cost.jobs, -cost.gpu_hours_lost, cost.what))


def causes(answers: Answers, colours: Mapping[str, str]) -> list[Markup | None]:
    """A row a cause, the costliest first, with bars of hours and of jobs; those that cost little are folded."""
    if not answers.causes:
        return [tag("p", "No job failed, so there is no cause to show.")]
    ordered, with_hours = costliest(answers.causes, answers), answers.failed_with_hours
    longest = max(ordered, key=lambda cost: cost.gpu_hours_lost), max(ordered, key=lambda cost: cost.jobs)
    base = plural(answers.failed, "failed job")
    of_hours = f"Hours are of the {gpu_hours(answers.gpu_hours_lost)} lost, known of {with_hours:,} of {base}. "
    heads = ["Cause", *(["GPU hours lost"] if with_hours else []), "Failed jobs", *_users_head(ordered)]

    def listed(caption: str, shown: Sequence[Cost]) -> Markup:
        cells = (_cause(cost, answers, longest, colours.get(cost.what, "c0")) for cost in shown)
        return table(caption, heads, ([cell[head] for head in heads] for cell in cells), "causes")

    first, others, rest = ordered[:_OPEN_CAUSES], ordered[_OPEN_CAUSES:_MOST_CAUSES], ordered[_MOST_CAUSES:]
    more = ""
    if rest:
        jobs, cost = sum(cost.jobs for cost in rest), sum(cost.gpu_hours_lost for cost in rest)
        more = f"{plural(len(rest), 'more cause')} not shown: {plural(jobs, 'failed job')}, {gpu_hours(cost)} lost."
    return [
        listed(f"{of_hours if with_hours else ''}Jobs are of {base}.", first),
        fold(_folded(others), listed("The other causes", others)) if others else None,
        note(more),
    ]


def _folded(others: Sequence[Cost]) -> str:
    jobs, lost = sum(cost.jobs for cost in others), sum(cost.gpu_hours_lost for cost in others)
    return f"{plural(len(others), 'more cause')}: {plural(jobs, 'failed job')}" + (
        f", {gpu_hours(lost)} lost" if lost else ""
    )


def _users_head(costs: Sequence[Cost]) -> list[str]:
    """Nothing where no job shows its user."""
    return ["Users#"] if any(cost.users for cost in costs) else []


def _cause(cost: Cost, answers: Answers, longest: tuple[Cost, Cost], colour: str) -> dict[str, Content]:
    """Its cells, by the heads of their columns."""
    about = "no rule names it" if cost.what == UNKNOWN else short(cost.title, 80)
    part = share(cost.gpu_hours_lost, answers.gpu_hours_lost)
    return {
        "Cause": join([code(cost.what), " ", tag("span", about, class_="about") if about else None]),
        "GPU hours lost": _lost(cost, part, longest[0], colour),
        "Failed jobs": measure(f"{cost.jobs:,}", share(cost.jobs, cost.of), length(cost.jobs, longest[1].jobs), colour),
        "Users#": f"{cost.users:,}",
    }


def _lost(cost: Cost, part: str, longest: Cost, colour: str = "plain-bar") -> Content:
    if not cost.with_hours:
        return "not known"
    about = ", ".join(filter(None, (part, known(cost.with_hours, cost.jobs))))
    return measure(hours(cost.gpu_hours_lost), about, length(cost.gpu_hours_lost, longest.gpu_hours_lost), colour)


def groups(noun: str, costs: Sequence[Cost], in_all: int, answers: Answers) -> list[Markup | None]:
    """Partitions or users: those that lost most, each with its own jobs and hours as the denominator."""
    if all(cost.what == UNKNOWN for cost in costs):
        return []
    shown = costliest(costs, answers)[:_MOST_GROUPS]
    longest = max(shown, key=lambda cost: cost.gpu_hours_lost), max(shown, key=lambda cost: cost.jobs)
    users = _users_head(shown) if noun != "user" else []
    rows: list[list[Content]] = []
    for cost in shown:
        part = f"{share(cost.gpu_hours_lost, cost.gpu_hours)} of {hours(cost.gpu_hours)}" if cost.gpu_hours else ""
        jobs = measure(f"{cost.jobs:,}", of(cost.jobs, cost.of, "job"), length(cost.jobs, longest[1].jobs))
        who = f"{noun} not known" if cost.what == UNKNOWN else name(cost.what, 40)
        rows.append([who, _lost(cost, part, longest[0]), jobs, *(f"{cost.users:,}" for _ in users)])
    more = max(in_all, len(costs)) - len(shown)
    heads = (noun.capitalize(), "GPU hours lost", "Failed jobs", *users)
    return [
        table(f"Each number is of the {noun}'s own GPU hours and jobs.", heads, rows),
        note(f"{plural(more, f'more {noun}')} not shown." if more > 0 else ""),
    ]
