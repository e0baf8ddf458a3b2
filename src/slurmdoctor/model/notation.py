"""How logs and Slurm write numbers, sizes, lists of ranks and nodes, times and exit codes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from functools import cache, lru_cache
from itertools import chain, islice, product

from slurmdoctor.model.frozen import Frozen
from slurmdoctor.model.words import ExitClass

MOST_RANKS = 100_000
"""No job has more: lists of ranks would fill the memory."""
_MOST_DIGITS = 18
"""Python refuses to read some thousands, and 64 bits hold these."""
_SIZE = r"([+-]?\d+(?:\.\d*)?) ?(?:bytes|([kKMGT])(?:i?B)?)"
"""`30.00 GiB`, `512.00 MiB`, `18.5GB`, `67108864kB`, `14680064 bytes`."""
_IN_GIB = {"": 2.0**-30, "K": 2.0**-20, "M": 2.0**-10, "G": 1.0, "T": 2.0**10}
"""Who writes GB for memory means GiB, as Slurm does."""


def gib(text: str) -> float | None:
    """A size with its unit in GiB."""
    found = re.fullmatch(_SIZE, text.strip()) if len(text) < 40 else None
    return float(found[1]) * _IN_GIB[(found[2] or "").upper()] if found else None


def number(text: str) -> int:
    """The number that digits say, with or without a sign; of very many digits the first ones."""
    return int(text[:_MOST_DIGITS])


def plain(text: str) -> int | str:
    """A text that is a whole number as that number."""
    digits = text.removeprefix("-")
    return int(text) if digits.isdecimal() and digits.isascii() and len(digits) <= _MOST_DIGITS else text


def is_rank(text: str) -> bool:
    """Whether this may name a rank: few digits. How many there are decides, so that lines of one shape agree."""
    return text.isdecimal() and len(text) < len(str(MOST_RANKS))


_NUMBERED = r"(?!\d+(?:\.\d+){3}$)(.*?)(\d{1,9})((?:\.[a-zA-Z][^\[\]]*)?)"
"""A node's name with its number, and its domain; an address has none."""
MOST_TASKS = 65_536
"""No job of GPUs has more; a task with a higher number is a slip of the pen or of somebody's hand."""


@cache
def _numbers() -> tuple[int, ...]:
    return tuple(range(MOST_TASKS))


@lru_cache(maxsize=8)  # the same few lists again and again; each may be long
def expand(tasks: str) -> tuple[int, ...]:
    """Slurm's task list: `0-3,7` -> 0 1 2 3 7. Unreadable pieces are left out."""
    pieces = map(str.strip, tasks.split(","))
    return tuple(chain.from_iterable(_numbers()[int(low) : int(high) + 1] for low, high in spans(pieces, 6)))


def spans(pieces: Iterable[str], digits: int = 15) -> Iterator[tuple[str, str]]:
    """The first and the last number of each piece: `25-27` and `31`. Numbers of more digits, and what is none, are left out."""
    piece_form = re.compile(rf"(\d{{1,{digits}}})(?:-(\d{{0,{digits}}}))?")
    for piece in pieces:
        if found := piece_form.fullmatch(piece):
            yield found[1], found[2] or found[1]


SHORT = 8
"""Pieces of a list of ranks that a sentence has room for."""


def ranges(numbers: Iterable[int], most: int | None = None) -> str:
    """The reverse of `expand`: 0 1 2 3 7 -> `0-3,7`; of more than `most` pieces the first, `0,2,4 and 76 more`."""
    ordered = sorted(set(numbers))
    pieces: list[str] = []
    start = 0
    for i, number in enumerate(ordered):
        if i + 1 == len(ordered) or ordered[i + 1] != number + 1:
            pieces.append(str(number) if start == i else f"{ordered[start]}-{number}")
            start = i + 1
            if len(pieces) == most and start < len(ordered):
                return f"{','.join(pieces)} and {len(ordered) - start:,} more"
    return ",".join(pieces)


_MOST_NODES = 65_536
"""Nodes of a list's one piece; no cluster has more."""


@lru_cache(maxsize=16)  # all rows of a job name the same ones
def expand_nodes(names: str) -> tuple[str, ...]:
    """Slurm's host list: `cn[01-03],gpu7` -> cn01 cn02 cn03 gpu7; `rack[0-1]n[0-1]` is rack0n0 rack0n1 rack1n0 rack1n1."""
    found: list[str] = []
    for name in names and re.findall(r"[^,\[\]]+(?:\[[^\[\]]*\][^,\[\]]*)*", names):
        pieces = re.split(r"\[([^\[\]]*)\]", name)  # every other one stood in brackets
        parts = [_padded(piece) if at % 2 else [piece] for at, piece in enumerate(pieces)]
        found += map("".join, islice(product(*parts), _MOST_NODES))
    return tuple(found)


