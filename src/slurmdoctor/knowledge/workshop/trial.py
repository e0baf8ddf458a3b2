"""Measures rules on labelled logs: precision and recall of each cause.

A case is a folder with a `truth.yaml` (`failed`, `cause`, `also`, `rank`, `rank_certain`) beside the files
that a job left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct, field

from slurmdoctor.knowledge.problems import shown
from slurmdoctor.model import Diagnosis, UserError

TRUTH = "truth.yaml"
BESIDE = frozenset({TRUTH, "job.sbatch", "scontrol.txt", "sacct.txt", "README.md", "notes.md"})
HEALTHY = "(healthy)"
UNKNOWN = "(unknown)"

Diagnose = Callable[[Sequence[Path]], Diagnosis]


class Case(Struct, frozen=True):
    folder: Path
    cause: str
    """HEALTHY where nothing failed."""
    also: frozenset[str]
    rank: int | None
    """Only where the truth is certain of it."""

    def logs(self) -> list[Path]:
        return sorted(file for file in self.folder.rglob("*") if file.is_file() and file.name not in BESIDE)


class Miss(Struct, frozen=True):
    case: Case
    named: str
    """The cause that the diagnosis named."""
    rank: int | None


class Trial(Struct):
    right: Counter[str] = field(default_factory=Counter)
    wanted: Counter[str] = field(default_factory=Counter)
    wrongly: Counter[str] = field(default_factory=Counter)
    """How often a cause was named where it is none of the accepted ones."""
    ranks: int = 0
    ranks_right: int = 0
    misses: list[Miss] = field(default_factory=list)

    def recall(self, cause: str) -> float | None:
        return self.right[cause] / self.wanted[cause] if self.wanted[cause] else None

    def precision(self, cause: str) -> float | None:
        named = self.right[cause] + self.wrongly[cause]
        return self.right[cause] / named if named else None


def cases(folder: Path) -> Iterator[Case]:
    for file in sorted(folder.rglob(TRUTH)):
        try:
            truth: Any = yaml.safe_load(file.read_bytes())
            failed = bool(truth["failed"])
            certain = failed and truth.get("rank_certain", True)
            yield Case(
                folder=file.parent,
                cause=str(truth["cause"]) if failed else HEALTHY,
                also=frozenset(truth.get("also") or ()),
                rank=truth.get("rank") if certain else None,
            )
        except (yaml.YAMLError, KeyError, TypeError, AttributeError, ValueError):
            keys = "write failed: true, cause: cuda-oom, rank: 13, or failed: false"
            raise UserError(f"{shown(file)} is no truth of a case", keys) from None


def run(labelled: Sequence[Case], diagnose: Diagnose) -> Trial:
    trial = Trial()
    for case in labelled:
        found = diagnose(case.logs())
        named = HEALTHY if found.verdict == "no-failure" else found.cause.id or UNKNOWN
        rank = found.first_failure.rank
        trial.wanted[case.cause] += 1
        # to leave a healthy log in peace is enough
        good = named in {case.cause, *case.also} or (case.cause == HEALTHY and found.verdict != "failed")
        trial.right[case.cause] += good
        trial.wrongly[named] += not good
        if case.rank is not None:
            trial.ranks += 1
            trial.ranks_right += rank == case.rank
        if not good or case.rank not in (None, rank):
            trial.misses.append(Miss(case, named, rank))
    return trial
