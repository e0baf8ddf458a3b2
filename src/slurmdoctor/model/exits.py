"""One table of exit codes, signals and Slurm's words for them.

Codes as shells and srun print them (128 + signal), as torchrun and DeepSpeed do (negative), and as sacct does (`code:signal`).
"""

from __future__ import annotations

import re

from msgspec import Struct

from slurmdoctor.model.numbers import number
from slurmdoctor.model.words import ExitClass

_CLASS_OF_SIGNAL: dict[str, ExitClass] = {
    "SIGINT": "interrupted", "SIGABRT": "abort", "SIGBUS": "bus-error", "SIGKILL": "killed", "SIGSEGV": "segfault", "SIGTERM": "terminated",
}  # fmt: skip
_CLASS_OF_CODE: dict[int, ExitClass] = {
    0: "ok",
    1: "python-error",
    2: "usage-error",
    126: "not-executable",
    127: "not-found",
}
NATIVE_CRASHES = frozenset({"SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS"})
"""Signals that native code earns itself, as it does SIGSEGV."""
_PLAIN: tuple[ExitClass, ...] = ("ok", "python-error", "usage-error", "other", "unknown")
"""Classes of exits that may have any cause."""
_OUT_OF_MEMORY = 253
"""srun's and sacct's exit code for a step that ran out of memory (sacct: 0:125)."""
_PBS = 256
"""PBS adds a signal's number to it; no process leaves with such a code."""

_WORDS: tuple[tuple[str, str | None], ...] = (
    ("Out Of Memory", None), ("Segmentation fault", "SIGSEGV"), ("Aborted", "SIGABRT"), ("Bus error", "SIGBUS"), ("Killed", "SIGKILL"),
    ("Terminated", "SIGTERM"), ("Interrupt", "SIGINT"), ("Illegal instruction", "SIGILL"), ("Floating point exception", "SIGFPE"),
    ("User defined signal 1", "SIGUSR1"), ("User defined signal 2", "SIGUSR2"), ("Hangup", "SIGHUP"), ("Quit", "SIGQUIT"),
    ("Trace/breakpoint trap", "SIGTRAP"), ("Broken pipe", "SIGPIPE"), ("CPU time limit exceeded", "SIGXCPU"), ("Alarm clock", "SIGALRM"),
)  # fmt: skip


class ProcessExit(Struct, frozen=True):
    """How a process ended: its own code, or the signal that killed it, and what that means."""

    code: int | None
    signal: str | None
    exit_class: ExitClass

    @property
    def tells_nothing(self) -> bool:
        """Whether it is a plain code, of which no cause can be told."""
        return self.signal not in NATIVE_CRASHES and self.exit_class in _PLAIN

    @property
    def shell_code(self) -> int | None:
        """The code that a shell makes of it: of a signal 128 and its number. None where neither is known here."""
        from signal import Signals  # here and below: it is slow to import

        number = Signals.__members__.get(self.signal or "")
        return self.code or (None if number is None else 128 + number)


def signal_name(number: int) -> str | None:
    from signal import Signals

    try:
        return Signals(number).name
    except ValueError:
        return None


def from_code(code: int) -> ProcessExit:
    """A code as printed: 1, 137, -9, PBS's 265. Plain codes that merely equal a signal's number (9, 15) are no signals."""
    above = next((base for base in (128, _PBS) if base < code <= base + 64), None)
    number = -code if code < 0 else code - above if above is not None else None
    if code == _OUT_OF_MEMORY:
        return ProcessExit(code, None, "oom-killed")
    if number is not None and (name := signal_name(number)):
        return ProcessExit(code, name, _CLASS_OF_SIGNAL.get(name, "other"))
    return ProcessExit(code, None, _CLASS_OF_CODE.get(code, "other"))


def from_signal(name: str | None) -> ProcessExit:
    """Where the signal alone is told, and no code."""
    return ProcessExit(None, name, _CLASS_OF_SIGNAL.get(name or "", "other"))


def from_name(name: str) -> ProcessExit:
    """Where the name of a signal stands for the code: `SIGKILL` is -9."""
    from signal import Signals

    number = Signals.__members__.get(name)
    return from_code(-number) if number is not None else ProcessExit(None, name, "other")


def from_words(words: str) -> ProcessExit | None:
    """srun's or bash's words: `Exited with exit code 1`, `Segmentation fault (core dumped)`, `Out Of Memory`."""
    if found := re.search(r"[Ee]xit(?:ed with exit)? code (-?\d+)", words):
        return from_code(number(found[1]))
    for word, name in _WORDS:
        if word in words:
            if name is None:
                return ProcessExit(None, "SIGKILL", "oom-killed")
            return from_signal(name)
    return None


def from_sacct(pair: str) -> ProcessExit | None:
    """sacct's and scontrol's `code:signal`, such as 1:0, 0:9, 0:125 (out of memory).

    sacct prints 137 as 9:0, and an `exit 9` too: where only it speaks, the code is no signal.
    """
    found = re.fullmatch(r"(\d{1,9}):(\d{1,9})", pair.strip())
    if not found:
        return None
    code, number = int(found[1]), int(found[2])
    if number == 125:
        return ProcessExit(None, "SIGKILL", "oom-killed")
    if number:
        return from_signal(signal_name(number))
    return from_code(code)
