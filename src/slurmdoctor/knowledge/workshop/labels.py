"""Proves entries of tables by their samples: `{line: '[rank3]: x', rank: 3, text: x}` names the groups and the rest of a line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import regex

from slurmdoctor.knowledge.problems import Place, Problems
from slurmdoctor.knowledge.schema import LABEL_GROUPS
from slurmdoctor.knowledge.tree import Table
from slurmdoctor.knowledge.workshop.patterns import slowest
from slurmdoctor.model import ExitFormat, LineFormat, RankLine, SourceFormat, Text
from slurmdoctor.ranks.labels import LabelReader
from slurmdoctor.readers.exits import read_lines

_EXIT_GROUPS = ("rank", "local_rank", "node", "pid", "tasks", "code", "signal", "words")
_PEELED = ("rank", "local_rank", "node", "pid")

Entry = LineFormat | RankLine | ExitFormat | Text
"""What is proven by samples: it has a pattern, lines that show its groups, and lines that it must not match."""


def check_label(label: LineFormat, tree: Table, labels: LabelReader, problems: Problems) -> None:
    """Each sample is read as a line of a log whose lines all carry this label."""
    _groups(label.pattern, LABEL_GROUPS, "a label", tree.at("pattern"), problems)
    compiled = regex.compile(label.pattern)
    source = SourceFormat(locked=frozenset({label.id}))
    writer_key = labels.writer_key(source)

    def read(line: str) -> dict[str, Any]:
        origin, text = labels.strip_labels(line, source)
        found = compiled.match(line)
        values = found.groupdict() if found else {}
        values |= {name: getattr(origin, name) for name in _PEELED}
        return {"text": text, **values, "writer": writer_key(line.encode()).decode()}

    _samples(label, tree, read, compiled.match, problems)


def check_samples(entry: Entry, tree: Table, labels: LabelReader, problems: Problems) -> None:
    """The pattern, searched in each sample's `line`, has the groups that the sample names."""
    if isinstance(entry, LineFormat):
        _groups(entry.pattern, LABEL_GROUPS, "a label", tree.at("pattern"), problems)
    compiled = regex.compile(entry.pattern)

    def read(line: str) -> dict[str, Any] | None:
        found = compiled.search(line)
        return found.groupdict() if found else None

    _samples(entry, tree, read, read, problems)


def check_exit_report(form: ExitFormat, tree: Table, labels: LabelReader, problems: Problems) -> None:
    """Each sample, of one or several lines, is read as the reader would read it; each literal stands in a sample."""

    def read(text: str) -> Mapping[str, Any] | None:
        return read_lines(form, text.split("\n"))

    _samples(form, tree, read, read, problems)
    for at, literal in enumerate(form.literals):
        if not any(literal in str(sample["line"]) for sample in form.samples):
            mend = "correct it, or add a sample that holds it"
            problems.add(tree.at("literals", at), f"no sample proves the literal `{literal}`", mend)
    for key, pattern in (("pattern", form.pattern), ("near", form.near)):
        _groups(pattern, _EXIT_GROUPS, "an exit report", tree.at(key), problems)
        if pattern and (slow := slowest(pattern)):
            problems.add(tree.at(key), f"the {key} takes too long on the line `{slow}`", "begin with fixed text")


def _samples(
    entry: Entry,
    tree: Table,
    read: Callable[[str], Mapping[str, Any] | None],
    takes: Callable[[str], object],
    problems: Problems,
) -> None:
    """What is read from each sample's `line` is what the sample says; nothing is taken of `no_match`."""
    for at, sample in enumerate(entry.samples):
        found = read(str(sample["line"]))
        if found is None:
            problems.add(tree.at("samples", at), "the pattern does not match this sample", "correct one of them")
        else:
            _compare(sample, found, tree.at("samples", at), problems)
    for at, line in enumerate(entry.no_match):
        if takes(line) is not None:
            problems.add(tree.at("no_match", at), f"the pattern takes `{line}`, which it must not", "narrow it")


def _compare(sample: Mapping[str, Any], found: Mapping[str, Any], place: Place, problems: Problems) -> None:
    for name, want in sample.items():
        value = found.get(name)
        if name == "line" or _plain(value) == _plain(want):
            continue
        what = f"the sample says {name} `{want}`, and the line gives " + (f"`{value}`" if value is not None else "none")
        problems.add(place, what, "correct the pattern, or the sample")


def _plain(value: object) -> str:
    """Numbers as numbers: a label's `03` is rank 3."""
    text = str(value)
    return str(int(text)) if text.isdecimal() else text


def _groups(pattern: str, known: Sequence[str], entry: str, place: Place, problems: Problems) -> None:
    for name in sorted(regex.compile(pattern).groupindex.keys() - set(known)):
        problems.add(place, f"{entry} has no group `{name}`", f"groups are {', '.join(known)}")
