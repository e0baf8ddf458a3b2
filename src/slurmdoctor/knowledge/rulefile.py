"""Reads one rule file: its tree → its cause, rules and tables, each with its place in the file."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from slurmdoctor.knowledge.fields import Field, Reader, list_of, record
from slurmdoctor.knowledge.problems import Problems
from slurmdoctor.knowledge.schema import ADDITIONS, CAUSE, RULES, TABLES
from slurmdoctor.knowledge.tree import Scalar, Table, Tree
from slurmdoctor.knowledge.values import CAUSE_ID, RULE_NAME, line
from slurmdoctor.model import Rule


class RuleFile(Struct):
    """The content of one file. Where parts of it are wrong, it holds the rest."""

    tree: Table
    cause: dict[str, Any] | None = None
    rules: list[tuple[Rule, Table]] = field(default_factory=list)
    tables: dict[str, list[tuple[Any, Table]]] = field(default_factory=dict)
    """Each entry of the tables with its place, by the table's key: formats, paths, signals, ..."""
    silence: tuple[str, ...] = ()

    def entries(self) -> list[Any]:
        """Its rules, labels, signals and facts."""
        rows = [*self.rules, *(row for table in self.tables.values() for row in table)]
        return [entry for entry, _ in rows]

    @property
    def cause_id(self) -> str | None:
        named = self.tree.items.get("cause")
        return named.text if isinstance(named, Scalar) else None


def read_file(tree: Tree, problems: Problems) -> RuleFile | None:
    """A cause's file, or a file of tables (formats, signals, ..., silence)."""
    if not isinstance(tree, Table):
        problems.add(tree.place, "a rule file must be a table of keys", "begin with `cause:`")
        return None
    if "cause" not in tree.items and tree.items.keys() & {*TABLES, "silence"}:
        return _tables(tree, problems)
    file = RuleFile(tree)
    extends = tree.items.get("extends")
    adds = isinstance(extends, Scalar) and extends.text == "true"
    fields, noun = (ADDITIONS, "a file that extends a cause") if adds else (CAUSE, "a cause")
    rows: list[tuple[Any, Table]] = []
    rules = replace(fields["rules"], read=_each(RULES.read, rows, least=0 if adds else 1))
    file.cause = record(tree, {**fields, **_readers(file, "fragments"), "rules": rules}, noun, problems)
    if file.cause is not None:
        file.silence = file.cause["silence"]
    # with `extends`, the role "" is replaced by that of the cause that is extended
    role = _word(tree.items.get("role"), "")
    for values, row in rows:
        file.rules.append((Rule(cause=file.cause_id or "", **{**values, "role": values["role"] or role}), row))
    return file


def _word(tree: Tree | None, otherwise: str) -> str:
    return tree.text if isinstance(tree, Scalar) else otherwise


def _tables(tree: Table, problems: Problems) -> RuleFile:
    file = RuleFile(tree)
    fields = {**_readers(file, *TABLES), "silence": Field(list_of(line), default=())}
    values = record(tree, fields, "this file", problems)
    file.silence = (values or {}).get("silence", ())
    return file


def _readers(file: RuleFile, *names: str) -> dict[str, Field]:
    """Fields that read the tables of these names into the file."""
    return {name: Field(_each(TABLES[name].read, file.tables.setdefault(name, [])), default=()) for name in names}


def _each(read: Reader, into: list[tuple[Any, Table]], least: int = 0) -> Reader:
    """Reads a list of such entries, and keeps each one with its place."""

    def one(tree: Tree, name: str, problems: Problems) -> Any:
        made = read(tree, name, problems)
        if made is not None and isinstance(tree, Table):
            into.append((made, tree))
        return made

    return list_of(one, least=least)


def check_ids(file: RuleFile, stem: str, problems: Problems) -> None:
    """The file's name is the cause's id, and each rule's id begins with it."""
    cause = file.cause_id
    if cause is None:
        return
    if cause.removeprefix("site/") != stem and CAUSE_ID.fullmatch(cause):
        name = cause.removeprefix("site/")
        mend = f"rename the file to {name}.yaml, or write cause: {cause.removesuffix(name)}{stem}"
        problems.add(file.tree.at("cause"), f"the file {stem}.yaml describes the cause `{cause}`", mend)
    for rule, tree in file.rules:
        name = rule.id.removeprefix(f"{cause}/")
        if name == rule.id or not RULE_NAME.fullmatch(name):
            short = re.sub(r"[^a-z0-9]+", "-", rule.id.rsplit("/", 1)[-1].lower()).strip("-")
            mend = f"write {cause}/{short or 'name'}"
            problems.add(tree.at("id"), f"the rule's id `{rule.id}` does not begin with its cause `{cause}/`", mend)
