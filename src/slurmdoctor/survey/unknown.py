"""Groups the last lines of jobs whose cause is not known by what they say, each kind with the command that drafts a rule for it.

The groups depend on the lines alone, not on their order. Time grows with the number of lines, memory with that of their patterns,
of which no more than `MOST` are kept apart: where there are more, lines that begin alike are one kind.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec import Struct, field

from slurmdoctor.survey.alike import WORDS, cut, flat, is_fixed, pattern_of
from slurmdoctor.survey.answers import UnknownKind

MOST = 50_000
"""Patterns that are kept apart."""
_SHORTER = (WORDS, 4, 2, 1, 0)
"""Words of a pattern that are kept, from level to level."""
_ANY = "<word>"
_ROUNDS = 2
"""So many words of a pattern may turn out to be names of something."""
_FIXED = 3
"""Words that lines must have in common besides,"""
_VALUES, _VALUES_AT_THE_END = 3, 5
"""and the values that make a word a name: at a line's end often stands the reason, which is none."""
_LONGEST_LINE, _LONGEST_NAME = 300, 40
_NO_NAME = "unknown-end"
_PARTS_OF_AN_HOUR = 1_000_000
"""Hours are added up in whole millionths: sums of floats depend on their order."""
_NAMED = re.compile(r"<[a-z]+>")
_SIGNS = re.compile(r"[^\w<>]+")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


class _Group(Struct):
    """The lines of one pattern, as they are counted."""

    example: str
    jobs: int = 0
    hours: int | None = None
    users: set[str] = field(default_factory=set)

    def add(self, other: _Group) -> None:
        self.jobs += other.jobs
        if other.hours is not None:
            self.hours = (self.hours or 0) + other.hours
        self.users |= other.users


def kinds_of(lines: Iterable[tuple[str, str | None, float | None]], most: int | None = None) -> tuple[UnknownKind, ...]:
    """The kinds of (last line, user, GPU hours lost), a job each; those of the most jobs first, and at most so many."""
    groups = _joined(_counted(lines))
    order = sorted(groups.items(), key=lambda one: (-one[1].jobs, -(one[1].hours or 0), one[0]))[:most]
    names: set[str] = set()
    return tuple(
        UnknownKind(
            pattern=pattern,
            jobs=group.jobs,
            users=len(group.users),
            gpu_hours_lost=None if group.hours is None else group.hours / _PARTS_OF_AN_HOUR,
            example=group.example,
            draft=draft_command(pattern, group.example, names),
        )
        for pattern, group in order
    )


def draft_command(pattern: str, example: str, taken: set[str] | None = None) -> str:
    """The command that drafts a rule from a line, to be pasted into a shell; `taken` are names that other drafts have."""
    said = [word.lower() for part in _NAMED.sub(" ", pattern).split() if is_fixed(part) for word in _WORD.findall(part)]
    words = next(
        ("-".join(said[:count]) for count in range(len(said), 0, -1) if len("-".join(said[:count])) <= _LONGEST_NAME),
        "",
    )
    name, number = words or _NO_NAME, 1
    taken = set() if taken is None else taken
    while name in taken:
        number += 1
        name = f"{words or _NO_NAME}-{number}"
    taken.add(name)
    return f"slurmdoctor rules new site/{name} --line={shlex.quote(flat(example)[:_LONGEST_LINE])}"


def _counted(lines: Iterable[tuple[str, str | None, float | None]]) -> dict[str, _Group]:
    """The lines by their patterns, each cut to as many words as lets all be kept."""
    groups: dict[str, _Group] = {}
    level = 0
    for line, user, hours in lines:
        shown = flat(line)
        lost = None if hours is None else round(hours * _PARTS_OF_AN_HOUR)
        one = _Group(shown, 1, lost, set() if user is None else {user})
        _add(groups, cut(pattern_of(shown), _SHORTER[level]), one)
        while len(groups) > MOST:
            level += 1
            shorter: dict[str, _Group] = {}
            for pattern, group in groups.items():
                _add(shorter, cut(pattern, _SHORTER[level]), group)
            groups = shorter
    return groups


def _add(groups: dict[str, _Group], pattern: str, group: _Group) -> None:
    if pattern in groups:
        there = groups[pattern]
        there.example = min(there.example, group.example, key=lambda line: (len(line), line))
        there.add(group)
    else:
        groups[pattern] = group


def _joined(groups: Mapping[str, _Group]) -> Mapping[str, _Group]:
    """Patterns that differ in signs and in the kinds of their names, or in one word that stands for many things, as one: `Error in rule <word>`."""
    alike: dict[str, str] = {}
    for pattern in _commonest_first(groups):
        alike[pattern] = alike.setdefault(_SIGNS.sub(" ", _NAMED.sub("<>", pattern)), pattern)
    groups = _summed(groups, alike)
    for _ in range(_ROUNDS):
        groups = _summed(groups, _wider(groups))
    return groups


def _summed(groups: Mapping[str, _Group], new: Mapping[str, str]) -> Mapping[str, _Group]:
    """The groups with new patterns; the example is one of those that most lines look like."""
    found: dict[str, _Group] = {}
    for pattern in _commonest_first(groups):
        there = found.setdefault(new.get(pattern, pattern), groups[pattern])
        if there is not groups[pattern]:
            there.add(groups[pattern])
    return found


def _commonest_first(groups: Mapping[str, _Group]) -> list[str]:
    return sorted(groups, key=lambda pattern: (-groups[pattern].jobs, pattern))


def _wider(patterns: Collection[str]) -> dict[str, str]:
    """Pattern -> the one that takes its place: of several that of which most are."""
    counts = Counter(hash(wide) for pattern in patterns for wide in _with_a_name(pattern))
    members: dict[str, list[str]] = defaultdict(list)
    for pattern in patterns:
        for wide in _with_a_name(pattern):
            if counts[hash(wide)] >= _VALUES:
                members[wide].append(pattern)
    found: dict[str, str] = {}
    for wide in sorted(members, key=lambda one: (-len(members[one]), one)):
        free = [pattern for pattern in members[wide] if pattern not in found]
        if len(free) >= (_VALUES_AT_THE_END if wide.endswith(_ANY) else _VALUES):
            found |= dict.fromkeys(free, wide)
    return found


def _with_a_name(pattern: str) -> Iterator[str]:
    """The pattern with each of its words as a name, where enough others are left."""
    words = pattern.split()
    fixed = [at for at, word in enumerate(words) if is_fixed(word)]
    for at in fixed if len(fixed) > _FIXED else ():
        yield " ".join([*words[:at], _ANY, *words[at + 1 :]])
