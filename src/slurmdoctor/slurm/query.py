"""Runs scontrol and sacct on a job. The only module that does; the program works without their output too."""

from __future__ import annotations

import codecs
import contextlib
import math
import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from slurmdoctor.model import FAILED, GONE, NO_RECORD, JobRecord, UserError
from slurmdoctor.processes import uninterrupted
from slurmdoctor.slurm import jobinfo
from slurmdoctor.slurm.jobinfo import FIELDS, SEPARATOR, bad_nodes

PATIENCE = 10.0
"""Seconds that all programs of one call may take together."""

_ID = re.compile(r"[0-9]+(?:_[0-9]+|\+[0-9]+)?(?:\.(?:[0-9]+|batch|extern|interactive))?")
_MOST_NODES = 512
_PIECE = 1 << 16
"""Bytes of an output that are taken at once."""


class Answers(Struct):
    """The output of the programs that ran, and the others with the reason."""

    texts: list[tuple[str, str]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def check_id(job_id: str) -> str:
    """The id as Slurm's programs take it: `123`, `123_4` (array task), `123+1` (component), `123.0` (step)."""
    if not _ID.fullmatch(job_id.strip()):
        raise UserError(
            f"`{job_id}` is no job id", "ids look like 123, 123_4 (array task), 123+1 (het job) or 123.0 (step)"
        )
    return job_id.strip()


def is_gone(job: JobRecord) -> bool:
    """Whether Slurm answered, and knows nothing of the job."""
    return not job.sources and any(GONE in why or NO_RECORD in why for why in job.missing)


def job(job_id: str, patience: float = PATIENCE) -> JobRecord:
    """The record of a job; of an array the task that failed worst. Without Slurm it holds only the id and what is missing."""
    wanted = check_id(job_id)
    answers = _records(wanted, patience)
    info = jobinfo.read(answers.texts, wanted) or JobRecord(wanted)
    if info.het_offset:
        info = _with_leaders_log(info, patience / 2)
    info = _completed([info], answers, patience)[0]
    if info.std_out is None and wanted == os.environ.get("SLURM_JOB_ID"):  # slurmctld tells its epilog
        info = replace(info, std_out=os.environ.get("SLURM_JOB_STDOUT") or None)
    return info


def _with_leaders_log(job: JobRecord, patience: float) -> JobRecord:
    """The script of a het job runs in its first component: its log is that one's, for any records of the others."""
    leader = next(iter(job.het_ids), job.id.partition("+")[0])
    first = jobinfo.read(_records(leader, patience).texts, f"{leader}+0")
    return replace(job, std_out=first.std_out, std_err=first.std_err) if first is not None and first.std_out else job


def tasks(array: str, patience: float = PATIENCE) -> list[JobRecord]:
    """The records of an array's tasks; of any other job its own."""
    answers = _records(array, patience)
    found = jobinfo.tasks(answers.texts, array)
    if len(found) < 2:
        found = [jobinfo.read(answers.texts, array) or JobRecord(array)]
    return _completed(found, answers, patience)


def _records(wanted: str, patience: float) -> Answers:
    bare = wanted.partition(".")[0]
    # at once, so that a Slurm that does not answer is waited for once
    answers = ask(
        {f"scontrol show job {bare}": ["scontrol", "show", "job", "-d", bare], "sacct -e": ["sacct", "-e"]}, patience
    )
    texts = dict(answers.texts)
    fields = texts.pop("sacct -e", None)
    if fields is not None:
        table = ["sacct", "-D", "-P", f"--delimiter={SEPARATOR}", "-j", bare, "-o", ",".join(known_fields(fields))]
        records = ask({f"sacct -j {bare}": table}, patience)
        texts |= records.texts
        answers.missing += records.missing
    return Answers(list(texts.items()), answers.missing)


def known_fields(listed: str) -> list[str]:
    """The fields that this version of sacct knows, of those that are of use; `listed` is what `sacct -e` prints."""
    known = {word.lower() for word in listed.split()}
    return [name for name in FIELDS if name.lower() in known]


def _completed(found: Sequence[JobRecord], answers: Answers, patience: float) -> list[JobRecord]:
    """The records of one answer, with the nodes that are down, and what was not answered."""
    nodes = list(dict.fromkeys(node for job in found if job.state in FAILED for node in job.nodes))
    down: dict[str, str] = {}
    if 0 < len(nodes) <= _MOST_NODES:
        for _, text in ask({"scontrol show node": ["scontrol", "show", "node", ",".join(nodes)]}, patience / 2).texts:
            down |= bad_nodes(text)
    return [
        replace(
            job,
            bad_nodes=job.bad_nodes or {n: w for n, w in down.items() if n in job.nodes},
            missing=(*answers.missing, *job.missing),
        )
        for job in found
    ]


def script(job_id: str, patience: float = PATIENCE / 2) -> str | None:
    """The batch script as Slurm keeps it, where it does."""
    bare = check_id(job_id).partition(".")[0]
    for command in (["scontrol", "write", "batch_script", bare, "-"], ["sacct", "-B", "-j", bare]):
        for _, text in ask({command[0]: command}, patience).texts:
            if (at := text.find("#!")) >= 0:
                return text[at:]
    return None


def ask(questions: dict[str, Sequence[str]], patience: float) -> Answers:
    """Run all programs at once, and wait no longer than `patience` for them together."""
    answers = Answers()
    running: dict[str, _Program] = {}
    deadline = time.monotonic() + patience
    try:
        for name, command in questions.items():
            try:
                with uninterrupted():  # between a program's start and its place among the others
                    running[name] = _Program(command)
            except NoAnswerError as error:
                answers.missing.append(f"{command[0]} ({error.why})")
        for name, program in running.items():
            try:
                text = "".join(program.output(patience, deadline))
                if program.name == "sacct" and len(text.strip().splitlines()) < 2:
                    raise NoAnswerError(program.name, NO_RECORD)
                answers.texts.append((name, text))
            except NoAnswerError as error:
                answers.missing.append(f"{program.name} ({error.why})")
    finally:  # who interrupts us leaves no program behind
        for program in running.values():
            program.close()
    return answers


def stream(command: Sequence[str], patience: float) -> Iterator[str]:
    """The program's output, piece by piece. Raises NoAnswerError where it fails, or is silent for longer than `patience`."""
    with uninterrupted():
        program = _Program(command)
    try:
        yield from program.output(patience)
    finally:
        program.close()


class NoAnswerError(UserError):
    """One of Slurm's programs does not answer; `why` is the reason in a few words."""

    def __init__(self, program: str, why: str, message: str = "", mend: str = "") -> None:
        super().__init__(message or f"{program} failed: {why}", mend)
        self.why = why


class _Program:
    """One of Slurm's programs as it runs."""

    def __init__(self, command: Sequence[str]) -> None:
        import tempfile  # slow to import, and needed only here

        self.name = command[0]
        if shutil.which(self.name) is None:
            message = f"{self.name} is not installed here"
            raise NoAnswerError(self.name, "not installed here", message, "run this where Slurm's commands work")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        try:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                # a hung program is killed with all its children; but who began a session for us kills that as a whole, and a
                # program that left it would live on
                start_new_session=os.getsid(0) != os.getpid(),
                env={k: v for k, v in os.environ.items() if k not in _FORMATS and (v or k != "SLURM_CONF")},
            )
        except OSError as error:
            self._errors.close()
            raise NoAnswerError(self.name, str(error.strerror)) from None

    def output(self, patience: float, deadline: float = math.inf) -> Iterator[str]:
        """Piece by piece; until the deadline, and while it is never silent for longer than `patience`."""
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        silent = NoAnswerError(
            self.name,
            f"no answer within {patience:.0f} s",
            f"{self.name} has said nothing for {patience:.0f} s",
            "try again later",
        )
        assert self._child.stdout is not None
        out, data, printed = self._child.stdout.fileno(), b"", False
        while True:
            left = max(0.1, min(patience, deadline - time.monotonic()))
            if not select.select([out], [], [], left)[0]:
                raise silent
            if not (data := os.read(out, _PIECE)):
                break
            printed = printed or not data.isspace()
            yield decode(data)
        yield decode(b"", True)
        try:
            status = self._child.wait(timeout=left)
        except subprocess.TimeoutExpired:
            raise silent from None
        if status or not printed:
            self._errors.seek(0)
            raise NoAnswerError(self.name, _reason(self._errors.read(_PIECE).decode("utf-8", "replace")))

    def close(self) -> None:
        """Kill it if it still runs."""
        if self._child.poll() is None:
            with contextlib.suppress(OSError):
                if os.getpgid(self._child.pid) == self._child.pid:
                    os.killpg(self._child.pid, signal.SIGKILL)
                self._child.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(timeout=1)
        if self._child.stdout:
            self._child.stdout.close()
        self._errors.close()


