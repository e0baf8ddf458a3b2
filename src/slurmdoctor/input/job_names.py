"""What a log's path tells of its job. `SCHEMES` is the one table of how schedulers and launchers name logs.

A name that follows none of them may still hold Slurm's patterns (`%x-%j.out`, `%A_%a`, `%j-%N-%t`): its numbers are read here, and
`input.jobs` tells over all names which of them are ids.
"""

from __future__ import annotations

import re
from functools import lru_cache

from slurmdoctor.matching import lazy
from slurmdoctor.model import Frozen


class Scheme(Frozen):
    """How a program names its logs. The pattern's groups are `id`, `task` (of an array), `count` (a task or a rank), `part`."""

    program: str
    writes: str
    """With Slurm's signs, as its documentation does."""
    pattern: str


SCHEMES = (
    Scheme("submitit", "%j_%t_log.out, %A_%a_%t_log.err",
           r"^(?P<id>\d+)(?:_(?P<task>\d+))?_\d+_log\.(?:out|err)$"),
    Scheme("submitit, beside its logs", "%j_submission.sh, %j_submitted.pkl, %j_0_result.pkl",
           r"^(?P<id>\d+)(?:_\d+)*_(?:submission|submitted|result)\b"),
    Scheme("PBS, Torque, SGE, LSF", "NAME.o123, NAME.e123, NAME.o123.3, NAME.o123-3, NAME.pe123, lsf.o123",
           r"\.p?[oe](?P<id>\d{2,12})(?:[-.](?P<task>\d{1,9}))?$"),
    Scheme("Slurm by default, and names that say `job`", "slurm-%j.out, slurm-%A_%a.out, job_%j.log",
           r"(?i)(?:^|(?<=[^a-z]))(?:slurm|slurm[-_.]?job|job[-_.]?id|job(?=[-_.]?\d{3}))[-_.=]?(?P<id>[1-9]\d{0,11})(?![a-z0-9])"
           r"(?:(?P<joint>[-_.])(?P<count>\d{1,10})(?![a-z0-9]))?"),
    Scheme("NCCL, Ray and crashes of a process", "nccl.%h.%p.log, worker-ID-JOB-PID.out, hs_err_pid123.log",
           r"(?i)(?<![a-z])(?P<part>nccl|pid|hs_err|ucx|worker-[0-9a-f]+-[0-9a-f]{8})"),
)  # fmt: skip
"""By file name, the last two of a folder as well; torchrun's is a path's."""
TORCHRUN = Scheme(
    "torchrun --log-dir", "RUNID_xxxxxxxx/attempt_N/RANK/stderr.log",
    r"^(?P<above>.*?)(?P<folder>(?P<run>[^/]+?)_(?:[a-z0-9_]{8}|[^/_][^/]{1,7}))/attempt_\d+/\d+/(?:stdout|stderr)\.log$",
)  # fmt: skip
_PATTERNS = [lazy(scheme.pattern) for scheme in SCHEMES]
_TORCHRUN = lazy(TORCHRUN.pattern)

_COMPRESSED = lazy(r"\.(?:gz|bz2|xz|zst)$")
_ENDING = lazy(r"(?i)\.(?:out|err|log|logfile|txt|stdout|stderr|output|error|o|e)$")
_ROTATED = lazy(
    r"(?i)(?:^|(?<=\.))(?:out|err|log|txt)(?P<mark>\.\d{1,3}|[-.]20\d\d([-_]?)[01]\d\2[0-3]\d(?:[-_T][-_:.\d]{2,8})?)$"
)
"""`job.log.1`, and after a day as logrotate's dateext and Python's handlers do."""
_STREAM = lazy(r"(?i)[-_.]?(?<![a-z])(?:std)?(?:out(?:put)?s?|err(?:or)?s?|logs?|o|e)(?![a-z])")
_NO_NUMBER = lazy(
    r"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|(?<!\d)1[5-9]\d{8}(?!\d)"
    r"|(?<!\d)(?:19|20)\d\d([-_.]?)(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12]\d|3[01])"
    r"(?:[-_.T ]?(?:[01]\d|2[0-3])[-_.:h]?[0-5]\d(?:[-_.:m]?[0-5]\d)?s?)?(?!\d)"
)
"""UUIDs, seconds since the epoch, days and times."""
_NUMBER = lazy(
    r"(?P<label>[A-Za-z]{0,64})(?P<gap>[-_.=\[]?)(?<![0-9])(?P<digits>\d+)(?P<behind>[A-Za-z]*)(?:(?P<joint>[-_.])(?=(?P<next>\d{1,7})(?![A-Za-z0-9])))?"
)
_PARTS = frozenset({
    "rank", "rk", "r", "local", "localrank", "task", "t", "proc", "process", "p", "n", "node", "nid", "cn", "host", "gpu", "device",
    "worker", "workerlog", "w", "compute", "server", "machine", "ip", "rack", "dgx", "shard", "part", "chunk", "attempt", "restart",
})  # fmt: skip
"""Words whose number counts processes, nodes, pieces or attempts of one job,"""
_MEASURES = frozenset({
    "steps", "iter", "iteration", "epoch", "ckpt", "checkpoint", "bs", "batch", "lr", "port", "of", "world", "size", "np", "nproc",
    "ntasks", "nodes", "ranks", "layers", "seq", "len", "seed", "version",
})  # fmt: skip
"""and those whose number measures a run."""
_STEP = "step"
"""A count of training's steps; before a second number Slurm's step: `step-%j-%t`."""
_NO_TASK = 4294967294
"""What `%a` is outside of an array."""


