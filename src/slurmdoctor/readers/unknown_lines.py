"""Asks the classifier about what no rule knows: the lines with which a log ends, and errors that rules name only in general."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence, Set
from itertools import islice
from zlib import crc32

from msgspec.structs import replace

from slurmdoctor.classifier import classifier, is_trouble, masked, place_of
from slurmdoctor.input import Source
from slurmdoctor.knowledge import text
from slurmdoctor.model import ABORT, CLASSIFIER, LIMITS, PROGRAM_ERROR, Ending, Event, Knowledge, Likeness, Line
from slurmdoctor.ranks import Excerpts, LabelReader, learn_formats
from slurmdoctor.readers.last_words import ends_of_files, is_noise
from slurmdoctor.readers.rule_events import event_at, exception_of

_ERROR = text("called-error")
_MOST = 16
"""Errors that are asked about, the first ones."""
_FEW_BELOW = 3
"""Lines that may stand below what ended a program."""
_MOST_NEW = 3
"""Last lines that are shown."""
_MOST_LINES = 240
"""Last lines of all files that are asked about: each new one takes a quarter of a millisecond."""


def classify(
    events: Sequence[Event], ending: Ending, knowledge: Knowledge, lines: Excerpts, known: Set[int] = frozenset()
) -> tuple[list[Event], Ending, dict[tuple[int, int], Likeness]]:
    """The events, with one of role `hint` for the most telling last line; how the log ends; what it and general errors read like.

    A line that is `known` from a run that ended well is no reason why this one failed.
    """
    found: dict[tuple[int, int], Likeness] = {}
    read = {e.hit.place for e in events}  # by a rule, which knows better
    general = [e for e in events if e.role in ("root", "either") and e.cause in knowledge.traits["generic"] | {ABORT}]
    for event in general[:_MOST]:
        # what follows a traceback comes of it; who aborts without a message printed why above, or an exception of another stream
        rows = () if event.traceback else lines.below(event.hit, _BELOW)
        after = (one for one in rows if not _is_bare(event) or exception_of(one.text))
        around = (lines.above(event.hit, _ABOVE), after)
        near = {
            one: distance
            for side in around
            for distance, one in enumerate(side)
            if one.place not in read and _may_tell(one, knowledge)
        }
        like = _near(event, near, knowledge)
        more = (row for one in like.pointed[:1] for row in lines.below(one, 1) if _goes_on(one, row))
        found[event.hit.place] = replace(like, pointed=(*like.pointed[:1], *more, *like.pointed[1:]))
    if ending.telling is None:
        return list(events), ending, found
    last = (line for end in ends_of_files(lines) for line in end if not _is_known(line, known))
    new = tuple(islice((line for line in last if not is_noise(line, knowledge)), _MOST_NEW))
    telling = new[0] if new and _is_known(ending.telling, known) else ending.telling
    ending = replace(ending, telling=telling, shown=new[::-1])
    score, below, line, called = _most_telling(lines, knowledge, read, known)
    if line is None or not is_trouble(line.text):
        return list(events), ending, found
    like = found[line.place] = classifier().likeness(line)
    # a scheduler's words are known
    least = LIMITS.likely_nearer if like.cause in knowledge.traits["scheduler"] else LIMITS.likely
    named = like.probability >= least and like.cause not in knowledge.untold
    cause = like.cause if named else PROGRAM_ERROR
    # the last words of a log that read like the end of a program show that it failed, as a rule's do; a traceback that is none does not
    certain = score >= LIMITS.decisive and named and like.probability >= LIMITS.likely_nearer
    ends = not exception_of(line.text) and ((below <= _FEW_BELOW and certain) or called)
    event = event_at(line, cause, "either" if ends else "hint", CLASSIFIER)
    return [*events, event], replace(ending, read=line), found


def _goes_on(one: Line, below: Line) -> bool:
    """Whether a line goes on with the message of the one above it: it is further in."""
    return below.text[:1].isspace() and not one.text[:1].isspace() and not below.text.isspace()


def _is_bare(event: Event) -> bool:
    """Whether the event has no message of its own."""
    return event.captures.keys() <= {"rank", "node", "exit_code"}


def _may_tell(line: Line, knowledge: Knowledge) -> bool:
    """Whether the line may tell of an error: a text that is none of the kinds that only stand around one."""
    return "\ufffd" not in line.text and not is_noise(line, knowledge)


def _near(event: Event, near: Mapping[Line, int], knowledge: Knowledge) -> Likeness:
    """What a line or its neighbors read like: of those that an expert would rather point to the likest to a cause of its own.

    `near` are the neighbors and how far they are. A program that aborts without a message printed why above.
    """
    score = {one: classifier().decisive(one.text, *place_of(one.text, _AT)) for one in (event.hit, *near)}
    ranked = sorted((one for one in score if one is event.hit or is_trouble(one.text)), key=lambda one: -score[one])
    generic = knowledge.traits["generic"]
    read = []
    for one in ranked[:_BEST]:
        like = classifier().likeness(one)
        share = math.exp(score[one] - score[ranked[0]]) ** 0.5
        read.append(replace(like, probability=round(like.probability * share, 4)))
    best = max(read, key=lambda one: (one.cause not in generic) * one.probability)
    pointed = ranked[:1] if ranked[0] is not event.hit else []
    if near and _is_bare(event):
        pointed = sorted(near, key=lambda one: _FARTHER * near[one] - score[one])[:_SHOWN]
    return replace(best, pointed=tuple(pointed))


_SHOWN = 2
"""Lines that are shown of such a program, and"""
_FARTHER = 0.15
"""What each line between costs."""
_ABOVE, _BELOW, _AT, _BEST = 20, 6, 8, 5


def _most_telling(
    lines: Excerpts, knowledge: Knowledge, read: Collection[tuple[int, int]], known: Set[int]
) -> tuple[float, int, Line | None, bool]:
    """Of the last lines of all files the one that reads most like what an expert would point to, the first of its kind.

    (how much it reads so, lines of its file below it that may tell as well, the line, whether the last ones call themselves an error)
    """
    scored, left, called = [], _MOST_LINES, False
    for last in ends_of_files(lines):
        telling = 0
        for below, line in enumerate(last[:left]):
            if line.place in read or not _may_tell(line, knowledge):
                continue
            if not _is_known(line, known):
                score = classifier().decisive(line.text, *place_of(line.text, below))
                scored.append((score, -line.order, telling, line))
                called |= telling <= 1 and score >= LIMITS.called_error and _ERROR.search(line.text) is not None
            telling += 1
        left -= len(last)
        if left <= 0:
            break
    if not scored:
        return 0.0, 0, None, False
    score, _, below, line = max(scored, key=lambda one: one[:2])
    return score, below, line, called


# ── what a good run says, too ────────────────────────────────────────────────────────────────

_MOST_READ = 16 * 1024 * 1024
"""Bytes of a good run's file that are read: its beginning."""


def known_lines(sources: Sequence[Source], labels: LabelReader) -> frozenset[int]:
    """What the lines of runs that ended well say, without their labels and numbers, each as a hash."""
    found: set[int] = set()
    for source, form in zip(sources, learn_formats(sources, labels), strict=True):
        for block in source.blocks():
            rows = block.data[: block.size].decode("utf-8", "replace").splitlines()
            found.update(hash_of(labels.strip_labels(row, form)[1]) for row in set(rows))
            if block.offset > _MOST_READ:
                break
    return frozenset(found)


def _is_known(line: Line, known: Set[int]) -> bool:
    """Whether a run that ended well has the line; nothing is hashed where none is given."""
    return bool(known) and hash_of(line.text) in known


def hash_of(text: str) -> int:
    """A line's text without its numbers, as a hash."""
    return crc32(masked(text).encode("utf-8", "replace"))
