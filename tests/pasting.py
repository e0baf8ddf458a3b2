"""Applies what `slurmdoctor lint` says to do, as a person would who pastes it. Only the finding's own words are used."""

import re
from collections.abc import Callable

from slurmdoctor.model import ScriptMistake

Lines = list[str]
SHORT = {"ntasks": "n", "nodes": "N"}
Way = Callable[..., Lines]


def cured(script: str, finding: ScriptMistake) -> str | None:
    """The script with the fix of one finding applied; None where the fix is no command, but a choice."""
    lines = script.splitlines()
    for pattern, way in WAYS.items():
        if found := re.match(pattern, finding.fix):
            return "\n".join(way(lines, finding.line - 1, *found.groups())) + "\n"
    return None


def _statement(lines: Lines, at: int) -> tuple[int, int]:
    """First line of the statement on a line, and the one behind it: it goes on behind a backslash or an open quote."""
    first = at
    while first and lines[first - 1].endswith("\\"):
        first -= 1
    last = first
    while lines[last].endswith("\\") or _is_open("\n".join(lines[first : last + 1])):
        last += 1
    return first, last + 1


def _is_open(text: str) -> bool:
    bare = re.sub(r"\\.|'[^']*'", "", text, flags=re.S)
    bare = re.sub(r'"[^"]*"', "", bare)
    return '"' in bare or "'" in bare


def _insert(lines: Lines, at: int, text: str) -> Lines:
    return [*lines[:at], text, *lines[at:]]


def _above(lines: Lines, at: int, text: str) -> Lines:
    return _insert(lines, _statement(lines, at)[0], text)


def _after(lines: Lines, at: int, text: str) -> Lines:
    last = _statement(lines, at)[1] - 1
    return [*lines[:last], f"{lines[last]} {text}", *lines[last + 1 :]]


def _above_step(lines: Lines, text: str) -> Lines:
    """An `export` takes the place of the one that is there, or stands above the step."""
    name = re.match(r"export (\w+)=", text)
    for at, line in enumerate(lines):
        if name and re.match(rf"\s*(?:export )?{name[1]}=", line):
            return [*lines[:at], text, *lines[at + 1 :]]
    trains = max(at for at, line in enumerate(lines) if re.search(r"\b(?:srun|torchrun|python)\b", line))
    return _above(lines, trains, text)


def _directive(lines: Lines, text: str) -> Lines:
    behind = max(at for at, line in enumerate(lines) if line.startswith("#")) + 1
    return _insert(lines, behind, text)


def _option(lines: Lines, at: int, text: str, name: str = "") -> Lines:
    """`--name=value` in place of what the script says, or in its first #SBATCH line."""
    name = name or text.partition("=")[0].lstrip("-").replace("_", "-")
    short = rf"|(?<= )-{SHORT[name]}[= ]?" if name in SHORT else ""
    written = re.compile(rf"(?:--{name.replace('-', '[-_]')}(?:=|\s+){short})[^\s\"']+")
    order = [at, *(k for k in range(len(lines)) if k != at)]
    for k in order:
        if written.search(lines[k]):
            changed = written.sub(lambda _: text, lines[k])
            return [*lines[:k], changed, *lines[k + 1 :]]
    k = next(k for k, line in enumerate(lines) if line.startswith("#SBATCH"))
    return [*lines[:k], f"{lines[k]} {text}", *lines[k + 1 :]]


def _piece(lines: Lines, at: int, text: str) -> Lines:
    """An escaped variable, or a default, in place of the same without."""
    plain = text.replace("\\$", "$").replace(":-", ":")
    spelled = re.escape(plain).replace("=", '="?')
    changed, count = re.subn(rf"(?<!\\){spelled}", lambda m: text, lines[at])
    assert count, f"{text!r} is not in line {at + 1}: {lines[at]!r}"
    return [*lines[:at], changed, *lines[at + 1 :]]


_Q = "`([^`]+)`"


def _replace(lines: Lines, at: int, old: str, new: str) -> Lines:
    """In the line of the finding, or the next one that holds it."""
    k = next(k for k in (*range(at, len(lines)), *range(at)) if old in lines[k])
    return [*lines[:k], lines[k].replace(old, new, 1), *lines[k + 1 :]]


WAYS: dict[str, Way] = {
    rf"Escape it.*?: {_Q}": lambda s, at, a: _piece(s, at, a),
    r"Write `(--[^`]+)`": lambda s, at, a: _option(s, at, a),
    r"(?:If .*, )?[Ss]et `(--[^`]+)`": lambda s, at, a: _option(s, at, a),
    r"(?:Add|Set|Put|Derive).*?`(export [^`]+)`": lambda s, at, a: _above_step(s, a),
    r"Add `(#SBATCH [^`]+)`": lambda s, at, a: _directive(s, a),
    rf"Put {_Q} above it, and delete the `wait` in line (\d+)": lambda s, at, a, n: _above(
        [*s[: int(n) - 1], *s[int(n) :]], at, a
    ),
    rf"Put {_Q} above it": lambda s, at, a: _above(s, at, a),
    r"Put `(\|\| exit)` after the training": lambda s, at, a: _after(s, at, a),
    rf"Replace {_Q} with {_Q}": lambda s, at, a, b: _replace(s, at, a, b),
    rf"Remove {_Q}": lambda s, at, a: _replace(s, at, f"{a} ", ""),
}
"""How each kind of fix is applied to the lines of a script: (lines, index of the finding's line, what stands in backquotes)."""
