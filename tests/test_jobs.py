"""Which files are of one job, and which are not: by names, folders, lines and times."""

import os
import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from slurmdoctor import pipeline
from slurmdoctor.input.files import files_of
from slurmdoctor.input.job_files import Look, blind, looker as looker_of, split_jobs
from slurmdoctor.input.job_names import SCHEMES, TORCHRUN
from slurmdoctor.knowledge import text
from slurmdoctor.model import Glance, JobFiles
from tables import table


def looker() -> Look:
    return looker_of(text("own-job"), text("own-rank"))


def groups(found: tuple[JobFiles, ...]) -> list[list[str]]:
    return sorted(sorted(job.files) for job in found)


def by_id(found: tuple[JobFiles, ...]) -> dict[str | None, int]:
    """Each job's id, and how many files it has."""
    return {job.id: len(job.files) for job in found}


def never(path: str) -> Glance:
    raise AssertionError(f"{path} was opened, though its name decides")


CASES = table("job_names")
BY_NAME: dict[str, dict[str, Any]] = CASES["by-name"]
SURVEY: dict[str, dict[str, Any]] = CASES["survey"]
LINES: dict[str, dict[str, Any]] = CASES["lines"]
REPORTS: dict[str, str] = CASES["reports"]


@pytest.mark.parametrize("name", BY_NAME)
def test_names_tell_what_is_one_job(name: str) -> None:
    case = {"files": name, **BY_NAME[name]}
    found = split_jobs(case["files"].split(), blind)
    doubtful = any(job.doubtful for job in found)
    read = {"jobs": by_id(found), "number": len(found), "id": found[0].id, "name": found[0].name, "doubtful": doubtful}
    read["labels"] = {job.label: len(job.files) for job in found}
    assert {key: read[key] for key in case if key != "files"} == {key: case[key] for key in case if key != "files"}
    assert "jobs" not in case or (len(found) > 1 and not doubtful)


@pytest.mark.parametrize(
    ("paths", "jobs"),
    [("prep.log train.log", 1), ("exp1/train.log exp2/train.log", 1), ("workerlog.2 workerlog.5", 1),
     ("train-880123.out notes.log", 1), ("slurm-6.out slurm-7.out notes.log", 3), ("train-123.out train-124.out", 2)],
)  # fmt: skip
def test_files_that_are_named_one_by_one_are_one_job_unless_their_ids_differ(paths: str, jobs: int) -> None:
    assert len(split_jobs(paths.split(), blind, together=True)) == jobs


def test_docs_name_every_scheme() -> None:
    page = (Path(__file__).parents[1] / "docs" / "jobs.md").read_text()
    for scheme in (*SCHEMES, TORCHRUN):
        assert f"| {scheme.program} | `{scheme.writes.replace(', ', '`, `')}` |" in page


@pytest.mark.parametrize("case", ["Slurm's default", "an array", "%x_%j", "PBS and SGE", "submitit", "a folder a job"])
def test_no_file_is_opened_where_names_decide(case: str) -> None:
    assert by_id(split_jobs(BY_NAME[case]["files"].split(), never)) == BY_NAME[case]["jobs"]


def test_a_path_without_a_number_names_no_job() -> None:
    """So that a diagnosis of one log need not ask."""
    for path in ("logs/train.out", "torchelastic_a/none_abcdefgh/attempt/x.log", "hs_err_pid.log", "worker.log.gz"):
        assert split_jobs([path], together=True) == (JobFiles(files=(path,)),)
    assert split_jobs([], blind) == ()


# ── what lines and times tell ────────────────────────────────────────────────────────────────


def written(folder: Path, files: Mapping[str, str]) -> list[str]:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return [str(folder / name) for name in files]


LIMIT = "slurmstepd: error: *** JOB {} ON node07 CANCELLED AT 2026-11-20T12:01:03 DUE TO TIME LIMIT ***\n"


@pytest.mark.parametrize("case", LINES)
def test_lines_tell_jobs_apart_where_names_do_not(case: str, tmp_path: Path) -> None:
    assert by_id(split_jobs(written(tmp_path, LINES[case]["files"]), looker())) == LINES[case]["jobs"]


def test_the_end_of_a_long_log_tells_its_job(tmp_path: Path) -> None:
    files = {"big.out": LIMIT.format(4711), "small.out": "x\n" * 9000 + LIMIT.format(4712)}
    files["small.err"] = "srun: Terminating StepId=4712.0\n"
    assert by_id(split_jobs(written(tmp_path, files), looker())) == {"4711": 1, "4712": 2}


@pytest.mark.parametrize("joint", ["_", "-", "."])
def test_lines_tell_the_tasks_of_an_array_from_ranks(tmp_path: Path, joint: str) -> None:
    array = {f"train{joint}880123{joint}{task}.out": f"SLURM_JOB_ID={880130 + task}\n" for task in range(3)}
    assert by_id(split_jobs(written(tmp_path / "array", array), looker())) == {f"880123_{task}": 1 for task in range(3)}
    ranks = {f"train{joint}880123{joint}{task}.out": "SLURM_JOB_ID=880123\n" for task in range(3)}
    assert by_id(split_jobs(written(tmp_path / "ranks", ranks), looker())) == {"880123": 3}
    labelled = {f"train{joint}880123{joint}{task}.out": f"[rank{task}]: step 3\n" for task in range(3)}
    assert by_id(split_jobs(written(tmp_path / "labelled", labelled), looker())) == {"880123": 3}


