"""Which of the numbers in files' and folders' names are jobs' ids: decided over all names, for one alone does not tell."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from slurmdoctor.input.job_names import Maybe, Named, chosen, of_folder
from slurmdoctor.model.jobs import Glance

Key = tuple[str, "int | None"]
"""An id, and the task of the array."""
Look = Callable[[str], Glance]
_CERTAIN = 5
"""Digits of a number that is an id though no other name has another one."""
_PLAIN = 4
"""Digits from which a number in the name of any log may be an id; one of fewer only beside Slurm's own endings."""
_SAMPLE = 6
"""Files that are looked into to tell the tasks of an array from the ranks of a job."""


def ids_by_name(files: Sequence[Named], look: Look) -> dict[str, Key]:
    """The key of each path whose name, or whose folder's name, tells it."""
    told = {file.path: Maybe(file.id, file.joint, file.task) for file in files if file.id is not None}
    for file in files:
        if file.path not in told and (found := _of_folders(file)) is not None:
            told[file.path] = found
    sure = {one.digits for one in told.values()}
    for file in files:
        if file.path not in told and (also := _also_named(file, sure)):
            told[file.path] = also
    left = [file for file in files if file.path not in told]
    told |= _guessed(left, lambda file: (file.folder, file.template), lambda file: file.maybe)
    for folder, inside in _guessed_folders([file for file in left if file.path not in told]).items():
        told |= dict.fromkeys(folder, inside)
    if not told:
        told = _alone(files)
    by_id: dict[str, list[Named]] = defaultdict(list)
    for file in files:
        if file.path in told:
            by_id[told[file.path].digits].append(file)
    keys: dict[str, Key] = {}
    for ident, group in by_id.items():
        array = _is_array(group, told, look)
        keys |= {file.path: (ident, told[file.path].task if array else None) for file in group}
    return keys


def _alone(files: Sequence[Named]) -> dict[str, Maybe]:
    """The only long number of all names, where nobody chooses such: `train-880123.out`."""
    longest = {file.path: max(file.maybe, key=lambda one: len(one.digits)) for file in files if file.maybe}
    values = {one.digits for one in longest.values()}
    return longest if len(values) == 1 and len(min(values)) >= _CERTAIN and not chosen(values) else {}


def _of_folders(file: Named) -> Maybe | None:
    """An id that the name of the nearest folder calls one."""
    for folder in reversed(file.folder.split("/")):
        found = of_folder(folder)
        if found.id is not None:
            return Maybe(found.id, found.joint, found.task)
    return None


def _also_named(file: Named, sure: set[str]) -> Maybe | None:
    """An id that another file's name calls one, and this one's just holds: `train-16-0.log` beside `slurm-16.out`."""
    if file.torchrun in sure:
        return Maybe(file.torchrun or "")
    for one in (*file.maybe, *map(Maybe, sorted(file.numbers, key=len, reverse=True))):
        if one.digits in sure:
            return Maybe(one.digits)
    for folder in reversed(file.folder.split("/")):
        if folder in sure:
            return Maybe(folder)
    return None


Group = tuple[str, str]


def _guessed(
    files: Sequence[Named], group_of: Callable[[Named], Group], maybe_of: Callable[[Named], tuple[Maybe, ...]]
) -> dict[str, Maybe]:
    """Ids that no word calls one: names that differ in one long number alone, as `%x-%j` makes them."""
    groups: dict[Group, list[Named]] = defaultdict(list)
    for file in files:
        if maybe_of(file):
            groups[group_of(file)].append(file)
    found: dict[str, Maybe] = {}
    for group in groups.values():
        least = min(len(maybe_of(file)) for file in group)
        for at in sorted(range(least), key=lambda at: -len(maybe_of(group[0])[at].digits)):
            numbers = {file.path: maybe_of(file)[at] for file in group}
            if _are_ids(group, numbers) and not _hosts(group, numbers):
                found |= numbers
                break
    return found


def _guessed_folders(files: Sequence[Named]) -> dict[tuple[str, ...], Maybe]:
    """The same for folders: `4711/`, `train-4711/`; the paths in each."""
    inside: dict[str, list[str]] = defaultdict(list)
    for file in files:
        parts = file.folder.split("/")
        for depth, part in enumerate(parts):
            if of_folder(part).maybe:
                inside["/".join(parts[: depth + 1])].append(file.path)
    folders = [_as_file(folder) for folder in inside]
    told = _guessed(folders, lambda one: (one.folder, one.template), lambda one: one.maybe)
    return {tuple(inside[folder]): one for folder, one in told.items()}


def _as_file(folder: str) -> Named:
    above, _, name = folder.rpartition("/")
    read = of_folder(name)
    return Named(folder, above, read.file, maybe=read.maybe, part=read.part)


def _are_ids(files: Sequence[Named], numbers: Mapping[str, Maybe]) -> bool:
    """Whether numbers may be the ids of different jobs: of about one length, and not sizes or steps, which people choose."""
    values = {one.digits for one in numbers.values()}
    shortest, longest = min(map(len, values)), max(map(len, values))
    if shortest < _PLAIN and not all(re.search(r"\.(?:out|err|o|e)(?:\.\w+)?$", file.path) for file in files):
        return False
    return len(values) > 1 and longest - shortest <= 1 and not chosen(values)


def _hosts(files: Sequence[Named], numbers: Mapping[str, Maybe]) -> bool:
    """Whether the number is a node's: then each rank is on one node alone, and together they are all from 0 or 1."""
    ranks: dict[str, set[int]] = defaultdict(set)
    for file in files:
        one = numbers[file.path].digits
        behind = [int(number) for number in re.findall(r"\d+", file.unit.partition(one)[2])]
        if not behind:
            return False
        ranks[one].add(behind[-1])
    every = sorted(rank for found in ranks.values() for rank in found)
    return len(every) > len(ranks) and every in (list(range(len(every))), list(range(1, len(every) + 1)))


def _is_array(files: Sequence[Named], told: Mapping[str, Maybe], look: Look) -> bool:
    """Whether the numbers behind one id count the tasks of an array; else they count ranks."""
    tasks = {told[file.path].task: file for file in files}
    if set(tasks) == {None}:
        return False
    joints = {told[file.path].joint for file in files if told[file.path].task is not None}
    by_slurm = all(file.id is not None for file in files)
    if joints != {"_"} and (joints != {"-"} or len(tasks) < 2 or by_slurm):
        return False
    if None in tasks and len(tasks) > 1:  # the batch script's own log beside those of its ranks
        return False
    if len(tasks) < 2 or by_slurm:
        return joints == {"_"}
    kept = sorted((task, file) for task, file in tasks.items() if task is not None)
    seen = {task: look(file.path) for task, file in _spread(kept)}
    ids = [one for glance in seen.values() for one in glance.ids]
    if ids:
        return len(ids) == len(set(ids)) and (len(ids) > 1 or joints == {"_"})
    ranks = {task: glance.ranks for task, glance in seen.items() if glance.ranks}
    if len(ranks) > 1 and all(found == {task} for task, found in ranks.items()):
        return False
    return joints == {"_"}


def _spread(items: Iterable[tuple[int, Named]]) -> list[tuple[int, Named]]:
    every = list(items)
    return every[:: max(1, len(every) // _SAMPLE)]
