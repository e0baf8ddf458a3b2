"""`slurmdoctor hook` prints the footer of a batch script; `slurmdoctor footer`, which that footer calls, sees the job that it runs in."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import click
from msgspec.structs import replace

from slurmdoctor import __version__
from slurmdoctor.cli import redact_option, rules_option
from slurmdoctor.cli.output import say
from slurmdoctor.knowledge import current
from slurmdoctor.model import Diagnosis, JobRecord, Knowledge, UserError
from slurmdoctor.slurm import Job, described, find, job, note, read_text, whole
from slurmdoctor.slurm.script import Script, parse_beside, step_outputs

KINDS = ("footer", "dependency", "epilog")
WHEN = ("failed", "always")
SECONDS = 30
PATIENCE = 8.0
"""Seconds that a footer waits for scontrol and sacct."""
READING = 0.75
"""Share of a footer's time after which it reads no more of the logs: before its shell kills it, it says what it has."""
_ASKING = frozenset({"TERM", "INT", "HUP", "USR1", "USR2", "XCPU"})
_STEP_PROGRAMS = frozenset({"srun", "mpirun", "mpiexec", "torchrun"})
"""What would still run in the foreground if a signal ended the script."""


@click.command()
@click.option(
    "--kind", type=click.Choice(KINDS), default="footer", help="A footer, a dependent job, or an EpilogSlurmctld."
)
@click.option(
    "--timeout",
    "seconds",
    type=click.IntRange(1, 3600),
    default=SECONDS,
    metavar="SECONDS",
    show_default=True,
    help="The most that it may take.",
)
@click.option("--when", type=click.Choice(WHEN), default="failed", help="Speak of failed jobs only, or always.")
@click.option("--command", metavar="PATH", help="The slurmdoctor that the job calls where its PATH has none.")
def hook(kind: str, seconds: int, when: str, command: str | None) -> None:
    """Print what makes a job diagnose itself.

    Paste the footer below the #SBATCH lines of your script. It changes nothing of the job: not its exit status, not its
    output but for the verdict, and nothing at all where slurmdoctor is missing, fails or is slow. See docs/hook.md.
    """
    say(script(kind, seconds=seconds, when=when, command=command), nl=False, mask=False)


def script(kind: str, *, seconds: int = SECONDS, when: str = "failed", command: str | None = None) -> str:
    """The shell text of one kind of hook, ready to paste."""
    text = (Path(__file__).parent / "templates" / f"{kind}.sh").read_text(encoding="utf-8")
    tool = shlex.quote(command or _program())
    granted = seconds if kind != "epilog" else max(seconds, 120)
    slurm = shutil.which("scontrol")
    folders = [*([str(Path(slurm).parent)] if slurm else []), "/usr/local/sbin", "/usr/local/bin"]
    filled = {
        "TIMEOUT": str(granted),
        "READING": str(int(READING * granted) or 1),
        "WHEN": when,
        # with Slurm's programs and the system's, for an administrator's script
        "PATH": shlex.quote(":".join(dict.fromkeys([*folders, "/usr/sbin", "/usr/bin", "/sbin", "/bin"]))),
        "COMMAND": tool,
        "CONF": shlex.quote(os.environ.get("SLURM_CONF", "")),
        # a string that the watching job's shell reads once more
        "WATCH": shlex.quote(f"timeout 300 {tool} diagnose --time-limit 240"),
        # a job whose script hides its failure ends well in Slurm's eyes: only afterany looks at it
        "DEPENDENCY": "afterany" if when == "always" else "afternotok",
        "IFFAILED": "" if when == "always" else " --if-failed",
    }
    return re.sub(r"@([A-Z]+)@", lambda found: filled[found[1]], text)


def _program() -> str:
    """The program that runs now, by its full path: the job's PATH may be another."""
    named = Path(sys.argv[0])
    if named.name.startswith("slurmdoctor") and named.exists():
        return str(named.absolute())
    return shutil.which("slurmdoctor") or "slurmdoctor"


# ── inside the job ───────────────────────────────────────────────────────────────────────────


