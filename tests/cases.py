"""The labelled cases of tests/fixtures: what each job left, and the truth about it."""

from __future__ import annotations

import os
import shutil
import signal
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml
from click.testing import CliRunner

from slurmdoctor import Diagnosis, diagnose
from slurmdoctor.cli import cli
from slurmdoctor.infer.infer import infer
from slurmdoctor.model import Finding
from slurmdoctor.model.finding import Reason

COMPILES = shutil.which("cc") is not None and Path(sysconfig.get_paths()["include"], "Python.h").is_file()
"""Whether the scan's inner loop can be compiled here."""
FIXTURES = Path(__file__).parent / "fixtures"
SIDE_OPTIONS = {"job.sbatch": "--script", "scontrol.txt": "--slurm-info", "sacct.txt": "--slurm-info"}
SIDE_FILES = {"truth.yaml", "README.md", "notes.md", *SIDE_OPTIONS}


@dataclass(frozen=True)
class Case:
    name: str
    folder: Path
    truth: dict[str, Any]

    @property
    def logs(self) -> list[Path]:
        return sorted(p for p in self.folder.rglob("*") if p.is_file() and p.name not in SIDE_FILES)

    @property
    def arguments(self) -> list[str]:
        """What `slurmdoctor diagnose` is given in the case's folder: its logs, its side files, its options."""
        given = [str(log.relative_to(self.folder)) for log in self.logs]
        for name, option in SIDE_OPTIONS.items():
            if (self.folder / name).exists() and name in self.truth.get("with", SIDE_OPTIONS):
                given += [option, name]
        return given + [str(one) for one in self.truth.get("options") or []]

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


def printed(folder: Path, arguments: Sequence[str], form: str) -> str:
    """What `slurmdoctor diagnose` prints in the folder of the logs, in this process: no path leads out of the folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        called = ["diagnose", "--format", form, *arguments]
        result = CliRunner().invoke(cli, called, catch_exceptions=False, env={"COLUMNS": "80"})
    finally:
        os.chdir(before)
    assert result.exit_code == 0, result.output
    return result.stdout


def finding_of(job: str, **known: Any) -> Finding:
    """What inference concludes of a log, before the report puts it in words; `known` as for `diagnose`."""
    found: list[Finding] = []

    def inferred(*stages: Any) -> Finding:
        found.append(infer(*stages))
        return found[-1]

    with patch("slurmdoctor.pipeline.infer", inferred):
        diagnose(job, **known)
    return found[-1]


def codes(reasons: Iterable[Reason]) -> set[str]:
    return {reason.code for reason in reasons}


def values(reasons: Iterable[Reason], code: str) -> Mapping[str, Any]:
    """The values of the one reason with this code."""
    (found,) = (reason.values for reason in reasons if reason.code == code)
    return found


def same_ending(want: int, code: int | None, name: str | None) -> bool:
    """137, -9 and SIGKILL are one thing."""
    number = -want if want < 0 else want - 128 if want > 128 else None
    return code == want or (number is not None and name is not None and signal.Signals[name].value == number)
