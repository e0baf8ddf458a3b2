"""All that the commands print or write: no text that passes here can steer a terminal, shows a secret, or replaces what is read."""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, TYPE_CHECKING

import click

from slurmdoctor.model import UserError

if TYPE_CHECKING:
    from rich.progress import Progress

PATIENCE = 1.0
"""Seconds in which no progress is shown."""
_PAUSE = 0.1
"""Seconds between two pictures of it."""
_FORMS = {
    "json": (".json", ".jsonl", ".ndjson"),
    "html": (".html", ".htm"),
    "markdown": (".md", ".markdown"),
    "text": (".txt", ".log", ".out"),
}
"""Format -> the endings of its files."""


def say(text: str = "", *, err: bool = False, nl: bool = True, mask: bool = True) -> None:
    """Print text of any origin. Without `mask` what looks like a secret stays: scripts, and what is masked already."""
    from slurmdoctor.report import disarm, redact

    try:
        safe = redact(text) if mask else disarm(text)
    except UserError:  # the kinds of secrets are missing, like all rules: which is what it is about to say
        safe = disarm(text)
    click.echo(safe, nl=nl, err=err)


def in_line(path: object) -> str:
    """A name as a part of a line: it may hold line ends."""
    from slurmdoctor.report import one_line

    return one_line(str(path))


def show(report: str, *, err: bool = False) -> None:
    """Print a report: what it quotes is masked and disarmed already, and its colors are its own."""
    click.echo(report, nl=False, err=err, color=True)  # click would take them off for a pipe, FORCE_COLOR or not


def complain(wrong: Exception) -> None:
    """Say what went wrong: one line a problem."""
    if isinstance(wrong, MemoryError):
        wrong = UserError("not enough memory", "read fewer files at once, or on a machine with more")
    elif isinstance(wrong, OSError) and not isinstance(wrong, UserError):
        wrong = _of_system(wrong)
    if isinstance(wrong, UserError):
        say("slurmdoctor: " + "\n".join(map(in_line, wrong.lines)), err=True)
    else:
        what = f"internal error, {type(wrong).__name__}: {wrong}: please report it; SLURMDOCTOR_DEBUG=1 shows where"
        say(f"slurmdoctor: {in_line(what)}", err=True)


def _of_system(error: OSError) -> UserError:
    why = error.strerror or str(error)
    if error.filename is not None:
        return UserError(f"{error.filename}: {why}", "check the file and its folder")
    if error.errno == errno.EBADF:
        leave(sys.stdout)
        return UserError("standard output is closed", "the report needs a place to go to")
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        leave(sys.stdout)
        return UserError(f"the report cannot be written: {why}", "free some room, or write it to another place")
    return UserError(why, "SLURMDOCTOR_DEBUG=1 shows where")


# ── standard streams ─────────────────────────────────────────────────────────────────────────


def open_closed() -> None:
    """Take the numbers of the standard streams that are closed, lest a log gets them; what is written to them fails, or is lost."""
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    for number, mode in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # it gets the lowest number that is free: this one
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def stdin() -> IO[bytes]:
    """Standard input's bytes."""
    if sys.stdin is None:
        raise UserError("standard input is closed", "name a file")
    return sys.stdin.buffer


def leave(stream: IO[str]) -> None:
    """Lose what could not be written to it: at its end Python would try again, and report that."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        stream.flush()


def on_terminal() -> bool:
    """Whether somebody watches."""
    return sys.stderr is not None and sys.stderr.isatty()


class Bar(ExitStack):
    """How far something is, on a terminal, once it takes longer than a second."""

    def __init__(self) -> None:
        super().__init__()
        self._drawn: Progress | None = None
        self._began = self._last = 0.0
        self._done = 0

    def add(self, done: int, total: int | None) -> None:
        """So many bytes more are read."""
        self._done += done
        self.show(self._done, total)

    def show(self, done: int, total: int | None, about: str = "") -> None:
        """So much is done; without words on it a number of bytes."""
        now = time.monotonic()
        self._began = self._began or now  # what was prepared before is no reading
        if now - self._began < PATIENCE or now - self._last < _PAUSE:
            return
        self._last = now
        if self._drawn is None:
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

            column = TextColumn("{task.description}") if about else DownloadColumn()
            console = Console(stderr=True)
            # no thread: processes are forked
            bar = Progress(
                "reading",
                BarColumn(20),
                column,
                TimeRemainingColumn(),
                console=console,
                transient=True,
                auto_refresh=False,
            )
            bar.add_task("")
            self._drawn = self.enter_context(bar)
        self._drawn.update(self._drawn.task_ids[0], completed=done, total=total, description=about)
        self._drawn.refresh()


@contextmanager
def preparing() -> Iterator[None]:
    """Says so while the rules are read for the first time."""
    show("preparing the rules, once (a few seconds) ...", err=True)
    try:
        yield
    finally:
        show("\r\x1b[K", err=True)


# ── -o FILE ──────────────────────────────────────────────────────────────────────────────────


def _checked(context: click.Context, option: click.Parameter, path: str | None) -> str | None:
    """The file; refused at once where it cannot be written, for the logs may take minutes to read."""
    if path is None or path == "-":
        return None
    if not path:
        raise UserError("-o names nothing", "name a file, or - for standard output")
    shown = in_line(path)
    if os.path.isdir(path) or path.endswith("/"):  # noqa: PTH112 - never raises
        raise UserError(f"{shown} is a folder", f"name a file in it: -o {shown.rstrip('/')}/report.txt")
    folder = os.path.dirname(_target(path)) or "."  # noqa: PTH120
    if not os.path.isdir(folder):  # noqa: PTH112
        raise UserError(f"the folder {in_line(folder)} is not there", f"mkdir -p {in_line(folder)}, or name another")
    if not os.access(path if _is_special(path) else folder, os.W_OK):
        raise UserError(f"you may not write to {shown}", "name a file in a folder of your own")
    return path


output_option = click.option(
    "-o",
    "--output",
    type=click.Path(),
    callback=_checked,
    is_eager=True,  # the format may follow from it
    metavar="FILE",
    help="Write to a file; its ending tells the format where --format does not.",
)
"""The option of all commands that print a report."""


def format_option(of: str, forms: Sequence[str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The option that names the format; the first one is the usual one."""
    return click.option(
        "--format", "form", type=click.Choice(forms), default=forms[0], callback=_form, help=f"How to print {of}."
    )


