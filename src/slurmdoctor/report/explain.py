"""A cause as a page for people: what happens, how it shows, how to make sure, what to do."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from msgspec import Struct

from slurmdoctor.knowledge.expressions import COMPARISON, placeholders
from slurmdoctor.knowledge.problems import READERS, nearest
from slurmdoctor.model import Cause, Fix, Knowledge, Rule, UserError

ROLES = {
    "root": "May start a failure.",
    "cascade": "Follows another failure; the answer only where no other is found.",
    "either": "Starts a failure or follows one: the order of events decides.",
    "confirmation": "A witness of what killed a rank that died without a word.",
    "hint": "Often harmless; counts only when nothing better explains the failure.",
}
RETRIES = {
    "as-is": "As it is: the same job may well succeed.",
    "elsewhere": "On other nodes: exclude those that failed.",
    "after-fix": "After the fix: as it is, it fails again.",
    "resume": "From the last checkpoint: nothing was wrong with the program.",
    "unknown": "Unknown: that depends on why it failed, which the log does not tell.",
}


class Entry(Struct, frozen=True):
    """One point of a section."""

    text: str
    notes: tuple[str, ...] = ()
    line: str | None = None
    """A line of a log, shown as it is."""


class Section(Struct, frozen=True):
    """One heading with its points."""

    title: str
    entries: tuple[Entry, ...]
    numbered: bool = False


def find(name: str, known: Knowledge) -> Cause:
    """The cause of that id, or of the rule of that id; a UserError with the nearest names otherwise."""
    name = name.strip()
    if name in known.causes:
        return known.causes[name]
    for rule in known.rules:
        if rule.id == name:
            return known.causes[rule.cause]
    cause, _, reader = name.rpartition("/")
    if reader in READERS and cause in known.causes:
        return known.causes[cause]
    if guess := nearest(name, [*known.causes, *(rule.id for rule in known.rules)]):
        raise UserError(f"there is no cause `{name}`", f"did you mean `{guess}`?")
    words = name.lower().replace("-", " ")
    related = [cause.id for cause in known.causes.values() if words in f"{cause.title} {cause.summary}".lower()]
    mend = f"{', '.join(related[:5])} speak of it" if related else "`slurmdoctor rules list` names them all"
    raise UserError(f"there is no cause `{name}`", mend)


def heading(cause: Cause) -> str:
    """The cause's title as a sentence of its own."""
    return cause.title if cause.title[:1].isupper() else f"A rank {cause.title}"


def sections(cause: Cause, known: Knowledge) -> Iterator[Section]:
    """The page's sections, in the order of a reader's questions."""
    yield Section("What happens", tuple(Entry(part) for part in _paragraphs(cause.summary)))
    if cause.fixes:
        always = [fix for fix in cause.fixes if not fix.when]
        yield Section("What to do", tuple(map(_fix, always or cause.fixes)), numbered=True)
        if always and len(always) < len(cause.fixes):
            special = tuple(_fix(fix) for fix in cause.fixes if fix.when)
            yield Section("And first, where the log tells more", special, numbered=True)
    yield Section("Submit again?", (Entry(RETRIES[cause.retry]),))
    if cause.verify:
        yield Section("How to make sure", tuple(Entry(_open(text)) for text in cause.verify), numbered=True)
    yield Section(
        "How it shows",
        tuple(
            Entry(f"{rule.id}: {rule.source}", _rule_notes(rule, cause), rule.match[0])
            for rule in cause.rules
            if rule.match
        ),
    )
    if cause.falsepositives:
        yield Section("When the line lies", tuple(Entry(_open(text)) for text in cause.falsepositives))
    after = sorted(cause.explains)
    before = sorted(other.id for other in known.causes.values() if cause.id in other.explains)
    chain = [Entry(ROLES[cause.role])]
    chain += [Entry(f"Brings about: {', '.join(after)}")] if after else []
    chain += [Entry(f"May itself follow from: {', '.join(before)}")] if before else []
    yield Section("In the chain of events", tuple(chain))
    if cause.references:
        yield Section("Read more", tuple(Entry(reference) for reference in cause.references))


