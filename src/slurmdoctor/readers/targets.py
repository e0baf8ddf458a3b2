"""Says what the search looks for, and chooses which of the lines that it found are read again.

No job breaks in hundreds of ways at once. Where thousands of ranks print the same, the first ones become events of their
own; of the others the ranks and the number of lines are kept (`Repeats`). Kinds of exceptions are separated by class and first words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import TypeVar

from msgspec.structs import replace

from slurmdoctor.input import Source
from slurmdoctor.knowledge import literals, text as text_of
from slurmdoctor.matching import captures, search
from slurmdoctor.model import (
    NEVER,
    Deadline,
    Frozen,
    Knowledge,
    Matcher,
    MatchGroup,
    MatchSample,
    Reason,
    Rule,
    SearchResult,
    Signal,
    SourceFormat,
    Target,
    Writer,
    reason,
)
from slurmdoctor.ranks import LabelReader
from slurmdoctor.readers.collectives import sought, watchdog_kind
from slurmdoctor.readers.rule_events import begins_frame, captures_of, exception_of
from slurmdoctor.search import Literals, digit_sensitive, relaxed, scan, template_of

MOST_KINDS = 256
"""Kinds that are separated by class and first words: no job breaks in so many ways."""
_BETWEEN = ": "


KEEP = 4
KEEP_LIST = 3000
"""Places kept of lines that come once a node or task, with any label: so many first and so many last ones."""
_KEEP_MAP = 1024
"""The same of lines that name a rank and where it runs, once a rank and often without a label."""
_KEEP_ATTEMPTS = 64
_KEEP_STATUS = 12

TRACEBACK = (b"Traceback (most recent call last)",)
EXCEPTION = (b"Error: ", b"Exception: ", b"Error\n", b"Interrupt\n", b"AssertionError", b"Error:\n")
_STACK = text_of("stack-thread")
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

    kinds: set[str] = set()

    def confirm(matcher: Matcher, line: bytes, text: str) -> str | None:
        return confirm_line(matcher, line, text, kinds)

    found = scan(
        sources,
        knowledge.once(matchers),
        strip_labels,
        confirm,
        could_match,
        [labels.writer_key(form) for form in formats],
        jobs=jobs,
        progress=progress,
        deadline=deadline,
        literals=knowledge.once(_literals_of),
    )
    merged = (g.count for g in found.groups if g.matcher.target == "exception" and _BETWEEN not in g.kind)
    note = reason("exceptions-alike", count=sum(merged), most=MOST_KINDS)
    return replace(found, notes=(*found.notes, note)) if note.values["count"] else found


def matchers(knowledge: Knowledge) -> list[Matcher]:
    """What to search for: all rules, all signals, and what the readers start from."""
    found: list[Matcher] = []

    # labels of one shape must be stripped alike, or no two lines with different digits can be taken for one
    sensitive = digit_sensitive(knowledge)
    any_digits = any(form.pattern in sensitive for form in knowledge.formats)

    def add(target: Target, name: str, literals: Iterable[bytes], keep: int, pattern: str = "") -> None:
        found.append(Matcher(target, name, tuple(literals), keep, any_digits or pattern in sensitive))

    for rule in (rule for rule in knowledge.rules if rule.applies_to != "message" and not rule.by_wording):
        add(rule, rule.id, map(str.encode, rule.literals), 1 if rule.role == "cascade" else KEEP, rule.regex)
    for signal in knowledge.signals:
        if signal.kind != "progress":  # in every iteration's line: looked for around the failure only
            keep = _KEEP_ATTEMPTS if signal.kind in ("attempt", "start") else KEEP
            keep = KEEP_LIST if signal.kind == "members" else keep
            add(signal, signal.id, map(str.encode, signal.literals), keep, signal.regex)
    for form in knowledge.exit_reports:
        add(form, form.id, map(str.encode, form.literals), KEEP_LIST, form.pattern)
    add("traceback", "traceback", TRACEBACK, KEEP)
    add("exception", "exception", EXCEPTION, KEEP)
    add("collective", "collective", sought(), _KEEP_STATUS)
    add("stack", "stack", literals("stack-thread"), KEEP_LIST)
    add("map", "map", (x.encode() for form in knowledge.rank_lines for x in form.literals), _KEEP_MAP)
    return found


def _literals_of(knowledge: Knowledge) -> Literals:
    return Literals(knowledge.once(matchers))


def confirm_line(matcher: Matcher, line: bytes, text: str, kinds: set[str]) -> str | None:
    """Answers the search: does this line hold the target? None for no, else a word by which such lines are grouped.

    `text` is the line without its labels; `kinds` are those that exceptions had so far.
    """
    if line.startswith(_QUOTED):
        return None
    target = matcher.target
    if isinstance(target, Rule):
        return None if captures_of(target, text) is None else ""
    if isinstance(target, Signal):
        return None if captures(target.regex, text, target.of_site) is None else ""
    if target == "exception":
        found = exception_of(text)
        return None if found is None else _kind(found[0], _first_words(found[1]), kinds)
    if target == "collective":
        return watchdog_kind(line)
    if target == "stack":
        return "" if _STACK.search(text) else None
    return ""


def could_match(matcher: Matcher, text: str) -> bool:
    """Answers the search: might a line that differs from this one in digits only hold the target?"""
    target = matcher.target
    if isinstance(target, Rule) and target.applies_to != "line":
        return exception_of(text) is not None if target.applies_to == "exception" else begins_frame(text)
    if not isinstance(target, (Rule, Signal)) or (pattern := relaxed(target.regex)) is None:
        return True
    try:
        return search(pattern, text, target.of_site) is not None
    except TimeoutError:
        return True


def _kind(raised: str, words: str, kinds: set[str]) -> str:
    """The kind of an exception of this class with these first words; empty where there are too many."""
    kind = f"{raised}{_BETWEEN}{words}"
    if len(kinds) < MOST_KINDS:
        kinds.add(kind)
    return kind if kind in kinds else ""


def _first_words(message: str) -> str:
    """The first words of an exception's message without names and numbers: the same for all ranks that fail the same way."""
    return template_of(message[:40]).replace("#", "")[:24]


