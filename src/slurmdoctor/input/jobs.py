"""Tells the jobs apart whose files paths name: by names, folders, lines and times. Where nothing tells, they are one.

What belongs together stays together: a file a rank, a node or an attempt, `.out` beside `.err`, a launcher's log beside
those of its ranks. Files are looked into only where their names do not decide.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from msgspec.structs import replace

from slurmdoctor.input.elastic import runs_of_torchrun
from slurmdoctor.input.job_ids import Key, Look, ids_by_name
from slurmdoctor.input.job_names import Named, is_date, is_run, named, of_folder, says_what
from slurmdoctor.model import UserError
from slurmdoctor.model.jobs import Glance, JobFiles, KnownBy

MOST_LOOKS = 20_000
_LISTED = 6
"""Jobs that an error names."""
_MOST_BY_TIME = 2_000
"""Runs that are told apart by their times."""
Group = tuple[Key | None, KnownBy, tuple[Named, ...]]


def blind(path: str) -> Glance:
    """What is known of a file that nobody looks into."""
    return Glance()


def split(paths: Sequence[str], look: Look = blind) -> tuple[JobFiles, ...]:
    """The jobs that these files are of, by id. `look` reads the head and the end of a file."""
    files = [named(path) for path in sorted(set(paths))]
    groups = _apart(files, look) if files else []
    order = {path: at for at, path in enumerate(paths)}
    doubtful = len(groups) == 1 and _doubtful(files, groups[0][0])
    top = _common(files) if len(groups) > 1 else None
    jobs = [_job(group, order, top, doubtful) for group in groups]
    return tuple(sorted(each_its_own(jobs), key=by_id))


def picked(jobs: Sequence[JobFiles], wanted: str) -> tuple[JobFiles, ...]:
    """The job of this id or name; of an array all its tasks."""
    found = tuple(job for job in jobs if wanted in (job.id, job.label))
    found = found or tuple(job for job in jobs if (job.id or "").rpartition("_")[0] == wanted)
    base = wanted.partition("+")[0].partition(".")[0]  # a component's or a step's id: names show the job's
    found = found or tuple(job for job in jobs if base and job.id == base)
    if found:
        return found
    import difflib

    labels = [job.label for job in jobs]
    near = difflib.get_close_matches(wanted, labels, _LISTED) or labels
    more = len(labels) - len(near[:_LISTED])
    shown = ", ".join(near[:_LISTED]) + (f" and {more:,} more" if more > 0 else "")
    raise UserError(f"these files are of no job {wanted}", f"they are of {shown}")


def by_id(job: JobFiles) -> tuple[int, int, str]:
    """Jobs in the order in which they were submitted."""
    number = (job.id or "").partition("_")[0]
    return int(number) if number.isdigit() else 0, job.array_task or 0, min(job.files, default="")


def _job(group: Group, order: Mapping[str, int], top: str | None, doubtful: bool) -> JobFiles:
    """The job of a group; `top` is the folder of all jobs, where there are several."""
    key, how, files = group
    ident, task = key or (None, None)
    told = (file.name or next((one.name for one in file.maybe if one.digits == ident), None) for file in files)
    names = set(filter(None, told))
    name = names.pop() if len(names) == 1 else None
    if top is not None and key is None and (name is None or how == "folder"):
        name = _called(how, files, top)
    shown = f"{ident}_{task}" if task is not None else ident
    return JobFiles(shown, task, name, tuple(sorted((f.path for f in files), key=order.__getitem__)), how, doubtful)


def _called(how: KnownBy, files: Sequence[Named], top: str) -> str:
    """What to call a job that has no id: its folder where that tells it from the others, else its file."""
    if how == "folder" and files[0].elastic is not None:
        return files[0].elastic
    if how == "folder" or (how == "time" and len({file.folder for file in files}) == 1 and len(files) > 1):
        parts = _common(files)[len(top) :].strip("/").split("/")
        named_so = [at for at, part in enumerate(parts, 1) if is_run(part) or part.isdigit()]
        return "/".join(parts[: max(named_so, default=1)]) or files[0].path
    # a README is no log to name a job after
    return min(files, key=lambda file: (file.path.endswith(".txt"), file.path)).path.rpartition("/")[2]


def each_its_own(jobs: Sequence[JobFiles]) -> list[JobFiles]:
    """The jobs, none of which is called as another."""
    labels = Counter(job.label for job in jobs)
    return [job if labels[job.label] == 1 else replace(job, name=job.files[0]) for job in jobs]


def _apart(files: Sequence[Named], look: Look) -> list[Group]:
    """The groups of files, each of one job."""
    keys = ids_by_name(files, look)
    known = set(keys.values())
    if len(known) > 1:
        return _by_key(files, keys, look)
    alone = next(iter(known), None)
    if alone is not None and len(keys) == len(files):
        return [(alone, "only", tuple(files))]
    ways: tuple[Callable[[Sequence[Named], Look], list[Group]], ...]
    # what has no id is of the one job that has, unless a line says otherwise
    ways = (_by_torchrun, _by_folder, _by_run, _by_content, _by_time) if alone is None else (_by_content,)
    if alone is not None and alone[1] is not None:
        ways = ()  # the lines of an array's task name another id than its files
    for way in ways:
        groups = way(files, look)
        if len(groups) > 1:
            return groups
    return [(alone, "only", tuple(files))]


# ── by names ─────────────────────────────────────────────────────────────────────────────────


def _by_key(files: Sequence[Named], keys: Mapping[str, Key], look: Look) -> list[Group]:
    """A group for each id; the others join the one job of their folder, or that of which their lines speak."""
    groups: dict[Key, list[Named]] = defaultdict(list)
    inside: dict[str, set[Key]] = defaultdict(set)
    for file in files:
        if file.path in keys:
            groups[keys[file.path]].append(file)
            for folder in _folders(file.folder):
                inside[folder].add(keys[file.path])
    left = []
    raw = {key[0]: key for key in groups if key[1] is None}
    for file in files:
        if file.path in keys:
            continue
        owner = _owner(file, inside)
        if owner is None and (told := {raw[one] for one in look(file.path).ids if one in raw}) and len(told) == 1:
            owner = told.pop()
        if owner is None:
            left.append(file)
        else:
            groups[owner].append(file)
    found: list[Group] = [(key, "name", tuple(group)) for key, group in groups.items()]
    return found + (_apart(left, look) if left else [])


def _owner(file: Named, inside: Mapping[str, set[Key]]) -> Key | None:
    """The only job that has files in the nearest folder around this file in which any job has."""
    for folder in _folders(file.folder):
        if owners := inside.get(folder):
            return next(iter(owners)) if len(owners) == 1 else None
    return None


def _folders(folder: str) -> Iterable[str]:
    """The folder, and those around it."""
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]
    yield ""


def _common(files: Sequence[Named]) -> str:
    """The folder that holds all of them."""
    first, last = min(f.folder for f in files).split("/"), max(f.folder for f in files).split("/")
    same = 0
    while same < min(len(first), len(last)) and first[same] == last[same]:
        same += 1
    return "/".join(first[:same])


def _below(files: Sequence[Named]) -> list[tuple[Named, list[str]]]:
    """Each file with the folders that lead to it from the one that holds all."""
    top = len(_common(files))
    return [(file, [part for part in file.folder[top:].split("/") if part]) for file in files]


def _by_torchrun(files: Sequence[Named], look: Look) -> list[Group]:
    """A job for each run of torchrun that wrote into one folder."""
    runs = runs_of_torchrun(files, look)
    own = tuple(file for file in files if file.elastic is None)
    return [(None, "folder", group) for group in (*runs, own) if group] if len(runs) > 1 else []


def _by_folder(files: Sequence[Named], look: Look) -> list[Group]:
    """A job for each folder that is named as a run is: `exp1`, or after a time as Hydra does."""
    groups: dict[tuple[str, ...], list[Named]] = defaultdict(list)
    above = _common(files).rpartition("/")[2]
    for file, parts in _below(files):
        own: list[str] = []
        for part in parts:
            if not (is_run(part) or (part.isdigit() and is_date(own[-1] if own else above))):
                break
            own.append(part)
        groups[tuple(own)].append(file)
    if len(groups) - (() in groups) < 2:
        groups = _by_words(files)
    return [(None, "folder", tuple(group)) for group in groups.values()]


def _by_words(files: Sequence[Named]) -> dict[tuple[str, ...], list[Named]]:
    """Folders side by side whose names are words, with files of the same names in them: `baseline/train.log`, `wide/train.log`."""
    groups: dict[tuple[str, ...], list[Named]] = defaultdict(list)
    for file, parts in _below(files):
        groups[tuple(parts[:1])].append(file)
    inside = [{file.file for file in group} for group in groups.values()]
    words = all(name and says_what(name[0]) for name in groups)
    return groups if words and len(groups) > 1 and set.intersection(*inside) else {}


def _by_run(files: Sequence[Named], look: Look) -> list[Group]:
    """A job for each name that counts runs, where all do: `run1.log`, `run2.log`."""
    groups: dict[tuple[str, str | None], list[Named]] = defaultdict(list)
    for file in files:
        groups[file.folder, file.run].append(file)
    if any(run is None for _, run in groups) or len(groups) < 2:
        return []
    return [(None, "name", tuple(group)) for group in groups.values()]


# ── by what the files hold ───────────────────────────────────────────────────────────────────


def _units(files: Sequence[Named]) -> dict[tuple[str, str], list[Named]]:
    """Files that are one whatever they hold: the streams of one name; a pair of .out and .err; files a rank or a node."""
    units: dict[tuple[str, str], list[Named]] = defaultdict(list)
    for file in files:
        units[file.folder, file.template if file.part or file.rotated else file.unit].append(file)
    return units


def _by_content(files: Sequence[Named], look: Look) -> list[Group]:
    """A job for each id of Slurm's that lines name: those that share one are of one job."""
    units = _units(files)
    if len(units) < 2 or len(units) > MOST_LOOKS:
        return []
    ids = {unit: _ids(group, look) for unit, group in units.items()}
    joined = _joined([found for found in ids.values() if found])
    if len(set(joined.values())) < 2:
        return []
    groups: dict[object, list[Named]] = defaultdict(list)
    known: dict[object, Key] = {}
    for unit, found in ids.items():
        owner: object = joined[min(found)] if found else unit
        groups[owner] += units[unit]
        if found and len({one for one, home in joined.items() if home == owner}) == 1:
            known[owner] = (min(found), None)
    return [(known.get(owner), "content", tuple(group)) for owner, group in groups.items()]


