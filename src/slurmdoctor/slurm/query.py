"""Runs scontrol and sacct on a job. The only module that does; the program works without their output too."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from slurmdoctor.model import UserError
from slurmdoctor.model.record import FAILED, JobRecord
from slurmdoctor.slurm import jobinfo
from slurmdoctor.slurm.scontrol import bad_nodes

PATIENCE = 10.0
"""Seconds that all programs of one call may take together."""
_FIELDS = (
    "JobID,JobName,Partition,State,ExitCode,DerivedExitCode,Elapsed,Timelimit,Start,End,NodeList,NNodes,NTasks,"
    "ReqMem,MaxRSS,UID,Reason,WorkDir"
)
_ID = re.compile(r"[0-9]+(?:_[0-9]+|\+[0-9]+)?(?:\.(?:[0-9]+|batch|extern|interactive))?")
_MOST_NODES = 512


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


def job(job_id: str, patience: float = PATIENCE) -> JobRecord:
    """The record of a job. Without Slurm it holds only the id and what is missing."""
    wanted = check_id(job_id)
    bare = wanted.partition(".")[0]
    answers = ask(
        {
            f"scontrol show job {bare}": ["scontrol", "show", "job", "-d", bare],
            f"sacct -j {bare}": ["sacct", "-P", "-j", bare, "-o", _FIELDS],
        },
        patience,
    )
    info = jobinfo.read(answers.texts, wanted) or JobRecord(wanted)
    if info.state in FAILED and 0 < len(info.nodes) <= _MOST_NODES:
        nodes = ask({"scontrol show node": ["scontrol", "show", "node", ",".join(info.nodes)]}, patience / 2)
        for _, text in nodes.texts:
            info = replace(info, bad_nodes={n: w for n, w in bad_nodes(text).items() if n in info.nodes})
    return replace(info, missing=(*answers.missing, *info.missing))


def script(job_id: str, patience: float = PATIENCE / 2) -> str | None:
    """The batch script as Slurm keeps it, where it does."""
    bare = check_id(job_id).partition(".")[0]
    answers = ask({"scontrol": ["scontrol", "write", "batch_script", bare, "-"]}, patience)
    for _, text in answers.texts:
        if text.startswith("#!"):
            return text
    answers = ask({"sacct": ["sacct", "-B", "-j", bare]}, patience)
    for _, text in answers.texts:
        at = text.find("#!")
        if at >= 0:
            return text[at:]
    return None


def ask(questions: dict[str, Sequence[str]], patience: float) -> Answers:
    """Run all programs at once, and wait no longer than `patience` for them together."""
    answers = Answers()
    running: list[tuple[str, str, subprocess.Popen[bytes]]] = []
    try:
        with _uninterrupted():  # between a program's start and its place in the list
            _start(questions, running, answers)
        _collect(running, patience, answers)
    finally:  # who interrupts us leaves no program behind
        for _, _, child in running:
            if child.poll() is None:
                _kill(child)
    return answers


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start(
    questions: dict[str, Sequence[str]], running: list[tuple[str, str, subprocess.Popen[bytes]]], answers: Answers
) -> None:
    # a session of its own: a hung program is killed with all its children; but who began a session for us kills that
    # as a whole, and a program that left it would live on
    own_session = os.getsid(0) != os.getpid()
    for name, command in questions.items():
        program = command[0]
        if shutil.which(program) is None:
            answers.missing.append(f"{program} (not installed here)")
            continue
        try:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=own_session,
                env={k: v for k, v in os.environ.items() if k not in _FORMATS and (v or k != "SLURM_CONF")},
            )
        except OSError as error:
            answers.missing.append(f"{program} ({error.strerror})")
            continue
        running.append((name, program, child))


def _collect(running: Sequence[tuple[str, str, subprocess.Popen[bytes]]], patience: float, answers: Answers) -> None:
    deadline = time.monotonic() + patience
    for name, program, child in running:
        try:
            output, errors = child.communicate(timeout=max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            _kill(child)
            answers.missing.append(f"{program} (no answer within {patience:.0f} s)")
            continue
        text = output.decode("utf-8", "replace")
        if child.returncode or not text.strip():
            answers.missing.append(f"{program} ({_reason(errors.decode('utf-8', 'replace') or text)})")
        elif program == "sacct" and len(text.strip().splitlines()) < 2:
            answers.missing.append("sacct (no record of this job)")
        else:
            answers.texts.append((name, text))


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


def _kill(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        if os.getpgid(child.pid) == child.pid:
            os.killpg(child.pid, signal.SIGKILL)
        child.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout=1)
    for pipe in (child.stdout, child.stderr):
        if pipe:
            pipe.close()


def _reason(errors: str) -> str:
    text = " ".join(errors.split()).removeprefix("slurm_load_jobs error: ").removeprefix("sacct: error: ")
    if "accounting storage is disabled" in text:
        return "accounting is off"
    if "failed to open persistent connection" in text or "Connection refused" in text:
        return "the accounting database does not answer"
    if "Invalid job id" in text:
        return "Slurm no longer knows this job"
    return text[:120].rstrip(".") or "no answer"
