"""Which files are of one job, and which are not: by names, folders, lines and times."""

import os
import random
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from slurmdoctor import pipeline
from slurmdoctor.input.files import files_of
from slurmdoctor.input.job_files import Look, blind, looker as looker_of, split_jobs
from slurmdoctor.input.job_names import SCHEMES, TORCHRUN
from slurmdoctor.knowledge import text
from slurmdoctor.model import Glance, JobFiles


def looker() -> Look:
    return looker_of(text("own-job"), text("own-rank"))


def groups(found: tuple[JobFiles, ...]) -> list[list[str]]:
    return sorted(sorted(job.files) for job in found)


def by_id(found: tuple[JobFiles, ...]) -> dict[str | None, int]:
    """Each job's id, and how many files it has."""
    return {job.id: len(job.files) for job in found}


def never(path: str) -> Glance:
    raise AssertionError(f"{path} was opened, though its name decides")


SEVERAL: dict[str, tuple[str, dict[str | None, int]]] = {
    "Slurm's default": ("slurm-4711.out slurm-4712.out slurm-4720.out", {"4711": 1, "4712": 1, "4720": 1}),
    "young clusters": ("slurm-6.out slurm-7.out", {"6": 1, "7": 1}),
    "an array": ("slurm-4711_0.out slurm-4711_1.out slurm-4711_17.out", {"4711_0": 1, "4711_1": 1, "4711_17": 1}),
    "two arrays": ("slurm-10_1.out slurm-10_2.out slurm-11_1.out", {"10_1": 1, "10_2": 1, "11_1": 1}),
    "an array beside a job": ("slurm-4711_0.out slurm-4711_1.out slurm-4700.out", {"4711_0": 1, "4711_1": 1, "4700": 1}),
    "out beside err": ("slurm-4711.out slurm-4711.err slurm-4712.out slurm-4712.err", {"4711": 2, "4712": 2}),
    "%x-%j": ("train-880123.out train-880124.out eval-880130.out", {"880123": 1, "880124": 1, "880130": 1}),
    "%x_%j": ("train_880123.log train_880124.log", {"880123": 1, "880124": 1}),
    "%j.out": ("880123.out 880124.out 880125.err", {"880123": 1, "880124": 1, "880125": 1}),
    "%x.%j.out": ("train.880123.out train.880124.out", {"880123": 1, "880124": 1}),
    "out and err named first": ("out_40306162.log err_40306162.log out_40306163.log err_40306163.log", {"40306162": 2, "40306163": 2}),
    "%x_%A_%a": ("train_880123_1.out train_880123_2.out", {"880123_1": 1, "880123_2": 1}),
    "PBS and SGE": ("train.o880123 train.e880123 train.o880124 train.e880124", {"880123": 2, "880124": 2}),
    "a name with a size": ("gpt_10240_880123.out gpt_10240_880124.out", {"880123": 1, "880124": 1}),
    "dates and ids": ("train-20261120-880123.log train-20261121-880124.log", {"880123": 1, "880124": 1}),
    "submitit": ("4711_0_log.out 4711_0_log.err 4711_1_log.out 4712_0_log.out 4712_0_log.err", {"4711": 3, "4712": 2}),
    "submitit's arrays": ("4711_3_0_log.out 4711_3_0_log.err 4711_4_0_log.out", {"4711_3": 2, "4711_4": 1}),
    "submitit's side files": ("4711_0_log.out 4711_submission.sh 4711_0_result.pkl 4712_0_log.out 4712_submitted.pkl", {"4711": 3, "4712": 2}),
    "ranks of two jobs": ("slurm-4711.0.out slurm-4711.1.out slurm-4712.0.out slurm-4712.1.out", {"4711": 2, "4712": 2}),
    "ranks by name": ("train-880123-rank0.log train-880123-rank1.log train-880124-rank0.log train-880124-rank1.log", {"880123": 2, "880124": 2}),
    "%j-%N-%n": ("880123-node07-0.out 880123-node08-1.out 880124-node07-0.out 880124-node08-1.out", {"880123": 2, "880124": 2}),
    "a launcher beside its ranks, twice": ("slurm-16.out train-16-0.log train-16-1.log slurm-17.out train-17-0.log train-17-1.log", {"16": 3, "17": 3}),
    "a folder a job": ("4711/rank_0.log 4711/rank_1.log 4713/rank_0.log 4713/rank_1.log", {"4711": 2, "4713": 2}),
    "job_ID/": ("job_4711/stdout.log job_4711/stderr.log job_4712/stdout.log", {"4711": 2, "4712": 1}),
    "ids inside of runs": ("exp1/slurm-4711.out exp1/train.log exp2/slurm-4712.out exp2/train.log", {"4711": 2, "4712": 2}),
    "ids of three digits": ("train-123.out train-124.out", {"123": 1, "124": 1}),
    "torchrun's folders": (
        "slurm-141.out 141_l6hjsjsn/attempt_0/0/stderr.log 141_ziz9v06n/attempt_0/0/stderr.log "
        "slurm-142.out 142_aaaaaaaa/attempt_0/0/stdout.log 142_aaaaaaaa/attempt_1/0/stdout.log", {"141": 3, "142": 3},
    ),
    "names of other words": ("train-4711.out train-4712.out eval-4713.out", {"4711": 1, "4712": 1, "4713": 1}),
    "a word a job": ("train_4711.out eval_4713.out prep_4720.err", {"4711": 1, "4713": 1, "4720": 1}),
    "an array's folders": ("arr_4400_0/rank0.out arr_4400_0/rank1.out arr_4400_1/rank0.out", {"4400_0": 2, "4400_1": 1}),
    "%A_%a alone": ("4711_0.out 4711_1.out 4711_2.out", {"4711_0": 1, "4711_1": 1, "4711_2": 1}),
    "an array beside short ids": ("slurm-6.out slurm-7.out arr-47_5.out arr-47_6.out", {"6": 1, "7": 1, "47_5": 1, "47_6": 1}),
    "an array of a round id": ("arr-200000_1.out arr-200000_2.out", {"200000_1": 1, "200000_2": 1}),
    "steps beside another job": ("slurm-4000011.out steplogs-4000049.out step-4000049-0.out step-4000049-1.out", {"4000011": 1, "4000049": 3}),
    "arrays of PBS and of Torque": ("md.o5512.1 md.e5512.1 md.o5512.2 x.o99-1 x.o99-2", {"5512_1": 2, "5512_2": 1, "99_1": 1, "99_2": 1}),
    "LSF": ("40123.out 40123.err lsf.o40124", {"40123": 2, "40124": 1}),
    "round ids side by side": ("sft-300000.out sft-300100.out sft-300100.err", {"300000": 1, "300100": 2}),
    "compressed": ("slurm-4711.out.gz slurm-4712.out.zst", {"4711": 1, "4712": 1}),
    "in folders of their own with one name": ("a/slurm-4711.out b/slurm-4711.err c/slurm-4712.out", {"4711": 2, "4712": 1}),
}  # fmt: skip


