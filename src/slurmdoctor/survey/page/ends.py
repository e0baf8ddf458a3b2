"""How failed jobs went on: from the first error to the end, again and again, and of no known cause."""

from __future__ import annotations

from slurmdoctor.report import duration, one_line, plural, redact
from slurmdoctor.report.page.tags import LONGEST, Markup, command, fold, tag
from slurmdoctor.survey.answers import Answers, Repeat, UnknownKind
from slurmdoctor.survey.page.figures import code, gpu_hours, hours, job_id, listed, name, note, of, share, short, span
from slurmdoctor.survey.page.tables import table

_MOST, _WORST, _IDS, _KINDS, _OPEN = 10, 5, 6, 10, 4
_EXAMPLE, _DRAFT = 240, 600
"""Characters of an example, and of a command that is still shown."""


def delays(answers: Answers) -> list[Markup | None]:
    """What somebody who sees the first error at once would save."""
    found = answers.delays
    if not found.jobs or found.median_s is None:
        return [
            tag(
                "p",
                f"Of {found.of:,} jobs that an error ended, none shows both the time of its first error and its end.",
            )
        ]
    slow = f", and one in ten at least {duration(found.p90_s)}" if found.p90_s is not None else ""
    told = [
        f"Half of the jobs ran on for at least {duration(found.median_s)} after their first error{slow}.",
        f"In all, {gpu_hours(found.gpu_hours)} passed between the first error and the end,",
        f"known of {found.with_gpus:,} of {plural(found.jobs, 'job')}.",
    ]
    rows = [[name(job_id(job, 60)), duration(seconds), hours(cost)] for job, seconds, cost in found.worst[:_WORST]]
    heads = ("Job", "From the first error to the end", "GPU hours#")
    return [
        tag("p", " ".join(told)),
        table("The jobs that it cost most", heads, rows) if rows else None,
        note(
            f"Both times are known of {found.jobs:,} jobs, {share(found.jobs, found.of)} of the {found.of:,} that an error ended."
        ),
    ]


def repeats(answers: Answers) -> list[Markup | None]:
    """Jobs that were submitted again without a cure."""
    if not answers.repeats:
        return [tag("p", "No job died twice in a row of the same cause.")]
    told = None
    if answers.repeated_jobs:
        told = tag("p", f"{answers.repeated_jobs:,} jobs ({of(answers.repeated_jobs, answers.failed, 'failed job')}) died of what the run before had died of. They lost {gpu_hours(answers.repeated_gpu_hours)}, as far as that is known.")  # fmt: skip
    shown = answers.repeats[:_MOST]
    more = max(answers.repeats_in_all, len(answers.repeats)) - len(shown)
    heads = ("Job", "User", "Cause", "Times in a row#", "GPU hours of all but the first#", "When", "Job ids")
    return [
        told,
        table("One user's runs of one name, in the order of their start", heads, map(_repeat, shown)),
        note(f"{more:,} more not shown." if more > 0 else ""),
    ]


def _repeat(one: Repeat) -> list[str]:
    ids = listed((job_id(job, 24) for job in one.job_ids), max(one.times, len(one.job_ids)), _IDS)
    return [name(one.job_name, 40), name(one.user, 40), code(one.cause), f"{one.times:,}", hours(one.gpu_hours_lost), span(one.first, one.last), ids]  # fmt: skip


def unknown(answers: Answers) -> list[Markup | None]:
    """The commonest last lines, an example each, and the command that makes a rule of it."""
    found = answers.unknown
    if not found.jobs:
        return [tag("p", "Every failed job has a known cause." if answers.failed else "No job failed.")]
    told = [
        f"A generic cause, or none, is known of {plural(found.jobs, 'job')}, {of(found.jobs, found.of, 'failed job')}:",
        "no rule says why they failed.",
        f"The logs of {found.with_line:,} of them have a last line that says something.",
    ]
    shown = [_kind(kind, found.jobs) for kind in found.kinds[:_KINDS]]
    others = fold(plural(len(shown) - _OPEN, "more kind"), *shown[_OPEN:]) if len(shown) > _OPEN else None
    more = len(found.kinds) - _KINDS
    rest = note(f"{plural(more, 'more kind')} not shown." if more > 0 else "")
    return [tag("p", " ".join(told)), *shown[:_OPEN], others, rest]


def _kind(kind: UnknownKind, of_jobs: int) -> Markup:
    about = f"{kind.jobs:,} of {plural(of_jobs, 'job')}"
    about += f", {plural(kind.users, 'user')}" if kind.users else ""
    about += (
        f", {gpu_hours(kind.gpu_hours_lost)} lost" if kind.gpu_hours_lost is not None else ", GPU hours lost not known"
    )
    caption = tag(
        "figcaption", tag("b", short(redact(kind.pattern[:LONGEST]), 160)), tag("span", about, class_="about")
    )
    example = tag("pre", short(redact(kind.example[:LONGEST]), _EXAMPLE), class_="log")
    draft = one_line(redact(kind.draft[:LONGEST]))
    how = command(draft) if draft and len(draft) <= _DRAFT else None
    asked = tag("p", "Draft a rule from it:" if how else "The command that drafts a rule is too long for this page; the JSON has it.", class_="note") if draft else None  # fmt: skip
    return tag("figure", caption, example, asked, how, class_="kind")
