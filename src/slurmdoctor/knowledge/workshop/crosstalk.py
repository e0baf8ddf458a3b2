"""Finds cross-talk: an example line of one cause that a rule of another cause also matches."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from slurmdoctor.knowledge.problems import Place, Problems
from slurmdoctor.knowledge.read import LoadedRules
from slurmdoctor.knowledge.workshop.matching import admits, peeled, takes
from slurmdoctor.model import Knowledge, Rule
from slurmdoctor.ranks.labels import LabelReader
from slurmdoctor.report.redact import redact


class Example(Struct):
    rule: Rule
    line: str
    place: Place
    texts: tuple[str, ...] | None = None
    """The line without its labels; None until a rule whose literal is in the line needs it."""

    def taken_by(self, rule: Rule, labels: LabelReader) -> bool:
        if not admits(rule, self.line):
            return False
        if self.texts is None:
            self.texts = peeled(self.line, labels)
        return takes(rule, self.line, self.texts)


def crosstalk(loaded: LoadedRules, wanted: set[str], labels: LabelReader, problems: Problems) -> None:
    """Reports each at the example, or at the rule that also matches it where the example's file is not checked."""
    known = loaded.knowledge
    in_use = {rule.id for rule in known.rules}
    rules = [(rule, tree.at("regex")) for file in loaded.files for rule, tree in file.rules if rule.id in in_use]
    ours = [(rule, place) for rule, place in rules if place.file in wanted]
    mend = "narrow one of the two, or let the cause that brings the other about name it in `explains`"
    for example in _examples(loaded):
        here = example.place.file in wanted
        for rule, place in rules if here else ours:
            if _may_share(rule, example.rule, known) or not example.taken_by(rule, labels):
                continue
            if here:
                what = f"this example of `{example.rule.cause}` is also taken by the rule `{rule.id}`"
                problems.add(example.place, what, mend)
            else:
                line = redact(example.line)[:90].strip()
                problems.add(place, f"`{rule.id}` also takes an example of `{example.rule.id}`: `{line}`", mend)


def _examples(loaded: LoadedRules) -> Iterator[Example]:
    for file in loaded.files:
        for rule, tree in file.rules:
            for at, line in enumerate(rule.match):
                yield Example(rule, line, tree.at("examples", "match", at))


def _may_share(one: Rule, other: Rule, knowledge: Knowledge) -> bool:
    """Whether `one` may take an example of `other`."""
    if one.cause == other.cause or "hint" in (one.role, other.role) or "message" in (one.applies_to, other.applies_to):
        return True
    if one.general != other.general:  # a general rule gives way
        return True
    if {one.cause, other.cause} & knowledge.traits["catch-all"]:
        return True
    first, second = knowledge.causes.get(one.cause), knowledge.causes.get(other.cause)
    return bool((first and other.cause in first.explains) or (second and one.cause in second.explains))
