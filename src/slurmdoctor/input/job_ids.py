"""Which of the numbers in files' and folders' names are jobs' ids, and tasks of arrays: decided over all names, and by lines in doubt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from slurmdoctor.input.job_names import Named, Number, of_folder
from slurmdoctor.matching import lazy
from slurmdoctor.model import Glance

Key = tuple[str, "int | None"]
"""An id, and the task of the array."""
Look = Callable[[str], Glance]
_CERTAIN = 5
"""Digits of a number that is an id whatever stands beside it."""
_ANY, _BY_SLURM = 4, 3
"""Digits from which numbers that differ are ids, in the names of any logs and of those with Slurm's own endings."""
_OWN = lazy(r"\.(?:out|err|o|e)(?:\.\w+)?$")
"""Endings that Slurm's own examples have."""
_SAMPLE = 6
"""Files that are looked into to learn what a number counts."""


def ids_by_name(files: Sequence[Named], look: Look) -> dict[str, Key]:
    """The key of each path whose name, or whose folder's name, tells it."""
    told = _told(files)
    told |= _known([file for file in files if file.path not in told], told, look)
    folders = _of_folders(files, told)
    by_id: dict[str, list[Named]] = defaultdict(list)
    for file in files:
        one = next((folders[above] for above in around(file.folder) if above in folders), None)
        one = told.get(file.path, one)
        if one is not None:
            told[file.path] = one
            by_id[one.digits].append(file)
    keys: dict[str, Key] = {}
    for ident, group in by_id.items():
        array = _is_array(group, told, look)
        keys |= {file.path: (ident, told[file.path].task if array else None) for file in group}
    return keys


@lru_cache(maxsize=4096)  # of the folders of thousands of files
def around(folder: str) -> tuple[str, ...]:
    """The folder, and those around it."""
    found = []
    while folder:
        found.append(folder)
        folder = folder.rpartition("/")[0]
    return tuple(found)


def _told(entries: Iterable[Named], alone: bool = True) -> dict[str, Number]:
    """The ids of entries whose names tell them: by a scheme, or as names of one form do that differ in one long number."""
    told: dict[str, Number] = {}
    groups: dict[tuple[str, str], list[Named]] = defaultdict(list)
    sole: dict[str, list[Named]] = defaultdict(list)
    for one in entries:
        if one.id is not None:
            told[one.path] = one.id
        elif one.numbers:
            groups[one.folder, one.template].append(one)
            if len(one.counts) == 1 and not one.part and _OWN.search(one.path):
                sole[one.folder].append(one)
    for group in groups.values():
        if alone or len(group) > 1:
            told |= next((ids for ids in _columns(group) if _are_ids(group, ids)), {})
    # names of other words: `train-4711.out`, `eval-4713.out`
    for group in sole.values():
        ids = {one.path: one.numbers[0] for one in group}
        if min(len(one.digits) for one in ids.values()) >= _ANY and len(group) > 1 and _are_ids(group, ids):
            told |= ids
    return told


def _columns(group: Sequence[Named]) -> list[dict[str, Number]]:
    """The numbers at each place of the names where ids may be, the longest first; none that counts from 0."""
    least = min(len(one.numbers) for one in group)
    places = [{one.path: one.numbers[at] for one in group} for at in range(least)]
    places = [place for place in places if all(one.digits != "0" for one in place.values())]
    return sorted(places, key=lambda place: -len(place[group[0].path].digits))


def _are_ids(group: Sequence[Named], ids: Mapping[str, Number]) -> bool:
    """Whether numbers at one place of names are ids: of about one length, and none that people choose."""
    values = {one.digits for one in ids.values()}
    tasks = {one.task for one in ids.values()}
    by_slurm = all(_OWN.search(path) for path in ids)
    if by_slurm and {one.joint for one in ids.values()} == {"_"} and len(tasks) > 1:
        return True  # %A_%a
    if _chosen(values) or (1 < len(values) < len({one.unit for one in group}) and running(group)):  # hosts of ranks
        return False
    shortest, longest = min(map(len, values)), max(map(len, values))
    if len(values) > 1:
        return longest - shortest <= 1 and shortest >= (_BY_SLURM if by_slurm else _ANY)
    whole = by_slurm and all(one.unit in values for one in group)  # %j.out
    first = all(one.unit.startswith(tuple(values)) for one in group)  # %j-%t-%N.log
    counted = len(tasks) > 1 or (first and None not in tasks)
    return shortest >= _CERTAIN or (shortest >= _BY_SLURM and whole) or (shortest >= _ANY and counted)


