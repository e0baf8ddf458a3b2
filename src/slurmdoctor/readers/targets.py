"""Bounds how many kinds of exceptions are told apart: by class and first words, then not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from slurmdoctor.input import Source
from slurmdoctor.knowledge import literals, text as text_of
from slurmdoctor.matching import SECONDS, bounded, captures
from slurmdoctor.model import (
    NEVER,
    Deadline,
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
from slurmdoctor.readers.tracebacks import begins_frame, exception_of
from slurmdoctor.search import Literals, digit_sensitive, relaxed, scan, template_of

MOST = 256
"""Kinds that are told apart by class and first words: no job breaks in so many ways."""
_BETWEEN = ": "


class Kinds:
    """Names the kinds, in the order in which they come."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def name(self, raised: str, words: str) -> str:
        """The kind of an exception of this class with these first words; empty where there are too many."""
        kind = f"{raised}{_BETWEEN}{words}"
        if len(self._known) < MOST:
            self._known.add(kind)
        return kind if kind in self._known else ""


def notes(found: SearchResult) -> tuple[Reason, ...]:
    """What to tell where kinds were not told apart."""
    merged = [g for g in found.groups if g.matcher.target == "exception" and _BETWEEN not in g.kind]
    count = sum(group.count for group in merged)
    return (reason("exceptions-alike", count=count, most=MOST),) if count else ()


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
        deadline=deadline,
        literals=knowledge.once(_literals_of),
    )
    return replace(found, notes=(*found.notes, *notes(found)))


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
    return template_of(message[:40]).replace("#", "")[:24]