def _form(context: click.Context, option: click.Parameter, form: str) -> str:
    """The format that the user named, else the one that the file's ending names, else the usual one."""
    output, named = context.params.get("output"), context.get_parameter_source("form")
    if output is None or named is click.core.ParameterSource.COMMANDLINE:
        return form
    assert isinstance(option.type, click.Choice)
    known = {ending: one for one, endings in _FORMS.items() if one in option.type.choices for ending in endings}
    ending = os.path.splitext(output)[1]  # noqa: PTH122
    meant = known.get(ending.lower())
    if meant is None and ending[1:].isalpha() and not _is_special(output):
        mend = f"use {', '.join(known)}, or add --format"
        raise UserError(f"-o {in_line(output)}: no format ends in {in_line(ending)}", mend)
    return meant or form


def keep_inputs(output: str | None, inputs: Iterable[str]) -> None:
    """Refuse to write over what is read: a file, one of a folder or of a pattern, or standard input."""
    if output is None or _is_special(output) or not os.path.exists(output):  # noqa: PTH110 - never raises
        return
    for name in inputs:
        with suppress(OSError, ValueError):
            if any(os.path.samestat(os.stat(output), one) for one in _read_for(name)):  # noqa: PTH116
                raise UserError(f"-o {in_line(output)} is the file that is read", "name another file for the report")


def _read_for(name: str) -> Iterator[os.stat_result]:
    """The files that are read where this is named."""
    if name == "-":
        yield os.fstat(0)
        return
    from slurmdoctor.input import expand

    with suppress(UserError):  # who reads it tells
        for path in expand([name]).paths:
            with suppress(OSError):
                yield os.stat(path)  # noqa: PTH116


def put(report: str, output: str | None) -> None:
    """Print a report, or write it: who looks at the file meanwhile sees the old one or the new one, never a half."""
    if output is None:
        show(report)
        sys.stdout.flush()  # here a full disk is told of
        return
    data = report.encode("utf-8", "replace")
    try:
        if _is_special(output):
            # a pipe that nobody reads would be waited for
            with os.fdopen(os.open(output, os.O_WRONLY | os.O_NONBLOCK), "wb") as file:
                os.set_blocking(file.fileno(), True)
                file.write(data)
        else:
            _replace(_target(output), data)
            if on_terminal():
                say(f"written to {in_line(output)}", err=True)
    except OSError as error:
        mend = "name a file in a folder of your own with free space"
        raise UserError(f"{in_line(output)} cannot be written: {error.strerror}", mend) from None


def _replace(path: str, data: bytes) -> None:
    from pathlib import Path  # here: a start prints

    place = Path(path)
    aside = place.with_name(f".slurmdoctor-{os.getpid()}.part")
    try:
        with aside.open("xb") as file:
            with suppress(OSError):
                os.fchmod(file.fileno(), stat.S_IMODE(place.stat().st_mode))
            file.write(data)
        aside.replace(place)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def _target(path: str) -> str:
    """Where a link of the user's own leads. Another user's link is replaced: it could lead to any file of the user's."""
    with suppress(OSError):
        if os.path.islink(path) and os.lstat(path).st_uid == os.geteuid():  # noqa: PTH114
            return os.path.realpath(path)
    return path


def _is_special(path: str) -> bool:
    """Whether it is a pipe or a device, which is written to and not replaced."""
    with suppress(OSError, ValueError):
        return path.startswith(("/dev/", "/proc/")) or not stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116
    return False
