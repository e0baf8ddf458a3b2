"""Diagnosis → text, JSON, Markdown, Slack: a module a format; `words`, `exits` and `quantities` hold what they share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmdoctor.doors import door

if TYPE_CHECKING:
    from slurmdoctor.report.composer import compose as compose
    from slurmdoctor.report.explain import choices as choices
    from slurmdoctor.report.explain import meanings as meanings
    from slurmdoctor.report.explain import rows as rows
    from slurmdoctor.report.explain import text as text
    from slurmdoctor.report.github_report import Annotation as Annotation
    from slurmdoctor.report.github_report import annotation as annotation
    from slurmdoctor.report.github_report import commands as commands
    from slurmdoctor.report.html_report import page_environment as page_environment
    from slurmdoctor.report.html_report import render_jobs as render_jobs
    from slurmdoctor.report.html_report import render_page as render_page
    from slurmdoctor.report.jobs import Row as Row
    from slurmdoctor.report.jobs import counted as counted
    from slurmdoctor.report.jobs import line as line
    from slurmdoctor.report.jobs import markdown as markdown
    from slurmdoctor.report.jobs import room_for as room_for
    from slurmdoctor.report.jobs import slack as slack
    from slurmdoctor.report.lint import FORMATS as FORMATS
    from slurmdoctor.report.lint import render_lint as render_lint
    from slurmdoctor.report.quantities import ago as ago
    from slurmdoctor.report.quantities import duration as duration
    from slurmdoctor.report.quantities import listed as listed
    from slurmdoctor.report.quantities import plural as plural
    from slurmdoctor.report.reasons import sentence as sentence
    from slurmdoctor.report.recorded import how_found as how_found
    from slurmdoctor.report.redaction.pseudonyms import Pseudonyms as Pseudonyms
    from slurmdoctor.report.redactor import Mode as Mode
    from slurmdoctor.report.redactor import Redactor as Redactor
    from slurmdoctor.report.redactor import disarm as disarm
    from slurmdoctor.report.redactor import one_line as one_line
    from slurmdoctor.report.redactor import redact as redact
    from slurmdoctor.report.result import Diagnosis as Diagnosis
    from slurmdoctor.report.terminal import PLAIN as PLAIN
    from slurmdoctor.report.terminal import Line as Line
    from slurmdoctor.report.terminal import Look as Look
    from slurmdoctor.report.terminal import cells as cells
    from slurmdoctor.report.terminal import clip as clip
    from slurmdoctor.report.terminal import cut as cut
    from slurmdoctor.report.terminal import cut_path as cut_path
    from slurmdoctor.report.terminal import look as look
    from slurmdoctor.report.terminal import paint as paint
    from slurmdoctor.report.terminal import wrap_words as wrap_words
    from slurmdoctor.report.text_report import render_text as render_text
else:
    __getattr__, __dir__, __all__ = door(
        __name__,
        **{"redaction.pseudonyms": "Pseudonyms"},
        composer="compose",
        explain="choices meanings rows text",
        github_report="Annotation annotation commands",
        html_report="page_environment render_jobs render_page",
        jobs="Row counted line markdown room_for slack",
        lint="FORMATS render_lint",
        quantities="ago duration listed plural",
        reasons="sentence",
        recorded="how_found",
        redactor="Mode Redactor disarm one_line redact",
        result="Diagnosis",
        terminal="Line Look PLAIN cells clip cut cut_path look paint wrap_words",
        text_report="render_text",
    )
