"""Score a tool on the corpus: `python -m corpus.score FOLDER [--batch b1]... [--answers FILE] [--show]`.

FOLDER is what `corpus.fetch` laid out. Without `--answers`, `slurmdoctor diagnose --format json` is run on every case. Another
tool is scored by its answers, a JSON object a line: `{"case": "b1/name", "verdict": "failed" | "no-failure" | "unknown", "cause": id or null,
"confidence": "high" | "medium" | "low" or null, "rank": number or null, "exit_code": number or null, "signal": name or null, "evidence": [line, ...]}`.
README.md says what is counted.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

MEASURES = ("detected", "cause", "strict", "rank", "exit", "evidence", "healthy", "undecided", "no-rank")
_SHOWN = 3
"""How many lines of evidence a reader looks at."""


@dataclass(frozen=True)
class Truth:
    """What an expert read in a log; `failed` is None where the log does not tell."""

    failed: bool | None
    cause: str | None
    also: tuple[str, ...]
    rank: int | None
    rank_certain: bool
    exit_code: int | None
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Answer:
    """What a tool said of a log."""

    verdict: str
    cause: str | None = None
    confidence: str | None = None
    rank: int | None = None
    exit_code: int | None = None
    signal: str | None = None
    evidence: tuple[str, ...] = ()


@dataclass
class Score:
    """How many cases tell each measure, how many of them were right, and what was wrong, a line a case."""

    asked: Counter[str] = field(default_factory=Counter)
    right: Counter[str] = field(default_factory=Counter)
    confidence: Counter[tuple[str, bool]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def truth_of(case: Path) -> Truth:
    told = yaml.safe_load((case / "truth.yaml").read_text(encoding="utf-8"))
    return Truth(
        failed=told["failed"],
        cause=told.get("cause"),
        also=tuple(told.get("also") or ()),
        rank=told.get("rank"),
        rank_certain=bool(told.get("rank_certain")),
        exit_code=told.get("exit_code"),
        evidence=tuple(told.get("evidence") or ()),
    )


def marks(truth: Truth, answer: Answer) -> dict[str, bool]:
    """For each measure that the truth tells: whether the answer is right."""
    if truth.failed is None:
        return {"undecided": answer.verdict == "unknown"}
    if not truth.failed:
        return {"healthy": answer.verdict != "failed"}
    found = {
        "detected": answer.verdict == "failed",
        "cause": answer.cause in (truth.cause, *truth.also),
        "strict": answer.cause == truth.cause,
    }
    if truth.rank is None:
        found["no-rank"] = answer.rank is None
    elif truth.rank_certain:
        found["rank"] = answer.rank == truth.rank
    if truth.exit_code is not None:
        found["exit"] = same_exit(truth.exit_code, answer)
    if truth.evidence:
        shown = _plain("\n".join(answer.evidence[: _SHOWN + 1]))
        found["evidence"] = any(_plain(line) in shown for line in truth.evidence)
    return found


def same_exit(code: int, answer: Answer) -> bool:
    """Whether the answer's exit is `code`: 137, -9 and SIGKILL are one thing."""
    wanted = _signal(code)
    named = {one.name: one.value for one in signal.Signals}.get(answer.signal or "")
    return answer.exit_code == code or (wanted is not None and wanted in (named, _signal(answer.exit_code)))


def _signal(code: int | None) -> int | None:
    """The number of the signal that an exit code tells."""
    if code is None or 0 <= code <= 128:
        return None
    return -code if code < 0 else code - 128


def score(cases: Iterable[tuple[str, Truth, Answer]]) -> Score:
    """Count the answers; a case is (its name, the truth, the answer)."""
    total = Score()
    for name, truth, answer in cases:
        found = marks(truth, answer)
        total.asked.update(list(found))
        total.right.update(measure for measure, right in found.items() if right)
        if answer.cause and answer.confidence:
            total.confidence[answer.confidence, answer.cause in (truth.cause, *truth.also)] += 1
        missed = [measure for measure, right in found.items() if not right]
        if missed:
            total.wrong.append(f"{name}: {', '.join(missed)}: {_said(answer)}; true: {_true(truth)}")
    return total