@pytest.mark.parametrize("case", SEVERAL)
def test_names_tell_jobs_apart(case: str) -> None:
    paths, expected = SEVERAL[case]
    found = split_jobs(paths.split(), blind)
    assert by_id(found) == expected
    assert len(found) > 1
    assert not any(job.doubtful for job in found)


ONE = {
    "a file a rank": "rank_0.log rank_1.log rank_2.log rank_3.log",
    "rank and node": "rank_0_dgx-01.log rank_8_dgx-02.log pool0-01037_rank0.err pool0-01038_rank1.err",
    "hosts that look like ids": "c4711-rank0.log c4712-rank1.log",
    "hosts behind a dash": "pod-14711_0.log pod-14711_1.log pod-14712_2.log pod-14712_3.log",
    "nodes": "n21.log n22.log n23.log",
    "node numbers": "nid001234.log nid001235.log",
    "a file a node": "mlm-660121-node0.out mlm-660121-node1.out",
    "ranks of one job": "slurm-88213.0.out slurm-88213.1.out slurm-88213.2.out",
    "slurm-%j-rank": "slurm-4711-rank0.out slurm-4711-rank3.out",
    "%j.%t": "4711.0.log 4711.1.log 4711.3.log",
    "%j-%N-%n": "roundtrip-88310-n04-0.log roundtrip-88310-n04-1.log roundtrip-88310-n05-8.log",
    "%x-%j-%t beside the launcher's": "slurm-16.out train-16-0.log train-16-1.log train-16-2.log",
    "%j_%t beside the launcher's": "slurm-4711.out slurm-4711_0.out slurm-4711_1.out slurm-4711_2.out",
    "out beside err": "slurm-8814.err slurm-8814.out",
    "streams by name": "train_error.log train_output.log",
    "streams named first": "err_40306162.err res_40306162.out",
    "a launcher's log": "launcher.log rank_1.log rank_2.log",
    "tee": "slurm-102.out train.log",
    "submitit": "73_0_log.err 73_0_log.out 73_1_log.err 73_1_log.out 73_submission.sh 73_0_result.pkl",
    "dates": "train-20261120.log train-20261121.log train-20261122.log",
    "days": "train-2026-11-20.log train-2026-11-21.log",
    "rotated": "log.1 log.2 log.3",
    "chunks": "train.part1.log train.part2.log",
    "world sizes": "bench-1024.log bench-2048.log bench-4096.log",
    "steps": "eval_5000.log eval_10000.log eval_15000.log",
    "hundreds": "eval_1100.log eval_1200.log eval_1300.log",
    "sizes of other lengths": "lm-350.out lm-13001.out",
    "checkpoints": "eval-step-12345.log eval-step-23456.log",
    "attempts": "attempt_0/rank_0.log attempt_1/rank_0.log",
    "torchrun": "61_l6hjsjsn/attempt_0/0/stdout.log 61_l6hjsjsn/attempt_1/0/stdout.log 61_ziz9v06n/attempt_0/1/stderr.log",
    "torchrun's random ids": "slurm-61000.out 12345_l6hjsjsn/attempt_0/0/stderr.log",
    "torchrun without an id": "node0/none_abc/attempt_0/0/stderr.log node1/none_def/attempt_0/0/stderr.log",
    "nccl's log a process": "nccl.gpu01.41123.log nccl.gpu01.41124.log",
    "pids": "train-pid41123.log train-pid41124.log",
    "seconds since the epoch": "train_1763640000.log train_1763650000.log",
    "hosts' folders": "logs/gpu-a1/rank0.log logs/gpu-a2/rank1.log",
    "one job in a folder of it": "4711/rank_0.log 4711/rank_1.log",
    "an id and its folder": "job_4711/slurm-4711.out job_4711/train.log",
    "streams in folders": "stdout/rank_0.log stderr/rank_0.log",
    "ranks and a launcher in folders": "launcher/main.log ranks/rank_0.log",
    "a launcher beside numbered logs": "launch.log run1.log run2.log",
    "%j-%t-%N": "4711-0-gpu-a0.log 4711-1-gpu-a0.log 4711-2-gpu-b.log",
    "ranks with dots": "train.4711.0.out train.4711.1.out",
    "a folder a rank": "4711-0/stdout 4711-0/stderr 4711-1/stdout 4711-1/stderr",
    "a log and its rotated days": "train.log train.log.2026-11-20 train.log-20261119.gz",
    "Ray's workers": "worker-aa-01000000-2001.out worker-bb-01000000-2002.out raylet.out",
    "pieces of one run": "exp1/out.log exp1/err.log",
    "one": "slurm-4711.out",
    "Paddle": "log/workerlog.0 log/workerlog.1 log/default.abcdef.log",
    "MindSpore": "scheduler.log worker_0.log worker_1.log",
    "one running number": "mm2_conv_0.err mm2_conv_1.err mm2_conv_2.err",
}


