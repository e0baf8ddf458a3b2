"""How the first failing process ended, in words."""

from __future__ import annotations

from collections.abc import Sequence

from slurmdoctor.model import EXIT_CODE, KILLED, SIGTERM, Cascade, Diagnosis, Exit, ExitClass, ProcessExit, from_code
from slurmdoctor.report.redactor import one_line

_MEANING: dict[ExitClass, tuple[str, str]] = {
    "ok": ("", "success"),
    "python-error": ("", "a general error; Python exits with 1 after an exception that nothing caught"),
    "usage-error": ("", "many programs exit with 2 when they reject their arguments"),
    "oom-killed": ("host memory ran out", "SIGKILL: the kernel killed it because the job ran out of host memory"),
    "killed": (
        "the log does not say by whom",
        "SIGKILL: by the out-of-memory killer, by Slurm after another failure, or by hand",
    ),
    "terminated": ("", "SIGTERM: stopped by Slurm, the launcher or a person, so rarely the first failure"),
    "segfault": ("a crash in native code", "SIGSEGV: a crash in native code"),
    "abort": (
        "the process aborted itself",
        "SIGABRT: native code gave up (an assertion, an uncaught C++ exception, the NCCL watchdog)",
    ),
    "bus-error": (
        "a bus error",
        "SIGBUS: mapped memory is no longer backed (shared memory full, a truncated file)",
    ),
    "interrupted": ("", "SIGINT: interrupted by a person or by scancel"),
    "time-limit": ("", "stopped at Slurm's time limit"),
    "not-executable": ("found, but could not be executed", "the program was found but could not be executed"),
    "not-found": ("program not found", "the shell did not find the program"),
    "other": ("", "an exit code of the program's own"),
    "unknown": ("", "the log does not show it"),
}
"""Exit class -> what the report's line of the exit adds to the code, and a sentence for the JSON."""
_BY_SIGNAL = {"SIGKILL": "killed by SIGKILL", "SIGTERM": "stopped by SIGTERM", "SIGINT": "interrupted by SIGINT"}


def meaning_of(exit_class: ExitClass) -> str:
    """What an exit means, in plain words."""
    return _MEANING[exit_class][1]


def exit_words(end: ProcessExit | None) -> str:
    """As a noun: `exit code 1`, `SIGKILL`."""
    if end is None:
        return "an unknown exit"
    if end.code is None and end.signal is None:  # Slurm's own: 0:53 of a job whose output file could not be opened
        return "a signal that has no name"
    return end.signal or f"exit code {end.code}"


def died(end: Exit) -> str:
    """As a verb: `exited with 1`, `was killed by SIGKILL`."""
    if end.signal in _BY_SIGNAL:
        return f"was {_BY_SIGNAL[end.signal]}"
    if end.signal:
        return f"died of {one_line(end.signal)}"
    return f"exited with {end.code}" if end.code is not None else "failed"


def ending(diagnosis: Diagnosis) -> str:
    """How the first failing process ended, and what the step's own code means; empty where unknown."""
    end = diagnosis.exit
    text = ""
    if end.code is not None or end.signal:
        text = (_BY_SIGNAL.get(end.signal, one_line(end.signal)) if end.signal else f"code {end.code}") + _on(diagnosis)
        told = [f"code {end.code}"] if end.signal and end.code is not None else []
        told += [f"reported by {one_line(end.how)}"] if end.how else []
        text += f" ({', '.join(told)})" if told else ""
        text += f"; {adds}" if (adds := _adds(diagnosis)) else ""
    if end.step_code is not None and not _same_end(end):
        text += ("; " if text else "") + _step_end(end.step_code, diagnosis.cascade)
    return text


def _adds(diagnosis: Diagnosis) -> str:
    """What the code's meaning adds; that the killer is unknown only where nothing explains the kill."""
    cause = diagnosis.cause.id or EXIT_CODE
    explained = diagnosis.exit.exit_class == "killed" and cause not in (KILLED, EXIT_CODE)
    return "" if explained else _MEANING[diagnosis.exit.exit_class][0]


def _on(diagnosis: Diagnosis) -> str:
    first = diagnosis.first_failure
    if first and len(first.ranks) > 1:
        return " on each"
    return f" on rank {first.rank}" if first and first.rank is not None else ""


def _same_end(end: Exit) -> bool:
    """Whether the step ended as the process did: 137, -9 and "Killed" are the same."""
    if end.step_code is None or end.step_code == end.code:
        return True
    own = end.signal or (from_code(end.code).signal if end.code is not None else None)
    return own is not None and own == from_code(end.step_code).signal


def _step_end(code: int, cascade: Sequence[Cascade]) -> str:
    name = from_code(code).signal
    if name is None:
        return f"Slurm shows the step's highest exit code, {code}"
    stopped = max((item.ranks for item in cascade if item.cause == SIGTERM), default=0)
    if name == "SIGTERM":
        others = f"{stopped} other {'rank' if stopped == 1 else 'ranks'}" if stopped else "the other ranks"
        return f"the step's {code} is SIGTERM to {others}"
    return f"the step's {code} is {name} on another process"