Item = TypeVar("Item")
FEW = 32
"""Writers of one rule that become events of their own."""
MOST: Mapping[str, int] = {
    "rules": 3000,
    "signals": 1000,
    "exception": 1000,
    "traceback": 1000,
    "reports": 16_384,
    "collective": 16_384,
    "map": 16_384,
}
"""Places that are read again, by what they are read for: what a job of 16,384 ranks shows once a rank is read whole;"""
_MOST_OF_OTHERS = 4096
"""and for what is not named here."""


_PYTHON = ("exception", "traceback")


class Reading(Frozen):
    """One line to read again, and what to read it for."""

    source: int
    offset: int
    target: Target
    count: int
    """The lines that its event represents."""


class Repeats(Frozen):
    """A rule, or an exception that no rule knows, and the writers of it that get no event of their own."""

    rule: str | None
    """The rule's id."""
    group: MatchGroup
    kept: frozenset[Writer]
    """The writers that do get one."""


class Plan(Frozen):
    """The lines to read again, in the log's order, and the repeats by the line whose event represents them."""

    places: tuple[Reading, ...]
    repeats: dict[tuple[int, int], list[Repeats]]
    notes: tuple[Reason, ...]
    """The note on places that were worth reading, and too many."""


def plan_reading(groups: Sequence[MatchGroup]) -> Plan:
    """Choose the lines to read again."""
    places: list[Reading] = []
    repeats: dict[tuple[int, int], list[Repeats]] = {}
    left_out = 0
    for kind, chosen in _by_kind(groups).items():
        kept = _within(chosen, MOST.get(kind, _MOST_OF_OTHERS))
        worth = sum(len(seen.places) for _, samples in chosen for seen in samples)
        left_out += worth - sum(len(seen.places) for samples in kept for seen in samples)
        for (group, _), samples in zip(chosen, kept, strict=True):
            places += (place for seen in samples for place in _places(seen, group.matcher.target))
            target = group.matcher.target
            repeated = isinstance(target, Rule) or target == "exception"
            if repeated and samples and len(samples) < len(group.writers):
                rule = target.id if isinstance(target, Rule) else None
                own = frozenset((seen.source, seen.label) for seen in samples)
                repeats.setdefault((samples[0].source, samples[0].places[0]), []).append(Repeats(rule, group, own))
    places.sort(key=lambda place: (place.source, place.offset))
    too_many = reason("not-read-again", count=left_out, total=left_out + len(places))
    return Plan(tuple(places), repeats, (too_many,) if left_out else ())


