"""The page of a survey's answers: one file that needs no script, no network and no other file."""

from __future__ import annotations

from slurmdoctor.report.page.skeleton import document, sheet
from slurmdoctor.report.page.tags import section, tag
from slurmdoctor.survey.answers import Answers
from slurmdoctor.survey.page import costs, nodes, sizes, top
from slurmdoctor.survey.page.columns import colours, over_time
from slurmdoctor.survey.page.counted import counted
from slurmdoctor.survey.page.ends import delays, repeats, unknown


def render(answers: Answers) -> str:
    """The page, in ASCII: no server and no locale can misread it."""
    colour = colours(answers)
    lost = "What costs the GPU hours" if answers.by_hours else "What kills the jobs"
    parts = [
        section("causes", lost, *costs.causes(answers, colour)),
        section("time", "Over time", *over_time(answers, colour)),
        section(
            "partitions",
            "Partitions",
            *costs.groups("partition", answers.partitions, answers.partitions_in_all, answers),
        ),
        section("users", "Users", *costs.groups("user", answers.users, answers.users_in_all, answers)),
        section("nodes", "Nodes that fail more than chance", *nodes.nodes(answers)),
        section("sizes", "Mean time to failure by job size", *sizes.sizes(answers)),
        section("delays", "From the first error to the end", *delays(answers)),
        section("repeats", "Jobs that die again of the same cause", *repeats(answers)),
        section("unknown", "Failures of no known cause", *unknown(answers)),
    ]
    shown = parts if answers.jobs else []
    details = tag("div", *shown, section("counted", "How this was counted", *counted(answers)), id="details")
    body = (top.head(answers), top.tiles(answers) if answers.jobs else None, details)
    return document(top.title(answers), *body, style=sheet("slurmdoctor.survey.page"))