def _chosen(values: set[str]) -> bool:
    """Whether people chose all of these numbers, as they do sizes, steps and years; a scheduler counts through them."""
    numbers = [int(one) for one in values]
    if len(numbers) > 1 and max(numbers) < 10**_CERTAIN and all(one % 100 == 0 for one in numbers):
        return True
    return all(one % 500 == 0 or one & (one - 1) == 0 or 1990 <= one < 2040 for one in numbers)


def running(files: Iterable[Named]) -> bool:
    """Whether names of one form have a number that counts them from 0, as ranks are counted."""
    names = {(one.template, one.counts) for one in files}
    columns = zip(*(counts for _, counts in names), strict=False)
    return len(names) > 1 and any(set(column) == set(range(len(names))) for column in columns)


class _Near:
    """The ids that are known in a folder, in those around it, or in those below it."""

    def __init__(self) -> None:
        self._here: dict[str, set[str]] = defaultdict(set)
        self._below: dict[str, set[str]] = defaultdict(set)

    def note(self, told: Mapping[str, Number]) -> None:
        for path, one in told.items():
            folder = path.rpartition("/")[0]
            self._here[folder].add(one.digits)
            for above in around(folder):
                self._below[above].add(one.digits)

    def __call__(self, digits: str | None, folder: str) -> bool:
        return digits in self._below[folder] or any(digits in self._here[above] for above in (*around(folder), ""))


def _known(files: Sequence[Named], told: Mapping[str, Number], look: Look) -> dict[str, Number]:
    """Shorter numbers that are an id as one is near, or as the lines say: `train-16-0.log` beside `slurm-16.out`."""
    near = _Near()
    near.note(told)
    groups: dict[tuple[str, str], list[Named]] = defaultdict(list)
    for file in files:
        if file.numbers:
            groups[file.folder, file.template].append(file)
    found: dict[str, Number] = {}
    for group in groups.values():
        sample = group[:: max(1, len(group) // _SAMPLE)]
        # what the lines of one confirm is an id for all
        said = (ids for ids in _columns(group) if any(ids[file.path].digits in look(file.path).ids for file in sample))
        found |= next(said, {})
    near.note(found)
    for file in files:
        behind = {one.task for one in file.numbers}  # an array's task, or a rank
        for one in () if file.path in found else file.numbers:
            enough = len(one.digits) >= _BY_SLURM or one.task is not None
            if enough and int(one.digits) not in behind and near(one.digits, file.folder):
                found[file.path] = one
                break
        if file.torchrun is not None and near(file.torchrun, file.folder):
            found[file.path] = Number(file.torchrun)
    return found


def _of_folders(files: Sequence[Named], told: Mapping[str, Number]) -> dict[str, Number]:
    """The ids of folders: `job_4711/`, `4711/` beside `4713/` or a log of 4711; none of one in which other ids are."""
    inside: dict[str, set[str]] = {}
    for file in files:
        own = {told[file.path].digits} if file.path in told else set()
        for folder in around(file.folder):
            inside.setdefault(folder, set()).update(own)
    near = _Near()
    near.note(told)
    entries = [of_folder(folder) for folder in inside]
    found = _told(entries, alone=False)
    whole = (one for one in entries if one.path not in found and near(one.base, one.folder))
    found |= {one.path: Number(one.base) for one in whole if one.base.isdigit()}
    return {folder: one for folder, one in found.items() if not inside[folder] - {one.digits}}


def _is_array(files: Sequence[Named], told: Mapping[str, Number], look: Look) -> bool:
    """Whether the numbers behind one id count the tasks of an array; else they count ranks."""
    tasks: dict[int, list[Named]] = defaultdict(list)
    for file in files:
        task = told[file.path].task
        if task is None:  # the batch script's own log beside those of its ranks
            return False
        tasks[task].append(file)
    slurms = {told[file.path].joint for file in files} == {"_"}
    if any(file.array for file in files) or (slurms and (len(tasks) < 2 or all(file.id for file in files))):
        return True
    kept = sorted(tasks.items())[:: max(1, len(tasks) // _SAMPLE)]
    seen = {task: [look(file.path) for file in group[:2]] for task, group in kept}
    ids = [one for glances in seen.values() for one in frozenset[str]().union(*(glance.ids for glance in glances))]
    if ids:
        several = slurms or len(ids) > 1 or ids != [told[files[0].path].digits]
        return several and len(ids) == len(set(ids))
    ranks = {task: frozenset[int]().union(*(glance.ranks for glance in glances)) for task, glances in seen.items()}
    shown = {task: found for task, found in ranks.items() if found}
    return slurms and not (len(shown) > 1 and all(found == {task} for task, found in shown.items()))
