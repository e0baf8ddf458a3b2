"""Proves rule files: every example, literal, pattern, name and placeholder. All problems at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from slurmdoctor.knowledge.paths import builtin, files
from slurmdoctor.knowledge.problems import Problem, Problems, TooManyProblemsError, did_you_mean, shown
from slurmdoctor.knowledge.read import LoadedRules, read
from slurmdoctor.knowledge.rulefile import RuleFile
from slurmdoctor.knowledge.tree import Rows, Scalar, Table, Tree
from slurmdoctor.knowledge.workshop import templates
from slurmdoctor.knowledge.workshop.crosstalk import crosstalk
from slurmdoctor.knowledge.workshop.labels import check_exit_report, check_label, check_samples
from slurmdoctor.knowledge.workshop.proof import check_fragment, check_matcher
from slurmdoctor.knowledge.workshop.secrets import check_secret
from slurmdoctor.model import Knowledge
from slurmdoctor.ranks.labels import LabelReader

Proof = Callable[[Any, Table, LabelReader, Problems], None]

_PROOFS: Mapping[str, Proof] = {
    "formats": check_label,
    "signals": check_matcher,
    "facts": check_matcher,
    "exit_reports": check_exit_report,
    "fragments": check_fragment,
    "secrets": check_secret,
}
"""How the entries of a table are proven; those of other tables by their `samples` (`check_samples`)."""


class Checked(NamedTuple):
    files: list[RuleFile]
    problems: list[Problem]
    notes: list[Problem]
    """What works and should still be changed."""


def check_paths(paths: Sequence[Path], folders: Sequence[Path]) -> Checked:
    """These files, and what is wrong with them, read beside the folders that are in use."""
    ours = builtin()
    beside = [path for path in paths if not path.resolve().is_relative_to(ours)]
    loaded = read(tuple(dict.fromkeys([*folders, *beside])))
    named = {shown(file) for path in paths for file in files(path)}
    return check(loaded, named)


def check(loaded: LoadedRules, named: Iterable[str] | None = None) -> Checked:
    """The named files (as `shown` shows them), or all files, and what is wrong with them."""
    wanted = {file.tree.place.file for file in loaded.files} if named is None else set(named)
    problems = Problems(loaded.problems)
    problems.notes += loaded.problems.notes
    checked = [file for file in loaded.files if file.tree.place.file in wanted]
    with suppress(TooManyProblemsError):
        _prove(checked, loaded, wanted, problems)
    of_these, notes = (
        [problem for problem in sorted(set(found)) if named is None or problem.place.file in wanted]
        for found in (problems, problems.notes)
    )
    return Checked(checked, of_these, notes)


def _prove(checked: Sequence[RuleFile], loaded: LoadedRules, wanted: set[str], problems: Problems) -> None:
    labels = LabelReader(loaded.knowledge.formats)
    for file in checked:
        for rule, tree in file.rules:
            check_matcher(rule, tree, labels, problems)
        for name, entries in file.tables.items():
            prove = _PROOFS.get(name, check_samples)
            for entry, tree in entries:
                prove(entry, tree, labels, problems)
        _todos(file.tree, "it", problems)
        _explains(file, loaded.knowledge, problems)
        templates.check(file, loaded.knowledge, problems)
    crosstalk(loaded, wanted, labels, problems)


def _todos(tree: Tree, name: str, problems: Problems) -> None:
    """Reports what a draft left open."""
    if isinstance(tree, Scalar):
        if tree.text.startswith("TODO"):
            problems.add(tree.place, f"`{name}` is empty", _TODO.get(name, "write it"))
    elif isinstance(tree, Rows):
        for row in tree.items:
            _todos(row, name, problems)
    else:
        for key, value in tree.items.items():
            _todos(value, key, problems)


_TODO = {
    "title": 'complete "rank 13 ..." in at most 60 characters',
    "summary": "say what happens and why, in a few plain sentences",
    "source": "name the program that prints it, and since which version",
    "match": "paste the line as the program prints it",
    "literals": "take rare text that every such line holds",
    "regex": "write the pattern, searched in the line without its labels",
    "do": "say what to do, as an imperative sentence",
    "why": "give the reason in a few words, or remove it",
}


def _explains(file: RuleFile, knowledge: Knowledge, problems: Problems) -> None:
    known = knowledge.causes.keys()
    for at, name in enumerate(file.cause["explains"] if file.cause else ()):
        if name not in known:
            mend = did_you_mean(name, known, "`slurmdoctor rules list` names all causes")
            problems.add(file.tree.at("explains", at), f"`explains` names the unknown cause `{name}`", mend)