@pytest.mark.parametrize("case", ONE)
def test_what_belongs_together_stays_together(case: str) -> None:
    assert len(split_jobs(ONE[case].split(), blind)) == 1


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


@pytest.mark.parametrize(
    ("paths", "ident", "name"),
    [
        ("slurm-4711.out slurm-4711.err", "4711", None), ("train-880123.out", "880123", "train"), ("rank_0.log", None, None),
        ("slurm-16.out train-16-0.log", "16", "train"), ("slurm-4711_3.out", "4711_3", None), ("train.o880123", "880123", "train"),
        ("73_0_log.out 73_1_log.out", "73", None), ("slurm-4711_4294967294.out", "4711", None), ("eval-1000.log", None, None),
        ("eval-4713.out", None, None), ("sft-30b_370027.err", "370027", "sft-30b"), ("4711.out", "4711", None), ("4711-0-gpu-a0.log 4711-1-gpu-a1.log", "4711", None), ("4711-0-gpu-a0.log", "4711", None),
        ("train.4711.0.out train.4711.1.out", "4711", "train"), ("tensorboard-6006.out", None, None), ("vllm-8080.out", None, None), ("model-2024.out", None, None),
        ("bench-1536.out", None, None), ("rank-4711.out", None, None), ("train-20261120.out", None, None), ("eval-4700.out", None, None), ("loss-4711.log", None, None),
    ],
)  # fmt: skip
def test_one_job_has_its_id_too(paths: str, ident: str | None, name: str | None) -> None:
    (job,) = split_jobs(paths.split(), blind)
    assert (job.id, job.name) == (ident, name)