def rows(cause: Cause, known: Knowledge, width: int = 100) -> Iterator[tuple[str, str]]:
    """The page's lines, each with its style: title, faint, head, code or text."""
    width = max(40, min(width, 100))
    yield "title", heading(cause)
    about = f"{cause.id} · {cause.family} · usually ends as {', '.join(cause.exit_classes) or 'unknown'}"
    about += "" if cause.status == "stable" else f" · {cause.status}"
    yield from (("faint", line) for line in _wrapped(about, width, ""))
    for section in sections(cause, known):
        yield "text", ""
        yield "head", section.title
        for number, entry in enumerate(section.entries, 1):
            mark = f"{number}. " if section.numbered else ""
            yield from (("text", line) for line in _wrapped(entry.text, width, "  " + mark))
            if entry.line is not None:
                yield "code", "    │ " + _cut(entry.line, width - 6)
            for note in entry.notes:
                yield from (("faint", line) for line in _wrapped(note, width, "  " + " " * (len(mark) or 2)))


def text(cause: Cause, known: Knowledge, width: int = 100) -> str:
    """The page as plain text."""
    return "".join(f"{line}\n" for _, line in rows(cause, known, width))


def _rule_notes(rule: Rule, cause: Cause) -> tuple[str, ...]:
    """In what a rule is unlike its cause."""
    notes = (ROLES[rule.role],) if rule.role != cause.role else ()
    return notes if rule.status == cause.status else (*notes, f"Its status is {rule.status}.")


def _fix(fix: Fix) -> Entry:
    notes = [_open(fix.why)] if fix.why else []
    conditions = _conditions(fix.when, placeholders(fix.do))
    notes += [f"Offered where {conditions}."] if conditions else []
    notes += [f"Then submit again: {RETRIES[fix.retry][0].lower()}{RETRIES[fix.retry][1:]}"] if fix.retry else []
    notes += [fix.reference] if fix.reference else []
    return Entry(_open(fix.do), tuple(notes))


def _conditions(when: Mapping[str, Any], shown: Collection[str] = ()) -> str:
    """The conditions of a fix in words. Names in `shown` are left out: its text holds them."""
    present = [name for name, want in when.items() if want is True and name not in shown and name != "rule"]
    parts = [f"the log tells {_and(present)}"] if present else []
    for name, want in when.items():
        wanted = _or(want if isinstance(want, tuple) else (want,))
        if want is True:
            continue
        if want is False:
            parts.append(f"the log does not tell {name}")
        elif name == "seen":
            parts.append(f"{wanted} is seen too")
        elif COMPARISON.fullmatch(wanted):
            parts.append(f"{name} {wanted}")
        else:
            parts.append(f"{'the rule' if name == 'rule' else name} is {wanted}")
    return _and(parts)


def _and(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _or(values: tuple[Any, ...]) -> str:
    return " or ".join(
        {True: "there", False: "absent"}[value] if isinstance(value, bool) else str(value) for value in values
    )


def _open(template: str) -> str:
    """A template as text: `{num_experts}` becomes `<num_experts>`."""
    filled = re.sub(
        r"(?<!\$)(?<!\{)\{([^{}]+)\}", lambda hole: f"<{hole[1]}>" if len(hole[1]) < 48 else "<...>", template
    )
    return re.sub(r"\{\{|\}\}", lambda brace: brace[0][0], filled)


def _paragraphs(text: str) -> list[str]:
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()]


def _wrapped(text: str, width: int, first: str) -> list[str]:
    text = " ".join(text.split())
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _cut(line: str, width: int) -> str:
    line = line.strip().replace("\t", " ")
    return line if len(line) <= width else line[: width - 1] + "…"
