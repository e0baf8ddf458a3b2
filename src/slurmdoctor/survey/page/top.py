"""The top of the page: what a meeting needs in one sentence, and six numbers."""

from __future__ import annotations

from slurmdoctor.report import plural
from slurmdoctor.report.page.tags import Markup, join, sentence, tag
from slurmdoctor.survey.answers import Answers
from slurmdoctor.survey.page.costs import costliest
from slurmdoctor.survey.page.figures import UNKNOWN, code, gpu_hours, hours, of, share, short, span

_NAMED = 8
"""Clusters and filters that are named."""


def title(answers: Answers) -> str:
    """How many failed of how many."""
    if not answers.jobs:
        return "No jobs to report on"
    return f"{answers.failed:,} of {plural(answers.jobs, 'job')} failed"


def head(answers: Answers) -> Markup:
    """The headline, what it cost, the worst cause, and what was looked at."""
    return tag(
        "header",
        tag("h1", tag("span", title(answers))),
        tag("p", join([*_cost(answers), *_worst(answers)], " "), class_="lead") if answers.failed else None,
        None if answers.jobs else tag("p", "The dataset holds no jobs, or none that the filters take.", class_="lead"),
        *(tag("p", sentence(f"{note}."), class_="lead") for note in answers.lacks),
        _chips(answers),
        class_="verdict",
    )


def _cost(answers: Answers) -> list[str]:
    if not answers.failed_with_hours:
        return ["How many GPU hours they lost is not known: neither sacct nor the logs show their GPUs and times."]
    whole = share(answers.gpu_hours_lost, answers.gpu_hours)
    told = [f"They lost {gpu_hours(answers.gpu_hours_lost)}"]
    if whole:
        told.append(f", {whole} of the {gpu_hours(answers.gpu_hours)} that {plural(answers.with_hours, 'job')} used")
    if answers.failed_with_hours < answers.failed:
        told.append(f" (known of {answers.failed_with_hours:,} of the {plural(answers.failed, 'failed job')})")
    return ["".join(told) + "."]


def _worst(answers: Answers) -> list[Markup]:
    named = [cost for cost in answers.causes if cost.what != UNKNOWN]
    if not named:
        return []
    if len(answers.first_of(named)) > 1:
        return []  # a tie has no first
    worst = costliest(named, answers)[0]
    jobs = f"{worst.jobs:,} of {plural(answers.failed, 'failed job')}"
    if not answers.by_hours:
        return [join(["The most common cause is ", code(worst.what), f": {jobs}."])]
    part = share(worst.gpu_hours_lost, answers.gpu_hours_lost)
    return [join([code(worst.what), f" cost most: {gpu_hours(worst.gpu_hours_lost)}, {part} of the loss, in {jobs}."])]


def _chips(answers: Answers) -> Markup | None:
    chips = [tag("li", f"ended {told}") for told in [span(answers.first, answers.last)] if told]
    if answers.clusters:
        noun = "cluster" if len(answers.clusters) == 1 else "clusters"
        more = len(answers.clusters) - _NAMED
        named = ", ".join(short(cluster, 40) for cluster in answers.clusters[:_NAMED])
        chips.append(tag("li", f"{noun} {named}" + (f" and {more:,} more" if more > 0 else "")))
    chips += [tag("li", "only ", code(f"{option} {value}", 60)) for option, value in answers.filters[:_NAMED]]
    return tag("ul", *chips, class_="chips", aria_label="What was looked at") if chips else None


def tiles(answers: Answers) -> Markup:
    """Six numbers, each with what it is of."""
    jobs, failed, tested = answers.jobs, answers.failed, answers.nodes.tested
    unread, skipped = answers.undecided + answers.errors, answers.not_asked
    lost = share(answers.gpu_hours_lost, answers.gpu_hours)
    shown = (
        ("Failed jobs", failed, of(failed, jobs, "job")),
        ("GPU hours lost", hours(answers.gpu_hours_lost) if answers.failed_with_hours else None,
         f"{lost} of {gpu_hours(answers.gpu_hours)}".strip() if answers.with_hours else "no job shows its GPUs and times"),
        ("Failed with a generic cause, or none", answers.unknown.jobs, of(answers.unknown.jobs, failed, "failed job")),
        ("COMPLETED for Slurm, failed in the log", answers.completed_but_failed,
         f"of {plural(jobs, 'job')}" + (f", {skipped:,} of them not read" if skipped else "")),
        ("Suspect nodes", len(answers.nodes.suspects) if tested else None,
         f"of {plural(tested, 'tested node')}" if tested else "no failure shows a node that it can blame"),
        ("Undecided or not readable", unread, of(unread, jobs, "job")),
    )  # fmt: skip
    return tag("dl", *(_tile(name, value, about) for name, value, about in shown), class_="tiles")


def _tile(name: str, value: int | str | None, about: str) -> Markup:
    number = value if isinstance(value, str) else "?" if value is None else f"{value:,}"
    return tag("div", tag("dt", name), tag("dd", tag("b", number), " ", tag("span", about)))