class Number(Frozen):
    """A number that may be an id, and the one right behind it."""

    digits: str
    joint: str = ""
    task: int | None = None
    name: str | None = None
    """The text before it."""


class Named(Frozen):
    """What one path tells."""

    path: str
    folder: str
    """The folder, without the parts that torchrun makes."""
    unit: str
    """The name without its endings and the words for a stream; a sign replaces the number of a rank, a node or the like."""
    template: str
    """The same with a sign for each number."""
    counts: tuple[int, ...] = ()
    """All its numbers."""
    id: Number | None = None
    """An id that a scheme tells, and the task of the array or the count behind it."""
    numbers: tuple[Number, ...] = ()
    """Numbers that may be an id though no scheme calls them one, in the order of the name."""
    part: bool = False
    """It is a rank's, a node's or the like."""
    torchrun: str | None = None
    """torchrun's own id of the run, which is the job's where a script passes it on."""
    elastic: str | None = None
    """The folder that torchrun made for the run."""

    @property
    def base(self) -> str:
        """The file's or folder's name."""
        return self.path.rpartition("/")[2]


def named(path: str) -> Named:
    """Read one path."""
    if found := _TORCHRUN.match(path):
        own = path[found.end("folder") :]
        return Named(
            path, found["above"].rstrip("/"), own, own, part=True, torchrun=found["run"], elastic=found["folder"]
        )
    folder, _, base = path.rpartition("/")
    return _read(path, folder, unpacked(base))


def unpacked(base: str) -> str:
    """A file's name without the ending that tells its compression."""
    return _COMPRESSED.sub("", base)


def of_folder(path: str) -> Named:
    """Read the name of the folder at this path."""
    above, _, base = path.rpartition("/")
    return _read(path, above, base)


@lru_cache(maxsize=4096)  # of the folders of thousands of files
def is_part(folder: str) -> bool:
    """Whether a folder is a stream's, a rank's, a node's or an attempt's: `node01`, `rank_0`, `stderr`."""
    found = _NUMBER.fullmatch(folder)
    return (found is not None and found["label"].lower() in _PARTS) or not without_stream(folder)


def is_log(name: str) -> bool:
    """Whether a scheme knows a name that has no ending of a log: `train.o4711`, `workerlog.0`."""
    return _PATTERNS[2].search(name) is not None or name.startswith("workerlog.")


def without_stream(name: str) -> str:
    """The name of a file or folder without the words for a stream: `train_err` and `train_out` are one."""
    return _STREAM.sub("", name).strip("-_. ")


def rotated_from(base: str) -> tuple[str, str] | None:
    """The name that a rotated log had while it was written, and what rotation put behind it."""
    found = _ROTATED.search(base)
    return (base[: found.start("mark")], found["mark"]) if found else None


def _read(path: str, folder: str, base: str) -> Named:
    base = before[0] if (before := rotated_from(base)) else base
    groups = next((found.groupdict() for pattern in _PATTERNS if (found := pattern.search(base))), {})
    stem = base
    while (shorter := _ENDING.sub("", stem)) != stem:
        stem = shorter
    whole = _NO_NUMBER.sub(lambda found: "D" * len(found[0]), stem)
    numbers, unit, part = _numbers(stem, whole)
    ident = None
    if "id" in groups:
        count = groups.get("task") or groups.get("count")
        task = None if count is None or int(count) == _NO_TASK else int(count)
        joint = "" if task is None else "_" if groups.get("task") else groups.get("joint") or ""
        ident = Number(groups["id"], joint, task, _name(stem, groups["id"]))
    elif groups:
        numbers, part, unit = (), True, "~"
    return Named(
        path,
        folder,
        unit,
        template=without_stream(re.sub(r"\d+", "#", whole)),
        counts=tuple(int(one) for one in re.findall(r"\d+", whole)),
        id=ident,
        numbers=numbers if ident is None else (),
        part=part,
    )


def _numbers(stem: str, plain: str) -> tuple[tuple[Number, ...], str, bool]:
    """The numbers that may be ids; the name with a sign for those of ranks and nodes, and whether there are such."""
    numbers: list[Number] = []
    unit, shorter = stem, 0
    for found in _NUMBER.finditer(plain):
        label, digits, task = found["label"].lower(), found["digits"], found["next"]
        if label in _PARTS:
            first, behind = found.span("digits")
            unit = f"{unit[: first - shorter]}~{unit[behind - shorter :]}"
            shorter += behind - first - 1
        elif label in _MEASURES or (label == _STEP and task is None):
            continue
        elif not found["behind"] and (digits == "0" or digits[0] != "0") and (not label or found["gap"]):
            numbers.append(Number(digits, found["joint"] or "", int(task) if task else None, _name(stem, digits)))
    return tuple(numbers), without_stream(unit), unit != stem


def _name(stem: str, ident: str) -> str | None:
    """The text before the id, where it is a name and no word of Slurm's: `%x`."""
    before = without_stream(stem.partition(ident)[0])
    return before if before and not re.fullmatch(r"(?:slurm|job|id|run|D|\d|[-_.])+", before, re.I) else None
