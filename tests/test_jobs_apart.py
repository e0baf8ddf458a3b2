"""A survey's jobs: what no id tells to be one is taken apart, for a job too many costs less than a thousand in one row."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from slurmdoctor import pipeline
from slurmdoctor.input.jobs import split_jobs
from slurmdoctor.model import JobFiles

APART = {
    "one folder, a name a job": ("out/base_code.out out/fed_code.out out/iid_math.out", 3),
    "a job's two streams": ("out/base.out out/base.err out/wide.out out/wide.err", 2),
    "streams in folders of their own": ("job_outputs/base.out job_errors/base.err job_outputs/wide.out", 2),
    "numbers that count runs": ("lammps-8-0.out lammps-8-1.out lammps-16-0.out", 3),
    "folders of settings": ("size-4/ring.log size-8/ring.log size-16/ring.log", 3),
    "one name in each folder": ("a/x1/log.out a/x2/log.out b/x1/log.out", 3),
    "a short number beside one that is called an id": ("slurm1.out slurm2.out train_1.out eval_2.out", 4),
    "one id in a crowd": (
        " ".join(
            [
                *(f"{word}.log" for word in ["ab", "bc", "cd", "de", "ef", "fg", "gh", "hi", "ij", "jk"]),
                "slurm-880123.out",
            ]
        ),
        11,
    ),
    "three logs of a folder": ("train.log eval.log serve.log", 3),
}
ONE = {
    "ranks": "run/rank_0.log run/rank_1.log run/rank_2.log",
    "a launcher beside its ranks": "run/train.log run/rank_0.log run/rank_1.log",
    "folders of nodes": "run/node01/train.log run/node02/train.log run/node07/train.log",
    "numbers from 0": "run/0.log run/1.log run/2.log",
    "a program's output and the scheduler's errors": "scf/job.err scf/espresso.out",
    "a day's older part": "train.log train.log.1 train.log.2",
}


def files(jobs: list[JobFiles]) -> list[str]:
    return sorted(path for job in jobs for path in job.files)


def taken(paths: list[str]) -> list[JobFiles]:
    return list(split_jobs(paths, survey=True))


@pytest.mark.parametrize("case", APART)
def test_what_nothing_tells_to_be_one_job_is_several(case: str) -> None:
    paths, number = APART[case]
    found = taken(paths.split())
    assert len(found) == number
    assert len({(job.label, job.files[0].rpartition("/")[0]) for job in found}) == number
    assert files(found) == sorted(paths.split())


@pytest.mark.parametrize("case", ONE)
def test_what_belongs_together_stays_together(case: str) -> None:
    assert [len(job.files) for job in taken(ONE[case].split())] == [len(ONE[case].split())]


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


def test_a_hundred_thousand_files_take_seconds() -> None:
    paths = [f"logs/user{n % 97}/run{n // 97}/{kind}" for n in range(50_000) for kind in ("log.out", "log.err")]
    began = time.process_time()
    assert len(taken(paths)) == 50_000
    assert time.process_time() - began < 20


_PATHS = st.lists(
    st.from_regex(r"([ab]/|node0[12]/){0,2}(train|rank_|gpu|out|err)?[0-3]{0,2}\.(log|out|err)", fullmatch=True),
    min_size=1,
    max_size=12,
    unique=True,
)


@settings(deadline=None)
@given(_PATHS, st.randoms(use_true_random=False))
def test_no_file_is_lost_or_told_twice_in_whatever_order(paths: list[str], order: random.Random) -> None:
    found = taken(paths)
    assert files(found) == sorted(paths)
    mixed = order.sample(paths, len(paths))
    assert sorted(sorted(job.files) for job in taken(mixed)) == sorted(sorted(job.files) for job in found)
