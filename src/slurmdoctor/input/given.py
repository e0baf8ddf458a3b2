"""Opens what Python code hands over: a log's text, or paths."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable
from typing import IO, TypeAlias

from msgspec import Struct

from slurmdoctor.input.opening import Opened, open_sources
from slurmdoctor.input.sources import Gap, Source, Text
from slurmdoctor.model import JobFiles, LogNotFoundError

_LIKE_A_PATH = re.compile(r"~?[./]|.*\.(?:log|out|err|txt|gz|bz2|xz|zst)$")


_JOB = re.compile(r"\d+(?:[_+.]\d+)*")


class LogText(Struct, frozen=True):
    """A log that is not in a file: its name, and its text; of a large one the head, the end, and how much is between."""

    data: str | bytes
    name: str = "<text>"
    end: str | bytes = b""
    """The last bytes of the log, where not all of it is here."""
    left_out: int = 0
    """Bytes between `data` and `end`."""


APath: TypeAlias = "str | os.PathLike[str]"
Given: TypeAlias = "APath | bytes | IO[str] | IO[bytes] | LogText | Iterable[APath | LogText | Source]"


def opened(job: Given | JobFiles) -> Opened:
    """The sources of what was given. Raises UserError where a path cannot be read."""
    if isinstance(job, JobFiles):
        return open_sources(job.files, among_others=True)
    if isinstance(job, (bytearray, memoryview)):
        job = bytes(job)
    if isinstance(job, (bytes, LogText)) or (isinstance(job, str) and is_text(job)):
        return Opened([_source(job)])
    if isinstance(job, str):
        try:
            return open_sources([job])
        except LogNotFoundError as error:
            number = "a Slurm job's number goes to diagnose_job, " if _JOB.fullmatch(job) else ""
            raise LogNotFoundError(error.message, f"{error.mend}; {number}a log's text to diagnose_text") from None
    if isinstance(job, os.PathLike):
        return open_sources([job])
    if isinstance(job, io.IOBase):
        return Opened([_source(LogText(job.read(), str(getattr(job, "name", "<text>"))))])
    if not isinstance(job, Iterable):
        raise _neither(job)
    texts: list[Source] = []
    paths: list[APath] = []
    for one in job:
        if isinstance(one, (Source, bytes, LogText)):
            texts.append(one if isinstance(one, Source) else _source(one))
        elif isinstance(one, (str, os.PathLike)):
            paths.append(one)
        else:
            raise _neither(one)
    if texts and not paths:
        return Opened(texts)
    found = open_sources(paths)
    return Opened([*found.sources, *texts], found.skipped)


def _neither(given: object) -> TypeError:
    return TypeError(f"{given!r} is no text and no path; a Slurm job's number goes to slurmdoctor.diagnose_job")


def is_text(given: str) -> bool:
    """Whether a str is a log's text: it has a line end or `: `, or a blank and not the looks of a path; and no file has that name."""
    if "\n" in given or "\r" in given or not given.strip() or not _can_be_a_name(given):
        return True
    if os.path.lexists(given):
        return False
    return ": " in given or (" " in given and not _LIKE_A_PATH.match(given))


def _can_be_a_name(given: str) -> bool:
    try:
        return "\0" not in given and all(len(part) < 256 for part in os.fsencode(given).split(b"/"))
    except UnicodeEncodeError:
        return False


def _source(text: str | bytes | LogText) -> Source:
    if not isinstance(text, LogText):
        return Text.source(text)
    head, end = _bytes(text.data), _bytes(text.end)
    gap = Gap(len(head), text.left_out) if text.left_out > 0 else None
    return Text.source(head + end, text.name, gap)


def _bytes(text: str | bytes | bytearray | memoryview) -> bytes:
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")
    if isinstance(text, (bytes, bytearray, memoryview)):
        return bytes(text)
    raise TypeError(f"{text!r} is no text: a log's text is a str, or bytes")
