"""Finds the log files that a path names: a file, a folder, or a glob."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from slurmdoctor.model import UserError

_LOG_ENDINGS = (".log", ".out", ".err", ".txt", ".stdout", ".stderr", ".o", ".e")
_COMPRESSED = (".gz", ".xz", ".zst", ".bz2")
_NOT_LOGS = (
    ".py", ".sh", ".sbatch", ".slurm", ".yaml", ".yml", ".toml", ".cfg", ".ini", ".md", ".rst", ".ipynb", ".pt", ".pth",
    ".ckpt", ".bin", ".safetensors", ".npy", ".npz", ".csv", ".tsv", ".parquet", ".pyc", ".so", ".png", ".jpg", ".svg",
    ".html", ".zip", ".tar", ".h5", ".pkl", ".lock", ".pid",
)  # fmt: skip
_SIDE_FILES = frozenset({"scontrol.txt", "sacct.txt", "requirements.txt"})


def files_of(path: str) -> list[str]:
    """The logs that a file's or folder's path names; `*` and `-` are letters like any other here."""
    return _logs_in(path) if Path(path).is_dir() else [path]


def expand(paths: Sequence[str | os.PathLike[str]]) -> list[str]:
    found: list[str] = []
    for given in (os.fspath(path) for path in paths):
        if given == "-":
            found.append(given)
        elif Path(given).is_dir():
            found += _logs_in(given)
        elif not Path(given).exists() and any(c in given for c in "*?["):
            import glob

            matched = sorted(glob.glob(given, recursive=True))  # noqa: PTH207 (Path.glob takes no absolute pattern)
            if not matched:
                raise UserError(f"no file matches {given}", "check the pattern, or quote it less")
            found += expand(matched) if any(Path(m).is_dir() for m in matched) else matched
        else:
            found.append(given)
    unique = list(dict.fromkeys(found))
    if not unique:
        raise UserError("nothing to read", "name the job's log, its folder, or - for standard input")
    return unique


def _logs_in(folder: str) -> list[str]:
    logs, maybe = [], []
    try:
        for parent, folders, files in os.walk(folder, onerror=_refused):
            folders[:] = sorted(f for f in folders if not f.startswith(".") and f != "__pycache__")
            for name in sorted(files):
                if name.startswith(".") or name in _SIDE_FILES:
                    continue
                path = os.path.join(parent, name)  # noqa: PTH118 - keeps the path as the user wrote it
                stem = name
                for ending in _COMPRESSED:
                    stem = stem.removesuffix(ending)
                if stem.endswith(_LOG_ENDINGS):
                    logs.append(path)
                elif "." not in stem or not stem.endswith((*_NOT_LOGS, ".json", *_COMPRESSED)):
                    maybe.append(path)
    except PermissionError as error:
        raise UserError(
            f"cannot read {error.filename}: permission denied", "run as the job's owner, or copy it"
        ) from None
    found = logs or maybe
    if not found:
        raise UserError(
            f"{folder} holds no log files",
            f"name the log itself; looked for {', '.join(_LOG_ENDINGS[:4])} and the like",
        )
    return found


def _refused(error: OSError) -> None:
    if isinstance(error, PermissionError):
        raise error


def did_you_mean(path: str) -> str:
    import difflib

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