def _by_kind(groups: Sequence[MatchGroup]) -> dict[str, list[tuple[MatchGroup, list[MatchSample]]]]:
    """Each group with the samples of its writers that are worth reading, by what they are read for."""
    chosen: dict[str, list[tuple[MatchGroup, list[MatchSample]]]] = {}
    raised: set[Writer] = set()
    # tracebacks last: of a crowd of them, those of the writers whose exceptions are read, too
    for group in sorted(groups, key=lambda group: group.matcher.target == "traceback"):
        target = group.matcher.target
        samples = _chosen(group, raised)
        if target == "exception" or (isinstance(target, Rule) and target.applies_to == "exception"):
            raised |= {(seen.source, seen.label) for seen in samples}
        chosen.setdefault(kind_of(target), []).append((group, samples))
    return chosen


def kind_of(target: Target) -> str:
    """What a line is read for: the key of its limit."""
    if isinstance(target, str):
        return target
    return "rules" if isinstance(target, Rule) else "signals" if isinstance(target, Signal) else "reports"


def _chosen(group: MatchGroup, raised: Set[Writer]) -> list[MatchSample]:
    """The writers that are worth reading: all, or of very many the first ones, the first ones of its last burst, and of tracebacks who `raised`."""
    target = group.matcher.target
    few = FEW if isinstance(target, Rule) else FEW // 4 if isinstance(target, Signal) or target in _PYTHON else 0
    if not few or len(group.writers) <= few:
        writers = group.by_first()
    else:
        also = sorted(raised & group.writers.keys(), key=group.first_of) if target == "traceback" else ()
        writers = list(dict.fromkeys([*group.by_first(few), *group.by_last_burst(max(1, few // 4)), *also]))
    return [group.sample(writer) for writer in writers]


def _within(chosen: Sequence[tuple[MatchGroup, list[MatchSample]]], most: int) -> list[list[MatchSample]]:
    """Of each group so much that it is not more than `most` places in all: the first and last writers, and places of each."""
    writers = sum(len(samples) for _, samples in chosen)
    if sum(len(seen.places) for _, samples in chosen for seen in samples) <= most:
        return [samples for _, samples in chosen]
    each, few = max(1, most // writers), writers if writers <= most else most // len(chosen)
    return [
        [replace(seen, places=tuple(_ends(seen.places, each))) for seen in _ends(samples, few)] for _, samples in chosen
    ]


def _ends(items: Sequence[Item], most: int) -> Sequence[Item]:
    """The first ones and the last ones."""
    return items if len(items) <= most else (*items[: most - most // 2], *items[len(items) - most // 2 :])


def _places(seen: MatchSample, target: Target) -> Iterator[Reading]:
    """The lines of one writer. Each event represents its line; the first one also for those whose places were not kept."""
    for number, offset in enumerate(seen.places):
        yield Reading(seen.source, offset, target, seen.count - len(seen.places) + 1 if number == 0 else 1)
