"""Drafts a rule file from a line of a log, with TODO where a person has to write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import regex

from slurmdoctor.knowledge.schema import CAUSE_ID, RULE_NAME
from slurmdoctor.knowledge.workshop.proof import peeled
from slurmdoctor.model import Cause, Knowledge, UserError
from slurmdoctor.ranks import LabelReader
from slurmdoctor.readers import exception_of

# What differs from run to run. The order is that of preference.
_VARIABLE = regex.compile(
    r"(?P<mask>\[redacted [a-z0-9 -]+\])|(?P<hex>\b0x[0-9a-fA-F]+)|(?P<path>(?<![\w.])/[\w.@+~-]+(?:/[\w.@+~-]*)*)|(?P<quoted>'[^'\n]{1,80}'|\"[^\"\n]{1,80}\")"
    r"|(?P<size>\d+(?:\.\d+)?(?= ?[KMGT]i?B\b))"
    # a whole number, or the one at the end of a name: `gpu12`, but not `S3Error`
    r"|(?P<number>(?<![\w.])\d+(?:\.\d+)*|(?<![\d.])\d+(?:\.\d+)*(?!\w))"
)
_PATTERN_OF = {
    "mask": r"(?:\[redacted [^\]]{1,40}\]|\S{1,200})",
    "hex": "0x[0-9a-fA-F]{1,16}",
    "path": r"/\S{0,200}",
    "size": r"[\d.]{1,20}",
    "number": r"[\d.]{1,20}",
}
_MOST_LITERAL = 60
_PLAIN_REGEX = 160

_HEAD = """\
cause: {cause}{beside}
title: 'TODO'                    # completes "rank 13 ..."; no full stop, at most 60 characters
role: root                       # root | cascade | either | confirmation | hint (docs/rules.md)
exit_classes: [{exit_class}]
explains: [{explains}]   # what it brings about on other ranks
retry: unknown                   # as-is | elsewhere | after-fix | resume
summary: |
  TODO What happens and why, in a few plain sentences.
"""
_EXTENDS = """\
cause: {cause}
extends: true                    # adds to slurmdoctor's own {cause}
"""
_RULES = """\
rules:
  - id: {cause}/{rule}
    source: 'TODO the program that prints it, and since which version'
{applies_to}    literals: [{literal}]   # any one of them admits a line: rare text, at least 6 characters
    regex: {regex}
    examples:
      match: [{line}]
      no_match: []               # lines that look alike and are harmless, or have another cause
"""
_TAIL = """\
verify: []                       # how to make sure, where the log alone is not enough
fixes:
  - do: 'TODO What to do, as an imperative sentence.'
    why: 'TODO'
falsepositives: []               # when the line does not mean what it says
references: []
"""


def draft(name: str, rule: str, line: str | None, known: Knowledge) -> str:
    """The text of a rule file for a cause: a new one, or more rules for one that is there."""
    text = line or "TODO: paste the line that the program prints"
    shown = peeled(text, LabelReader(known.formats))[0].strip() if line else text
    near = _nearest(shown, known) if line else None
    raised = line is not None and exception_of(shown) is not None
    pattern, literal = _generalised(shown, text)
    own = {
        "cause": name,
        "rule": rule,
        "exit_class": "python-error" if raised else "unknown",
        "beside": f"   # its lines are most like those of {near.id}, of the family {near.family}" if near else "",
        "explains": ", ".join(sorted(near.explains & known.causes.keys() - {name})) if near else "",
    }
    rules = _RULES.format(
        **own,
        literal=_quoted(literal),
        regex=_quoted(("^" if raised else "") + pattern),
        applies_to="    applies_to: exception\n" if raised else "",
        line=_quoted(text.strip("\n")),
    )
    there = name in known.causes
    return (_EXTENDS if there else _HEAD).format(**own) + rules + ("" if there else _TAIL)


def _nearest(line: str, known: Knowledge) -> Cause | None:
    """The cause that shares the rarest words with the line, in its title or its rules' literals; None where none shares two."""
    words = {
        name: _words(" ".join((cause.title, *(text for rule in cause.rules for text in rule.literals))))
        for name, cause in known.causes.items()
    }
    often = Counter(word for found in words.values() for word in found)
    shared = {name: found & _words(line) for name, found in words.items()}
    best = max(shared, key=lambda name: sum(1 / often[word] for word in shared[name]), default="")
    return known.causes[best] if len(shared.get(best, ())) > 1 else None


def _words(text: str) -> set[str]:
    return {word.lower() for word in regex.findall(r"[A-Z]?[a-z]{3,}", text)}


def file_name(cause: str, rule: str, known: Collection[str], *, ours: bool) -> str:
    """The id that a draft for this cause gets: a new name in a site's folder begins with `site/`."""
    if not CAUSE_ID.fullmatch(cause):
        raise UserError(f"`{cause}` is no cause's id", "write small letters joined by hyphens, such as site/my-cause")
    if not RULE_NAME.fullmatch(rule):
        raise UserError(f"`{rule}` is no rule's name", "write small letters and numbers joined by hyphens")
    return cause if ours or cause in known or cause.startswith("site/") else f"site/{cause}"


def _generalised(text: str, line: str) -> tuple[str, str]:
    """(regex, literal): the line with what varies made variable, and its longest text that does not vary."""
    text = text[:_PLAIN_REGEX]
    pattern: list[str] = []
    fixed: list[str] = []
    at = 0
    for found in _VARIABLE.finditer(text):
        before = text[at : found.start()]
        kind = found.lastgroup or ""
        quote = found[0][0]
        pattern += [_escaped(before), _PATTERN_OF.get(kind, f"{quote}[^{quote}]*{quote}")]
        fixed.append(before)
        at = found.end()
    pattern.append(_escaped(text[at:]))
    fixed.append(text[at:])
    usable = [part for part in fixed if part in line]
    longest = max(usable, key=len).strip(" ])},:;")[:_MOST_LITERAL].strip()
    if len(longest) < 6:  # nothing but numbers and names: leave it to the person
        return regex.escape(text, special_only=True), text[:_MOST_LITERAL]
    return "".join(pattern), longest


def _escaped(text: str) -> str:
    return regex.escape(text, special_only=True, literal_spaces=True)


def _quoted(text: str) -> str:
    """YAML in single quotes, where nothing is an escape."""
    return "'" + "".join(char if char.isprintable() else " " for char in text).replace("'", "''") + "'"