@click.command(hidden=True)
@click.option("--note", "notes", is_flag=True, help="Print how the logs stand as the script begins.")
@click.option("--status", type=int, default=0)
@click.option("--shell", "shell_pid", type=int, required=True)
@click.option("--script", "script_file")
@click.option("--before", default="", help="What --note has printed.")
@click.option("--when", type=click.Choice(WHEN), default="failed")
@click.option("--time-limit", "seconds", type=click.IntRange(1), default=SECONDS, help="What its shell grants it.")
@redact_option
@rules_option
def footer(
    notes: bool,
    status: int,
    shell_pid: int,
    script_file: str | None,
    before: str,
    when: str,
    seconds: int,
    redact: str,
    extra: tuple[Path, ...],
) -> None:
    """The verdict on the job that this runs in, printed by its footer."""
    from slurmdoctor.pipeline import diagnose
    from slurmdoctor.report import render_text

    if notes:
        say(note_logs(shell_pid, script_file), mask=False)
        return
    begun = time.monotonic()
    job = inside(status, shell_pid, script_file, before, patience=min(PATIENCE, seconds / 3))
    found = diagnose(
        job.logs,
        rules=extra,
        exit_status=status or None,
        redact=redact,
        record=job.record,
        script=job.script,
        begins=job.begins,
        time_limit=max(0.5, READING * seconds - (time.monotonic() - begun)),
        rank_timelines=False,
    )
    known = current(extra)
    if when != "always" and not tells(found, status, job.script, known):
        return
    lines = [f"--- slurmdoctor {__version__}, job {job_id()} ---"]
    # where Slurm ended it, the shell's own status means nothing
    ended = found.cause.id in known.traits["scheduler"] | known.traits["whole-job"]
    if found.verdict == "failed" and status == 0 and not ended and not (job.record and job.record.running_children):
        lines.append("the script's exit status is 0, yet this failed in it:")
    text = render_text(found, width=100, colour=False, encoding=sys.stdout.encoding or "ascii")
    with suppress(BrokenPipeError):
        say("\n".join([*lines, text.rstrip("\n"), "--- end of slurmdoctor ---"]), mask=False)
        sys.stdout.flush()


def tells(found: Diagnosis, status: int, script: Script | None, known: Knowledge) -> bool:
    """Whether a footer has something to tell: a failure, unless the script was asked to end, and did so in good order."""
    if found.verdict != "failed":
        return status != 0 and found.verdict == "unknown"
    handled = script is not None and bool(script.traps.keys() & _ASKING)
    return status != 0 or not handled or found.cause.id not in known.traits["scheduler"]


def job_id() -> str:
    """The id of the job that we run in."""
    found = os.environ.get("SLURM_JOB_ID", "")
    if not re.fullmatch("[0-9]{1,18}", found):
        raise UserError(
            "SLURM_JOB_ID is not set", "`slurmdoctor footer` runs inside a job: `slurmdoctor hook` prints how"
        )
    return found


def inside(status: int, shell_pid: int, script_file: str | None, before: str = "", patience: float = PATIENCE) -> Job:
    """The job that we run in, with what only a footer can see: the shell's status, its open log, its children.

    `before` is the note of how the logs stood when the script began.
    """
    record = job(job_id(), patience)
    # a shell that a signal ended shows the status of the command before it, mostly 0
    record = replace(record, exit_status=status, running_children=running_steps(shell_pid))
    script = _script(script_file, record.name)
    found, missing = _logs(shell_pid, script, record)
    lacks = missing if found else ["log (not found)"]
    return described(replace(record, missing=(*record.missing, *lacks)), script, found, before)


def note_logs(shell_pid: int, script_file: str | None) -> str:
    """How the job's logs stand before the script has run, for `inside` when it has."""
    record = JobRecord(
        job_id(),
        os.environ.get("SLURM_JOB_NAME"),
        work_dir=os.getcwd(),  # noqa: PTH109 - a string is wanted
        array_job=os.environ.get("SLURM_ARRAY_JOB_ID"),
        array_task=whole(os.environ.get("SLURM_ARRAY_TASK_ID")),
    )
    return note(_logs(shell_pid, _script(script_file, record.name), record)[0])


def _script(file: str | None, name: str | None) -> Script | None:
    if file and Path(file).is_file():
        with suppress(UserError):
            return parse_beside(read_text(file, whole=False), name or Path(file).name)
    return None


def _logs(shell_pid: int, script: Script | None, record: JobRecord) -> tuple[list[str], list[str]]:
    """The files that the script and its steps write to, and the patterns for which there is none."""
    found = shell_outputs(shell_pid)
    from_slurm, missing = find(record, step_outputs(script) if script else ())
    known = set(map(os.path.realpath, found))
    return [*found, *(file for file in from_slurm if os.path.realpath(file) not in known)], missing


def shell_outputs(pid: int) -> list[str]:
    """The files that a shell writes its output and errors to: the job's log, also where scontrol does not answer."""
    found: list[str] = []
    for number in (1, 2):
        with suppress(OSError):
            target = str(Path(f"/proc/{pid}/fd/{number}").readlink())
            if target.startswith("/") and not target.startswith("/dev/") and Path(target).is_file():
                found.append(target)
    return list(dict.fromkeys(found))


def running_steps(pid: int, processes: Iterable[Path] | None = None) -> tuple[str, ...]:
    """Launchers that are still children of the shell: then a signal ended it, not its last command."""
    found: list[str] = []
    for process in processes if processes is not None else Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            text = (process / "stat").read_text(encoding="utf-8", errors="replace")
            name, _, rest = text.partition("(")[2].rpartition(")")
            fields = rest.split()
            if len(fields) > 1 and fields[0] not in "ZX" and fields[1] == str(pid) and name in _STEP_PROGRAMS:
                found.append(name)
    return tuple(found)