def table(total: Score) -> str:
    """The score for people: each measure in per cent, then how often each confidence was right."""
    lines = [
        f"{measure:<10} {_per_cent(total.right[measure], total.asked[measure])}"
        for measure in MEASURES
        if total.asked[measure]
    ]
    for word in ("high", "medium", "low"):
        right, wrong = total.confidence[word, True], total.confidence[word, False]
        lines += [f"{word:<10} {_per_cent(right, right + wrong)}"] if right + wrong else []
    return "\n".join(lines)


def run_slurmdoctor(case: Path) -> Answer:
    """What the slurmdoctor on the PATH says of the case's logs."""
    logs = sorted(str(file) for file in case.rglob("*") if file.is_file() and file.name != "truth.yaml")
    done = subprocess.run(["slurmdoctor", "diagnose", "--format", "json", *logs], capture_output=True, timeout=300)
    if done.returncode:
        return Answer(verdict="error: " + done.stderr.decode(errors="replace").strip())
    return of_slurmdoctor(json.loads(done.stdout))


def of_slurmdoctor(report: Mapping[str, Any]) -> Answer:
    """The answer in slurmdoctor's JSON report; the first failure's own line counts as evidence."""
    first, cause, ending = (report.get(key) or {} for key in ("first_failure", "cause", "exit"))
    shown = [first.get("text") or "", *((line.get("text") or "") for line in report.get("evidence") or [])]
    return Answer(
        verdict=report["verdict"],
        cause=cause.get("id"),
        confidence=cause.get("confidence"),
        rank=first.get("rank"),
        exit_code=ending.get("code"),
        signal=ending.get("signal"),
        evidence=tuple(shown),
    )


def read_answers(file: Path) -> dict[str, Answer]:
    """The answers of a tool, by case."""
    answers = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        said = json.loads(line)
        name, evidence = said.pop("case"), said.pop("evidence", None) or ()
        answers[name] = Answer(**said, evidence=("", *evidence))
    return answers


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def _said(answer: Answer) -> str:
    return f"{answer.verdict}, {answer.cause}, rank {answer.rank}, exit {answer.signal or answer.exit_code}"


def _true(truth: Truth) -> str:
    verdict = {True: "failed", False: "healthy", None: "undecided"}[truth.failed]
    return (
        f"{verdict}, {' or '.join([truth.cause or 'no cause', *truth.also])}, rank {truth.rank}, exit {truth.exit_code}"
    )


def _per_cent(part: int, whole: int) -> str:
    return f"{100 * part / whole:5.1f} % ({part} of {whole})"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m corpus.score", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="what corpus.fetch laid out")
    parser.add_argument("--batch", action="append", help="only this batch (may be given again)")
    parser.add_argument("--answers", type=Path, help="a tool's answers, a JSON object a line")
    parser.add_argument("--show", action="store_true", help="name the cases that were not right")
    given = parser.parse_args(arguments)
    cases = sorted(
        file.parent for file in given.folder.glob("*/*/truth.yaml") if not given.batch or file.parts[-3] in given.batch
    )
    if not cases:
        parser.error(f"no case in {given.folder}: lay the corpus out first, with python -m corpus.fetch {given.folder}")
    names = ["/".join(case.parts[-2:]) for case in cases]
    if not given.answers and shutil.which("slurmdoctor") is None:
        parser.error("no slurmdoctor on the PATH: install it, or give a tool's --answers")
    if given.answers:
        said = read_answers(given.answers)
        answers = [said.get(name, Answer(verdict="no answer")) for name in names]
    else:
        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(run_slurmdoctor, cases))
    total = score(zip(names, map(truth_of, cases), answers, strict=True))
    print(f"{len(cases)} cases\n{table(total)}")
    if given.show:
        print(*total.wrong, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
