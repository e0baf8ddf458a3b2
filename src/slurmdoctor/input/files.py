"""Finds the log files that a path names: a file, a folder, or a glob; slurmdoctor's own reports are none."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from slurmdoctor.input.job_names import is_log, rotated_from, unpacked
from slurmdoctor.input.regular_files import UnreadError, kind_of_file, unread
from slurmdoctor.input.streams import ends_of
from slurmdoctor.matching import lazy
from slurmdoctor.model import LogNotFoundError, UserError

MOST_FILES = 100_000
"""Files of one job; what follows in the order of the names is not read."""

_LOG_ENDINGS = (".log", ".out", ".err", ".txt", ".stdout", ".stderr", ".o", ".e")
_LOG_NAMES = lazy(
    r"(?i)(?:(?:^|[-_.])(?:logs?|logfile|std_?(?:out|err)|std_out_err|output|error|outerr)|\.(?:out|err)|^(?:out|err|slurm))"
    r"(?:[-_.]?\d[-_.\w]{0,200})?$"
)
"""Other names that say it: `stderr`, `slurm-20.output`, `err-50`, `run.logfile`; and those of a scheme: `myjob.o901`, `workerlog.0`."""
_NO_LOG = lazy(
    r"(?i)\.(?:py|sh|sbatch|slurm|ya?ml|toml|cfg|ini|md|rst|ipynb|pth?|ckpt|bin|safetensors|np[yz]|[ct]sv|parquet|pyc|so|png|jpe?g|svg"
    r"|html|zip|tar|h5|pkl|lock|pid|json|c|cc|cpp|cuh?|h|hpp|f|f90|[jt]s|java|go|rs|lua|r|jl|m|pl|tex|bib|pdf|css|jsonl|gif|mp4|wav"
    r"|onnx|gguf|arrow|db|sqlite|patch|diff|xml|jinja|bat|csh|bash|sub|xlsx|dat)$"
    r"|^(?:makefile|dockerfile|license|readme|copying|authors|core(?:[-_.]\d.*)?)$|tfevents"
)
"""What lies about in a tree of many jobs, by its ending or its name."""
_REPORT_ENDINGS = (".txt", ".log")
"""Endings under which people keep slurmdoctor's reports beside their logs."""
_HOOK_PREFIX = "slurmdoctor-"
"""Beginning of what `hook --kind dependency` has a job write."""
_LONGEST_COUNT = 4
"""Most characters of a count of rotated logs, `.12`; more are a day."""
_SIDE_FILES = frozenset({"scontrol.txt", "sacct.txt", "requirements.txt"})


class Found(Struct):
    """The files that paths name, and what is beside them and is none."""

    paths: list[str] = field(default_factory=list)
    skipped: list[UnreadError] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    """Files that are no logs by their names."""


def files_of(path: str) -> list[str]:
    """The logs that a file's or folder's path names; `*` and `-` are letters like any other here."""
    return _logs_in(path).paths if os.path.isdir(path) else [path]  # noqa: PTH112 - never raises


def expand(paths: Sequence[str | os.PathLike[str]], most: int = MOST_FILES, *, each_folder: bool = False) -> Found:
    """All files that the paths name: files, folders, globs, `-`; what exceeds the `most` is skipped.

    Of files without a log's name those count that lie beside none with one: in one folder if `each_folder`, else in all.
    """
    found = Found()
    for path in paths:
        _expand_one(os.fspath(path), found, each_folder)
    found.paths = list(dict.fromkeys(found.paths))
    found.skipped += [UnreadError(path, "too-many") for path in found.paths[most:]]
    del found.paths[most:]
    if not found.paths and not found.skipped:
        raise UserError("nothing to read", "name the job's log, its folder, or - for standard input")
    return found


def _expand_one(given: str, found: Found, each_folder: bool) -> None:
    if given != "-" and os.path.isdir(given):  # noqa: PTH112 - never raises
        logs = _logs_in(given, each_folder)
        found.others += logs.others
        found.paths += logs.paths
        found.skipped += logs.skipped
    elif given == "-" or os.path.lexists(given) or not any(c in given for c in "*?["):
        found.paths.append(given)
    else:
        matched = matching(given)
        if not matched:
            raise LogNotFoundError(f"no file matches {given}", "check the pattern, or quote it less")
        for path in matched:
            _expand_one(path, found, each_folder)


