"""A cause as a page for people: what happens, what to do, how to verify it, how it looks in a log; and which cause people mean."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from msgspec import Struct

from slurmdoctor.knowledge import COMPARISON, READERS, fact_words, nearest, placeholders
from slurmdoctor.matching import captures
from slurmdoctor.model import Cause, Fix, Knowledge, Rule, UserError
from slurmdoctor.report.terminal import Line, wrap
from slurmdoctor.report.words import listed

ROLES = {
    "root": "May start a failure.",
    "cascade": "Follows another failure; the answer only if no other is found.",
    "either": "Starts a failure or follows one; the order of events decides.",
    "confirmation": "A system message that shows what killed a rank that printed nothing.",
    "hint": "Often harmless; counts only if nothing better explains the failure.",
}
RETRIES = {
    "as-is": "Resubmit as is: the same job may well succeed.",
    "elsewhere": "Resubmit on other nodes: exclude those that failed.",
    "after-fix": "Resubmit only after the fix.",
    "resume": "Resume from the last checkpoint: nothing was wrong with the program.",
    "unknown": "Unknown: it depends on why the job failed, which the log does not show.",
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
            yield Section("More specific fixes (tried first)", special, numbered=True)
    yield Section("Resubmit?", (Entry(RETRIES[cause.retry]),))
    if cause.verify:
        yield Section("How to verify", tuple(Entry(_open(text)) for text in cause.verify), numbered=True)
    yield Section(
        "How it looks in a log",
        tuple(
            Entry(f"{rule.id}: {rule.source}", _rule_notes(rule, cause), rule.match[0])
            for rule in cause.rules
            if rule.match
        ),
    )
    if cause.falsepositives:
        yield Section("False positives", tuple(Entry(_open(text)) for text in cause.falsepositives))
    after = sorted(cause.explains)
    before = sorted(other.id for other in known.causes.values() if cause.id in other.explains)
    chain = [Entry(ROLES[cause.role])]
    chain += [Entry(f"Causes: {', '.join(after)}")] if after else []
    chain += [Entry(f"May be caused by: {', '.join(before)}")] if before else []
    yield Section("Causes and effects", tuple(chain))
    if cause.references:
        yield Section("Read more", tuple(Entry(reference) for reference in cause.references))


def rows(cause: Cause, known: Knowledge, width: int = 100) -> Iterator[tuple[str, str]]:
    """The page's lines, each with its style of `report.terminal`."""
    width = max(40, min(width, 100))
    yield "bold", heading(cause)
    about = f"{cause.id} · {cause.family} · usual exit: {', '.join(cause.exit_classes) or 'unknown'}"
    yield from (("dim", line) for line in _wrapped(about, width, ""))
    if cause.also:
        yield from (("dim", line) for line in _wrapped(f"also called {', '.join(cause.also)}", width, ""))
    for section in sections(cause, known):
        yield "", ""
        yield "head", section.title
        for number, entry in enumerate(section.entries, 1):
            mark = f"{number}. " if section.numbered else ""
            yield from (("", line) for line in _wrapped(entry.text, width, "  " + mark))
            if entry.line is not None:
                yield "quote", "    │ " + _cut(entry.line, width - 6)
            for note in entry.notes:
                yield from (("dim", line) for line in _wrapped(note, width, "  " + " " * (len(mark) or 2)))


def text(cause: Cause, known: Knowledge, width: int = 100) -> str:
    """The page as plain text."""
    return "".join(f"{line}\n" for _, line in rows(cause, known, width))


def _rule_notes(rule: Rule, cause: Cause) -> tuple[str, ...]:
    """In what a rule is unlike its cause."""
    return (ROLES[rule.role],) if rule.role != cause.role else ()


def _fix(fix: Fix) -> Entry:
    notes = [_open(fix.why)] if fix.why else []
    conditions = _conditions(fix.when, placeholders(fix.do))
    notes += [f"{conditions}."] if conditions else []
    notes += [f"Then: {RETRIES[fix.retry][0].lower()}{RETRIES[fix.retry][1:]}"] if fix.retry else []
    notes += [fix.reference] if fix.reference else []
    return Entry(_open(fix.do), tuple(notes))


_SIGNS = {"==": "is", "!=": "is not", ">=": "is at least", "<=": "is at most", ">": "is more than", "<": "is less than"}


