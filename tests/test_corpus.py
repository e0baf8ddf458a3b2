"""The public corpus can be rebuilt by anyone, its truths are in order, and its scorer counts what its README says."""

import hashlib
import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from corpus import manifest
from corpus.fetch import lay_out
from corpus.manifest import LogFile
from corpus.score import Answer, Truth, main, marks, read_answers, same_exit, truth_of

from slurmdoctor.knowledge import builtin
from slurmdoctor.knowledge.loading import load
from tables import parsed

LOGS = manifest.read()
TRUTHS = sorted(manifest.FOLDER.glob("b*/*.yaml"))
SHOWN: dict[str, Any] = {"rank_certain": True, "exit_code": -9, "evidence": ("CUDA out  of memory",)}
FAILED = Truth(failed=True, cause="cuda-oom", also=("host-oom",), rank=3, **SHOWN)
RIGHT = Answer(
    "failed", "cuda-oom", confidence="high", rank=3, exit_code=137, evidence=("", "torch: CUDA out of memory.")
)


@pytest.fixture
def log(tmp_path: Path) -> LogFile:
    """A log in a repository of somebody's, under tmp_path/host."""
    content = b"step 1\r\n\xffstep 2\n"
    repository = tmp_path / "host/someone/project"
    (repository / "logs").mkdir(parents=True)
    (repository / "logs/job.out").write_bytes(content)
    git = ["git", "-C", str(repository), "-c", "user.name=someone", "-c", "user.email=someone@example.org"]
    for command in ("init -q", "add .", "commit -q -m logs", "config uploadpack.allowFilter true"):
        subprocess.run([*git, *command.split()], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    corpus = tmp_path / "corpus/b1"
    corpus.mkdir(parents=True)
    (corpus / "stopped.yaml").write_text("failed: true\n")
    checksum = hashlib.sha256(content).hexdigest()
    return LogFile("b1", "stopped", "job.out", "someone/project", commit, "logs/job.out", checksum, len(content), "MIT")


def test_a_log_is_laid_out_byte_for_byte_with_its_truth_beside_it(log: LogFile, tmp_path: Path) -> None:
    assert lay_out(tmp_path / "out", [log], tmp_path / "corpus", f"file://{tmp_path}/host") == []
    assert (tmp_path / "out/b1/stopped/job.out").read_bytes() == b"step 1\r\n\xffstep 2\n"
    assert (tmp_path / "out/b1/stopped/truth.yaml").read_text() == "failed: true\n"
    # what is there is not fetched again
    assert lay_out(tmp_path / "out", [log], tmp_path / "corpus", f"file://{tmp_path}/nowhere") == []


def test_a_log_that_has_changed_or_gone_is_named_and_the_others_are_laid_out(log: LogFile, tmp_path: Path) -> None:
    changed = replace(log, case="changed", sha256="0" * 64)
    gone = replace(log, case="gone", repository="someone/deleted")
    missing = lay_out(tmp_path / "out", [changed, gone, log], tmp_path / "corpus", f"file://{tmp_path}/host")
    assert [line.split(":")[0] for line in missing] == ["b1/changed", "b1/gone"]
    assert not (tmp_path / "out/b1/changed").exists()
    assert (tmp_path / "out/b1/stopped/job.out").exists()


def test_every_log_has_a_truth_and_every_truth_a_log_and_a_repository_serves_in_one_batch_only() -> None:
    assert {manifest.truth(log) for log in LOGS} == set(TRUTHS)
    assert len({(log.batch, log.case, log.file) for log in LOGS}) == len(LOGS)
    batches = {log.repository.lower(): log.batch for log in LOGS}
    assert [log for log in LOGS if batches[log.repository.lower()] != log.batch] == []


def test_a_truth_names_known_causes_and_only_what_its_verdict_allows() -> None:
    causes = set(load((builtin(),), examples=False).causes)
    for file in TRUTHS:
        truth = parsed(file.read_text(encoding="utf-8"))
        named = {truth.get("cause"), *(truth.get("also") or [])} if truth["failed"] else set()
        assert named <= causes, file
        assert bool(truth["failed"]) == bool(truth.get("cause")), file
        assert truth["evidence"] or not truth["failed"], file
        assert truth["why"], file


@pytest.mark.parametrize(
    ("answer", "missed"),
    [
        (RIGHT, set()),
        (replace(RIGHT, cause="host-oom"), {"strict"}),
        (replace(RIGHT, cause="killed"), {"cause", "strict"}),
        (replace(RIGHT, rank=0), {"rank"}),
        (replace(RIGHT, exit_code=1), {"exit"}),
        (replace(RIGHT, evidence=("", "one", "two", "three", "CUDA out of memory")), {"evidence"}),
        (Answer(verdict="unknown"), {"detected", "cause", "strict", "rank", "exit", "evidence"}),
    ],
)
def test_each_measure_fails_for_what_it_measures(answer: Answer, missed: set[str]) -> None:
    assert {measure for measure, right in marks(FAILED, answer).items() if not right} == missed


@pytest.mark.parametrize("rank", [None, 3])
def test_a_rank_that_the_log_does_not_tell_must_not_be_named(rank: int | None) -> None:
    assert marks(replace(FAILED, rank=None, rank_certain=False), replace(RIGHT, rank=rank))["no-rank"] is (rank is None)


@pytest.mark.parametrize(("failed", "verdict", "right"), [
    (False, "no-failure", True), (False, "unknown", True), (False, "failed", False),
    (None, "unknown", True), (None, "no-failure", False), (None, "failed", False),
])  # fmt: skip
def test_a_healthy_log_is_not_accused_and_an_undecided_one_is_left_undecided(
    failed: bool | None, verdict: str, right: bool
) -> None:
    assert list(marks(replace(FAILED, failed=failed), Answer(verdict=verdict)).values()) == [right]


@pytest.mark.parametrize(("code", "said", "same"), [
    (137, Answer("failed", signal="SIGKILL"), True), (-9, Answer("failed", signal="SIGKILL"), True), (-9, Answer("failed", exit_code=-9), True),
    (-9, Answer("failed", signal="SIGTERM"), False), (1, Answer("failed", exit_code=2), False), (1, Answer("failed", signal="SIGHUP"), False),
])  # fmt: skip
def test_an_exit_and_the_signal_that_it_means_are_one_thing(code: int, said: Answer, same: bool) -> None:
    assert same_exit(code, said) is same


def test_another_tool_is_scored_by_its_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = tmp_path / "b1/a"
    case.mkdir(parents=True)
    truth = "{failed: true, cause: cuda-oom, rank: 3, rank_certain: true, evidence: [CUDA out of memory]}"
    (case / "truth.yaml").write_text(truth)
    said = {"verdict": "failed", "cause": "cuda-oom", "rank": 2, "evidence": ["a", "b", "CUDA out of memory"]}
    answers = tmp_path / "answers.jsonl"
    answers.write_text(json.dumps({"case": "b1/a", **said}) + "\n")
    assert truth_of(case).rank == 3
    assert read_answers(answers)["b1/a"].rank == 2
    main([str(tmp_path), "--answers", str(answers)])
    shown = capsys.readouterr().out
    assert "evidence   100.0 % (1 of 1)" in shown
    assert "rank         0.0 % (0 of 1)" in shown