def _logs_in(folder: str, each_folder: bool = False) -> Found:
    """The logs in a folder and those below it, in the order of their names; of rotated ones the oldest part first."""
    logs, maybe = Found(), Found()
    order: dict[str, tuple[str, str, int, str]] = {}
    for entry in walk(folder, logs.skipped):
        stem = unpacked(entry.name)
        if stem.startswith("."):
            continue
        stem, mark = rotated_from(stem) or (stem, "")
        # the higher of two counts is older, and so is the earlier of two days
        age = (-int(mark[1:]) if len(mark) <= _LONGEST_COUNT else -1) if mark else 0
        order[entry.path] = (entry.path[: -len(entry.name)], stem, age, mark[1:])
        if entry.name in _SIDE_FILES or (
            (stem.endswith(_REPORT_ENDINGS) or stem.startswith(_HOOK_PREFIX)) and is_report(entry.path)
        ):
            logs.others.append(entry.path)
        elif stem.endswith(_LOG_ENDINGS):
            _put(entry, logs)
        elif _NO_LOG.search(stem):
            logs.others.append(entry.path)
        else:
            _put(entry, logs if _LOG_NAMES.search(stem) or is_log(stem) else maybe)
    with_logs = {os.path.dirname(path) for path in logs.paths}  # noqa: PTH120 - of a million files
    alone = not (logs.paths or logs.skipped)

    def counts(path: str) -> bool:
        return os.path.dirname(path) not in with_logs if each_folder else alone  # noqa: PTH120

    beside = [path for path in maybe.paths if counts(path)]
    logs.others += [path for path in maybe.paths if not counts(path)]
    # a folder's own files come before those of the folders in it
    folders = {place: at for at, place in enumerate(dict.fromkeys(place for place, *_ in order.values()))}
    paths = sorted(logs.paths, key=lambda path: (folders[order[path][0]], *order[path][1:]))
    logs.paths = _without_second_names(paths + beside)
    logs.skipped += [one for one in maybe.skipped if counts(one.path)]
    if not logs.paths and not logs.skipped:
        raise UserError(
            f"{folder} holds no log files",
            f"name the log itself; looked for {', '.join(_LOG_ENDINGS[:4])} and the like",
        )
    return logs


def _without_second_names(paths: list[str]) -> list[str]:
    """The files without links to others of them: `latest.log` tells nothing twice."""
    links = {path for path in paths if os.path.islink(path)}  # noqa: PTH114 - never raises
    if not links:
        return paths
    seen = {os.path.realpath(path) for path in paths if path not in links}
    return [path for path in paths if path not in links or os.path.realpath(path) not in seen]


def _put(entry: os.DirEntry[str], found: Found) -> None:
    """A regular file among the files; what a diagnosis would wait for, or read without end, among the others."""
    try:
        if entry.is_file():
            found.paths.append(entry.path)
        elif (why := kind_of_file(entry.stat().st_mode)) not in (None, "folder"):
            found.skipped.append(UnreadError(entry.path, why))
    except OSError as error:
        found.skipped.append(unread(entry.path, error))


def did_you_mean(path: str) -> str:
    import difflib
    from pathlib import Path

    parent = Path(path).parent
    try:
        names = [p.name for p in parent.iterdir()]
    except OSError:
        return f"the folder {parent} is not there either"
    near = difflib.get_close_matches(Path(path).name, names, 1)
    return (
        f"did you mean {parent / near[0]}?"
        if near
        else "check the path; Slurm's default is slurm-<job id>.out where the job was submitted"
    )


_MOST = 1_000_000
"""Entries that are looked at: nobody's logs, but the root of a file system may be named by mistake."""


def walk(folder: str, skipped: list[UnreadError]) -> Iterator[os.DirEntry[str]]:
    """The entries of a folder that are no folders, and then those of the folders in it, by name.

    Folders that cannot be read are `skipped`. Raises UnreadError where that is the first one.
    """
    waiting = [folder]
    left = _MOST
    while waiting and left > 0:
        here = waiting.pop()
        try:
            with os.scandir(here) as entries:
                inside = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            if here == folder:
                raise unread(here, error) from None
            skipped.append(unread(here, error))
            continue
        left -= len(inside)
        below = []
        for entry in inside:
            if not entry.is_dir(follow_symlinks=False):
                yield entry
            elif not entry.name.startswith(".") and entry.name != "__pycache__":
                below.append(entry.path)
        waiting += reversed(below)
    skipped += [UnreadError(here, "too-many") for here in waiting]


def matching(pattern: str) -> list[str]:
    """The paths that a glob matches, by name; `**` means any folders, and then only files count."""
    import glob

    if "**" not in pattern:
        return sorted(glob.glob(pattern))  # noqa: PTH207 (Path.glob takes no absolute pattern)
    parts = pattern.split("/")
    first = next(number for number, part in enumerate(parts) if glob.has_magic(part))
    wanted = [*parts[first:], *(["*"] if parts[-1] == "**" else [])]
    top = "/".join([*parts[:first], ""])
    hidden = "/" if wanted[-1].startswith(".") else "."
    try:
        below = [one.path for one in walk(top or ".", []) if not (one.name.startswith(hidden) or one.is_dir())]
    except UnreadError:  # as a shell does
        return []
    return sorted(
        path
        for path in (one.removeprefix("./") if first == 0 else one for one in below)
        if _fits(path[len(top) :].split("/"), wanted)
    )


def _fits(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether a path fits a pattern, part by part."""
    import fnmatch

    at = {0}
    for part in parts:
        for place, one in enumerate(wanted):
            if one == "**" and place in at:
                at.add(place + 1)
        at = {place for place in at if wanted[place : place + 1] == ["**"]} | {
            place + 1 for place in at if place < len(wanted) and fnmatch.fnmatchcase(part, wanted[place])
        }
    return len(wanted) in at


_REPORT = lazy(
    r"\A(?:\*\*)?[✗✓?x+] (?:[^\n]*\n){0,3}?[^\n]*"
    r"(?:[a-z0-9-] [·-] (?:high|medium|low) confidence|(?<=  )read [\d,]+ files?, )"
    r"|\A\S+  [✗✓?x+] [^\n]+\n(?:\S+  [✗✓?x+] |[\d,]+ jobs?: )"
)


def is_report(path: str) -> bool:
    """Whether a file begins as the terminal's report of one job does, or is the list of several."""
    return _REPORT.search(ends_of(path)[0]) is not None
