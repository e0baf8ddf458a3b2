"""`-o FILE`: where a report goes, and in which form."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import click

from slurmdoctor.cli.say import in_line, say, show
from slurmdoctor.model import UserError

_ENDINGS = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".html": "html",
    ".htm": "html",
    ".md": "markdown",
    ".markdown": "markdown",
    ".txt": "text",
    ".log": "text",
    ".out": "text",
}


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
    metavar="FILE",
    help="Write to a file; its ending tells the format where --format does not.",
)
"""The option of all commands that print a report."""


def form_for(context: click.Context, form: str, output: str | None, forms: Sequence[str]) -> str:
    """The format that the user named, else the one that the file's ending names, else the usual one."""
    named = context.get_parameter_source("form") in (
        click.core.ParameterSource.COMMANDLINE,
        click.core.ParameterSource.ENVIRONMENT,
    )
    if named or output is None:
        return form
    ours = {ending: meant for ending, meant in _ENDINGS.items() if meant in forms}
    meant = next((meant for ending, meant in ours.items() if output.lower().endswith(ending)), None)
    ending = os.path.splitext(output)[1]  # noqa: PTH122
    if meant is None and ending[1:].isalpha() and not _is_special(output):
        known = ", ".join(ours)
        raise UserError(f"-o {in_line(output)}: no format ends in {in_line(ending)}", f"use {known}, or add --format")
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
    elif os.path.isfile(name):  # noqa: PTH113
        yield os.stat(name)  # noqa: PTH116
    else:
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
            _replace(Path(_target(output)), data)
            if sys.stderr.isatty():
                say(f"written to {in_line(output)}", err=True)
    except OSError as error:
        mend = "name a file in a folder of your own with free space"
        raise UserError(f"{in_line(output)} cannot be written: {error.strerror}", mend) from None


def _replace(place: Path, data: bytes) -> None:
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
