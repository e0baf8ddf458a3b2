"""How the page was counted: every job is somewhere, and every number is of something."""

from __future__ import annotations

from slurmdoctor.report import plural
from slurmdoctor.report.page.tags import Markup, tag
from slurmdoctor.survey.answers import Answers
from slurmdoctor.survey.page.figures import gpu_hours, of, short

_WAYS = {
    "since-checkpoint": "since the newest checkpoint that the log shows",
    "whole-run": "as the whole run: its log shows no checkpoint",
}
_MOST = 10


def counted(answers: Answers) -> list[Markup | None]:
    """The denominators."""
    return [
        tag(
            "dl",
            *(tag("div", tag("dt", name), tag("dd", value)) for name, value in _rows(answers) if value),
            class_="facts",
        )
    ]


def _rows(answers: Answers) -> list[tuple[str, str]]:
    jobs = answers.jobs
    if not jobs:
        return [("Jobs in the report", "0")]
    hours = (
        f"Known of {answers.with_hours:,} jobs, {of(answers.with_hours, jobs, 'job')}: {gpu_hours(answers.gpu_hours)}"
    )
    lost = [f"{plural(count, 'job')} {_WAYS.get(way, short(way))}" for way, count in answers.lost_counted[:_MOST]]
    unknown = answers.failed - answers.failed_with_hours
    if unknown > 0:
        lost.append(f"{plural(unknown, 'failed job')} without known GPU hours")
    rules = f"{answers.rules_versions:,} versions made the rows; run the survey again to make them alike"
    return [
        ("Jobs in the report", f"{jobs:,}"),
        ("Logs read", f"{answers.read:,}, {of(answers.read, jobs, 'job')}"),
        ("No log found, decided by Slurm's record", f"{answers.no_log:,}, {of(answers.no_log, jobs, 'job')}"),
        ("COMPLETED and not read", f"{answers.not_asked:,}, {of(answers.not_asked, jobs, 'job')}"),
        ("Could not be read", f"{answers.errors:,}, {of(answers.errors, jobs, 'job')}"),
        ("Failed", f"{answers.failed:,}, {of(answers.failed, jobs, 'job')}"),
        ("Healthy", f"{answers.healthy:,}, {of(answers.healthy, jobs, 'job')}"),
        ("Neither the log nor Slurm shows which", f"{answers.undecided:,}, {of(answers.undecided, jobs, 'job')}"),
        ("Without a time, left out of the dates", f"{plural(answers.undated_left_out, 'more job')}" if answers.undated_left_out else ""),
        ("GPU hours", hours),
        ("How the loss is counted", "; ".join(lost)),
        ("Rules and program", "One version made all rows" if answers.rules_versions == 1 else rules),
    ]  # fmt: skip
