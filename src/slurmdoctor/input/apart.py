"""Takes apart what nothing tells to be one job. One verdict on a folder asks for one job in doubt; a survey counts jobs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from slurmdoctor.input.job_names import Named, is_run, named, of_folder
from slurmdoctor.input.jobs import each_its_own
from slurmdoctor.model.jobs import JobFiles
from slurmdoctor.search.compiled import lazy

_PART = lazy(
    r"(?i)(?<![a-z])(?P<what>local[-_]?rank|rank|rk|task|proc|process|pid|worker|node|nid|host|attempt|retry|restart|gpu|cuda|device|part|shard)"
    r"[-_.=]?(?P<number>\d+)(?!\d)"
)
"""A number that counts processes or nodes of one job. One that counts steps, sizes or GPUs of a test tells jobs apart."""
_HOSTS = frozenset({"node", "nid", "host", "attempt", "retry", "restart", "pid"})
"""Words whose numbers need not begin with 0."""
_PART_FOLDER = lazy(rf"{_PART.pattern}$")
_STREAM_FOLDER = lazy(r"(?i)(?<![a-z])(?:std)?(?:out(?:put)?s?|err(?:or)?s?|logs?)(?![a-z])")
_SMALL = 100
"""Files that are told apart together, wherever they lie."""
_CERTAIN = 4
"""Digits of an id that holds for files whose names do not call it one."""
_UNSURE = frozenset({"only", "folder", "name"})
_FEW = 8
"""Names in the folder of a run that are one job's stages: `exp3/train.log`, `exp3/eval.log`."""
Home = tuple[str, str]
"""A folder, and the name of the one in it, without the words for a stream."""


def neighborhoods(paths: Iterable[str]) -> list[list[str]]:
    """The files by folders that have nothing to do with one another: the same number in two of them is of two jobs."""
    found: list[list[str]] = []
    whole: dict[bool, list[str]] = defaultdict(list)
    for path in paths:
        whole[path.startswith("/")].append(path)
    waiting = [("/" if rooted else "", inside) for rooted, inside in whole.items()]
    while waiting:
        above, inside = waiting.pop()
        if len(inside) <= _SMALL:
            found.append(inside)
            continue
        groups: dict[str, list[str]] = defaultdict(list)
        names: dict[str, set[str]] = defaultdict(set)
        for path in inside:
            folder = path[len(above) :].rpartition("/")[0].partition("/")[0]
            kind = _kind(folder)
            groups[kind].append(path)
            names[kind].add(folder)
        for kind, group in groups.items():
            # one folder is looked into further; folders that are counted stay together
            only = names[kind].pop() if len(names[kind]) == 1 else ""
            if only:
                waiting.append((f"{above}{only}/", group))
            else:
                found.append(group)
    return found


def _kind(folder: str) -> str:
    """The name of a folder with a sign for its numbers; none for the folder of a stream, of a rank, or of nothing."""
    return "" if _PART_FOLDER.fullmatch(folder) else re.sub(r"\d+", "#", _STREAM_FOLDER.sub("", folder)).strip("-_.")


def apart(jobs: Iterable[JobFiles]) -> list[JobFiles]:
    """The jobs; those without a certain id are divided anew where their files may be of several."""
    kept: list[JobFiles] = []
    homes: dict[Home, list[Named]] = defaultdict(list)
    whole: dict[str, JobFiles] = {}
    for job in jobs:
        sure, unsure = _sure(job)
        kept += sure
        for file in unsure:
            homes[_home(file)].append(file)
        if not sure:
            whole[min(job.files)] = job
    for home, inside in homes.items():
        for group in _of_one_folder(inside, home[1]):
            paths = tuple(file.path for file in group)
            before = whole.get(min(paths))
            same = before is not None and before.id is None and sorted(before.files) == sorted(paths)
            kept.append(before if before and same else JobFiles(name=_called(paths), files=paths, known_by="name"))
    return each_its_own(kept)


def _sure(job: JobFiles) -> tuple[list[JobFiles], list[Named]]:
    """What is of one job for certain, and the files that may be of others: a short number is no id where no word says so."""
    files = [named(path) for path in job.files]
    ident = (job.id or "").partition("_")[0]
    if any(file.elastic is not None for file in files):
        return [job], []
    if job.id is None:
        return ([], files) if job.known_by in _UNSURE else ([job], [])
    # the one id of a crowd, of which nothing says that it is one job
    lone = job.known_by == "only" and len(_units(files)) > _FEW
    if len(files) == 1 or job.known_by == "content" or (len(ident) >= _CERTAIN and not lone):
        return [job], []
    said: dict[Home, list[Named]] = defaultdict(list)
    for file in files:
        if ident in (file.id, file.file) or any(of_folder(folder).id == ident for folder in file.folder.split("/")):
            said[_home(file)].append(file)
    sure = {file.path for group in said.values() for file in group}
    own = [replace(job, files=tuple(file.path for file in group)) for group in said.values()]
    return own, [file for file in files if file.path not in sure]


def _home(file: Named) -> Home:
    """The folder of a job's files, without those that ranks, nodes and streams have for themselves."""
    above, name = file.folder, ""
    while above:
        rest, _, last = above.rpartition("/")
        if not _PART_FOLDER.fullmatch(last):
            name = _STREAM_FOLDER.sub("", last)
            above = rest
            break
        above = rest
    return above, name


def _of_one_folder(files: Sequence[Named], folder: str) -> list[list[Named]]:
    """The files of each job in a folder: the streams of a name, and what a launcher and its ranks wrote."""
    units = _units(files)
    if len(units) <= _FEW and is_run(folder):
        return [list(files)]
    ranks = [unit for unit in units if len(unit) > 1 and _PART.search(unit[0].path[len(unit[0].folder) :])]
    if len(units) < 2 or (ranks and len(units) == 2) or _two_streams(files) or _from_nought(files):
        return [list(files)]
    return units


def _units(files: Sequence[Named]) -> list[list[Named]]:
    units: dict[tuple[str, str], list[Named]] = defaultdict(list)
    counted: dict[tuple[str, str], list[Named]] = defaultdict(list)
    for file in files:
        folders = "/".join(file.folder.split("/")[-2:])
        found = _PART.search(file.unit)
        parts = _PART_FOLDER.search(folders)
        if found is None:
            units["" if parts else file.folder and _STREAM_FOLDER.sub("", file.folder), file.unit].append(file)
        else:
            counted[file.folder, _PART.sub(r"\g<what>#", file.unit)].append(file)
    for (folder, template), group in counted.items():
        if _are_parts(group):
            units[folder, template] += group
        else:
            for file in group:
                units[folder, file.unit].append(file)
    return list(units.values())


def _are_parts(files: Sequence[Named]) -> bool:
    """Whether the numbers of names count the processes or nodes of one job."""
    found = [one for file in files if (one := _PART.search(file.unit))]
    return found[0]["what"].lower() in _HOSTS or any(int(one["number"]) == 0 for one in found)


def _two_streams(files: Sequence[Named]) -> bool:
    """What a program wrote, and the errors beside it, whatever they are called."""
    return len(files) == 2 and {file.path.rpartition(".")[2].lower()[:1] for file in files} == {"e", "o"}


def _from_nought(files: Sequence[Named]) -> bool:
    """Whether the names are numbers from 0, as ranks are counted."""
    numbers = {int(file.file) for file in files if file.file.isascii() and file.file.isdigit()}
    return len(numbers) == len(files) and numbers == set(range(len(files)))


def _called(paths: Sequence[str]) -> str:
    return min(paths).rpartition("/")[2]