def _conditions(when: Mapping[str, Any], shown: Collection[str] = ()) -> str:
    """The conditions of a fix in words. Names in `shown` are left out: its text holds them."""
    rule = [f"For {_or(_all(want))}" for name, want in when.items() if name == "rule" and want is not True]
    held = [name for name, want in when.items() if want is True and name not in shown and name != "rule"]
    there = [_shown(name) for name in held if name.isidentifier()]
    lacking = [_shown(name) for name, want in when.items() if want is False]
    parts = [f"the log shows {listed(there)}"] if there else []
    parts += [_compared(name, want) for name, want in when.items() if not isinstance(want, bool) and name != "rule"]
    parts += [_spaced(name) for name in held if not name.isidentifier()]
    parts += [f"the log does not show {_or(tuple(lacking))}"] if lacking else []
    if not parts:
        return "".join(rule)
    return f"{rule[0]}, if {listed(parts)}" if rule else f"If {listed(parts)}"


def _compared(name: str, want: Any) -> str:
    """`tp is more than 1`, `a frame of the traceback is save_hf_weights`, `nan is also in the log`."""
    wanted = _or(tuple("unknown" if one is False else one for one in _all(want)))
    if name == "seen":
        return f"{wanted} is also in the log"
    if name == "frames":
        return f"a frame of the traceback is {wanted}"
    if COMPARISON.fullmatch(wanted):
        return _spaced(f"{name} {wanted}")
    words = fact_words()
    return words["values"].get(f"{name} {wanted}") or f"{words['compared'].get(name, _spaced(name))} is {wanted}"


def _shown(name: str) -> str:
    """What the log shows where it shows this fact."""
    words = fact_words()
    return next(
        (words[part][name] for part in words if part.startswith("of_") and words[part].get(name)), _spaced(name)
    )


def _spaced(condition: str) -> str:
    """A condition without the signs of its language."""
    compared = fact_words()["compared"]
    named = re.sub(r"^\w+(?= [<>=!])", lambda name: compared.get(name[0], name[0]), condition)
    signs = re.sub(r"(?<= )(?:[<>=!]=|[<>])(?= )", lambda sign: _SIGNS[sign[0]], named)
    return re.sub(r"(?<=[a-z0-9])_(?=[a-z0-9])", " ", signs).replace("'", "")


def _all(want: Any) -> tuple[Any, ...]:
    return tuple(want) if isinstance(want, (tuple, list)) else (want,)


def _or(values: tuple[Any, ...]) -> str:
    return listed([str(value) for value in values], "or")