@pytest.mark.parametrize("name", ["sweep.9100.{}.out", "slurm-9100.{}.out", "slurm-9100-{}.err"])
def test_one_of_an_arrays_tasks_tells_that_it_has_another_id(tmp_path: Path, name: str) -> None:
    files = {name.format(task): "step 3\n" for task in range(3)} | {name.format(3): LIMIT.format(9103)}
    assert by_id(split_jobs(written(tmp_path / "array", files), looker())) == {f"9100_{task}": 1 for task in range(4)}
    files[name.format(3)] = LIMIT.format(9100)
    assert by_id(split_jobs(written(tmp_path / "ranks", files), looker())) == {"9100": 4}


def test_rotated_logs_are_read_before_the_log_whose_older_lines_they_hold(tmp_path: Path) -> None:
    names = ["a.log", "gone.log.1", "job.log.10.gz", "job.log.2", "job.log.1", "job.log"]
    names += ["k.out.2026-11-19", "k.out-20261120", "k.out"]
    written(tmp_path, dict.fromkeys([*names, "model.py.1", "notes.1"], "step 3\n"))
    assert [Path(path).name for path in files_of(str(tmp_path))] == names


@pytest.mark.parametrize("case", REPORTS)
def test_a_report_beside_the_logs_is_not_read(tmp_path: Path, case: str) -> None:
    logs = {"slurm-4711.out": "step 3\n", "tests.log": "✓ no failure found\n✗ 2 of 9 tests\n"}
    logs["run.txt"] = "$ slurmdoctor diagnose\n" + REPORTS[case]
    reports = dict.fromkeys(("slurmdoctor-4711.txt", "slurmdoctor-4711.out", "why.log"), REPORTS[case])
    reports |= {"why.html": "<html>", "why.json": "{}"}
    written(tmp_path, logs | reports)
    os.mkfifo(tmp_path / "live.log")  # is not waited for
    assert [Path(path).name for path in files_of(str(tmp_path))] == sorted(logs)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "live.log")
    (tmp_path / "a.log").write_text("step 3\n")
    names = [str(tmp_path / name) for name in ("live.log", "a.log", "gone.log")]
    assert len(split_jobs(names, looker())) == 1


# ── a survey: a job too many costs less than a thousand in one row ──


def taken(paths: list[str]) -> tuple[JobFiles, ...]:
    return split_jobs(paths, survey=True)


@pytest.mark.parametrize("case", SURVEY.values(), ids=SURVEY)
def test_what_nothing_tells_to_be_one_job_is_several(case: dict[str, Any]) -> None:
    paths, number = case["files"].split(), case["number"]
    found = taken(paths)
    assert len({(job.label, job.files[0].rpartition("/")[0]) for job in found}) == len(found) == number
    assert sorted(path for job in found for path in job.files) == sorted(paths)


def test_two_launches_in_one_folder_keep_their_ranks() -> None:
    found = taken(["a_1_rank_0.log", "a_1_rank_1.log", "a_2_rank_0.log", "a_2_rank_1.log", "b.log", "c.log"])
    assert sorted(len(job.files) for job in found) == [1, 1, 2, 2]


def test_the_streams_of_many_jobs_are_joined_though_each_has_a_folder() -> None:
    paths = [f"logs/{stream}/train-{n}.{stream}" for n in range(51_000, 51_200) for stream in ("out", "err")]
    assert {len(job.files) for job in taken(paths)} == {2}


def test_only_a_survey_takes_a_folder_apart(tmp_path: Path) -> None:
    for name in ("base.log", "wide.log", "deep.log"):
        (tmp_path / name).write_text("step 1 loss 2.1\n")
    assert [len(job.files) for job in pipeline.jobs_of([tmp_path])] == [3]
    assert [len(job.files) for job in pipeline.jobs_of([tmp_path], survey=True)] == [1, 1, 1]


def test_ten_thousand_files_take_no_seconds_and_no_look() -> None:
    assert len(split_jobs([f"logs/slurm-{number}.out" for number in range(880000, 890000)], never)) == 10_000
    paths = [f"logs/user{n % 97}/run{n // 97}/{kind}" for n in range(5_000) for kind in ("log.out", "log.err")]
    began = time.process_time()
    assert len(taken(paths)) == 5_000
    assert time.process_time() - began < 4


# ── properties ───────────────────────────────────────────────────────────────────────────────

_WORDS = st.sampled_from(
    ["slurm-{}", "train-{}", "rank_{}", "{}", "{}_0_log", "job_{}", "{}/rank_0", "exp{}/train", "node{}/out", "slurm-{}_1", "{}_abcdefgh/attempt_0/0/stdout"]
)  # fmt: skip
_NUMBERS = st.sampled_from(["0", "1", "2", "16", "4711", "4712", "880123", "20261120", "007"])
_PATHS = st.lists(
    st.builds(lambda word, number, ending: word.format(number) + ending, _WORDS, _NUMBERS, st.sampled_from([".out", ".err", ".log", ""])),
    min_size=1, max_size=12, unique=True,
)  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(_PATHS, st.randoms(use_true_random=False), st.booleans())
def test_no_file_is_lost_or_told_twice_in_whatever_order(paths: list[str], order: random.Random, survey: bool) -> None:
    found = split_jobs(paths, blind, survey=survey)
    assert sorted(path for job in found for path in job.files) == sorted(paths)
    assert groups(split_jobs(order.sample(paths, len(paths)), blind, survey=survey)) == groups(found)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=6, unique=True))
def test_any_name_is_read(paths: list[str]) -> None:
    assert sorted(path for job in split_jobs(paths, blind) for path in job.files) == sorted(paths)
