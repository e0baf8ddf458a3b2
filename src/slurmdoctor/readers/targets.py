"""Bounds how many kinds of exceptions are told apart: by class and first words, then by class, then not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from msgspec.structs import replace

from slurmdoctor.input import Source
from slurmdoctor.knowledge import literals
from slurmdoctor.knowledge import text as text_of
from slurmdoctor.matching import SECONDS, bounded, captures, lazy
from slurmdoctor.model import (
    NEVER,
    Deadline,
    ExitFormat,
    Knowledge,
    Matcher,
    Reason,
    Rule,
    SearchResult,
    Signal,
    SourceFormat,
    Target,
    reason,
)
from slurmdoctor.ranks import LabelReader
from slurmdoctor.readers.collectives import kind_of, sought
from slurmdoctor.readers.rule_events import captures_of
from slurmdoctor.readers.tracebacks import begins_frame, exception_of, undecorated
from slurmdoctor.search import MARK, Literals, Wildcards, digit_sensitive, relaxed, scan, takes_all, takes_none

MOST = 256
"""Kinds that are told apart by class and first words: no job breaks in so many ways."""
MOST_CLASSES = 64
"""Classes that are told apart among what comes after."""
_BETWEEN = ": "


class Kinds:
    """Names the kinds, in the order in which they come."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._classes: set[str] = set()

    def name(self, raised: str, words: str) -> str:
        """The kind of an exception of this class with these first words; empty where there are too many."""
        kind = f"{raised}{_BETWEEN}{words}"
        if kind in self._known:
            return kind
        if len(self._known) < MOST:
            self._known.add(kind)
            return kind
        if raised in self._classes:
            return raised
        if len(self._classes) < MOST_CLASSES:
            self._classes.add(raised)
            return raised
        return ""


def notes(found: SearchResult) -> tuple[Reason, ...]:
    """What to tell where kinds were not told apart."""
    merged = [g for g in found.groups if g.matcher.target == "exception" and _BETWEEN not in g.kind]
    count = sum(group.count for group in merged)
    return (reason("exceptions-alike", count=count, most=MOST),) if count else ()


def kinds_of(matcher: Matcher, text: str) -> tuple[str, ...] | None:
    """The kind under which such lines hold the target, none where they do not; None where that depends on what marks stand for.

    `text` is the line without its labels. Where digits matter the target is found absent, or nothing is said.
    """
    target = matcher.target
    if target == "exception" or (isinstance(target, Rule) and target.applies_to == "exception"):
        return () if _is_no_exception(text) else None
    if isinstance(target, Rule) and target.applies_to == "frame" and not begins_frame(text):
        return ()
    if isinstance(target, Rule | Signal):
        return _taken(target.regex, text, matcher.digit_sensitive)
    if target == "stack" or matcher.digit_sensitive:
        return None
    if target == "collective":
        return (kind_of(text.encode()),)
    return ("",) if isinstance(target, ExitFormat) or target in ("traceback", "map") else None


def _taken(pattern: str, text: str, digit_sensitive: bool) -> tuple[str, ...] | None:
    if digit_sensitive:
        more = relaxed(pattern)
        return () if more is not None and takes_none(more, text) else None
    if takes_all(pattern, text):
        return ("",)
    return () if takes_none(pattern, text) else None


def _is_no_exception(text: str) -> bool:
    """Whether no such line is an exception's own: its class would stand before the first colon."""
    return MARK not in undecorated(text).partition(":")[0] and exception_of(text) is None


KEEP = 4
KEEP_LIST = 3000
"""Places kept of lines that come once a node or task, whatever label they carry: so many first and so many last ones."""
_KEEP_MAP = 1024
"""The same of lines that name a rank and where it runs, once a rank and often without a label."""
_KEEP_ATTEMPTS = 64
_KEEP_STATUS = 12

TRACEBACK = (b"Traceback (most recent call last)",)
EXCEPTION = (b"Error: ", b"Exception: ", b"Error\n", b"Interrupt\n", b"AssertionError", b"Error:\n")
_CPP_FRAMES = text_of("cpp-frames")
_VARIABLE = lazy(r"\d+|'[^']*'?|\"[^\"]*\"?|/\S*|0x\w+")
_QUOTED = "  │ ".encode()
"""How our own report quotes a log: what a job's footer printed into it is no event of the job."""


