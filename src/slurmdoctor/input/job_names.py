"""What a log's path tells of its job: Slurm's id, a task of an array, the job's name, and which numbers count ranks, nodes or runs.

Names come from sbatch's and srun's patterns (`slurm-%j.out`, `%x-%j`, `%A_%a`), from submitit (`%j_%t_log.out`), PBS and SGE
(`%x.o%j`), torchrun (`RUN_xxxxxxxx/attempt_0/0/stdout.log`), Hydra, or from people.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from slurmdoctor.search.compiled import lazy

_COMPRESSED = lazy(r"\.(?:gz|bz2|xz|zst)$")
_ENDING = lazy(r"(?i)\.(?:out|err|log|logfile|txt|stdout|stderr|output|error|o|e|gutil)$")
_ROTATED = lazy(
    r"(?i)(?:^|(?<=\.))(?:out|err|log|txt)(?P<mark>\.\d{1,3}|[-.]20\d\d([-_]?)[01]\d\2[0-3]\d(?:[-_T][-_:.\d]{2,8})?)$"
)
"""`job.log.1`, and after a day as logrotate's dateext and Python's handlers do."""
_STREAM = lazy(r"(?i)[-_.]?(?<![a-z])(?:std)?(?:out(?:put)?|err(?:or)?s?|log|o|e)(?![a-z])")
_SUBMITIT = lazy(r"^(\d+)(?:_(\d+))?_\d+_log$")
_SUBMITIT_SIDE = lazy(r"^(\d+)(?:_\d+)*_(?:submission|submitted|result)\b")
_PBS = lazy(r"^(?P<name>.*)\.(?:p?[oe])(?P<id>\d{2,12})(?:(?P<joint>[-.])(?P<task>\d{1,9}))?$")
_SAID = lazy(
    r"(?i)(?:^|(?<=[^a-z]))(?:slurm|slurm[-_.]?job|job[-_.]?id|job(?=[-_.]?\d{3}))[-_.=]?(?P<id>[1-9]\d{0,11})(?![a-z0-9])"
    r"(?:(?P<joint>[-_.])(?P<task>\d{1,10})(?![a-z0-9]))?"
)
"""`slurm-4711_3`, `job_4711`, `jobid4711`: the name says that it is a job's id."""
_TORCHRUN = lazy(
    r"^(?P<above>.*?)(?P<folder>(?P<run>[^/]+?)_(?:[a-z0-9_]{8}|[^/_][^/]{1,7}))/attempt_\d+/\d+/(?:stdout|stderr)\.log$"
)
_DATE = lazy(
    r"(?<!\d)(?:19|20)\d\d([-_.]?)(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12]\d|3[01])"
    r"(?:[-_.T ]?(?:[01]\d|2[0-3])[-_.:h]?[0-5]\d(?:[-_.:m]?[0-5]\d)?s?)?(?!\d)"
)
_MOMENT = lazy(r"(?<!\d)20\d\d[-_.]?[01]\d[-_.]?[0-3]\d[-_T.][0-2]\d[-_.:h]?[0-5]\d")
_CLOCK = lazy(r"^(?:[01]\d|2[0-3])[-_.:h]?[0-5]\d[-_.:m]?[0-5]\d$")
_STAMP = lazy(r"(?<!\d)1[5-9]\d{8}(?!\d)")
"""Seconds since the epoch."""
_BEHIND = lazy(r"([-_.])(\d{1,7})(?![A-Za-z0-9])")
_BY_PROCESS = lazy(r"(?i)(?<![a-z])(?:nccl|pid|core|hs_err|ucx)")
"""Names whose long number is a process's: NCCL_DEBUG_FILE=nccl.%h.%p.log."""
_UUID = lazy(r"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_NUMBER = lazy(r"(?P<label>[A-Za-z]*)(?P<gap>[-_.=]?)(?<![0-9])(?P<digits>\d+)(?P<behind>[A-Za-z]*)")
_OF_A_PART = frozenset({
    "rank", "rk", "r", "local", "localrank", "task", "t", "proc", "process", "p", "pid", "n", "node", "nid", "cn",
    "host", "hostname", "gpu", "gpus", "cuda", "device", "dev", "worker", "w", "compute", "server", "machine", "ip",
    "rack", "dgx", "dp", "tp", "pp", "ep", "cp", "shard", "part", "chunk", "seg", "segment", "piece", "split",
    "attempt", "try", "retry", "restart", "version", "v", "step", "steps", "iter", "iteration", "epoch", "ckpt",
    "checkpoint", "global", "bs", "batch", "mbs", "gbs", "lr", "port", "of", "world", "ws", "size", "np", "nproc",
    "ports", "tcp", "http", "tensorboard", "jupyter", "ray", "redis", "ntasks", "nodes", "ranks", "layers", "seq", "len", "dim", "hidden", "ctx", "nccl", "debug", "fold", "phase",
    "stage", "actor", "raylet",
})  # fmt: skip
"""Words whose number counts parts of one job, or measures it."""
_SETTINGS = frozenset({
    "lr", "bs", "wd", "dropout", "warmup", "layers", "dim", "hidden", "seq", "len", "batch", "mbs", "gbs", "alpha",
    "beta", "temp", "version",
})  # fmt: skip
"""Words whose number tells one folder's run from another's."""
_STAGES = frozenset({
    "train", "training", "eval", "evaluation", "test", "val", "infer", "prep", "preprocess", "data", "main",
    "worker", "master", "ranks", "logs",
})  # fmt: skip
"""Folders of one job's stages and parts."""
_OF_A_RUN = frozenset({
    "run", "runs", "exp", "experiment", "trial", "job", "sweep", "seed",
})  # fmt: skip
"""Words whose number tells one run of a program from another."""
_SHORTEST = 3
"""Digits of a number that may be a job's id without a word that says so."""
_NO_TASK = 4294967294
"""What `%a` is outside of an array."""


class Maybe(Struct, frozen=True):
    """A number that may be an id, and the number right behind it."""

    digits: str
    joint: str = ""
    task: int | None = None
    name: str | None = None


class Named(Struct, frozen=True):
    """What one path tells."""

    path: str
    folder: str
    """The folder, without the parts that torchrun makes."""
    file: str
    """The file's name without its endings."""
    id: str | None = None
    """An id that the name calls one."""
    joint: str = ""
    task: int | None = None
    """The number behind the id, and what joins it: an array's task, or a rank."""
    name: str | None = None
    """What stands before the id."""
    maybe: tuple[Maybe, ...] = ()
    """Numbers that may be an id though no word calls them one, in the order of the name."""
    numbers: frozenset[str] = frozenset()
    """All numbers that count no part of a job."""
    part: bool = False
    """A number counts ranks, nodes, attempts, steps or the like."""
    run: str | None = None
    """The run that the name tells from others: `exp3`."""
    torchrun: str | None = None
    """torchrun's own id of the run, which is the job's where a script passes it on."""
    elastic: str | None = None
    """The folder that torchrun made for the run."""
    rotated: bool = False

    @property
    def template(self) -> str:
        """The name with a sign for each number, whatever stream it is."""
        return re.sub(r"\d+", "#", self.unit)

    @property
    def unit(self) -> str:
        """The name without the words for a stream: `train_err.log` and `train_out.log` are one."""
        return _STREAM.sub("", self.file).strip("-_.")


def named(path: str) -> Named:
    """Read one path."""
    torchrun = elastic = None
    above, _, base = path.rpartition("/")
    if found := _TORCHRUN.match(path):
        above, torchrun = found["above"].rstrip("/"), found["run"]
        elastic = found["folder"]
    base, rotated = _without_endings(base)
    if side := _SUBMITIT_SIDE.match(base):
        return Named(path, above, base, id=side[1])
    if submitit := _SUBMITIT.match(base):
        task = submitit[2]
        return Named(path, above, base, submitit[1], "_" if task else "", int(task) if task else None)
    if torchrun is None and (said := (pbs := _PBS.match(base)) or _SAID.search(base)):
        task = said["task"]
        whole = int(task) if task and int(task) != _NO_TASK else None
        joint = "_" if pbs and task else said["joint"] or ""
        return Named(path, above, base, said["id"], joint if task else "", whole, _name(base, said["id"]))
    if torchrun is not None:
        return Named(path, above, base, torchrun=torchrun, elastic=elastic, part=True)
    return _guessed(path, above, base, rotated)


@lru_cache(maxsize=4096)  # of the folders of thousands of files
def of_folder(folder: str) -> Named:
    """Read the name of one folder."""
    said = _SAID.search(folder)
    if said:
        return Named(folder, "", folder, said["id"], said["joint"] or "", int(said["task"]) if said["task"] else None)
    return _guessed(folder, "", folder, False)


def is_date(folder: str) -> bool:
    """Whether a folder is named after a day or a time, as Hydra does."""
    return _DATE.fullmatch(folder) is not None or _CLOCK.fullmatch(folder) is not None


def is_run(folder: str) -> bool:
    """Whether a folder is named as one run of several is: `exp3`, `lr_3e-4`, `run-20261120_120103-x7`, or after a time."""
    if is_date(folder) or _MOMENT.search(folder) or of_folder(folder).run:
        return True
    return any(found["label"].lower() in _SETTINGS for found in _NUMBER.finditer(folder))


def says_what(folder: str) -> bool:
    """Whether a folder's name is a word of its own, and none for a host, a stage or a stream: `baseline`."""
    return not re.search(r"\d", folder) and folder.lower() not in _STAGES and _STREAM.sub("", folder).strip("-_.") != ""


def rotated_from(base: str) -> tuple[str, str] | None:
    """The name that a rotated log had while it was written, and what rotation put behind it."""
    found = _ROTATED.search(base)
    return (base[: found.start("mark")], found["mark"]) if found else None


def _without_endings(base: str) -> tuple[str, bool]:
    base = _COMPRESSED.sub("", base)
    before = rotated_from(base)
    base = before[0] if before else base
    while shorter := _ENDING.sub("", base):
        if shorter == base:
            break
        base = shorter
    return base, before is not None


def _guessed(path: str, folder: str, base: str, rotated: bool) -> Named:
    """What the numbers of a name may be that no word calls an id."""
    plain = base
    for never in (_UUID, _DATE, _STAMP):
        plain = never.sub(lambda found: "D" * len(found[0]), plain)
    maybe: list[Maybe] = []
    numbers: set[str] = set()
    run, part = None, _BY_PROCESS.search(base) is not None
    for found in () if part else _NUMBER.finditer(plain):
        label, digits = found["label"].lower(), found["digits"]
        if label in _OF_A_PART:
            part = True
            continue
        if label in _OF_A_RUN and run is None and len(digits) < _SHORTEST:
            run = base[: found.end("digits")]
        if found["behind"] or digits[0] == "0" or (label and not found["gap"]):
            continue
        numbers.add(digits)
        if len(digits) >= _SHORTEST:
            behind = _BEHIND.match(plain, found.end("digits"))
            joint, task = (behind[1], int(behind[2])) if behind else ("", None)
            maybe.append(Maybe(digits, joint, task, _name(base, digits)))
    return Named(
        path, folder, base, maybe=tuple(maybe), numbers=frozenset(numbers), part=part, run=run, rotated=rotated
    )


def _name(base: str, ident: str) -> str | None:
    """What stands before the id, where it is a name and no word of Slurm's: `%x`."""
    before = _STREAM.sub("", base.partition(ident)[0]).strip("-_. ")
    return before if before and not re.fullmatch(r"(?:slurm|job|id|run|D|\d|[-_.])+", before, re.I) else None


def _round(digits: str) -> bool:
    """Whether it is a number that people choose: 1000, 2048."""
    number = int(digits)
    return number % 100 == 0 or number & (number - 1) == 0


def chosen(values: set[str]) -> bool:
    """Whether people chose all of these numbers: steps, sizes."""
    return all(map(_round, values))
