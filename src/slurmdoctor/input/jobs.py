"""Tells the jobs apart whose files paths name: by the ids in names, by folders, and by lines. Where nothing tells, they are one.

What belongs together stays together: a file a rank, a node or an attempt, `.out` beside `.err`, a launcher's log beside
those of its ranks. Files are looked into only where their names do not decide, and no line takes a file from the job of its name.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from slurmdoctor.input.job_ids import Key, Look, around, ids_by_name, running
from slurmdoctor.input.job_names import Named, is_day, is_part, is_run, named, without_stream
from slurmdoctor.model import Glance, JobFiles, KnownBy, UserError

MOST_LOOKS = 20_000
_LISTED = 6
"""Jobs that an error names."""
_FEW = 8
"""Names in one folder that may be one job's: `exp3/train.log`, `exp3/eval.log`."""
_MOST_RUNS = 500
"""Runs of torchrun that are compared,"""
_LOOKS_A_RUN = 8
"""and files of each that are looked into."""
Group = tuple["Key | None", KnownBy, tuple[Named, ...]]


def blind(path: str) -> Glance:
    """What is known of a file that nobody looks into."""
    return Glance()


def split_jobs(
    paths: Sequence[str], look: Look = blind, *, together: bool = False, survey: bool = False
) -> tuple[JobFiles, ...]:
    """The jobs that these files are of, by id. `look` reads the head and the end of a file.

    Files that were named `together`, one by one, are one job's unless the ids in their names differ. A `survey` counts jobs: what
    nothing tells to be one is several.
    """
    files = [named(path) for path in sorted(set(paths))]
    groups = _apart(files, look, together, survey) if files else []
    order = {path: at for at, path in enumerate(paths)}
    doubtful = len(groups) == 1 and groups[0][0] is None and len(_units(files)) > 1
    top = _common(files) if len(groups) > 1 else None
    jobs = [_job(group, order, top, doubtful) for group in groups]
    return tuple(sorted(_each_its_own(jobs), key=by_id))


def picked(jobs: Sequence[JobFiles], wanted: str) -> tuple[JobFiles, ...]:
    """The job of this id or name; of an array all its tasks. What a file's name holds is the user's to call an id."""
    found = tuple(job for job in jobs if wanted in (job.id, job.label))
    found = found or tuple(job for job in jobs if (job.id or "").rpartition("_")[0] == wanted)
    base = wanted.partition("+")[0].partition(".")[0]  # a component's or a step's id: names show the job's
    found = found or tuple(job for job in jobs if base and job.id == base)
    if found:
        return found
    whole = re.compile(rf"(?<![0-9A-Za-z]){re.escape(wanted)}(?![0-9A-Za-z])")
    if re.match(r"\d", wanted) and (
        own := [f for job in jobs for f in job.files if whole.search(f.rpartition("/")[2])]
    ):
        return (JobFiles(wanted, files=tuple(own), known_by="name"),)
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
    told = {one.name for file in files for one in (file.id, *file.numbers) if one and one.digits == ident} - {None}
    name = told.pop() if len(told) == 1 else None
    if top is not None and key is None:
        name = _called(how, files, top)
    shown = f"{ident}_{task}" if task is not None else ident
    return JobFiles(shown, task, name, tuple(sorted((f.path for f in files), key=order.__getitem__)), how, doubtful)


def _called(how: KnownBy, files: Sequence[Named], top: str) -> str:
    """What to call a job that has no id: its folder where that tells it from the others, else its file."""
    if how == "folder" and files[0].elastic is not None:
        return files[0].elastic
    if how == "folder":
        parts = _common(files)[len(top) :].strip("/").split("/")
        runs = [at for at, part in enumerate(parts, 1) if is_run(part) or part.isdigit()]
        return "/".join(parts[: max(runs, default=1)]) or files[0].path
    # a README is no log to name a job after
    return min(files, key=lambda file: (file.path.endswith(".txt"), file.path)).base


def _each_its_own(jobs: Sequence[JobFiles]) -> list[JobFiles]:
    """The jobs, none of which is called as another."""
    labels = Counter(job.label for job in jobs)
    return [job if labels[job.label] == 1 else replace(job, name=job.files[0]) for job in jobs]


def _apart(files: Sequence[Named], look: Look, together: bool, survey: bool) -> list[Group]:
    """The groups of files, each of one job."""
    keys = ids_by_name(files, look)
    jobs: dict[Key, list[Named]] = defaultdict(list)
    left = []
    for file in files:
        if file.path in keys:
            jobs[keys[file.path]].append(file)
        else:
            left.append(file)
    only = next(iter(jobs), None)
    if together and len(jobs) < 2:
        return [(only, "only", tuple(files))]
    homes = [(key, home) for key, group in jobs.items() for home in _by_home(group)]
    left = _joined(left, homes, look, survey)
    groups: list[Group] = [(key, "name" if len(homes) > 1 else "only", tuple(group)) for key, group in homes]
    return groups + (_without_ids(left, look, survey or bool(groups)) if left else [])


