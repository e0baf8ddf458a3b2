"""Tells the jobs apart whose files paths name: by the ids in names, by folders, and by lines. Where nothing tells, they are one.

What belongs together stays together: a file a rank, a node or an attempt, `.out` beside `.err`, a launcher's log beside
those of its ranks. Files are looked into only where their names do not decide, and no line takes a file from the job of its name.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from slurmdoctor.input.job_names import Named, Number, is_part, named, of_folder, without_stream
from slurmdoctor.input.streams import END, HEAD, ends_of
from slurmdoctor.matching import lazy
from slurmdoctor.model import Glance, JobFiles, KnownBy, UserError

if TYPE_CHECKING:
    import regex


_MOST_LOOKS = 20_000
_LISTED = 6
"""Jobs that an error names."""
_FEW = 8
"""Names in one folder that may be one job's: `train.log`, `eval.log`."""
_SAMPLE = 6
"""Files of a group that are looked into."""
Key = tuple[str, "int | None"]
"""An id, and the task of the array."""
Look = Callable[[str], Glance]
_Of = TypeVar("_Of")
Group = tuple["Key | None", KnownBy, Sequence[Named]]


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
    groups = _groups(files, look, together, survey)
    order = {path: at for at, path in enumerate(paths)}
    doubtful = len(groups) == 1 and groups[0][0] is None and len(_units(files)) > 1
    top = _common(files) if len(groups) > 1 else None
    jobs = [_job(group, order, top, doubtful) for group in groups]
    labels = Counter(job.label for job in jobs)
    own = [job if job.id or labels[job.label] == 1 else replace(job, name=job.files[0]) for job in jobs]
    return tuple(sorted(own, key=by_id))


def picked(jobs: Sequence[JobFiles], wanted: str) -> tuple[JobFiles, ...]:
    """The job of this id or name; of an array all its tasks. What a file's name holds is the user's to call an id."""
    base = wanted.partition("+")[0].partition(".")[0]  # a component's or a step's id: names show the job's
    for fits in (
        lambda job: wanted in (job.id, job.label),
        lambda job: (job.id or "").rpartition("_")[0] == wanted,
        lambda job: base and job.id == base,
    ):
        if found := tuple(filter(fits, jobs)):
            return found
    whole = re.compile(rf"(?<![0-9A-Za-z]){re.escape(wanted)}(?![0-9A-Za-z])")
    own = [f for job in jobs for f in job.files if wanted[:1].isdigit() and whole.search(f.rpartition("/")[2])]
    if own:
        return (JobFiles(wanted, files=tuple(own), known_by="name"),)
    labels = [job.label for job in jobs]
    more = f" and {len(labels) - _LISTED:,} more" if len(labels) > _LISTED else ""
    raise UserError(f"these files are of no job {wanted}", f"they are of {', '.join(labels[:_LISTED])}{more}")


def by_id(job: JobFiles) -> tuple[int, int, str]:
    """Jobs in the order in which they were submitted."""
    number = (job.id or "").partition("_")[0]
    return int(number) if number.isdigit() else 0, job.array_task or 0, min(job.files, default="")


def _job(group: Group, order: Mapping[str, int], top: str | None, doubtful: bool) -> JobFiles:
    """The job of a group; `top` is the folder of all jobs, where there are several."""
    key, how, files = group
    ident, task = key or (None, None)
    names = {one.name for file in files for one in (file.id, *file.numbers) if one and one.digits == ident} - {None}
    name = names.pop() if len(names) == 1 else None
    if top is not None and key is None:
        below = _common(files)[len(top) :].strip("/").partition("/")[0] if how == "folder" else ""
        name = files[0].elastic or below or files[0].base
    shown = f"{ident}_{task}" if task is not None else ident
    return JobFiles(shown, task, name, tuple(sorted((f.path for f in files), key=order.__getitem__)), how, doubtful)


def _groups(files: Sequence[Named], look: Look, together: bool, survey: bool) -> list[Group]:
    keys = _keys(files, look)
    jobs = _by((file for file in files if file.path in keys), lambda file: keys[file.path])
    left = [file for file in files if file.path not in keys]
    if together and len(jobs) < 2:
        return [(next(iter(jobs), None), "only", files)]
    left = _joined(left, jobs, look, survey)
    groups: list[Group] = [(key, "name" if len(jobs) > 1 else "only", group) for key, group in jobs.items()]
    return groups + (_without_ids(left, look, survey or bool(groups)) if left else [])