_FORMATS = frozenset(
    {
        "SACCT_FORMAT",
        "SLURM_TIME_FORMAT",
        "SCONTROL_ALL",
        "SCONTROL_FUTURE",
        "SCONTROL_FEDERATION",
        "SLURM_JSON",
        "SLURM_YAML",
    }
)
"""Variables that change the programs' output."""


_REASONS = {
    "accounting storage is disabled": "accounting is off",
    "Invalid job id": GONE,
    "failed to open persistent connection": "cannot be reached: the accounting database does not answer",
    "slurm_persist_conn_open": "cannot be reached: the accounting database does not answer",
    "configuration source": "no configuration of Slurm here",
    "fetch_config": "no configuration of Slurm here",
    "slurm.conf": "no configuration of Slurm here",
    "Unable to contact slurm controller": "cannot be reached: the controller does not answer",
    "Connection refused": "cannot be reached: connection refused",
    "Zero Bytes were transmitted": "authentication failed",
    "uthentication": "authentication failed",
    "unge": "authentication failed",
    "imed out": "no answer in time",
}
"""What the programs say -> the same in plain words; the first one that occurs counts."""


def _reason(errors: str) -> str:
    text = " ".join(errors.split())
    for printed, plain in _REASONS.items():
        if printed in text:
            return plain
    return text.removeprefix("slurm_load_jobs error: ").removeprefix("sacct: error: ")[:120].rstrip(".") or "no answer"
