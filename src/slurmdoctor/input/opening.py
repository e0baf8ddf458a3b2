"""Opens the logs that paths name, standard input too, whatever their compression and encoding."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from typing import IO

from slurmdoctor.input.decode import Readable, decoded, kind_of
from slurmdoctor.input.files import did_you_mean, expand
from slurmdoctor.input.sources import Source
from slurmdoctor.model import UserError


class BinaryFileError(UserError):
    """A file that holds no text."""


def open_sources(paths: Sequence[str | os.PathLike[str]]) -> list[Source]:
    """Open everything that the paths name: files, folders, globs, `-` for standard input.

    Binary files are left out where a folder or a glob brought them. Raises UserError, with what to do, where nothing
    readable is there.
    """
    named = {os.fspath(path) for path in paths}
    sources: list[Source] = []
    binary: list[BinaryFileError] = []
    for path in expand(paths):
        try:
            sources.append(_open_stdin() if path == "-" else _open_file(path))
        except BinaryFileError as error:
            if path in named:
                raise
            binary.append(error)
    if not sources:
        raise binary[0]
    return sources


def _open_file(path: str) -> Source:
    try:
        stream: IO[bytes] = open(path, "rb", buffering=0)  # noqa: SIM115, PTH123 - closed by Source.close
    except FileNotFoundError:
        raise UserError(f"no such file: {path}", did_you_mean(path)) from None
    except PermissionError:
        raise UserError(f"cannot read {path}: permission denied", "run as the job's owner, or ask for a copy") from None
    except OSError as error:
        raise UserError(
            f"cannot read {path}: {error.strerror or error}", "copy the log to a disk that answers"
        ) from None
    status = os.fstat(stream.fileno())
    if stat.S_ISDIR(status.st_mode):
        raise UserError(f"{path} is a folder", "name it without a trailing component")
    regular = stat.S_ISREG(status.st_mode)
    head = stream.read(4096) if regular else b""
    if regular:
        stream.seek(0)
    kind = kind_of(head)
    if kind == "binary":
        stream.close()
        raise BinaryFileError(f"{path} is not a text log (binary data)", "name the job's .out, .err or .log file")
    if kind is None:
        return Source(path, path, stream, status.st_size if regular else None, spool=not regular)
    return Source(path, path, decoded(kind, stream, path), None, spool=True)  # type: ignore[arg-type]


def _open_stdin() -> Source:
    stream = sys.stdin.buffer
    if stream.isatty():
        raise UserError(
            "standard input is a terminal", "name the job's log, or pipe it in: slurmdoctor diagnose < job.log"
        )
    head = stream.peek(4096)[:4096] if hasattr(stream, "peek") else b""
    kind = kind_of(head)
    if kind == "binary":
        raise UserError("standard input is not a text log (binary data)", "pipe the log's text in")
    wrapped = _Pipe(stream) if kind is None else decoded(kind, stream, "standard input")
    return Source("-", None, wrapped, None, spool=True)  # type: ignore[arg-type]


class _Pipe:
    """A pipe that gives what there is, and stays open when the source is closed."""

    def __init__(self, stream: Readable) -> None:
        self.read = getattr(stream, "read1", stream.read)

    def close(self) -> None:
        pass