# ── which numbers are ids ────────────────────────────────────────────────────────────────────

_CERTAIN = 5
"""Digits of a number that is an id regardless of its neighbors."""
_ANY, _BY_SLURM = 4, 3
"""Digits from which numbers that differ are ids, in the names of any logs and of those with Slurm's own endings."""
_OWN = lazy(r"\.(?:out|err|o|e)(?:\.\w+)?$")
"""Endings that Slurm's own examples have."""


def _keys(files: Sequence[Named], look: Look) -> dict[str, Key]:
    """The key of each path whose name, or whose folder's name, tells it."""
    numbers = _by_form(files)
    known = {one.digits for one in numbers.values()}
    for file in files:  # shorter numbers, which another name calls an id: `train-16-0.log` beside `slurm-16.out`
        own = (Number(file.torchrun),) if file.torchrun else file.numbers
        tasks = {one.task for one in own}
        called = (one for one in own if one.digits in known and int(one.digits) not in tasks)
        found = next((one for one in called if len(one.digits) >= _BY_SLURM or one.task is not None), None)
        if found is not None:
            numbers.setdefault(file.path, found)
    folders = _of_folders(files, numbers)
    for file in files:
        if file.path not in numbers and (up := next(filter(folders.get, around(file.folder)), None)):
            numbers[file.path] = folders[up]
    known_files = (file for file in files if file.path in numbers)
    keys: dict[str, Key] = {}
    for ident, group in _by(known_files, lambda file: numbers[file.path].digits).items():
        array = _is_array(group, numbers, look)
        keys |= {file.path: (ident, numbers[file.path].task if array else None) for file in group}
    return keys


@lru_cache(maxsize=4096)  # of the folders of thousands of files
def around(folder: str) -> tuple[str, ...]:
    """The folder, and those around it."""
    return (folder, *around(folder.rpartition("/")[0])) if folder else ()


def _by_form(entries: Iterable[Named], alone: bool = True) -> dict[str, Number]:
    """The ids of entries whose names tell them: by a scheme, or as names of one form do that differ in one long number."""
    numbers: dict[str, Number] = {}
    forms: dict[object, list[Named]] = defaultdict(list)
    for one in entries:
        if one.id is not None:
            numbers[one.path] = one.id
        elif one.numbers:
            forms[one.folder, one.template].append(one)
            if len(one.counts) == 1 and not one.part and _OWN.search(one.path):  # whatever the word: `train-4711.out`
                forms[one.folder].append(one)
    for form, group in forms.items():
        least = min(len(one.numbers) for one in group) if alone or len(group) > 1 else 0
        columns = [{one.path: one.numbers[at] for one in group} for at in range(least)]
        columns.sort(key=lambda column: -len(column[group[0].path].digits))
        few = _BY_SLURM if all(_OWN.search(one.path) for one in group) and isinstance(form, tuple) else _ANY
        numbers |= next((ids for ids in columns if _are_ids(group, ids, few)), {})
    return numbers


def _are_ids(group: Sequence[Named], ids: Mapping[str, Number], few: int) -> bool:
    """Whether numbers at one place of names are ids: of about one length, none is 0, and none that people choose."""
    values, tasks = {one.digits for one in ids.values()}, {one.task for one in ids.values()}
    if few == _BY_SLURM and len(tasks) > 1 and {one.joint for one in ids.values()} == {"_"}:
        return "0" not in values  # %A_%a
    shortest, longest = min(map(len, values)), max(map(len, values))
    hosts = 1 < len(values) < len({one.unit for one in group}) and running(group)  # of ranks
    if _chosen(values) or shortest < few or longest - shortest > 1 or hosts:
        return False
    if len(values) > 1:
        return True
    first = all(one.unit.startswith(tuple(values)) for one in group)  # %j.out, %j-%t-%N.log
    return shortest >= _CERTAIN or len(tasks) > 1 or (first and (None not in tasks or few == _BY_SLURM))


