"""A finding in words and in every form: text, JSON, Markdown, Slack, GitHub, HTML; and what masks secrets in all that is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmdoctor.doors import door

if TYPE_CHECKING:
    from slurmdoctor.report.composer import compose as compose
    from slurmdoctor.report.composer import how_found as how_found
    from slurmdoctor.report.explain import choices as choices
    from slurmdoctor.report.explain import meanings as meanings
    from slurmdoctor.report.explain import rows as rows
    from slurmdoctor.report.explain import text as text
    from slurmdoctor.report.html_report import page_environment as page_environment
    from slurmdoctor.report.html_report import render_page as render_page
    from slurmdoctor.report.lint import FORMATS as FORMATS
    from slurmdoctor.report.lint import render_lint as render_lint
    from slurmdoctor.report.reasons import sentence as sentence
    from slurmdoctor.report.redaction import Mode as Mode
    from slurmdoctor.report.redaction import Pseudonyms as Pseudonyms
    from slurmdoctor.report.redaction import Redactor as Redactor
    from slurmdoctor.report.redaction import disarm as disarm
    from slurmdoctor.report.redaction import one_line as one_line
    from slurmdoctor.report.redaction import redact as redact
    from slurmdoctor.report.result import Diagnosis as Diagnosis
    from slurmdoctor.report.result import render as render
    from slurmdoctor.report.result import render_jobs as render_jobs
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
    from slurmdoctor.report.words import Row as Row
    from slurmdoctor.report.words import ago as ago
    from slurmdoctor.report.words import counted as counted
    from slurmdoctor.report.words import duration as duration
    from slurmdoctor.report.words import line as line
    from slurmdoctor.report.words import listed as listed
    from slurmdoctor.report.words import plural as plural
    from slurmdoctor.report.words import room_for as room_for
else:
    __getattr__, __dir__, __all__ = door(
        __name__,
        composer="compose how_found",
        explain="choices meanings rows text",
        html_report="page_environment render_page",
        lint="FORMATS render_lint",
        reasons="sentence",
        redaction="Mode Pseudonyms Redactor disarm one_line redact",
        result="Diagnosis render render_jobs",
        terminal="Line Look PLAIN cells clip cut cut_path look paint wrap_words",
        text_report="render_text",
        words="Row ago counted duration line listed plural room_for",
    )
