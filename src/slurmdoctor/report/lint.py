"""Findings of `slurmdoctor lint` as text, JSON, Markdown, or GitHub's workflow commands."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import to_builtins

from slurmdoctor.model import ScriptMistake
from slurmdoctor.report.github_report import Annotation, Kind, commands
from slurmdoctor.report.markdown_report import code, marked
from slurmdoctor.report.quantities import plural
from slurmdoctor.report.redactor import Mode, Redactor, one_line
from slurmdoctor.report.terminal import PLAIN, Line, Look, cells, cut, paint, wrap
from slurmdoctor.slurm.script import wrong

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
        return paint(_text(masked, min(look.width, _WIDEST)), colour=look.colour, encoding=look.encoding)
    return {"json": _json, "markdown": _markdown, "github": _github}[form](masked)


def _text(found: Findings, width: int) -> list[Line]:
    lines: list[Line] = []
    for name, findings in found:
        for m in findings:
            lines += [_head(one_line(name), m), *_row("│", m.text and cut(one_line(m.text), width - 4), width)]
            lines += [*_row("why   ", m.why, width), *_row("fix   ", m.fix, width), []]
    return [*lines, [("bold" if lines else "good", _counts(found))]]


def _counts(found: Findings) -> str:
    """`1 error, 2 warnings in 3 files`"""
    levels = Counter(m.level for _, findings in found for m in findings)
    counts = ", ".join(plural(levels[level], level) for level in _COLOURS if levels[level])
    where = f" in {len(found)} files" if len(found) > 1 else ""
    return f"{counts or 'no problems found'}{where}" if found else "no batch scripts to check"


def _head(name: str, m: ScriptMistake) -> Line:
    """`train.sbatch:4: error: ...`, on one line however long it is: editors read it."""
    return [
        ("", f"{name}:{m.line}: "),
        (_COLOURS[m.level], f"{m.level}:"),
        ("bold", f" {one_line(m.says)} [{m.check}]"),
    ]


def _row(label: str, text: str, width: int) -> list[Line]:
    """A labelled text over as many lines as it takes. A command in it stays whole: it is there to be pasted."""
    if not text:
        return []
    indent = "  " + " " * len(label)
    first, *rest = _whole_commands(one_line(text), width - cells(indent) - 1)
    style = "dim" if label == "│" else "key"
    return [
        [("", "  "), (style, label), ("", " " if label == "│" else ""), ("", first)],
        *([("", indent), ("", line)] for line in rest),
    ]


def _whole_commands(text: str, width: int) -> list[str]:
    """The text in lines. A command between backquotes that does not fit gets a line of its own, however long it is."""
    if cells(text) <= width:
        return [text]
    lines: list[str] = []
    for at, piece in enumerate(text.split("`")):
        if at % 2 and cells(piece) > width - 2:
            lines += [f"`{piece}`", ""]
        elif at % 2:
            fits = lines and cells(lines[-1]) + cells(piece) + 2 <= width
            lines[-1:] = [f"{lines[-1]}`{piece}`"] if fits else [*lines[-1:], f"`{piece}`"]
        else:
            before = lines.pop() if lines else ""
            # behind a command that has its line, a sentence begins anew
            piece = piece if before or not at else piece.lstrip(" .,;:")
            lines += wrap(before + piece, width) if cells(before) <= width else [before, *wrap(piece.lstrip(), width)]
    return [line.rstrip() for line in lines if line.strip(" .")]


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
