"""Which of the numbers in files' and folders' names are jobs' ids: decided over all names, for one alone does not tell."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from slurmdoctor.input.job_names import Maybe, Named, chosen, of_folder
from slurmdoctor.model.jobs import Glance
from slurmdoctor.search.compiled import lazy

Key = tuple[str, "int | None"]
"""An id, and the task of the array."""
Look = Callable[[str], Glance]
_CERTAIN = 5
"""Digits of a number that is an id though no other name has another one."""
_PLAIN = 4
"""Digits from which a number in the name of any log may be an id; one of fewer only beside Slurm's own endings."""
_NEAR = 0.1
"""How far ids of jobs whose logs lie side by side are apart, as a share of them."""
_PORTS = frozenset({6006, 6379, 6380, 8001, 8080, 8081, 8265, 8443, 8501, 8888, 8889, 9090, 10001, 29501})
"""Ports that servers listen on by default, and are named after."""
_SOLE = lazy(r"^[A-Za-z][A-Za-z_.-]*[-_.](\d{4,})$")
"""`%x-%j`: words, and one number behind them."""
_BY_SLURM = lazy(r"\.(?:out|err|o|e)(?:\.\w+)?$")
"""Endings that Slurm's own examples have."""
_SAMPLE = 6
"""Files that are looked into to tell the tasks of an array from the ranks of a job."""


def ids_by_name(files: Sequence[Named], look: Look) -> dict[str, Key]:
    """The key of each path whose name, or whose folder's name, tells it."""
    told = {file.path: Maybe(file.id, file.joint, file.task) for file in files if file.id is not None}
    for file in files:
        if file.path not in told and (found := _of_folders(file)) is not None:
            told[file.path] = found
    counted = _numbered([file for file in files if file.path not in told])
    told |= {path: one for path, one in counted.items() if one is not None}
    sure = {one.digits for one in told.values()}
    for file in files:
        if file.path not in told and (also := _also_named(file, sure)):
            told[file.path] = also
    left = [file for file in files if file.path not in told and file.path not in counted]
    told |= _guessed(left, lambda file: (file.folder, file.template), lambda file: file.maybe)
    for folder, inside in _of_all_folders([file for file in left if file.path not in told]).items():
        told |= dict.fromkeys(folder, inside)
    for further in (_shared, _alike):
        told |= further([file for file in left if file.path not in told], files, told)
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


def _numbered(files: Sequence[Named]) -> dict[str, Maybe | None]:
    """Names that are a number and Slurm's ending, `%j.out`; None for those that count ranks from 0."""
    groups: dict[str, list[Named]] = defaultdict(list)
    for file in files:
        if file.file.isdecimal() and _BY_SLURM.search(file.path) and not file.folder.rpartition("/")[2].isdecimal():
            groups[file.folder].append(file)
    found: dict[str, Maybe | None] = {}
    for group in groups.values():
        if any(int(file.file) == 0 for file in group):
            found |= {file.path: None for file in group}
        elif not all(1990 <= int(file.file) < 2040 for file in group):  # years
            found |= {file.path: Maybe(file.file) for file in group if file.maybe}
    return found


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


def _measured(digits: str) -> bool:
    """Whether the number looks like a size, a year or a port, not like an id."""
    number = int(digits)
    return number % 500 == 0 or number % 256 == 0 or 1990 <= number < 2040 or number in _PORTS


def _near(digits: str, told: Iterable[Maybe]) -> bool:
    """Whether a number is about as large as an id that is known, where any is."""
    known = {int(one.digits) for one in told}
    return not known or any(abs(int(digits) - one) <= one * _NEAR for one in known)


def _shared(files: Sequence[Named], every: Sequence[Named], told: Mapping[str, Maybe]) -> dict[str, Maybe]:
    """One number that several names have before a count, or that a name begins with: `4711-0-node07.log`, `sweep.4711.0.out`."""
    groups: dict[Group, dict[str, Maybe]] = defaultdict(dict)
    leading: dict[str, Maybe] = {}
    others: dict[tuple[str, str, int], set[str]] = defaultdict(set)
    for file in files:
        for at, one in enumerate(file.maybe):
            others[file.folder, file.template, at].add(one.digits)
    for file in files:
        for at, one in enumerate(file.maybe):
            if len(others[file.folder, file.template, at]) > 1:  # hosts, or else they were taken for ids
                continue
            if len(one.digits) < _PLAIN or _measured(one.digits) or not _near(one.digits, told.values()):
                continue
            if one.task is not None:
                groups[file.folder, one.digits][file.path] = one
            if file.file.startswith(one.digits) and (one.task is not None or _BY_SLURM.search(file.path)):
                leading[file.path] = one
    found = leading
    for group in groups.values():
        if len({one.task for one in group.values()}) > 1:
            found = group | found
    return found


