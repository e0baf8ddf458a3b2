"""Proves entries of tables by their samples: `{line: '[rank3]: x', rank: 3, text: x}` names the groups and the rest of a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import regex

from slurmdoctor.knowledge.problems import Place, Problems
from slurmdoctor.knowledge.schema import LABEL_GROUPS
from slurmdoctor.knowledge.tree import Table
from slurmdoctor.model import LineFormat, SourceFormat
from slurmdoctor.ranks.labels import LabelReader

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
        _compare(sample, found.groupdict() if found else {}, tree.at("samples", at), problems)
    for at, line in enumerate(entry.no_match):
        if compiled.search(line):
            problems.add(tree.at("no_match", at), f"the pattern takes `{line}`, which it must not", "narrow it")


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