@pytest.mark.parametrize(
    ("paths", "doubtful"),
    [
        ("train1.log train2.log train3.log", True), ("west.log prep.log", True), ("node1/train.log node2/train.log", False), ("880123/0.out 880123/1.out", False),
        ("rank_0.log rank_1.log", False), ("train0.log train1.log", False), ("train-16-0.log train-16-1.log", False),
        ("job.err ONCV.out", False), ("launcher.log rank_1.log", False), ("slurm-102.out train.log", False), ("a.log", False),
        ("train.log train.log.1", False), ("4711-0-gpu-a0.log 4711-1-gpu-b.log", False), ("bench-1024.log bench-2048.log", True),
    ],
)  # fmt: skip
def test_where_nothing_tells_it_is_said(paths: str, doubtful: bool) -> None:
    (job,) = split_jobs(paths.split(), blind)
    assert job.doubtful == doubtful


NAMED = {
    "runs by number": ("runs/exp1/train.log runs/exp1/err.log runs/exp2/train.log", {"exp1": 2, "exp2": 1}),
    "Hydra": ("outputs/2026-11-20/12-01-03/train.log outputs/2026-11-20/13-22-10/train.log", {"12-01-03": 1, "13-22-10": 1}),
    "Hydra's days": ("o/2026-11-20/12-01-03/a.log o/2026-11-21/12-01-03/a.log", {"2026-11-20": 1, "2026-11-21": 1}),
    "Hydra's sweeps": ("multirun/2026-11-20/12-01-03/0/train.log multirun/2026-11-20/12-01-03/1/train.log", {"0": 1, "1": 1}),
    "wandb": (
        "wandb/run-20261120_120103-ab12cd34/files/output.log wandb/run-20261120_120103-ab12cd34/logs/debug.log "
        "wandb/run-20261121_120103-ef56ab78/files/output.log",
        {"run-20261120_120103-ab12cd34": 2, "run-20261121_120103-ef56ab78": 1},
    ),
    "folders after a time": ("20261120_120103_bert/train.log 20261121_120103_bert/train.log", {"20261120_120103_bert": 1, "20261121_120103_bert": 1}),
    "Lightning": ("lightning_logs/version_0/out.log lightning_logs/version_1/out.log", {"version_0": 1, "version_1": 1}),
    "settings": ("lr_1e-3/train.log lr_3e-4/train.log", {"lr_1e-3": 1, "lr_3e-4": 1}),
    "torchrun, twice": (
        "t/one_x2k9a_1j/attempt_0/0/stdout.log t/one_x2k9a_1j/attempt_1/0/stdout.log t/two_p0qz7_8b/attempt_0/0/stdout.log",
        {"one_x2k9a_1j": 2, "two_p0qz7_8b": 1},
    ),
    "words": ("baseline/rank_0.log baseline/rank_1.log wide/rank_0.log wide/rank_1.log", {"baseline": 2, "wide": 2}),
    "what is left beside jobs": ("slurm-801.out slurm-802.out train.log README.txt", {"801": 1, "802": 1, "train.log": 1, "README.txt": 1}),
}  # fmt: skip


@pytest.mark.parametrize("case", NAMED)
def test_runs_without_an_id_are_called_by_their_names(case: str) -> None:
    paths, expected = NAMED[case]
    found = split_jobs(paths.split(), blind)
    assert {job.label: len(job.files) for job in found} == expected


@pytest.mark.parametrize("case", ["Slurm's default", "an array", "%x-%j", "PBS and SGE", "submitit", "a folder a job"])
def test_no_file_is_opened_where_names_decide(case: str) -> None:
    paths, expected = SEVERAL[case]
    assert by_id(split_jobs([path for path in paths.split() if "eval" not in path], never)).items() <= expected.items()