def _chosen(values: set[str]) -> bool:
    """Whether people chose all of these numbers, as they do sizes, steps and years; a scheduler counts through them."""
    step = 100 if len(values) > 1 else 500
    numbers = map(int, values)
    return all(
        one < 10**_CERTAIN and (one % step == 0 or one & (one - 1) == 0 or 1990 <= one < 2040) for one in numbers
    )


def running(files: Iterable[Named]) -> bool:
    """Whether names of one form have a number that counts them from 0, as ranks are counted."""
    names = {(one.template, one.counts) for one in files}
    columns = zip(*(counts for _, counts in names), strict=False)
    return any(set(column) == set(range(len(names))) for column in columns)


def _of_folders(files: Sequence[Named], numbers: Mapping[str, Number]) -> dict[str, Number]:
    """The ids of folders: `job_4711/`, `4711/` beside `4713/`; none of one in which other ids are."""
    inside: dict[str, set[str]] = {}
    for file in files:
        own = {numbers[file.path].digits} if file.path in numbers else set()
        for folder in around(file.folder):
            inside.setdefault(folder, set()).update(own)
    found = _by_form(map(of_folder, inside), alone=False)
    return {folder: one for folder, one in found.items() if not inside[folder] - {one.digits}}


def _is_array(files: Sequence[Named], numbers: Mapping[str, Number], look: Look) -> bool:
    """Whether the numbers behind one id count the tasks of an array; else they count ranks."""
    tasks: dict[int, Named] = {}
    for file in files:
        task = numbers[file.path].task
        if task is None:  # the batch script's own log beside those of its ranks
            return False
        tasks.setdefault(task, file)
    by_slurm = {numbers[file.path].joint for file in files} == {"_"}
    if by_slurm and (len(tasks) < 2 or all(file.id for file in files)):
        return True
    seen = {task: look(file.path) for task, file in sorted(tasks.items())[:: max(1, len(tasks) // _SAMPLE)]}
    if ids := set[str]().union(*(one.ids for one in seen.values())):
        return ids != {numbers[files[0].path].digits}
    return by_slurm and not any(one.ranks == {task} for task, one in seen.items() if task)


# ── files whose names tell an id ─────────────────────────────────────────────────────────────


def _joined(files: Sequence[Named], jobs: Mapping[Key, list[Named]], look: Look, survey: bool) -> list[Named]:
    """Give files without an id to the job of which their lines speak, or the only one of their folder; the others are left."""
    by_id = {key[0]: group for key, group in jobs.items() if key[1] is None}
    inside: dict[str, list[list[Named]]] = defaultdict(list)
    for group in jobs.values():
        for folder in {above for file in group for above in ("", *around(file.folder))}:
            inside[folder].append(group)
    too_many = survey and len(jobs) == 1 and len(_units(files)) > _FEW
    left = []
    for file in files:
        owners = next((inside[folder] for folder in (*around(file.folder), "") if inside.get(folder)), [])
        ids = look(file.path).ids if by_id and (len(owners) != 1 or len(jobs) == 1) else frozenset()
        named_by_lines = [by_id[one] for one in ids if one in by_id]
        if len(named_by_lines) == 1 or (len(owners) == 1 and not ids and not too_many):
            (named_by_lines or owners)[0].append(file)
        else:
            left.append(file)
    return left


# ── files whose names tell none ──────────────────────────────────────────────────────────────


def _without_ids(files: Sequence[Named], look: Look, several: bool) -> list[Group]:
    """The jobs of files without an id; where `several` lie there, what nothing tells to be one is several."""
    elastic = (file for file in files if file.elastic is not None)
    runs = _by(elastic, lambda file: (home_of(file), file.elastic if several else file.torchrun))
    found: list[Group] = [(None, "folder", run) for run in runs.values()]
    own = [file for file in files if file.elastic is None]
    if several:
        return found + _by_content(own, look)
    if len(runs) > 1:
        return [*found, (None, "folder", own)] if own else found
    if len(groups := _by_folder(files)) > 1:
        return groups
    groups = _by_content(files, look)
    return groups if sum(how == "content" for _, how, _ in groups) > 1 else [(None, "only", files)]


def _by_folder(files: Sequence[Named]) -> list[Group]:
    """A job for each of the folders side by side that hold files of one name: `exp1/train.log`, `exp2/train.log`."""
    top = _common(files)
    twins = _by(
        files,
        lambda file: next((part for part in file.folder[len(top) :].split("/") if part and not is_part(part)), ""),
    )
    shared = set.intersection(*({file.base for file in group} for group in twins.values()))
    return [(None, "folder", group) for group in twins.values()] if shared and "" not in twins else []


def _common(files: Sequence[Named]) -> str:
    """The folder that holds all of them."""
    first, last = (ends(file.folder.split("/") for file in files) for ends in (min, max))
    same = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return "/".join(first[:same])


def _by_content(files: Sequence[Named], look: Look) -> list[Group]:
    """A job for each id of Slurm's that lines name, those that share one are of one job; and for the others what may be one's."""
    jobs: list[tuple[set[str], list[Named]]] = []
    homes = [_units(home) for home in _by(files, home_of).values()]
    units: list[tuple[list[Named], KnownBy]] = [
        (unit, "folder" if len(home) == 1 < len(homes) else "name") for home in homes for unit in home
    ]
    rest: list[Group] = []
    for unit, how in units:
        sample = unit[:: max(1, len(unit) // 4)] if len(units) <= _MOST_LOOKS else []
        ids = set[str]().union(*(look(file.path).ids for file in sample))
        if not ids:
            rest.append((None, how, unit))
            continue
        same = [job for job in jobs if job[0] & ids]
        jobs = [job for job in jobs if job not in same]
        jobs.append((ids.union(*(job[0] for job in same)), [*(file for job in same for file in job[1]), *unit]))
    return [((min(ids), None) if len(ids) == 1 else None, "content", job) for ids, job in jobs] + rest


def home_of(file: Named) -> str:
    """The folder of a job's files, without those that ranks, nodes and streams have for themselves."""
    parts = file.folder.split("/")
    while parts and is_part(parts[-1]):
        parts.pop()
    return "/".join([*parts[:-1], without_stream(parts[-1])]) if parts else ""


def _by(files: Iterable[Named], key: Callable[[Named], _Of]) -> dict[_Of, list[Named]]:
    groups: dict[_Of, list[Named]] = defaultdict(list)
    for file in files:
        groups[key(file)].append(file)
    return groups


def _units(files: Sequence[Named]) -> list[list[Named]]:
    """Files that are of one job regardless of their content: the streams of a name, ranks that are counted, and a launcher's beside them."""
    forms = _by(files, lambda file: (home_of(file), file.template))
    counted = {form for form, group in forms.items() if running(group)}

    def unit_of(file: Named) -> tuple[str, str]:
        home, form = home_of(file), file.template
        return home, f"{form}*" if (home, form) in counted else file.unit

    found = list(_by(files, unit_of).values())
    ranks = [unit for unit in found if unit[0].part or (len(unit) > 1 and running(unit))]
    streams = {file.path.rpartition(".")[2].lower()[:1] for file in files}
    if len({home_of(unit[0]) for unit in found}) == 1 and (
        (ranks and len(found) - len(ranks) < 2 and len({u[0].unit for u in ranks}) == 1)
        or (len(files) == 2 and streams == {"e", "o"})
    ):
        return [list(files)]
    return found


def looker(ids: regex.Pattern[str], ranks: regex.Pattern[str], texts: Mapping[str, str | bytes] | None = None) -> Look:
    """Looks into a file once, with patterns for the ids and the ranks that it may tell; or into the `texts` that are in no file."""

    @cache
    def look(path: str) -> Glance:
        head, end = ends_of(path) if texts is None else _ends(texts.get(path, b""))
        return Glance(
            frozenset(found["id"] for text in (head, end) for found in ids.finditer(text)),
            frozenset(int(found["rank"]) for found in ranks.finditer(head)),
        )

    return look


def _ends(text: str | bytes) -> tuple[str, str]:
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    return data[:HEAD].decode("utf-8", "replace"), data[HEAD:][-END:].decode("utf-8", "replace")