def _ids(files: Sequence[Named], look: Look) -> frozenset[str]:
    """The ids that a unit's files tell: their names, and the lines of some of them."""
    sample = files[:: max(1, len(files) // 4)]
    named_ids = {file.id for file in files if file.id}
    return frozenset(named_ids).union(*(look(file.path).ids for file in sample))


def _joined(sets: Sequence[frozenset[str]]) -> dict[str, str]:
    """Each id with the one that stands for all that are joined to it."""
    home: dict[str, str] = {}

    def root(one: str) -> str:
        while home.setdefault(one, one) != one:
            one = home[one]
        return one

    for ids in sets:
        first = root(min(ids))
        for other in ids:
            home[root(other)] = first
    return {one: root(one) for one in home}


def _by_time(files: Sequence[Named], look: Look) -> list[Group]:
    """A job for each run that ended before the next one began, where each shows its own start."""
    below = _below(files)
    tops = {parts[0] if parts else "" for _, parts in below}
    by_folder = len(tops) > 1 and "" not in tops and not any(of_folder(top).part for top in tops)
    groups: dict[str, list[Named]] = defaultdict(list)
    for file, parts in below:
        groups[parts[0] if by_folder else f"{file.folder}/{file.unit}"].append(file)
    counted = {(file.folder, file.template) for file in files}
    if not by_folder and (len(counted) > 1 or any(file.part or file.rotated for file in files)):
        return []
    if not 2 <= len(groups) <= _MOST_BY_TIME:
        return []
    runs = []
    for group in groups.values():
        seen = [look(file.path) for file in group[:4]]
        begins = [one.begins for one in seen if one.begins is not None]
        ends = [one.ends for one in seen if one.ends is not None]
        if not begins or not ends or not any(one.starts for one in seen):
            return []
        runs.append((min(begins), max(ends), group))
    runs.sort(key=lambda run: run[:2])
    if any(later[0] < earlier[1] for earlier, later in pairwise(runs)):
        return []
    return [(None, "time", tuple(group)) for _, _, group in runs]


def _doubtful(files: Sequence[Named], key: Key | None) -> bool:
    """Whether files that were taken for one job's may be of several: names that count something which no word names."""
    if key is not None or any(file.rotated for file in files):
        return False
    units = _units(files)
    folders = {file.folder.rpartition("/")[2] for file in files}
    if len(units) < 2 or any(group[0].part for group in units.values()):
        return False
    if len(folders) > 1 and all(of_folder(folder).part for folder in folders):
        return False
    endings = {file.path.rpartition(".")[2].lower()[:1] for file in files}
    return not (len(files) == 2 and endings == {"e", "o"}) and not _counted(files)


def _counted(files: Sequence[Named]) -> bool:
    """Whether one number counts the files from 0, as ranks are counted."""
    numbers = [re.findall(r"\d+", file.unit) for file in files]
    if len({file.template for file in files}) > 1 or not numbers[0]:
        return False
    varying = [
        column for column in ({int(one) for one in each} for each in zip(*numbers, strict=True)) if len(column) > 1
    ]
    if all(file.file.isdigit() and file.folder.rpartition("/")[2].isdigit() for file in files):
        return False  # %j/%t, or %A/%a
    return len(varying) == 1 and varying[0] == set(range(len(varying[0])))