def test_no_files_are_no_jobs() -> None:
    assert split_jobs([], blind) == ()


def test_a_path_without_a_number_names_no_job() -> None:
    """So that a diagnosis of one log need not ask."""
    for path in ("logs/train.out", "torchelastic_a/none_abcdefgh/attempt/x.log", "hs_err_pid.log", "worker.log.gz"):
        assert split_jobs([path], together=True) == (JobFiles(files=(path,)),)


def test_ten_thousand_files_are_told_apart_without_a_look() -> None:
    found = split_jobs([f"logs/slurm-{number}.out" for number in range(880000, 890000)], never)
    assert len(found) == 10_000


# ── what lines and times tell ────────────────────────────────────────────────────────────────


def written(folder: Path, files: Mapping[str, str]) -> list[str]:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return [str(folder / name) for name in files]


LIMIT = "slurmstepd: error: *** JOB {} ON node07 CANCELLED AT 2026-11-20T12:01:03 DUE TO TIME LIMIT ***\n"


STEP = "slurmstepd-n4: error: *** STEP 4049.0 ON n4 CANCELLED AT 2026-11-23T18:00:36 ***\n"
APPENDED = LIMIT.format(4711) + LIMIT.format(4712)
LINES: dict[str, tuple[dict[str, str], dict[str | None, int]]] = {
    "at the end of a long log": (
        {"big.out": LIMIT.format(4711), "small.out": "x\n" * 9000 + LIMIT.format(4712), "small.err": "srun: Terminating StepId=4712.0\n"},
        {"4711": 1, "4712": 2},
    ),
    "a log without an id beside such": (
        {"a.out": LIMIT.format(4711), "b.out": LIMIT.format(4712), "c.out": "step 3\n"}, {"4711": 1, "4712": 1, None: 1},
    ),
    "one job in two logs": (
        {"prep.log": "SLURM_JOB_ID=4711\n", "train.log": LIMIT.format(4711), "notes.txt": "Submitted batch job 4712\n"}, {None: 3},
    ),
    "a log to which two jobs appended": ({"slurm_a.out": APPENDED, "other.out": LIMIT.format(4712)}, {None: 2}),
    "an array's task, which Slurm counts by another id": (
        {"slurm-4711_3.out": "step 1\n", "train.log": "SLURM_JOB_ID=4714\n"}, {"4711_3": 2},
    ),
    "a log of one of two jobs": (
        {"slurm-4711.out": "", "slurm-4712.out": "", "train.log": "SLURM_JOB_ID=4712\n"}, {"4711": 1, "4712": 2},
    ),
    "a log of another job": ({"slurm-4711.out": "", "train.log": "SLURM_JOB_ID=4650\n"}, {"4711": 1, "4650": 1}),
    "swapped: the names count": (
        {"slurm-4711.out": LIMIT.format(4712), "slurm-4712.out": LIMIT.format(4711)}, {"4711": 1, "4712": 1},
    ),
    "a step's logs: the names count": (
        {"step-4049-0.out": STEP, "step-4049-1.out": "", "slurm-4011.out": "", "steplogs-4049.out": "srun: Force Terminated StepId=4049.0\n"},
        {"4011": 1, "4049": 3},
    ),
    "short ids": ({"train-16.out": "SLURM_JOB_ID=16\n", "train-17.out": "SLURM_JOB_ID=17\n"}, {"16": 1, "17": 1}),
}  # fmt: skip


@pytest.mark.parametrize("case", LINES)
def test_lines_tell_jobs_apart_where_names_do_not(case: str, tmp_path: Path) -> None:
    files, expected = LINES[case]
    assert by_id(split_jobs(written(tmp_path, files), looker())) == expected


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
    names = [
        "a.log",
        "gone.log.1",
        "job.log.10.gz",
        "job.log.2",
        "job.log.1",
        "job.log",
        "k.out.2026-11-19",
        "k.out-20261120",
        "k.out",
    ]
    others = ["model.py.1", "notes.1"]
    written(tmp_path, dict.fromkeys(names + others, "step 3\n"))
    assert [Path(path).name for path in files_of(str(tmp_path))] == names


