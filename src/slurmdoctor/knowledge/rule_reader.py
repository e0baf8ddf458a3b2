"""Reads folders of rule files into one Knowledge. All files are read, and all mistakes collected, before any is reported."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from slurmdoctor.knowledge.document import Node, at, child, is_table, is_text, parse, place
from slurmdoctor.knowledge.paths import APath, data_of, names
from slurmdoctor.knowledge.problems import Place, TooManyProblemsError, did_you_mean, shown
from slurmdoctor.knowledge.schema import (
    ADDITIONS,
    CAUSE,
    CAUSE_ID,
    RULE_NAME,
    SHARED,
    TABLES,
    Mistakes,
    record,
)
from slurmdoctor.model import Cause, Knowledge, Rule

_SITE = "site"
"""The family of a site's own causes, and what their ids begin with."""


class RuleFile(Struct):
    """The content of one file. Where parts of it are wrong, it holds the rest."""

    node: Node
    cause: str = ""
    """The id of its cause; empty of a file of tables."""
    values: dict[str, Any] = field(default_factory=dict)
    """The values of its outermost keys; of rules and tables each entry with its node."""
    rules: list[tuple[Rule, Node]] = field(default_factory=list)
    whole: bool = True

    @property
    def name(self) -> str:
        return place(self.node).file

    def tables(self) -> dict[str, tuple[tuple[Any, Node], ...]]:
        """The entries of its tables: formats, paths, signals, ..."""
        return {name: self.values[name] for name in TABLES if name in self.values}

    def entries(self) -> list[Any]:
        """Its rules, labels, signals and facts."""
        rows = [*self.rules, *(row for table in self.tables().values() for row in table)]
        return [entry for entry, _ in rows]

    def mark_as_site(self) -> None:
        """Say of what is searched within a limit of time that it is a site's."""
        self.rules = [(replace(rule, of_site=True), node) for rule, node in self.rules]
        for name in {"signals", "facts", "exit_reports", "rank_lines"} & self.values.keys():
            self.values[name] = tuple((replace(entry, of_site=True), node) for entry, node in self.values[name])


def read(folders: Sequence[APath]) -> LoadedRules:
    """The first folder is ours; each later one may add to, override or silence what came before it."""
    loaded = LoadedRules()
    with suppress(TooManyProblemsError):
        for number, folder in enumerate(folders):
            loaded.add(folder, site=number > 0)
        loaded.silence()
    return loaded


def read_file(node: Node, problems: Mistakes) -> RuleFile | None:
    """A cause's file, or a file of tables (formats, signals, ..., silence)."""
    if not is_table(node):
        problems.add(place(node), "a rule file must be a table of keys", "begin with `cause:`")
        return None
    before = len(problems)
    named = child(node, "cause")
    if named is None and any(child(node, key) is not None for key in SHARED):
        return RuleFile(node, values=record(node, SHARED, "this file", problems))
    adds = _word(node, "extends") == "true"
    fields, noun = (ADDITIONS, "a file that extends a cause") if adds else (CAUSE, "a cause")
    shared = dict(problems.fragments)
    values = record(node, fields, noun, problems)
    problems.fragments = shared  # those of a cause are its own
    file = RuleFile(node, _word(node, "cause"), values, whole=len(problems) == before)
    # where the file extends a cause, its rules without a role get the cause's
    own = {"cause": file.cause, "role": _word(node, "role")}
    file.rules = [(Rule(**own | given), row) for given, row in values.get("rules", ())]
    return file


def _word(node: Node, key: str) -> str:
    value = child(node, key)
    return str(value.value) if is_text(value) else ""


