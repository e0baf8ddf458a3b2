"""Proves entries of tables by their samples: `{line: '[rank3]: x', rank: 3, text: x}` names the groups and the rest of a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import regex

from slurmdoctor.knowledge.problems import Place, Problems
from slurmdoctor.knowledge.schema import LABEL_GROUPS
from slurmdoctor.knowledge.tree import Table
from slurmdoctor.knowledge.workshop.patterns import slowest
from slurmdoctor.model import ExitFormat, LineFormat, SourceFormat
from slurmdoctor.ranks.labels import LabelReader
from slurmdoctor.readers.exits import read_lines

_EXIT_GROUPS = ("rank", "local_rank", "node", "pid", "tasks", "code", "signal", "words")
_PEELED = ("rank", "local_rank", "node", "pid")


def check_label(label: LineFormat, tree: Table, labels: LabelReader, problems: Problems) -> None:
    _groups(label, tree, problems)
    compiled = regex.compile(label.pattern)
    for at, sample in enumerate(label.samples):
        line = str(sample["line"])
        source = SourceFormat(locked=frozenset({label.id}))
        origin, text = labels.strip_labels(line, source)
        found_values = {name: getattr(origin, name) for name in _PEELED} | {"text": text}
        if found := compiled.match(line):
            found_values |= {name: value for name, value in found.groupdict().items() if name not in _PEELED}
        found_values["writer"] = labels.writer_key(source)(line.encode()).decode()
        _compare(sample, found_values, tree.at("samples", at), problems)
    for at, line in enumerate(label.no_match):
        if compiled.match(line):
            problems.add(tree.at("no_match", at), f"the label takes `{line}`, which it must not", "narrow its pattern")


class Sampled(Protocol):
    """An entry of a table with a pattern, lines that show its groups, and lines that it must not match."""

    @property
    def pattern(self) -> str: ...
    @property
    def samples(self) -> Sequence[Mapping[str, Any]]: ...
    @property
    def no_match(self) -> Sequence[str]: ...


def check_samples(entry: Sampled, tree: Table, labels: LabelReader, problems: Problems) -> None:
    """The pattern, searched in each sample's `line`, has the groups that the sample names."""
    if isinstance(entry, LineFormat):
        _groups(entry, tree, problems)
    compiled = regex.compile(entry.pattern)
    for at, sample in enumerate(entry.samples):
        found = compiled.search(str(sample["line"]))
        if found is None:
            problems.add(tree.at("samples", at), "the pattern does not match this sample", "correct one of them")
        else:
            _compare(sample, found.groupdict(), tree.at("samples", at), problems)
    for at, line in enumerate(entry.no_match):
        if compiled.search(line):
            problems.add(tree.at("no_match", at), f"the pattern takes `{line}`, which it must not", "narrow it")


def check_exit_report(form: ExitFormat, tree: Table, labels: LabelReader, problems: Problems) -> None:
    """Each sample, of one or several lines, is read as the reader would read it; each literal stands in a sample."""
    for at, sample in enumerate(form.samples):
        found = read_lines(form, str(sample["line"]).split("\n"))
        if found is None:
            problems.add(tree.at("samples", at), "no exit is read from this sample", "correct its pattern or literals")
        else:
            _compare(sample, dict(found), tree.at("samples", at), problems)
    for at, literal in enumerate(form.literals):
        if not any(literal in str(sample["line"]) for sample in form.samples):
            mend = "correct it, or add a sample that holds it"
            problems.add(tree.at("literals", at), f"no sample proves the literal `{literal}`", mend)
    for at, text in enumerate(form.no_match):
        if read_lines(form, text.split("\n")) is not None:
            problems.add(
                tree.at("no_match", at), f"an exit is read from `{text}`, which it must not", "narrow the pattern"
            )
    for key, pattern in (("pattern", form.pattern), ("near", form.near)):
        for name in sorted(regex.compile(pattern).groupindex.keys() - set(_EXIT_GROUPS)):
            what = f"an exit report has no group `{name}`"
            problems.add(tree.at(key), what, f"groups are {', '.join(_EXIT_GROUPS)}")
        if pattern and (slow := slowest(pattern)):
            problems.add(tree.at(key), f"the {key} takes too long on the line `{slow}`", "begin with fixed text")


def _compare(sample: object, found: dict[str, object], place: Place, problems: Problems) -> None:
    assert isinstance(sample, dict)
    for name, want in sample.items():
        value = found.get(name)
        if name == "line" or _plain(value) == _plain(want):
            continue
        what = f"the sample says {name} `{want}`, and the line tells " + (f"`{value}`" if value is not None else "none")
        problems.add(place, what, "correct the pattern, or the sample")


def _plain(value: object) -> str:
    """Numbers as numbers: a label's `03` is rank 3."""
    text = str(value)
    return str(int(text)) if text.isdecimal() else text


def _groups(label: LineFormat, tree: Table, problems: Problems) -> None:
    for name in sorted(regex.compile(label.pattern).groupindex.keys() - set(LABEL_GROUPS)):
        problems.add(tree.at("pattern"), f"a label has no group `{name}`", f"groups are {', '.join(LABEL_GROUPS)}")
