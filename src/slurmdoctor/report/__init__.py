"""A finding in words and in every form: text, JSON, Markdown, Slack, GitHub, HTML; and what masks secrets in all that is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmdoctor.doors import door

if TYPE_CHECKING:
    from slurmdoctor.report.composer import compose, how_found
    from slurmdoctor.report.explain import explained
    from slurmdoctor.report.html_report import render_page
    from slurmdoctor.report.lint_report import FORMATS, render_lint
    from slurmdoctor.report.reasons import sentence
    from slurmdoctor.report.redaction import (
        Mode,
        Pseudonyms,
        Redactor,
        disarm,
        one_line,
        redact,
    )
    from slurmdoctor.report.result import Diagnosis, render, render_jobs
    from slurmdoctor.report.terminal import (
        PLAIN,
        Line,
        Look,
        look,
        paint,
        wrap_words,
    )
    from slurmdoctor.report.text_report import render_text
    from slurmdoctor.report.wording import (
        Row,
        counted,
        duration,
        line,
        listed,
        plural,
        room_for,
    )
else:
    __getattr__, __dir__, __all__ = door(
        __name__,
        composer="compose how_found",
        explain="explained",
        html_report="render_page",
        lint_report="FORMATS render_lint",
        reasons="sentence",
        redaction="Mode Pseudonyms Redactor disarm one_line redact",
        result="Diagnosis render render_jobs",
        terminal="Line Look PLAIN look paint wrap_words",
        text_report="render_text",
        wording="Row counted duration line listed plural room_for",
    )