# ── files whose names tell an id ─────────────────────────────────────────────────────────────


def _by_home(files: list[Named]) -> list[list[Named]]:
    """Files of one id; those that have one name in two folders are two jobs', with what lies near to each."""
    places: dict[str, set[str]] = defaultdict(set)
    for file in files:
        if file.id is not None or file.numbers:
            places[file.base].add(home_of(file))
    homes = set[str]().union(*(folders for folders in places.values() if len(folders) > 1))
    if not homes:
        return [files]
    first = min(homes)
    nearest = {above: home for home in sorted(homes, reverse=True) for above in (home, *around(home))}
    groups: dict[str, list[Named]] = defaultdict(list)
    for file in files:
        own = next((one for one in (home_of(file), *around(file.folder)) if one in nearest), first)
        groups[nearest[own]].append(file)
    return list(groups.values())


def _joined(files: Sequence[Named], jobs: Sequence[tuple[Key, list[Named]]], look: Look, survey: bool) -> list[Named]:
    """Give files without an id to the job of which their lines speak, or the only one of their folder; the others are left."""
    by_id = {key[0]: group for key, group in jobs if key[1] is None}
    inside: dict[str, list[list[Named]]] = defaultdict(list)
    for _, group in jobs:
        for folder in {above for file in group for above in ("", *around(file.folder))}:
            inside[folder].append(group)
    crowd = survey and len(jobs) == 1 and len(_units(files)) > _FEW
    left = []
    for file in files:
        owners = next((inside[folder] for folder in (*around(file.folder), "") if inside.get(folder)), [])
        ids = look(file.path).ids if by_id and (len(owners) != 1 or len(jobs) == 1) else frozenset()
        said = [by_id[one] for one in ids if one in by_id]
        if len(said) == 1 or (len(owners) == 1 and not ids and not crowd):
            (said or owners)[0].append(file)
        else:
            left.append(file)
    return left


def _shared(one: str, other: str) -> str:
    """The folder that holds both."""
    parts = zip(one.split("/"), other.split("/"), strict=False)
    same = 0
    for first, second in parts:
        if first != second:
            break
        same += 1
    return "/".join(one.split("/")[:same])


def _common(files: Sequence[Named]) -> str:
    """The folder that holds all of them."""
    return _shared(min(f.folder for f in files), max(f.folder for f in files))


# ── files whose names tell none ──────────────────────────────────────────────────────────────


def _without_ids(files: Sequence[Named], look: Look, several: bool) -> list[Group]:
    """The jobs of files without an id; where `several` lie there, what nothing tells to be one is several."""
    runs: list[Group] = [(None, "folder", tuple(run)) for run in _runs_of_torchrun(files, look)]
    own = [file for file in files if file.elastic is None] if several or len(runs) > 1 else files
    if several:
        return runs + _by_content(own, look)
    if len(runs) > 1:
        return [*runs, (None, "folder", tuple(own))] if own else runs
    groups = next((groups for groups in (_by_folder(files), _by_run(files)) if len(groups) > 1), [])
    told = _by_content(files, look) if not groups and len(files) > 1 else []
    if sum(how == "content" for _, how, _ in told) > 1:
        groups = told
    return groups or [(None, "only", tuple(files))]


def _runs_of_torchrun(files: Sequence[Named], look: Look) -> list[list[Named]]:
    """The files of each run of torchrun; folders without an id are one job's nodes where other ranks ran at one time."""
    runs: dict[tuple[str, str], list[Named]] = defaultdict(list)
    for file in files:
        if file.elastic is not None:
            runs[home_of(file), (file.elastic if file.torchrun == "none" else file.torchrun) or ""].append(file)
    found: dict[str, list[list[Named]]] = defaultdict(list)
    for (home, _), group in runs.items():
        earlier = found[home] if len(runs) <= _MOST_RUNS else ()
        other = next((one for one in earlier if _at_once(one, group, look)), None)
        if other is None:
            found[home].append(group)
        else:
            other += group
    return [run for inside in found.values() for run in inside]


