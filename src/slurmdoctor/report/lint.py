"""Findings of `slurmdoctor lint` as text, JSON, or GitHub's workflow commands."""

from __future__ import annotations

import json
from collections.abc import Sequence

from msgspec import to_builtins

from slurmdoctor.model import ScriptMistake
from slurmdoctor.report.redact import Mode, Redactor, one_line
from slurmdoctor.slurm.script.lint import wrong

FORMATS = ("text", "json", "github")
_GITHUB = {"error": "error", "warning": "warning", "note": "notice"}

Findings = Sequence[tuple[str, Sequence[ScriptMistake]]]


def render(found: Findings, form: str, redact: Mode = "default") -> str:
    """The findings of several scripts, which quote them: safe to print and to post."""
    return {"text": _text, "json": _json, "github": _github}[form](Redactor(redact).values(found))


def _text(found: Findings) -> str:
    blocks: list[str] = []
    for name, findings in found:
        for m in findings:
            lines = [f"{one_line(name)}:{m.line}: {m.level}: {one_line(m.says)} [{m.check}]"]
            lines += [f"  │ {one_line(m.text)[:140]}"] if m.text else []
            lines += [f"  why   {one_line(m.why)}"] if m.why else []
            lines += [f"  mend  {one_line(m.mend)}"] if m.mend else []
            blocks.append("\n".join(lines) + "\n")
        if not findings:
            blocks.append(f"{one_line(name)}: nothing wrong\n")
    return "\n".join(blocks)


def _json(found: Findings) -> str:
    files = [
        {
            "file": name,
            "wrong": wrong(findings),
            "findings": [{**to_builtins(m), "causes": sorted(m.causes)} for m in findings],
        }
        for name, findings in found
    ]
    return json.dumps({"schema_version": 1, "files": files}, ensure_ascii=False, indent=2) + "\n"


def _github(found: Findings) -> str:
    rows = [
        f"::{_GITHUB[m.level]} file={_property(name)},line={m.line},title={_property('slurmdoctor ' + m.check)}::"
        + _data(f"{m.says}. {m.why} {m.mend}")
        for name, findings in found
        for m in findings
    ]
    return "".join(row + "\n" for row in rows)


def _data(text: str) -> str:
    return one_line(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
