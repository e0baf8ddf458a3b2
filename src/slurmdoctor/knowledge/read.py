"""Reads folders of rule files into one Knowledge. All files are read, and all mistakes collected, before any is reported."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from slurmdoctor.knowledge.fragments import expand_all
from slurmdoctor.knowledge.paths import files
from slurmdoctor.knowledge.problems import READERS, Place, Problems, did_you_mean, shown
from slurmdoctor.knowledge.rulefile import RuleFile, check_ids, read_file
from slurmdoctor.knowledge.schema import PATTERNS, TABLES
from slurmdoctor.knowledge.tree import Tree
from slurmdoctor.knowledge.tree import read as read_tree
from slurmdoctor.model import Cause, Knowledge

SITE_FAMILY = "site"


class LoadedRules(Struct):
    """All that was read: the knowledge, the files behind it, and what is wrong with them."""

    knowledge: Knowledge = field(default_factory=lambda: Knowledge({}, (), ()))
    files: list[RuleFile] = field(default_factory=list)
    problems: Problems = field(default_factory=Problems)


def read(folders: Sequence[Path]) -> LoadedRules:
    """The first folder is ours; each later one may add to, override or silence what came before it."""
    loaded = LoadedRules()
    causes: dict[str, Cause] = {}
    tables: dict[str, dict[str, Any]] = {name: {} for name in TABLES}
    fragments: dict[str, str] = {}
    silenced: list[tuple[str, Place]] = []
    for number, folder in enumerate(folders):
        here: dict[str, Place] = {}  # what this folder has described so far: a second time is a mistake
        trees = {path: tree for path in files(folder) if (tree := _read_tree(path, loaded.problems))}
        expanded = expand_all(list(trees.values()), PATTERNS, fragments, loaded.problems)
        read_files = ((path, read_file(tree, loaded.problems)) for path, tree in zip(trees, expanded, strict=True))
        batch = [(path, file) for path, file in read_files if file]
        # Whole causes before those that extend them, whatever the files are called.
        for path, file in sorted(batch, key=lambda pair: bool(pair[1].cause and pair[1].cause["extends"])):
            loaded.files.append(file)
            if file.cause_id is not None:
                check_ids(file, path.stem, loaded.problems)
                _put_cause(file, _family(path, folder), number > 0, causes, here, loaded.problems)
            shared = file.tables if file.cause_id is None else {}  # a cause's fragments are its own
            for name, rows in shared.items():
                for entry, tree in rows:
                    if _first_here(f"{name} {entry.id}", tree.at("id"), here, loaded.problems):
                        tables[name][entry.id] = entry
            silence = file.tree.items.get("silence")
            silenced += [(one, file.tree.at("silence", at)) for at, one in enumerate(file.silence) if silence]
    _silence(silenced, causes, tables, loaded.problems)
    del tables["fragments"]  # written out by now
    facts = tables.pop("facts").values()
    entries: dict[str, Any] = {name: tuple(table.values()) for name, table in tables.items()}
    entries["signals"] += tuple(facts)
    loaded.knowledge = Knowledge(causes=dict(sorted(causes.items())), **entries)
    return loaded


def _read_tree(path: Path, problems: Problems) -> Tree | None:
    try:
        data = path.read_bytes()
    except OSError as error:
        problems.add(Place(shown(path)), f"cannot be read: {error.strerror}", "mend its permissions, or remove it")
        return None
    return read_tree(data, shown(path), problems)


def _family(path: Path, folder: Path) -> str:
    return path.parent.name if path.parent != folder and folder.is_dir() else SITE_FAMILY


def _put_cause(
    file: RuleFile,
    family: str,
    site: bool,
    causes: dict[str, Cause],
    here: dict[str, Place],
    problems: Problems,
) -> None:
    made, place = file.cause, file.tree.at("cause")
    name = file.cause_id or ""
    ours = causes.get(name)
    if site and ours is None and not name.startswith("site/"):
        mend = did_you_mean(name, causes, f"write cause: site/{name}")
        problems.add(place, f"`{name}` is none of slurmdoctor's causes, and a site's own begins with `site/`", mend)
        return
    if not site and name.startswith("site/"):
        problems.add(
            place,
            f"`{name}` stands among slurmdoctor's own rules",
            f"write cause: {name.removeprefix('site/')}",
        )
    if made is None:
        return
    if made.pop("extends"):
        if ours is None:
            problems.add(
                place,
                f"this file extends `{name}`, which is not there",
                did_you_mean(name, causes, "remove `extends`"),
            )
            return
        causes[name] = _extended(ours, file, problems)
    elif _first_here(f"cause {name}", place, here, problems):
        rules = tuple(rule for rule, _ in file.rules)
        given = {key: value for key, value in made.items() if key not in ("cause", "silence", "fragments", "rules")}
        given |= {key: frozenset(made[key]) for key in ("explains", "traits")}
        family = SITE_FAMILY if name.startswith("site/") else ours.family if ours else family
        causes[name] = Cause(id=name, family=family, rules=rules, **given)
    _unique(file, causes[name], problems)


def _extended(ours: Cause, file: RuleFile, problems: Problems) -> Cause:
    added = file.cause or {}
    known = {rule.id for rule in ours.rules}
    for rule, tree in file.rules:
        if rule.id in known:
            mend = "give it a name of its own, or silence ours: silence: [" + rule.id + "]"
            problems.add(tree.at("id"), f"the rule `{rule.id}` is there already", mend)
    fresh = (
        replace(rule, role=rule.role or ours.role, status=rule.status or ours.status)
        for rule, _ in file.rules
        if rule.id not in known
    )
    return replace(
        ours,
        explains=ours.explains | frozenset(added["explains"]),
        traits=ours.traits | frozenset(added["traits"]),
        rules=(*fresh, *ours.rules),
        fixes=(*added["fixes"], *ours.fixes),
        verify=(*added["verify"], *ours.verify),
        falsepositives=(*ours.falsepositives, *added["falsepositives"]),
        references=(*ours.references, *added["references"]),
    )


def _unique(file: RuleFile, cause: Cause, problems: Problems) -> None:
    seen: dict[str, Place] = {}
    for rule, tree in file.rules:
        _first_here(f"rule {rule.id}", tree.at("id"), seen, problems)
    if cause.id in cause.explains:
        problems.add(file.tree.at("explains"), f"`{cause.id}` explains itself", "remove it from the list")


def _first_here(name: str, place: Place, here: dict[str, Place], problems: Problems) -> bool:
    first = here.setdefault(name, place)
    if first is not place:
        kind, _, ident = name.partition(" ")
        problems.add(
            place,
            f"the {kind.removesuffix('s')} `{ident}` is described a second time (first in {first})",
            "keep one of them, or rename it",
        )
    return first is place


def _silence(
    wanted: Iterable[tuple[str, Place]],
    causes: dict[str, Cause],
    tables: dict[str, dict[str, Any]],
    problems: Problems,
) -> None:
    rules = {rule.id: cause for cause in causes.values() for rule in cause.rules}
    known = {*rules, *(name for table in tables.values() for name in table)}
    for name, place in wanted:
        if name in rules:
            cause = causes[rules[name].id]
            causes[cause.id] = replace(cause, rules=tuple(rule for rule in cause.rules if rule.id != name))
        elif name.rpartition("/")[2] in READERS and (cause_id := name.rpartition("/")[0]) in causes:
            problems.add(
                place,
                f"`{name}` is read by the program itself, and cannot be silenced",
                f"replace or extend the cause `{cause_id}` instead",
            )
        elif name not in known:
            problems.add(
                place,
                f"there is no rule `{name}` to silence",
                did_you_mean(name, known, "`slurmdoctor rules list` names them all"),
            )
        for table in tables.values():
            table.pop(name, None)