def _alike(files: Sequence[Named], every: Sequence[Named], told: Mapping[str, Maybe]) -> dict[str, Maybe]:
    """Ids in names that differ in their words too, beside those of such a form: `train-4711.out`, `eval-4713.out`."""
    known: dict[Group, list[Maybe]] = defaultdict(list)
    for file in every:
        if file.path in told and _SOLE.search(file.file):
            known[_form(file)].append(told[file.path])
    groups: dict[Group, dict[str, Maybe]] = defaultdict(dict)
    for file in files:
        if not file.part and len(file.maybe) == 1 and _SOLE.search(file.file) and not _measured(file.maybe[0].digits):
            groups[_form(file)][file.path] = file.maybe[0]
    found: dict[str, Maybe] = {}
    for form, group in groups.items():
        if form in known:
            found |= {path: one for path, one in group.items() if _near(one.digits, known[form])}
        elif (
            not told
            and not chosen({one.digits for one in group.values()})
            and (form[1] == "" or min(len(one.digits) for one in group.values()) >= _CERTAIN)
        ):
            largest = max(group.values(), key=lambda one: int(one.digits))
            if all(_near(one.digits, [largest]) for one in group.values()):
                found |= group
    return found


def _form(file: Named) -> Group:
    """Where a log lies, and its ending, where it is not Slurm's own."""
    return file.folder, "" if _BY_SLURM.search(file.path) else file.path.rpartition(".")[2]


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


def _of_all_folders(files: Sequence[Named]) -> dict[tuple[str, ...], Maybe]:
    """The same for folders: `4711/`, `train-4711/`, `sweep_4711_0/`; the paths in each."""
    inside: dict[str, list[str]] = defaultdict(list)
    for file in files:
        parts = file.folder.split("/")
        for depth, part in enumerate(parts):
            if of_folder(part).maybe:
                inside["/".join(parts[: depth + 1])].append(file.path)
    folders = [_as_file(folder) for folder in inside]
    told = _guessed(folders, lambda one: (one.folder, one.template), lambda one: one.maybe)
    counted = [one for one in folders if one.path not in told and any(maybe.task is not None for maybe in one.maybe)]
    for folder, maybe in _shared(counted, counted, told).items():
        siblings = [one for one in counted if maybe.digits in {other.digits for other in one.maybe}]
        if len(siblings) > 1:
            told[folder] = maybe
    return {tuple(inside[folder]): one for folder, one in told.items()}


def _as_file(folder: str) -> Named:
    above, _, name = folder.rpartition("/")
    read = of_folder(name)
    return Named(folder, above, read.file, maybe=read.maybe, part=read.part)


def _are_ids(files: Sequence[Named], numbers: Mapping[str, Maybe]) -> bool:
    """Whether numbers may be the ids of different jobs: of about one length, and not sizes or steps, which people choose."""
    values = {one.digits for one in numbers.values()}
    shortest, longest = min(map(len, values)), max(map(len, values))
    if shortest < _PLAIN and not all(_BY_SLURM.search(file.path) for file in files):
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
    tasks: dict[int | None, list[Named]] = defaultdict(list)
    for file in files:
        tasks[told[file.path].task].append(file)
    if set(tasks) == {None}:
        return False
    joints = {told[file.path].joint for file in files if told[file.path].task is not None}
    by_slurm = all(file.id is not None for file in files)
    if joints != {"_"} and (len(joints) > 1 or len(tasks) < 2):
        return False
    if None in tasks and len(tasks) > 1:  # the batch script's own log beside those of its ranks
        return False
    if joints == {"_"} and (len(tasks) < 2 or by_slurm):
        return True
    kept = sorted((task, group) for task, group in tasks.items() if task is not None)
    seen = {task: [look(file.path) for file in group[:2]] for task, group in kept[:: max(1, len(kept) // _SAMPLE)]}
    ids = [one for glances in seen.values() for one in frozenset[str]().union(*(glance.ids for glance in glances))]
    if ids:
        several = joints == {"_"} or len(ids) > 1 or ids != [told[files[0].path].digits]
        return several and len(ids) == len(set(ids))
    ranks = {task: frozenset[int]().union(*(glance.ranks for glance in glances)) for task, glances in seen.items()}
    shown = {task: found for task, found in ranks.items() if found}
    if len(shown) > 1 and all(found == {task} for task, found in shown.items()):
        return False
    # a rank has one log: the same one in two folders is of two jobs
    again = [{file.file for file in group if file.part and file.elastic is None} for _, group in kept]
    return joints == {"_"} or bool(set.intersection(*again))
