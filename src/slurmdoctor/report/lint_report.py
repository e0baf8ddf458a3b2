"""Findings of `slurmdoctor lint` as text, JSON and Markdown; and GitHub's annotations, of findings and of verdicts."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import to_builtins

from slurmdoctor.model import Diagnosis, Frozen, ScriptMistake
from slurmdoctor.report import wording
from slurmdoctor.report.chat import code, marked
from slurmdoctor.report.redaction import Mode, Redactor, one_line
from slurmdoctor.report.terminal import PLAIN, Line, Look, cut, paint, wrap_words
from slurmdoctor.report.wording import listed, plural
from slurmdoctor.slurm.script import wrong

Kind = Literal["error", "warning", "notice"]
MOST = 10
"""Annotations of one kind that GitHub takes from a step; it drops the others without a word."""
_LONGEST = 4000
"""Characters of a message; GitHub cuts longer ones."""


class Annotation(Frozen):
    """A message beside a line of a file, or of the whole run."""

    kind: Kind
    title: str
    text: str
    file: str | None = None
    line: int | None = None


def annotation(diagnosis: Diagnosis) -> Annotation:
    """A failure as an error beside the log's line, else a warning or a notice."""
    file, line, _, _ = wording.shown_line(diagnosis)
    file = None if file and file.startswith("<") else file  # a pasted text
    if diagnosis.verdict != "failed":
        kind: Kind = "warning" if diagnosis.verdict == "unknown" else "notice"
        return Annotation(
            kind, "slurmdoctor", f"{wording.headline(diagnosis)} (read {wording.read(diagnosis)})", file, line
        )
    fixes = [f"Fix: {fix.do}" for fix in diagnosis.fixes[:1]]
    text = ". ".join(part.rstrip(".") for part in (wording.headline(diagnosis), *fixes))
    return Annotation("error", f"slurmdoctor: {wording.tag(diagnosis)}", text, file, line)


def commands(found: Iterable[Annotation]) -> str:
    """The workflow commands, as many as GitHub takes, and a line on how many there are beside these."""
    shown: list[str] = []
    seen: Counter[Kind] = Counter()
    for item in found:
        seen[item.kind] += 1
        if seen[item.kind] <= MOST:
            shown.append(_command(item))
    more = [plural(seen[kind] - MOST, f"more {kind}") for kind in seen if seen[kind] > MOST]
    rest = [f"GitHub shows {MOST} annotations of a kind; left out: {listed(more)}"] if more else []
    return "".join(row + "\n" for row in (*shown, *rest))


def _command(item: Annotation) -> str:
    properties = {"file": item.file, "line": item.line if item.file else None, "title": item.title}
    given = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items() if value is not None)
    return f"::{item.kind} {given}::{_data(item.text)}"


def _data(text: str) -> str:
    return one_line(text)[:_LONGEST].replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


FORMATS = ("text", "json", "markdown", "github")
_GITHUB: Mapping[str, Kind] = {"error": "error", "warning": "warning", "note": "notice"}
_COLOURS = {"error": "bad", "warning": "doubt", "note": "key"}
_WIDEST = 140
_MOST_ROWS = 500
"""Findings of a table; a step's summary may have a mebibyte."""

Findings = Sequence[tuple[str, Sequence[ScriptMistake]]]


def render_lint(found: Findings, form: str, redact: Mode = "default", look: Look = PLAIN) -> str:
    """The findings of several scripts, which quote them: safe to print and to post."""
    masked = Redactor(redact).values(found)
    if form == "text":
        return paint(_text(masked, min(look.width, _WIDEST)), look)
    return {"json": _json, "markdown": _markdown, "github": _github}[form](masked)


def _text(found: Findings, width: int) -> list[Line]:
    lines: list[Line] = []
    for name, findings in found:
        for m in findings:
            # on one line however long it is: editors read it
            where = ("", f"{one_line(name)}:{m.line}: ")
            lines.append([where, (_COLOURS[m.level], f"{m.level}:"), ("bold", f" {one_line(m.says)} [{m.check}]")])
            lines += [[("", "  "), ("dim", "│"), ("", f" {cut(one_line(m.text), width - 4)}")]] if m.text else []
            lines += [*_row("why", m.why, width), *_row("fix", m.fix, width), []]
    return [*lines, [("bold" if lines else "good", _counts(found))]]


def _counts(found: Findings) -> str:
    """`1 error, 2 warnings in 3 files`"""
    levels = Counter(m.level for _, findings in found for m in findings)
    counts = ", ".join(plural(levels[level], level) for level in _COLOURS if levels[level])
    where = f" in {len(found)} files" if len(found) > 1 else ""
    return f"{counts or 'no problems found'}{where}" if found else "no batch scripts to check"


def _row(label: str, text: str, width: int) -> list[Line]:
    """A labelled text over as many lines as it takes. A command in it stays whole: it is there to be pasted."""
    rows = wrap_words(one_line(text), width - 9, whole=True) if text else []
    return [[("", "  "), ("key", f"{'' if number else label:6}"), ("", row)] for number, row in enumerate(rows)]


def _json(found: Findings) -> str:
    files = [
        {
            "file": name,
            "wrong": wrong(findings),
            # `mend` is what 0.1 called `fix`
            "findings": [{**to_builtins(m), "mend": m.fix, "causes": sorted(m.causes)} for m in findings],
        }
        for name, findings in found
    ]
    return json.dumps({"schema_version": 1, "files": files}, ensure_ascii=False, indent=2) + "\n"


def _github(found: Findings) -> str:
    return commands(
        Annotation(_GITHUB[m.level], f"slurmdoctor {m.check}", f"{m.says}. {m.why} {m.fix}", name, m.line)
        for name, findings in found
        for m in findings
    )


def _markdown(found: Findings) -> str:
    """A table, the errors first, for a pull request or a step's summary."""
    rows = sorted(
        ((m, name) for name, findings in found for m in findings), key=lambda row: list(_COLOURS).index(row[0].level)
    )
    table = [
        "| " + " | ".join(map(_cell, (code(f"{name}:{m.line}"), m.level, marked(m.says), marked(m.fix)))) + " |"
        for m, name in rows[:_MOST_ROWS]
    ]
    head = ["", "| where | | what | fix |", "|---|---|---|---|"] if table else []
    more = ["", f"and {len(rows) - _MOST_ROWS:,} more"] if len(rows) > _MOST_ROWS else []
    return "\n".join([f"**slurmdoctor lint: {_counts(found)}**", *head, *table, *more]) + "\n"


def _cell(text: str) -> str:
    """Markdown in a table: there a bar ends a cell even in code."""
    return re.sub(r"(?<!\\)\|", r"\\|", text)
