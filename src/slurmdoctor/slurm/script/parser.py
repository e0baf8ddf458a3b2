"""bash → Script, with tree-sitter-bash. Strings that another shell will run are parsed too."""

from __future__ import annotations

import re

from slurmdoctor.slurm.script import kinds
from slurmdoctor.slurm.script.bash.walk import Walk
from slurmdoctor.slurm.script.bash.words import TooMuchError, Value
from slurmdoctor.slurm.script.directives import is_mixed, slurm_variables
from slurmdoctor.slurm.script.directives import read as read_directives
from slurmdoctor.slurm.script.finds import recipe
from slurmdoctor.slurm.script.model import Script

LONGEST, LONGEST_LINE = 256 * 1024, 16 * 1024
"""Characters of a script, and of a line. One that has more is read up to there; so is one that needs more of the next two."""
_HOOK = re.compile(r"^# --- slurmdoctor: .*\n(?:(?!# --- ).*\n)*# --- end of slurmdoctor -+$", re.M)
"""The footer in a script, by its first and last line: its traps and commands are not the script's."""


def parse(text: str, name: str = "script") -> Script:
    """The parsed script. Lines that are no bash stand in `broken`; the others are read all the same."""
    text, cut = _readable(text)
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n")
    directives, ignored = read_directives(lines)
    interpreter, unread = kinds.of(lines, name)
    walk = Walk({k: Value(v, True) for k, v in slurm_variables(directives).items()})
    try:
        if not unread:
            walk.source(_HOOK.sub(lambda hook: "\n" * hook[0].count("\n"), lines), 1, 0)
    except TooMuchError:
        cut = walk.line
    within = {line for first, last in walk.documents for line in range(first, last + 1)}
    return Script(
        name,
        text,
        directives=tuple(directives),
        ignored=tuple(one for one in ignored if one.line not in within and not unread),
        commands=tuple(walk.commands),
        assignments=tuple(walk.assignments),
        traps=tuple(walk.traps),
        broken=tuple(dict.fromkeys(walk.broken)),
        early=tuple(walk.early),
        exported_early=tuple(walk.exported_early),
        background=tuple(walk.background),
        last_tests=tuple(walk.last_tests),
        read=tuple(walk.read),
        documents=tuple(walk.documents),
        interpreter=interpreter,
        unread=unread,
        settings=recipe.settings(lines) if interpreter == "yaml" else {},
        mixed=is_mixed(lines),
        cut=cut,
    )


def parse_beside(text: str, name: str) -> Script:
    """The script of a job whose log is read: what is wrong with it costs a note, never the verdict."""
    if kinds.is_no_text(text):
        return Script(name, "", fault="it is no text")
    try:
        return parse(text, name)
    except Exception as error:
        return Script(name, "", fault=f"internal error, {type(error).__name__}: please report it")


def _readable(text: str) -> tuple[str, int | None]:
    """A script up to where it is longer than scripts are, and the line that is the first one left out."""
    lines = text[:LONGEST].split("\n")
    end = len(lines) - (len(text) > LONGEST)
    end = next((at for at in range(end) if len(lines[at]) > LONGEST_LINE), end)
    return ("\n".join(lines[:end]) + "\n", end + 1) if end < len(lines) else (text, None)