def _padded(numbers: str) -> list[str]:
    return [
        f"{number:0{len(low)}d}"
        for low, high in spans(numbers.split(","))
        for number in range(int(low), min(int(high), int(low) + 10_000) + 1)
    ]


def fold_nodes(names: Iterable[str]) -> str:
    """The reverse of `expand_nodes`: cn01 cn02 cn03 gpu7 -> `cn[01-03],gpu7`, which Slurm's commands take."""
    found = {name: re.fullmatch(_NUMBERED, name) for name in names}
    padded = {(m[1], m[3]) for m in found.values() if m and m[2][0] == "0" < m[2]}
    by_form: dict[tuple[str, str, int], list[int]] = {}
    for name, m in found.items():
        if m is None:
            by_form[name, "", 0] = []
        else:
            width = len(m[2]) if (m[1], m[3]) in padded else 0
            by_form.setdefault((m[1], m[3], width), []).append(int(m[2]))
    pieces = []
    for (head, tail, width), numbers in by_form.items():
        parts = (piece.split("-") for piece in ranges(numbers).split(","))
        listed = ",".join("-".join(number.zfill(width) for number in part) for part in parts)
        pieces.append(f"{head}[{listed}]{tail}" if len(numbers) > 1 else f"{head}{listed}{tail}")
    return ",".join(pieces)


_EPOCH = datetime(1970, 1, 1)
_ZONED = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[T _](\d\d:\d\d:\d\d)(?:[.,]\d+)?(Z|[+-]\d\d:?\d\d)")


def format_time(time: float | None, dated: bool = True, line: str = "", zone: int | None = None) -> str | None:
    """ISO 8601 to the second, the time of day alone where no year is known.

    `line` is what the log shows there: where its stamp names a zone, the time is as it was written. `zone` is the log's own, in
    which `time` is counted; it is named where the time was carried there from another line.
    """
    if time is None:
        return None
    for year, month, day, clock, offset in _ZONED.findall(line):
        written = parse_time(f"{year}-{month}-{day}T{clock}")
        if written is not None and abs(written - zone_of(offset) + (zone or 0) - time) < 1:
            return f"{year}-{month}-{day}T{clock}{_named(zone_of(offset))}"
    try:
        moment = _EPOCH + timedelta(seconds=time)
    except OverflowError:  # a stamp of the year 1 or 9999, in the zone of another line
        return None
    shown = moment.strftime("%H:%M:%S")
    if not dated:
        return shown
    return moment.isoformat(timespec="seconds") + ("" if zone is None or shown in line else _named(zone))


def when(shown: str | None) -> tuple[str | None, str | None]:
    """(the moment, None where the log tells no date; the time of day) of a time that `format_time` made."""
    if shown is None:
        return None, None
    _, dated, clock = shown.partition("T")
    return (shown, clock) if dated else (None, shown)


def zone_of(offset: str) -> int:
    """Seconds east of UTC: of `+08:00`, `-0530` or `Z`."""
    if offset == "Z":
        return 0
    return (-1 if offset[0] == "-" else 1) * (int(offset[1:3]) * 3600 + int(offset[-2:]) * 60)


def _named(zone: int) -> str:
    hours, minutes = divmod(abs(zone) // 60, 60)
    if hours >= 24:  # no zone of this earth, nor of ISO 8601
        return ""
    return f"{'-' if zone < 0 else '+'}{hours:02}:{minutes:02}"


def parse_time(text: str) -> float | None:
    """Seconds since the epoch of an ISO 8601 time as Slurm writes it, `2026-11-20T12:01:03`; None for what is none."""
    try:
        return (datetime.fromisoformat(text[:19]) - _EPOCH).total_seconds()
    except ValueError:
        return None


def span(seconds: float) -> str:
    """As a person says it of a wait: `61 min`, `3 h 46 min`, `26 h`."""
    minutes = round(seconds / 60)
    hours, rest = divmod(minutes, 60)
    if minutes < 120:
        return f"{minutes} min"
    return f"{hours} h {rest} min" if hours < 10 and rest else f"{round(minutes / 60)} h"


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
NATIVE_CRASHES = frozenset({"SIGILL", "SIGTRAP", "SIGSYS"})
"""Signals that native code earns itself, as it does SIGSEGV."""
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


class ProcessExit(Frozen):
    """How a process ended: its own code, or the signal that killed it, and what that means."""

    code: int | None
    signal: str | None
    exit_class: ExitClass

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
    """Where only the signal is reported, and no code."""
    return ProcessExit(None, name, _CLASS_OF_SIGNAL.get(name or "", "other"))


def from_name(name: str) -> ProcessExit:
    """Where the name of a signal replaces the code: `SIGKILL` is -9."""
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
