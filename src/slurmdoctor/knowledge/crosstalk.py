"""No example of one cause may be taken by a rule of another: a line has one meaning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slurmdoctor.knowledge.matching import peeled, takes
from slurmdoctor.knowledge.problems import Place, Problems
from slurmdoctor.knowledge.read import Shelf
from slurmdoctor.model import Knowledge, Rule

LAST_RESORT = frozenset({"python-error", "exit-code"})
"""By their definition they take what no other cause fits."""


@dataclass(frozen=True, slots=True)
class Example:
    rule: Rule
    line: str
    texts: tuple[str, ...]
    place: Place


def crosstalk(shelf: Shelf, wanted: set[str], problems: Problems) -> None:
    """Told at the example where its file is among the wanted, else at the rule that takes it."""
    rules = [(rule, tree.at("regex")) for file in shelf.files for rule, tree in file.rules]
    in_use = {rule.id for rule in shelf.knowledge.rules}
    for example in _examples(shelf):
        for rule, place in rules:
            if rule.id not in in_use or _may_share(rule, example.rule, shelf.knowledge):
                continue
            if not {place.file, example.place.file} & wanted or not _takes(rule, example):
                continue
            mend = "narrow one of the two, or let the cause that brings the other about name it in `explains`"
            if example.place.file in wanted:
                what = f"this example of `{example.rule.cause}` is also taken by the rule `{rule.id}`"
                problems.add(example.place, what, mend)
            else:
                what = f"`{rule.id}` also takes an example of `{example.rule.id}`: `{example.line[:90].strip()}`"
                problems.add(place, what, mend)


def _examples(shelf: Shelf) -> Iterator[Example]:
    formats = shelf.knowledge.formats
    for file in shelf.files:
        for rule, tree in file.rules:
            for at, line in enumerate(rule.match):
                yield Example(rule, line, peeled(line, formats), tree.at("examples", "match", at))


def _takes(rule: Rule, example: Example) -> bool:
    try:
        return takes(rule, example.line, example.texts)
    except TimeoutError:  # told where the pattern's speed is checked
        return False


def _may_share(one: Rule, other: Rule, knowledge: Knowledge) -> bool:
    if one.cause == other.cause or "hint" in (one.role, other.role):
        return True
    if {one.cause, other.cause} & LAST_RESORT:
        return True
    first, second = knowledge.causes.get(one.cause), knowledge.causes.get(other.cause)
    return bool((first and other.cause in first.explains) or (second and one.cause in second.explains))