def _at_once(one: Sequence[Named], other: Sequence[Named], look: Look) -> bool:
    """Whether two runs without an id may be two nodes' of one job: in the nodes' own folders, or other ranks at one time."""
    if {one[0].torchrun, other[0].torchrun} != {"none"}:
        return False
    if one[0].folder != other[0].folder:
        return True
    first, second = ([look(file.path) for file in run[:: max(1, len(run) // _LOOKS_A_RUN)]] for run in (one, other))
    ranks = [frozenset[int]().union(*(seen.ranks for seen in run)) for run in (first, second)]
    begins = [[seen.begins for seen in run if seen.begins is not None] for run in (first, second)]
    ends = [[seen.ends for seen in run if seen.ends is not None] for run in (first, second)]
    if ranks[0] & ranks[1] or not all(begins):
        return not ranks[0] & ranks[1] and all(ranks)
    return min(begins[0]) <= max(ends[1]) and min(begins[1]) <= max(ends[0])


def _by_folder(files: Sequence[Named]) -> list[Group]:
    """A job for each folder that is a run's; else for each of those side by side that hold files of one name."""
    top = _common(files)
    runs: dict[str, list[Named]] = defaultdict(list)
    twins: dict[str, list[Named]] = defaultdict(list)
    for file in files:
        parts = [part for part in file.folder[len(top) :].split("/") if part]
        own = [part for part in parts if not is_part(part)]
        runs["/".join(_of_run(parts, top.rpartition("/")[2]))].append(file)
        twins[own[0] if own else ""].append(file)
    if len(runs) - ("" in runs) < 2:
        names = [{file.base for file in group} for group in twins.values()]
        runs = twins if "" not in twins and set.intersection(*names) else {}
    return [(None, "folder", tuple(group)) for group in runs.values()]


def _of_run(parts: Sequence[str], above: str) -> list[str]:
    """The folders that lead to a run's: after a day or a time, in a sweep's with a number, or called one."""
    own: list[str] = []
    for part in parts:
        if not (is_run(part) or (part.isdigit() and is_day(own[-1] if own else above))):
            break
        own.append(part)
    return own


def _by_run(files: Sequence[Named]) -> list[Group]:
    """A job for each name that counts runs, where all do: `run1.log`, `run2.log`."""
    groups: dict[tuple[str, str | None], list[Named]] = defaultdict(list)
    for file in files:
        groups[file.folder, file.run].append(file)
    return [] if any(run is None for _, run in groups) else [(None, "name", tuple(group)) for group in groups.values()]


def _by_content(files: Sequence[Named], look: Look) -> list[Group]:
    """A job for each id of Slurm's that lines name, those that share one are of one job; and for the others what may be one's."""
    jobs: list[tuple[set[str], list[Named]]] = []
    home: dict[str, tuple[set[str], list[Named]]] = {}
    units = _units(files)
    rest: list[Named] = []
    for unit in units:
        sample = unit[:: max(1, len(unit) // 4)] if len(units) <= MOST_LOOKS else []
        ids = set[str]().union(*(look(file.path).ids for file in sample))
        job = (ids, list(unit))
        for other in {id(home[one]): home[one] for one in ids if one in home}.values():
            jobs.remove(other)
            job = (job[0] | other[0], [*other[1], *job[1]])
        home |= dict.fromkeys(job[0], job)
        if ids:
            jobs.append(job)
        else:
            rest += unit
    found: list[Group] = [((min(ids), None) if len(ids) == 1 else None, "content", tuple(job)) for ids, job in jobs]
    return found + _homes(rest)


def home_of(file: Named) -> str:
    """The folder of a job's files, without those that ranks, nodes and streams have for themselves."""
    parts = file.folder.split("/")
    while parts and parts[-1] and is_part(parts[-1]):
        parts.pop()
    return "/".join([*parts[:-1], without_stream(parts[-1])]) if parts else ""


def _homes(files: Sequence[Named]) -> list[Group]:
    """The files that may each be another job's: the units of each folder, or all that one run's folder holds."""
    homes: dict[tuple[str, bool], list[Named]] = defaultdict(list)
    for file in files:
        home = home_of(file)
        parts = ["", *home.split("/")]
        runs = (at for at in range(len(parts), 1, -1) if _of_run(parts[at - 1 : at], parts[at - 2]))
        deepest = next(runs, 0)
        homes["/".join(parts[1:deepest]) if deepest else home, deepest > 0].append(file)
    found: list[Group] = []
    for (_, run), inside in homes.items():
        units = _units(inside)
        whole = run and len(units) <= _FEW
        found += [(None, "folder" if run else "name", tuple(unit)) for unit in ([inside] if whole else units)]
    return found


def _units(files: Sequence[Named]) -> list[list[Named]]:
    """Files that are of one job whatever they hold: the streams of a name, ranks that are counted, and a launcher's beside them."""
    forms: dict[tuple[str, str], list[Named]] = defaultdict(list)
    for file in files:
        forms[home_of(file), file.template].append(file)
    units: dict[tuple[str, str], list[Named]] = defaultdict(list)
    for (home, template), group in forms.items():
        counted = running(group)
        for file in group:
            units[home, f"{template}*" if counted else file.unit].append(file)
    found = list(units.values())
    ranks = [unit for unit in found if unit[0].part or (len(unit) > 1 and running(unit))]
    streams = {file.path.rpartition(".")[2].lower()[:1] for file in files}
    if len({home for home, _ in units}) == 1 and (
        (ranks and len(found) - len(ranks) < 2 and len({u[0].unit for u in ranks}) == 1)
        or (len(files) == 2 and streams == {"e", "o"})
    ):
        return [list(files)]
    return found
