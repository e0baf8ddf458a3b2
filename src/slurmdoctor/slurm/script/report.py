"""Findings of `slurmdoctor lint` as text, JSON, or GitHub's workflow commands."""

from __future__ import annotations

import json
from collections.abc import Sequence

from slurmdoctor.report.redact import disarm
from slurmdoctor.slurm.script.lint import Mistake, wrong

FORMATS = ("text", "json", "github")
_GITHUB = {"error": "error", "warning": "warning", "note": "notice"}

Found = Sequence[tuple[str, Sequence[Mistake]]]


def render(found: Found, form: str) -> str:
    """The findings of several scripts."""
    return {"text": _text, "json": _json, "github": _github}[form](found)


def _text(found: Found) -> str:
    blocks: list[str] = []
    for name, mistakes in found:
        for m in mistakes:
            lines = [f"{_line(name)}:{m.line}: {m.level}: {_line(m.says)} [{m.check}]"]
            lines += [f"  │ {_line(m.text)[:140]}"] if m.text else []
            lines += [f"  why   {_line(m.why)}"] if m.why else []
            lines += [f"  mend  {_line(m.mend)}"] if m.mend else []
            blocks.append("\n".join(lines) + "\n")
        if not mistakes:
            blocks.append(f"{_line(name)}: nothing wrong\n")
    return "\n".join(blocks)


def _json(found: Found) -> str:
    files = [
        {
            "file": name,
            "wrong": wrong(mistakes),
            "findings": [
                {
                    "check": m.check,
                    "level": m.level,
                    "line": m.line,
                    "says": m.says,
                    "why": m.why,
                    "mend": m.mend,
                    "text": m.text,
                    "causes": sorted(m.causes),
                }
                for m in mistakes
            ],
        }
        for name, mistakes in found
    ]
    return json.dumps({"schema_version": 1, "files": files}, ensure_ascii=False, indent=2) + "\n"


def _github(found: Found) -> str:
    rows = [
        f"::{_GITHUB[m.level]} file={_property(name)},line={m.line},title={_property('slurmdoctor ' + m.check)}::"
        + _data(f"{m.says}. {m.why} {m.mend}")
        for name, mistakes in found
        for m in mistakes
    ]
    return "".join(row + "\n" for row in rows)


def _line(text: str) -> str:
    return " ".join(disarm(text).split())


def _data(text: str) -> str:
    return _line(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
