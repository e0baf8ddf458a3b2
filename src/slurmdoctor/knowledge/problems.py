"""A problem of a rule file: its place, what is wrong there, and the mend."""

from __future__ import annotations

import os
from collections.abc import Iterable

from slurmdoctor.model import Frozen, UserError

READERS = frozenset(("traceback", "last-words", "launcher", "srun", "slurm", "slurmstepd", "torchelastic", "mpirun"))
"""The second part of a rule's id where a reader of the program, not a rule file, read the line: `cuda-oom/traceback`."""

MOST = 200
"""Problems that are looked for: to say what was meant takes a millisecond each."""


class Place(Frozen, order=True):
    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Problem(Frozen, order=True):
    place: Place
    what: str
    mend: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}; {self.mend}"


class TooManyProblemsError(Exception):
    """So many were found that the rest is not looked for."""


class Problems(list[Problem]):
    """All mistakes found so far: reading goes on after each, so that all are reported at once, but for thousands."""

    def add(self, place: Place, what: str, mend: str) -> None:
        """Raises TooManyProblemsError after the last one that is worth reporting."""
        self.append(Problem(place, what, mend))
        if len(self) >= MOST:
            self.append(Problem(place, f"there are more than {MOST} problems", "fix these first"))
            raise TooManyProblemsError


class RuleError(UserError):
    """The rule files hold mistakes: one line each, `file:line:column: what is wrong; the mend`."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self._lines = tuple(map(str, sorted(set(problems))))
        super().__init__("\n".join(self._lines))

    @property
    def lines(self) -> tuple[str, ...]:
        return self._lines


def shown(path: str | os.PathLike[str]) -> str:
    """The path as a person would type it: relative where it lies below the working folder."""
    absolute = os.path.abspath(os.fspath(path))  # noqa: PTH100 - links stay as the user named them
    try:
        here = os.getcwd()  # noqa: PTH109
    except OSError:  # the working folder is gone
        return absolute
    inside = absolute.startswith(here.rstrip("/") + "/")
    return os.path.relpath(absolute, here) if inside else absolute


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that the word was probably meant to be."""
    import difflib  # only for who made a mistake

    found = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return found[0] if found else None


def did_you_mean(word: str, known: Iterable[str], otherwise: str) -> str:
    guess = nearest(word, known)
    return f"did you mean `{guess}`?" if guess else otherwise
