"""Walks through folders, and finds what a glob matches. Links to folders are not followed: they may lead in a circle."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator

from slurmdoctor.input.unread import UnreadError, unread

_MOST = 1_000_000
"""Entries that are looked at: nobody's logs, but the root of a file system may be named by mistake."""


def walk(folder: str, skipped: list[UnreadError]) -> Iterator[os.DirEntry[str]]:
    """The entries of a folder that are no folders, and then those of the folders in it, by name.

    Folders that cannot be read are `skipped`. Raises UnreadError where that is the first one.
    """
    waiting = [folder]
    left = _MOST
    while waiting and left > 0:
        here = waiting.pop()
        try:
            with os.scandir(here) as entries:
                inside = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            if here == folder:
                raise unread(here, error) from None
            skipped.append(unread(here, error))
            continue
        left -= len(inside)
        below = []
        for entry in inside:
            if not entry.is_dir(follow_symlinks=False):
                yield entry
            elif not entry.name.startswith(".") and entry.name != "__pycache__":
                below.append(entry.path)
        waiting += reversed(below)
    skipped += [UnreadError(here, "too-many") for here in waiting]


def matching(pattern: str) -> list[str]:
    """The paths that a glob matches, by name; `**` stands for any folders."""
    if "**" not in pattern:
        import glob

        return sorted(glob.glob(pattern))  # noqa: PTH207 (Path.glob takes no absolute pattern)
    parts = pattern.split("/")
    first = next(number for number, part in enumerate(parts) if any(c in part for c in "*?["))
    top = "/".join(parts[:first])
    found: set[str] = set()
    asked: set[tuple[str, int]] = set()
    waiting = [(f"{top}/" if first else "", first)]
    while waiting and len(asked) < _MOST:
        here, number = state = waiting.pop()
        if state not in asked:
            asked.add(state)
            _step(here, number, parts, waiting, found)
    return sorted(found)


def _step(here: str, number: int, parts: list[str], waiting: list[tuple[str, int]], found: set[str]) -> None:
    """What one part of the pattern matches in one folder: whole paths are found, the others wait for the next part."""
    part, last = parts[number], number == len(parts) - 1
    if part == "**" and not last:
        waiting.append((here, number + 1))
    try:
        with os.scandir(here or ".") as entries:
            inside = [entry for entry in entries if not entry.name.startswith(".") or part.startswith(".")]
    except OSError:  # as a shell does
        return
    for entry in inside:
        path = here + entry.name
        if part == "**":
            if entry.is_dir(follow_symlinks=False):
                waiting.append((f"{path}/", number))
            elif last and not entry.is_dir():
                found.add(path)
        elif fnmatch.fnmatchcase(entry.name, part):
            if last:
                found.add(path)
            elif entry.is_dir():
                waiting.append((f"{path}/", number + 1))
