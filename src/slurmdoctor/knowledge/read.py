"""Reads folders of rule files into one Knowledge. All files are read, and all mistakes collected, before any is reported."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from slurmdoctor.knowledge.fragments import expand_all
from slurmdoctor.knowledge.paths import data_of, files
from slurmdoctor.knowledge.problems import READERS, Place, Problems, TooManyProblemsError, did_you_mean, shown
from slurmdoctor.knowledge.rulefile import RuleFile, check_ids, read_file
from slurmdoctor.knowledge.schema import PATTERNS, TABLES
from slurmdoctor.knowledge.tree import Tree
from slurmdoctor.knowledge.tree import read as read_tree
from slurmdoctor.model import Cause, Knowledge

SITE_FAMILY = "site"


class LoadedRules(Struct):
    """All that was read: the knowledge, the files behind it, and what is wrong with them."""

    knowledge: Knowledge
    files: list[RuleFile]
    problems: Problems


def read(folders: Sequence[Path]) -> LoadedRules:
    """The first folder is ours; each later one may add to, override or silence what came before it."""
    reading = _Reading()
    with suppress(TooManyProblemsError):
        for number, folder in enumerate(folders):
            reading.add(folder, site=number > 0)
        reading.silence()
    return LoadedRules(reading.knowledge(), reading.files, reading.problems)


class _Reading:
    """What the folders that were read so far say."""

    def __init__(self) -> None:
        self.files: list[RuleFile] = []
        self.problems = Problems()
        self._causes: dict[str, Cause] = {}
        self._tables: dict[str, dict[str, Any]] = {name: {} for name in TABLES}
        self._fragments: dict[str, str] = {}
        self._silenced: list[tuple[str, Place]] = []

    def add(self, folder: Path, site: bool) -> None:
        here: dict[str, Place] = {}  # what this folder has described so far: a second time is a mistake
        trees = {path: tree for path in files(folder) if (tree := self._tree(path))}
        expanded = expand_all(list(trees.values()), PATTERNS, self._fragments, self.problems)
        read_files = ((path, read_file(tree, self.problems)) for path, tree in zip(trees, expanded, strict=True))
        batch = [(path, file) for path, file in read_files if file]
        # Whole causes before those that extend them, whatever the files are called.
        for path, file in sorted(batch, key=lambda pair: bool(pair[1].cause and pair[1].cause["extends"])):
            self.files.append(file)
            self._silenced += [(name, file.tree.at("silence", at)) for at, name in enumerate(file.silence)]
            if file.cause_id is None:
                self._put_tables(file, here)
            else:  # its fragments are its own
                check_ids(file, path.stem, self.problems)
                family = path.parent.name if path.parent != folder and folder.is_dir() else SITE_FAMILY
                self._put_cause(file, family, site, here)

    def knowledge(self) -> Knowledge:
        tables: dict[str, Any] = {name: tuple(entries.values()) for name, entries in self._tables.items()}
        del tables["fragments"]  # written out by now
        tables["signals"] += tables.pop("facts")
        return Knowledge(causes=dict(sorted(self._causes.items())), **tables)

    def silence(self) -> None:
        """Takes out the rules and entries of tables that a file silences."""
        rules = {rule.id: cause.id for cause in self._causes.values() for rule in cause.rules}
        known = {*rules, *(name for table in self._tables.values() for name in table)}
        for name, place in self._silenced:
            cause_id, _, reader = name.rpartition("/")
            if name in rules:
                cause = self._causes[rules[name]]
                left = tuple(rule for rule in cause.rules if rule.id != name)
                self._causes[cause.id] = replace(cause, rules=left)
            elif reader in READERS and cause_id in self._causes:
                what = f"`{name}` is read by the program itself, and cannot be silenced"
                self.problems.add(place, what, f"replace or extend the cause `{cause_id}` instead")
            elif name not in known:
                mend = did_you_mean(name, known, "`slurmdoctor rules list` names them all")
                self.problems.add(place, f"there is no rule `{name}` to silence", mend)
            for table in self._tables.values():
                table.pop(name, None)

    def _tree(self, path: Path) -> Tree | None:
        try:
            data = data_of(path)
        except OSError as error:
            place = Place(shown(path))
            self.problems.add(place, f"cannot be read: {error.strerror}", "fix its permissions, or remove it")
            return None
        return read_tree(data, shown(path), self.problems)

    def _put_tables(self, file: RuleFile, here: dict[str, Place]) -> None:
        for name, rows in file.tables.items():
            for entry, tree in rows:
                if self._first_here(f"{name} {entry.id}", tree.at("id"), here):
                    self._tables[name][entry.id] = entry

    def _put_cause(self, file: RuleFile, family: str, site: bool, here: dict[str, Place]) -> None:
        made, place = file.cause, file.tree.at("cause")
        name = file.cause_id or ""
        ours = self._causes.get(name)
        if site and ours is None and not name.startswith("site/"):
            mend = did_you_mean(name, self._causes, f"write cause: site/{name}")
            what = f"`{name}` is none of slurmdoctor's causes, and a site's own begins with `site/`"
            self.problems.add(place, what, mend)
            return
        if not site and name.startswith("site/"):
            mend = f"write cause: {name.removeprefix('site/')}"
            self.problems.add(place, f"`{name}` is one of slurmdoctor's own rules", mend)
        if made is None:
            return
        if made["extends"]:
            if ours is None:
                mend = did_you_mean(name, self._causes, "remove `extends`")
                self.problems.add(place, f"this file extends `{name}`, which is not there", mend)
                return
            self._causes[name] = self._extended(ours, file, site)
        elif self._first_here(f"cause {name}", place, here):
            given = {key: made[key] for key in Cause.__struct_fields__ if key in made}
            given |= {key: frozenset(made[key]) for key in ("explains", "traits")}
            given["rules"] = tuple(rule for rule, _ in file.rules)
            family = SITE_FAMILY if name.startswith("site/") else ours.family if ours else family
            self._causes[name] = Cause(id=name, family=family, **given)
        self._check_cause(file, self._causes[name])

    def _extended(self, ours: Cause, file: RuleFile, site: bool) -> Cause:
        added = file.cause or {}
        known = {rule.id for rule in ours.rules}
        fresh = []
        for rule, tree in file.rules:
            if rule.id in known:
                mend = f"give it a name of its own, or silence ours: silence: [{rule.id}]"
                self.problems.add(tree.at("id"), f"the rule `{rule.id}` is there already", mend)
            else:
                fresh.append(replace(rule, role=rule.role or ours.role))
        return replace(
            ours,
            also=(*ours.also, *added["also"]),
            explains=ours.explains | frozenset(added["explains"]),
            traits=ours.traits | frozenset(added["traits"]),
            rules=(*fresh, *ours.rules),
            let=(*ours.let, *added["let"]),
            fixes=(*(replace(fix, of_site=site) for fix in added["fixes"]), *ours.fixes),
            verify=(*added["verify"], *ours.verify),
            falsepositives=(*ours.falsepositives, *added["falsepositives"]),
            references=(*ours.references, *added["references"]),
        )

    def _check_cause(self, file: RuleFile, cause: Cause) -> None:
        seen: dict[str, Place] = {}
        for rule, tree in file.rules:
            self._first_here(f"rule {rule.id}", tree.at("id"), seen)
        if cause.id in cause.explains:
            what = f"`{cause.id}` explains itself"
            self.problems.add(file.tree.at("explains"), what, "remove it from the list")

    def _first_here(self, name: str, place: Place, here: dict[str, Place]) -> bool:
        first = here.setdefault(name, place)
        if first is not place:
            kind, _, ident = name.partition(" ")
            what = f"the {kind.removesuffix('s')} `{ident}` is described a second time (first in {first})"
            self.problems.add(place, what, "keep one of them, or rename it")
        return first is place
