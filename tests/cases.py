"""The labelled cases of tests/fixtures: what each job left, and the truth about it."""

import bz2
import gzip
import lzma
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

from click.testing import CliRunner

from slurmdoctor import Diagnosis, diagnose
from slurmdoctor.cli import _run, cli
from slurmdoctor.infer.conclude import infer
from slurmdoctor.model import Finding, Reason, ranges
from slurmdoctor.report.composer import compose
from tables import parsed

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress, "zst": zstd.compress,
}  # fmt: skip
COMPILES = shutil.which("cc") is not None and Path(sysconfig.get_paths()["include"], "Python.h").is_file()
"""Whether the scan's inner loop can be compiled here."""
FIXTURES = Path(__file__).parent / "fixtures"
LOG = FIXTURES / "demo-cascade" / "slurm-6.out"
"""A log of eight ranks, of which rank 5 failed first: its node's disk is full."""
PLAIN = {"NO_COLOR": "1", "COLUMNS": "100"}
Called = subprocess.CompletedProcess[bytes]
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
    return tuple(Case(p.parent.name, p.parent, parsed(p.read_text())) for p in found)


@lru_cache(maxsize=256)
def verdict_of(name: str) -> Diagnosis:
    case = next(c for c in cases() if c.name == name)
    return diagnose(case.logs)


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """In this folder, as a shell would be."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def printed(folder: Path, arguments: Sequence[str], form: str) -> str:
    """What `slurmdoctor diagnose` prints in the folder of the logs, in this process: no path leads out of the folder."""
    called = ["diagnose", "--format", form, *arguments]
    with inside(folder):
        result = CliRunner().invoke(cli, called, catch_exceptions=False, env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    return result.stdout


def run(*arguments: str | Path, stdin: bytes = b"", **environment: str) -> Called:
    """A call of the program within this process, which has read the rules already: its exit status, and what it prints."""
    files = {"stdin": tempfile.TemporaryFile(), "stdout": tempfile.TemporaryFile(), "stderr": tempfile.TemporaryFile()}  # noqa: SIM115
    files["stdin"].write(stdin)
    files["stdin"].seek(0)
    words = ["slurmdoctor", *map(str, arguments)]
    with ExitStack() as undo:
        undo.enter_context(patch.dict(os.environ, {**PLAIN, **environment}))
        undo.enter_context(patch.object(sys, "argv", words))
        for number, (name, file) in enumerate(files.items()):
            kept = os.dup(number)
            undo.callback(os.close, kept)
            undo.callback(os.dup2, kept, number)
            os.dup2(file.fileno(), number)
            stream = open(number, "w" if number else "r", encoding="utf-8", closefd=False)  # noqa: SIM115
            undo.enter_context(patch.object(sys, name, undo.enter_context(stream)))
        status = _run()
    for file in files.values():
        file.seek(0)
    return subprocess.CompletedProcess(words, status, files["stdout"].read(), files["stderr"].read())


def started(*arguments: str | Path, stdin: bytes | IO[bytes] = b"", **environment: str) -> Called:
    """The same in a process of its own, for what only a process shows: pipes, and a start."""
    command = [sys.executable, "-m", "slurmdoctor", *map(str, arguments)]
    given: dict[str, Any] = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
    return subprocess.run(
        command, **given, capture_output=True, env={**os.environ, **PLAIN, **environment}, timeout=120
    )


def one_line(called: Called, *words: str) -> None:
    """A wrong call is told in one line, which holds these words."""
    message = called.stderr.decode()
    assert (called.returncode, message.count("\n"), "Traceback" in message) == (2, 1, False), message
    assert [word for word in words if word not in message] == [], message


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


@contextmanager
def decisions() -> Iterator[list[str]]:
    """What each diagnosis decides that is made inside: `decided` of it."""
    found: list[str] = []

    def composed(finding: Finding, *stages: Any) -> Any:
        diagnosis = compose(finding, *stages)
        found.append(decided(finding, diagnosis))
        return diagnosis

    with patch("slurmdoctor.pipeline.compose", composed):
        yield found


def decided(finding: Finding, found: Any) -> str:
    """A diagnosis without its prose, for a golden file: a line for each part, codes for sentences, a fix by its first words."""

    def place(one: Any) -> str:
        return f"{Path(one.file).name}:{one.line}" if one.file else "no line"

    cause, first, end = found.cause, found.first_failure, found.exit
    proof = [f"{place(one)} {one.role}" for one in found.evidence]
    cascade = [f"{one.cause} x{one.count} of {one.ranks} ranks" for one in found.cascade]
    ranks = [f"{group.standing} {ranges(group.ranks)}" for group in found.ranks]
    facts = {name: round(fact, 2) if isinstance(fact, float) else fact for name, fact in found.facts.items()}
    rows = {
        "verdict": [found.verdict, *([cause.id, cause.rule, cause.confidence] if cause else [])],
        "first": [f"rank {first.rank}", first.node, first.time, place(first), *map(str, first.ranks)] if first else [],
        "how": sorted(codes(finding.how)),
        "exit": [end.code, end.signal, end.exit_class, f"step {end.step_code}", *sorted(codes(finding.exit_how))],
        "proof": proof,
        "then": cascade,
        "others": [one.id for one in found.others],
        "ranks": ranks,
        "because": sorted(codes(finding.reasons)),
        "notes": sorted(codes(finding.notes)),
        "fixes": [" ".join(fix.do.split()[:4]) for fix in found.fixes],
        "retry": [found.retry.advice, *found.retry.exclude_nodes] if found.retry else [],
        "facts": [f"{name} {fact}" for name, fact in sorted(facts.items()) if fact is not None],
    }
    return "\n".join(f"{name}: {', '.join(map(str, row))}" for name, row in rows.items() if row)