REPORTS = {
    "failed": "✗ rank 5 on gpu-a2 ran out of GPU memory                 cuda-oom · high confidence\n  job.log:12\n",
    "in two lines": "✗ rank 0 could not import a Python module or a name from it\n  module-not-found · low confidence\n",
    "markdown": "**✗ rank 5 on gpu-a2 ran out of GPU memory** (cuda-oom · high confidence)\n\n`job.log:12`\n",
    "no failure": "✓ no failure found                           read 1 file, 9 lines (605 bytes)\n  last   step 70\n",
    "without Unicode": "x rank 5 ran out of GPU memory                 cuda-oom - high confidence\n  job.log:12\n",
    "several": "4711  ✗ the job was ended by its time limit     time-limit\n1 job: 1 time-limit\n"
    "one in full: slurmdoctor diagnose . --job-id 4711\n",
}


@pytest.mark.parametrize("case", REPORTS)
def test_a_report_beside_the_logs_is_not_read(tmp_path: Path, case: str) -> None:
    logs = {
        "slurm-4711.out": "step 3\n",
        "tests.log": "✓ no failure found\n✗ 2 of 9 tests\n",
        "run.txt": "$ slurmdoctor diagnose\n" + REPORTS[case],
    }
    reports = {"slurmdoctor-4711.txt": REPORTS[case], "why.log": REPORTS[case], "why.html": "<html>", "why.json": "{}"}
    reports["slurmdoctor-4711.out"] = REPORTS[case]
    written(tmp_path, logs | reports)
    os.mkfifo(tmp_path / "live.log")  # is not waited for
    assert [Path(path).name for path in files_of(str(tmp_path))] == sorted(logs)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "live.log")
    (tmp_path / "a.log").write_text("step 3\n")
    names = [str(tmp_path / name) for name in ("live.log", "a.log", "gone.log")]
    assert len(split_jobs(names, looker())) == 1


# ── a survey: a job too many costs less than a thousand in one row ──

APART = {
    "one folder, a name a job": ("out/base_code.out out/fed_code.out out/iid_math.out", 3),
    "a job's two streams": ("out/base.out out/base.err out/wide.out out/wide.err", 2),
    "streams in folders of their own": ("job_outputs/base.out job_errors/base.err job_outputs/wide.out", 2),
    "numbers that count runs": ("lammps-8-0.out lammps-8-1.out lammps-16-0.out", 3),
    "folders of settings": ("size-4/ring.log size-8/ring.log size-16/ring.log", 3),
    "one name in each folder": ("a/x1/log.out a/x2/log.out b/x1/log.out", 3),
    "a short number beside one that is called an id": ("slurm1.out slurm2.out train_1.out eval_2.out", 4),
    "one id beside many names": ("slurm-880123.out ab.log bc.log cd.log de.log ef.log fg.log gh.log hi.log ij.log", 10),
    "three logs of a folder": ("train.log eval.log serve.log", 3),
    "an id above runs with ranks": (" ".join(["slurm-880123.out", *(f"exp{n}/rank_0.log" for n in range(9))]), 10),
}
TOGETHER = {
    "ranks": "run/rank_0.log run/rank_1.log run/rank_2.log",
    "a launcher beside its ranks": "run/train.log run/rank_0.log run/rank_1.log",
    "folders of nodes": "run/node01/train.log run/node02/train.log run/node07/train.log",
    "numbers from 0": "run/0.log run/1.log run/2.log",
    "a program's output and the scheduler's errors": "scf/job.err scf/espresso.out",
    "a day's older part": "train.log train.log.1 train.log.2",
    "a program's own log beside Slurm's": "slurm-102.out train.log",
}


def taken(paths: list[str]) -> tuple[JobFiles, ...]:
    return split_jobs(paths, survey=True)


@pytest.mark.parametrize("case", APART)
def test_what_nothing_tells_to_be_one_job_is_several(case: str) -> None:
    paths, number = APART[case]
    found = taken(paths.split())
    assert len(found) == number
    assert len({(job.label, job.files[0].rpartition("/")[0]) for job in found}) == number
    assert sorted(path for job in found for path in job.files) == sorted(paths.split())


@pytest.mark.parametrize("case", TOGETHER)
def test_a_survey_keeps_together_what_belongs_together(case: str) -> None:
    assert [len(job.files) for job in taken(TOGETHER[case].split())] == [len(TOGETHER[case].split())]


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


def test_ten_thousand_files_take_no_seconds() -> None:
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
