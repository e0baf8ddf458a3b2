"""How the first failing process ended, in words."""

from __future__ import annotations

from collections.abc import Sequence

from slurmdoctor.model import Cascade, Diagnosis, Exit, ExitClass, ProcessExit
from slurmdoctor.model.causes import SIGTERM
from slurmdoctor.model.exits import from_code
from slurmdoctor.report.redact import one_line

_MEANING: dict[ExitClass, tuple[str, str]] = {
    "ok": ("it ended well", "success"),
    "python-error": ("Python error", "an uncaught Python exception, or sys.exit(1)"),
    "usage-error": ("refused its arguments", "the program refused its arguments or its configuration"),
    "oom-killed": ("killed because host memory ran out", "the kernel killed it because the job's memory ran out"),
    "killed": (
        "SIGKILL, sender unknown",
        "SIGKILL: by the out-of-memory killer, by Slurm after a first failure, or by hand",
    ),
    "terminated": (
        "SIGTERM, stopped from outside",
        "SIGTERM: stopped by Slurm or the launcher, so not the first failure",
    ),
    "segfault": ("SIGSEGV, a crash in native code", "SIGSEGV: a crash in native code"),
    "abort": (
        "SIGABRT, the program aborted itself",
        "SIGABRT: native code gave up (an assertion, an uncaught C++ exception, the NCCL watchdog)",
    ),
    "bus-error": (
        "SIGBUS, a bus error",
        "SIGBUS: memory that is mapped but not there (shared memory full, a file cut short)",
    ),
    "interrupted": ("SIGINT, interrupted", "SIGINT: interrupted by a person or by scancel"),
    "time-limit": ("stopped at the time limit", "Slurm's time limit"),
    "not-executable": ("found, but could not be executed", "the program could not be executed"),
    "not-found": ("program not found", "the shell found no such program"),
    "other": ("a code of the program's own", "a code of the program's own"),
    "unknown": ("", "the log does not show it"),
}
"""Exit class -> a few words, for the report's line of the exit, and a sentence, for the JSON."""


def meaning_of(exit_class: ExitClass) -> str:
    """What an exit means, in plain words."""
    return _MEANING[exit_class][1]


def exit_words(end: ProcessExit | None) -> str:
    """As a noun: `exit code 1`, `SIGKILL`."""
    if end is None:
        return "exit not told"
    return end.signal or f"exit code {end.code}"


def died(end: Exit) -> str:
    """As a verb: `exited with 1`, `died of SIGKILL`."""
    if end.signal:
        return f"died of {one_line(end.signal)}"
    return f"exited with {end.code}" if end.code is not None else "failed"


def ending(diagnosis: Diagnosis) -> str:
    """How the first failing process ended, and what the step's own code means; empty where unknown."""
    end = diagnosis.exit
    shown = str(end.code) if end.code is not None else one_line(end.signal or "")
    text = ""
    if shown:
        meaning = _MEANING[end.exit_class][0] or (one_line(end.signal) if end.signal else "")
        if end.signal and end.code is None and meaning.startswith(shown):
            meaning = meaning[len(shown) :].lstrip(", ")
        first = diagnosis.first_failure
        rank = f" on rank {first.rank}" if first and first.rank is not None else ""
        rank = " on each of them" if first and len(first.ranks) > 1 else rank
        if end.exit_class == "other" and not end.signal:
            shown, meaning = f"code {shown}", ""
        text = f"{shown} = {meaning}{rank}" if meaning else f"{shown}{rank}"
        text += f" (says {one_line(end.how)})" if end.how else ""
    if end.step_code is not None and not _same_end(end):
        text += ("; " if text else "") + f"the step's {end.step_code} is {_step_end(end.step_code, diagnosis.cascade)}"
    return text


def _same_end(end: Exit) -> bool:
    """Whether the step ended as the process did: 137, -9 and "Killed" are the same."""
    if end.step_code is None or end.step_code == end.code:
        return True
    own = end.signal or (from_code(end.code).signal if end.code is not None else None)
    return own is not None and own == from_code(end.step_code).signal


def _step_end(code: int, cascade: Sequence[Cascade]) -> str:
    name = from_code(code).signal
    if name is None:
        return "the launcher's own" if code == 1 else "the highest code of all tasks"
    stopped = max((item.ranks for item in cascade if item.cause == SIGTERM), default=0)
    if name == "SIGTERM":
        return (
            f"SIGTERM to {stopped} other {'rank' if stopped == 1 else 'ranks'}" if stopped else "SIGTERM to the others"
        )
    return f"{name} on another process"