def _open(template: str) -> str:
    """A template as text: `{num_experts}` becomes `<num experts>`, arithmetic `<N>`."""
    filled = re.sub(
        r"(?<!\$)(?<!\{)\{([^{}]+)\}",
        lambda hole: f"<{fact_words()['holes'].get(hole[1], _spaced(hole[1]))}>" if hole[1].isidentifier() else "<N>",
        template,
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


# ── what people call a failure → the causes that they may mean ────────────────────────────

_FILLERS = frozenset({
    "a", "an", "the", "my", "i", "is", "was", "it", "of", "in", "on", "error", "errors", "exception", "failed", "failure",
    "fails", "got", "get", "getting", "what", "why", "does", "mean",
})  # fmt: skip
"""Words that tell no cause from another."""
_EXIT = re.compile(
    r"(?:exit|exited|exits|return|returned|exitcode|rc|code|status)(?: with)?(?: exit| return)?(?: code| status)? (\d+)"
)
_OF_SLURM = re.compile(r"0:(\d+)")
"""A signal as sacct shows it."""
_SHORTEST = 4
_MOST = 10
_ENOUGH = 0.5
"""So much of a name has to be words of a cause."""
_ROLES_IN_ORDER = ("root", "either", "confirmation", "cascade", "hint")


def meanings(name: str, known: Knowledge) -> list[Cause]:
    """The causes that a name means: an id, a rule's id, what people say, an exit code, a line of a log.

    Raises a UserError with the nearest name where it means none.
    """
    name = name.strip()
    if exact := _exact(name, known):
        return [exact]
    words = _plain_words(name)
    tests = (_is_called, _is_told_by_words, _prints, _is_printed_by, _summarizes) if words else ()
    for means in tests:
        found = [cause for cause in known.causes.values() if means(cause, words, name)]
        if found:
            return sorted(found, key=lambda cause: (_ROLES_IN_ORDER.index(cause.role), cause.id))
    names = {_plain_words(one): one for cause in known.causes.values() for one in (*cause.also, cause.id)}
    slip = nearest(words, names) or nearest(name, (rule.id for rule in known.rules))
    if slip is None or not _is_slip(words, slip):
        shares = {cause.id: _shared(cause, words) for cause in known.causes.values()}
        most = max(shares.values(), default=0.0)
        if most >= _ENOUGH:
            return [known.causes[one] for one, share in shares.items() if share == most]
    mend = f"did you mean `{names.get(slip, slip)}`?" if slip else "`slurmdoctor rules list` shows them all"
    raise UserError(f"there is no cause `{name}`", mend)


def _is_slip(typed: str, meant: str) -> bool:
    """Whether a letter or two make the difference, and not a word."""
    return len(typed.split()) == len(meant.split()) and abs(len(typed) - len(meant)) <= 2


def _shared(cause: Cause, words: str) -> float:
    """How many of the words tell this cause."""
    told = _told_words(cause)
    each = words.split()
    return sum(word in told for word in each) / max(len(each), 1)


def _exact(name: str, known: Knowledge) -> Cause | None:
    if name in known.causes:
        return known.causes[name]
    for rule in known.rules:
        if rule.id == name:
            return known.causes[rule.cause]
    cause, _, reader = name.rpartition("/")
    return known.causes.get(cause) if reader in READERS else None


def _plain_words(name: str) -> str:
    """A name in small words, without what tells nothing."""
    by_signal = _OF_SLURM.fullmatch(name)
    if by_signal:
        return f"signal {by_signal[1]}"
    words = re.sub(r"[\W_]+", " ", name.lower()).strip()
    words = re.sub(r"\btimed? out\b", "timeout", words)
    exit_code = _EXIT.fullmatch(words)
    if exit_code:
        return exit_code[1]
    return " ".join(word for word in words.split() if word not in _FILLERS) or words


Means = Callable[[Cause, str, str], bool]
"""Whether a cause is meant by a name, in plain words and as it was typed."""


def _is_called(cause: Cause, words: str, typed: str) -> bool:
    return words in map(_plain_words, (cause.id, *cause.also))


def _is_told_by_words(cause: Cause, words: str, typed: str) -> bool:
    return _told_words(cause).issuperset(words.split())


def _told_words(cause: Cause) -> set[str]:
    return {word for name in (cause.id, cause.title, *cause.also) for word in _plain_words(name).split()}


def _prints(cause: Cause, words: str, typed: str) -> bool:
    """Whether its lines hold the text."""
    if len(typed) < _SHORTEST:
        return False
    part = re.compile(rf"(?<!\w){re.escape(typed.lower())}(?!\w)")
    return any(part.search(text.lower()) for rule in cause.rules for text in (*rule.literals, *rule.match))


def _is_printed_by(cause: Cause, words: str, typed: str) -> bool:
    """Whether the text is a line of a log that one of its rules takes."""
    rules = (rule for rule in cause.rules if any(literal in typed for literal in rule.literals))
    return any(captures(rule.regex, typed) is not None for rule in rules)


def _summarizes(cause: Cause, words: str, typed: str) -> bool:
    return len(words) >= _SHORTEST and f" {words} " in f" {_plain_words(cause.summary)} "


def choices(name: str, causes: list[Cause], width: int) -> Iterator[Line]:
    """The causes that a name may mean, each with what tells it from the others."""
    yield [("", f"`{name}` may mean {len(causes)} causes. `slurmdoctor explain {causes[0].id}` shows the first.")]
    longest = max(len(cause.id) for cause in causes)
    for cause in causes[:_MOST]:
        yield []
        yield [("bold", cause.id.ljust(longest)), ("", f"  {cause.title}")]
        first = re.split(r"(?<=\.) ", " ".join(cause.summary.split()), maxsplit=1)[0]
        yield from ([("dim", f"  {line}")] for line in wrap(first, width - 2))
    if len(causes) > _MOST:
        yield []
        yield [("", f"And {len(causes) - _MOST} more: {', '.join(cause.id for cause in causes[_MOST:])}")]