class LoadedRules:
    """All that was read so far: the knowledge, the files behind it, and what is wrong with them."""

    def __init__(self) -> None:
        self.files: list[RuleFile] = []
        self.problems = Mistakes()
        self._causes: dict[str, Cause] = {}
        self._rules: dict[str, dict[str, Place]] = {}
        """Of each cause the rules that were described, and where."""
        self._tables: dict[str, dict[str, Any]] = {name: {} for name in TABLES}
        self._silenced: list[tuple[str, Place]] = []

    def add(self, name: APath, site: bool) -> None:
        folder = Path(name)
        here: dict[str, Place] = {}  # what this folder has described so far: a second time is a mistake
        nodes = [(path, node) for path in map(Path, names(folder)) if (node := self._parsed(path)) is not None]
        for _, node in nodes:  # first what all may use
            if child(node, "cause") is None and (fragments := child(node, "fragments")) is not None:
                SHARED["fragments"].read(fragments, "fragments", self.problems)
        batch = [(path, file) for path, node in nodes if (file := read_file(node, self.problems))]
        # whole causes before those that extend them, whatever the files are called
        for path, file in sorted(batch, key=lambda pair: "extends" in pair[1].values):
            self.files.append(file)
            if site:
                file.mark_as_site()
            silenced = file.values.get("silence", ())
            self._silenced += [(name, at(file.node, "silence", number)) for number, name in enumerate(silenced)]
            if not file.cause:
                self._put_tables(file, here)
            else:  # its fragments are its own
                self._check_ids(file, path.stem)
                family = path.parent.name if path.parent != folder and folder.is_dir() else _SITE
                self._put_cause(file, family, site, here)

    @cached_property
    def knowledge(self) -> Knowledge:
        """What the folders say, once all are read."""
        tables: dict[str, Any] = {name: tuple(entries.values()) for name, entries in self._tables.items()}
        del tables["fragments"]  # written out by now
        tables["signals"] += tables.pop("facts")
        return Knowledge(causes=dict(sorted(self._causes.items())), **tables)

    def silence(self) -> None:
        """Takes out the rules and entries of tables that a file silences."""
        names = {name for name, _ in self._silenced}
        known = {name for table in self._tables.values() for name in table}
        for cause in [*self._causes.values()]:
            known |= {rule.id for rule in cause.rules}
            left = tuple(rule for rule in cause.rules if rule.id not in names)
            self._causes[cause.id] = replace(cause, rules=left)
        for table in self._tables.values():
            for name in names & table.keys():
                del table[name]
        for name, where in self._silenced:
            if name not in known:
                mend = did_you_mean(name, known, "`slurmdoctor rules list` names them all")
                self.problems.add(where, f"there is no rule `{name}` to silence", mend)

    def _parsed(self, path: Path) -> Node | None:
        try:
            data = data_of(path)
        except OSError as error:
            where = Place(shown(path))
            self.problems.add(where, f"cannot be read: {error.strerror}", "fix its permissions, or remove it")
            return None
        return parse(data, shown(path), self.problems)

    def _put_tables(self, file: RuleFile, here: dict[str, Place]) -> None:
        for name, rows in file.tables().items():
            for entry, node in rows:
                if self._first_here(f"{name} {entry.id}", at(node, "id"), here):
                    self._tables[name][entry.id] = entry

    def _put_cause(self, file: RuleFile, family: str, site: bool, here: dict[str, Place]) -> None:
        name, where = file.cause, at(file.node, "cause")
        ours = self._causes.get(name)
        if site and ours is None and not name.startswith("site/"):
            mend = did_you_mean(name, self._causes, f"write cause: site/{name}")
            what = f"`{name}` is none of slurmdoctor's causes, and a site's own begins with `site/`"
            self.problems.add(where, what, mend)
            return
        if not file.whole:
            return
        if "extends" in file.values:
            if ours is None:
                mend = did_you_mean(name, self._causes, "remove `extends`")
                self.problems.add(where, f"this file extends `{name}`, which is not there", mend)
                return
            self._causes[name] = self._extended(ours, file, site)
        elif self._first_here(f"cause {name}", where, here):
            family = _SITE if name.startswith("site/") else ours.family if ours else family
            self._causes[name] = Cause(id=name, family=family, **_given(file))
            self._rules[name] = {}
        else:
            return
        for rule, node in file.rules:
            self._first_here(f"rule {rule.id}", at(node, "id"), self._rules[name])

    def _extended(self, ours: Cause, file: RuleFile, site: bool) -> Cause:
        made = _given(file)
        made["rules"] = tuple(replace(rule, role=rule.role or ours.role) for rule in made["rules"])
        made["fixes"] = tuple(replace(fix, of_site=site) for fix in made.get("fixes", ()))
        for key, value in made.items():
            had = getattr(ours, key)
            # what comes first is tried first, but for names and what builds on names before it
            first, then = (had, value) if key in ("let", "also") else (value, had)
            made[key] = first | then if isinstance(had, frozenset) else first + then
        return replace(ours, **made)

    def _check_ids(self, file: RuleFile, stem: str) -> None:
        """The file's name is the cause's id, and each rule's id begins with it."""
        cause = file.cause
        name = cause.removeprefix("site/")
        if name != stem and CAUSE_ID.fullmatch(cause):
            mend = f"rename the file to {name}.yaml, or write cause: {cause.removesuffix(name)}{stem}"
            self.problems.add(at(file.node, "cause"), f"the file {stem}.yaml describes the cause `{cause}`", mend)
        for rule, node in file.rules:
            name = rule.id.removeprefix(f"{cause}/")
            if name == rule.id or not RULE_NAME.fullmatch(name):
                what = f"the rule's id `{rule.id}` does not begin with its cause `{cause}/`"
                self.problems.add(at(node, "id"), what, f"write {cause}/<short name>")

    def _first_here(self, name: str, where: Place, here: dict[str, Place]) -> bool:
        first = here.setdefault(name, where)
        if first is not where:
            noun, _, ident = name.partition(" ")
            what = f"the {noun.removesuffix('s')} `{ident}` is described a second time (first in {first})"
            self.problems.add(where, what, "keep one of them, or rename it")
        return first is where


def _given(file: RuleFile) -> dict[str, Any]:
    """What a file says of its cause, as the cause's fields keep it."""
    given = {key: value for key, value in file.values.items() if key in Cause.__struct_fields__}
    given |= {key: tuple(one for one, _ in given[key]) for key in ("let", "fixes") if key in given}
    given |= {key: frozenset(given.get(key, ())) for key in ("explains", "traits")}
    return given | {"rules": tuple(rule for rule, _ in file.rules)}
