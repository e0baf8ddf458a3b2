"""The labelled cases of tests/fixtures: what each job left, and the truth about it."""

from __future__ import annotations

import shutil
import signal
import sysconfig
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from slurmdoctor import Diagnosis, diagnose

COMPILES = shutil.which("cc") is not None and Path(sysconfig.get_paths()["include"], "Python.h").is_file()
"""Whether the scan's inner loop can be compiled here."""
FIXTURES = Path(__file__).parent / "fixtures"
SIDE_FILES = {"truth.yaml", "README.md", "notes.md", "job.sbatch", "scontrol.txt", "sacct.txt"}


@dataclass(frozen=True)
class Case:
    name: str
    folder: Path
    truth: dict[str, Any]

    @property
    def logs(self) -> list[Path]:
        return sorted(p for p in self.folder.rglob("*") if p.is_file() and p.name not in SIDE_FILES)

    @property
    def accepted(self) -> list[str]:
        return [self.truth["cause"], *(self.truth.get("also") or [])]


@lru_cache(maxsize=1)
def cases() -> tuple[Case, ...]:
    found = sorted(FIXTURES.glob("*/truth.yaml"))
    return tuple(Case(p.parent.name, p.parent, yaml.safe_load(p.read_text())) for p in found)


@lru_cache(maxsize=256)
def verdict_of(name: str) -> Diagnosis:
    case = next(c for c in cases() if c.name == name)
    return diagnose(case.logs)


def same_ending(want: int, code: int | None, name: str | None) -> bool:
    """137, -9 and SIGKILL are one thing."""
    number = -want if want < 0 else want - 128 if want > 128 else None
    return code == want or (number is not None and name is not None and signal.Signals[name].value == number)