def find_lines(
    sources: Sequence[Source],
    knowledge: Knowledge,
    labels: LabelReader,
    formats: Sequence[SourceFormat],
    jobs: int,
    progress: Callable[[int], None] | None,
    deadline: Deadline = NEVER,
) -> SearchResult:
    """All lines worth reading, by what wants them. Large logs are read by `jobs` processes at once."""

    def strip_labels(number: int, line: bytes) -> str:
        return labels.strip_labels(line.decode("utf-8", "replace"), formats[number])[1]

    kinds = Kinds()

    def confirm(matcher: Matcher, line: bytes, text: str) -> str | None:
        return confirm_line(matcher, line, text, kinds)

    found = scan(
        sources,
        knowledge.once(matchers),
        strip_labels,
        confirm,
        [labels.writer_key(form) for form in formats],
        jobs=jobs,
        progress=progress,
        could_match=could_match,
        wildcards=partial(wildcards_of, labels, formats),
        deadline=deadline,
        literals=knowledge.once(_literals_of),
    )
    return replace(found, notes=(*found.notes, *notes(found)))


def wildcards_of(labels: LabelReader, formats: Sequence[SourceFormat], number: int) -> Wildcards:
    """What the search asks about lines of this source that differ in hexadecimal words only."""
    form = formats[number]

    def settled(text: str) -> bool:
        return not text.startswith(_QUOTED.decode()) and labels.settled(text, form)

    def strip_labels(line: bytes) -> str:
        return labels.strip_labels(line.decode("utf-8", "replace"), form)[1]

    return Wildcards(settled, strip_labels, kinds_of)


def matchers(knowledge: Knowledge) -> list[Matcher]:
    """What to search for: all rules, all signals, and what the readers start from."""
    found: list[Matcher] = []

    # labels of one shape must be stripped alike, or no two lines with different digits can be taken for one
    sensitive = digit_sensitive(knowledge) if knowledge.digit_sensitive is None else knowledge.digit_sensitive
    any_digits = any(form.pattern in sensitive for form in knowledge.formats)

    def add(
        target: Target, name: str, literals: Iterable[bytes], keep: int, pattern: str = "", once: bool = False
    ) -> None:
        found.append(Matcher(target, name, tuple(literals), keep, any_digits or pattern in sensitive, once))

    for rule in (rule for rule in knowledge.rules if rule.applies_to != "message" and not rule.by_wording):
        add(rule, rule.id, (x.encode() for x in rule.literals), 1 if rule.role == "cascade" else KEEP, rule.regex)
    for signal in knowledge.signals:
        if signal.kind != "progress":  # in every iteration's line: looked for around the failure only
            keep = _KEEP_ATTEMPTS if signal.kind in ("attempt", "start") else KEEP
            once = signal.kind == "fact" and signal.regex.count("(?P<") < 2
            add(signal, signal.id, (x.encode() for x in signal.literals), keep, signal.regex, once)
    for form in knowledge.exit_reports:
        add(form, form.id, (x.encode() for x in form.literals), KEEP_LIST, form.pattern)
    add("traceback", "traceback", TRACEBACK, KEEP)
    add("exception", "exception", EXCEPTION, KEEP)
    add("collective", "collective", sought(), _KEEP_STATUS)
    add("stack", "stack", literals("dump-thread"), KEEP)
    add("map", "map", (x.encode() for form in knowledge.rank_lines for x in form.literals), _KEEP_MAP)
    return found


def _literals_of(knowledge: Knowledge) -> Literals:
    return Literals(knowledge.once(matchers))


def confirm_line(matcher: Matcher, line: bytes, text: str, kinds: Kinds | None = None) -> str | None:
    """Answers the search: does this line hold the target? None for no, else a word by which such lines are grouped.

    `text` is the line without its labels; `kinds` are those that exceptions had so far.
    """
    if line.startswith(_QUOTED):
        return None
    target = matcher.target
    if isinstance(target, Rule):
        return None if captures_of(target, text) is None else ""
    if isinstance(target, Signal):
        return None if captures(target.regex, text) is None else ""
    if target == "exception":
        found = exception_of(text)
        return None if found is None else (kinds or Kinds()).name(found[0], _first_words(found[1]))
    if target == "collective":
        return kind_of(line)
    if target == "stack":
        return None if _CPP_FRAMES.search(text) else ""
    return ""


def could_match(matcher: Matcher, text: str) -> bool:
    """Answers the search: might a line that differs from this one in digits only hold the target?"""
    target = matcher.target
    if isinstance(target, Rule) and target.applies_to != "line":
        return exception_of(text) is not None if target.applies_to == "exception" else begins_frame(text)
    pattern = relaxed(target.regex) if isinstance(target, (Rule, Signal)) else None
    try:
        return pattern is None or bounded(pattern).search(text, timeout=SECONDS) is not None
    except TimeoutError:
        return True


def _first_words(message: str) -> str:
    """The first words of an exception's message without names and numbers: alike for all ranks that fail alike."""
    return _VARIABLE.sub("", message[:40])[:24]
