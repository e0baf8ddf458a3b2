"""`slurmdoctor diagnose 4711`: the job is found by its number, wherever its logs are, with Slurm's help or without."""

import gzip
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fake_slurm import FakeSlurm
from slurmdoctor.cli.diagnose import worst
from slurmdoctor.cli.sandbox import answer
from slurmdoctor.slurm import jobinfo

KEY = "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"train.py\", line 5, in <module>\n[rank3]: KeyError: 'lr'\n"
OOM = "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


@pytest.fixture
def slurm(tmp_path: Path) -> FakeSlurm:
    return FakeSlurm(tmp_path / "bin")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


run = FakeSlurm.diagnose


def found(slurm: FakeSlurm, folder: Path, *words: str) -> dict[str, Any]:
    done = run(slurm, folder, "--format", "json", *words)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def put(folder: Path, name: str, text: str = KEY) -> None:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def complains(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert [word for word in words if word not in done.stderr] == []


def record(job: str, folder: Path, **more: str) -> str:
    pairs = {
        "JobState": "FAILED", "Reason": "NonZeroExitCode", "ExitCode": "1:0", "RunTime": "00:10:00", "TimeLimit": "01:00:00",
        "StartTime": "2026-11-20T10:00:00", "EndTime": "2026-11-20T10:10:00", "NodeList": "n1", "NumNodes": "1",
        "WorkDir": str(folder), "StdErr": f"{folder}/run.err", "StdIn": "/dev/null", "StdOut": f"{folder}/run.out", **more,
    }  # fmt: skip
    return f"JobId={job} JobName=train\n   UserId=kim({os.geteuid()})\n" + "".join(
        f"   {k}={v}\n" for k, v in pairs.items()
    )


def row(job: str, folder: Path, **more: str) -> dict[str, str]:
    return {
        "JobID": job, "JobIDRaw": job, "JobName": "train", "State": "FAILED", "ExitCode": "1:0", "Elapsed": "00:10:00",
        "Start": "2026-11-20T10:00:00", "End": "2026-11-20T10:10:00", "NodeList": "n1", "NNodes": "1", "WorkDir": str(folder), **more,
    }  # fmt: skip


# ── a number is a job, unless a file has that name ───────────────────────────────────────────


def test_a_number_is_a_job_as_slurm_knows_it(slurm: FakeSlurm, folder: Path) -> None:
    slurm.scontrol({"4711": record("4711", folder)})
    put(folder, "run.out")
    put(folder, "run.err", "")
    said = found(slurm, folder, "4711")
    assert said["cause"]["id"] == "python-error"
    assert said["first_failure"]["file"] == str(folder / "run.out")
    assert said["coverage"]["notes"] == [], "Slurm named the log: nothing is an inference"
    assert said == found(slurm, folder, "--job", "4711")


def test_a_file_of_that_name_is_a_file(slurm: FakeSlurm, folder: Path) -> None:
    put(folder, "4711", OOM)
    put(folder, "slurm-4711.out", KEY)
    assert found(slurm, folder, "4711")["cause"]["id"] == "cuda-oom"
    assert slurm.asked == ""


def test_ids_beside_files_are_refused(slurm: FakeSlurm, folder: Path) -> None:
    put(folder, "a.log")
    complains(run(slurm, folder, "4711", "a.log"), "--job 4711")


# ── Slurm does not answer ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "said",
    [
        None,
        "sacct: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\nsacct: error: fetch_config: DNS SRV lookup failed\n"
        "sacct: fatal: Could not establish a configuration source",
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
        "sacct: error: slurm_persist_conn_open_without_init: failed to open persistent connection to host:db:6819: Connection refused",
        "scontrol: error: Munge encode failed: Failed to access \"/run/munge/munge.socket.2\": No such file or directory",
    ],
)  # fmt: skip
def test_slurm_out_of_reach_is_one_plain_line(slurm: FakeSlurm, folder: Path, said: str | None) -> None:
    put(folder, "slurm-4711.out")
    for program in ("scontrol", "sacct") if said else ():
        slurm.says(program, said or "")
    done = run(slurm, folder, "4711")
    assert done.returncode == 0
    line = "Slurm is not reachable from here: read ./slurm-4711.out, found by its name"
    assert (" ".join(done.stdout.split()) + done.stderr).count(line) == 1
    for noise in ("fetch_config", "resolve_ctls", "persist", "slurm_load", "unge"):
        assert noise not in done.stdout + done.stderr
    assert "slurm-4711.out:3" in done.stdout


def test_a_job_that_slurm_forgot_is_read_all_the_same(slurm: FakeSlurm, folder: Path) -> None:
    slurm.scontrol()
    slurm.says("sacct", "Slurm accounting storage is disabled")
    put(folder, "slurm-4711.out")
    said = found(slurm, folder, "4711")
    assert said["coverage"]["notes"] == ["Slurm no longer knows job 4711: read ./slurm-4711.out, found by its name"]
    assert "sacct -j" not in run(slurm, folder, "4711").stdout, "accounting is off, and known to be"
    slurm.says("scontrol", "Unable to contact slurm controller")
    slurm.sacct((25, 5), [])
    assert found(slurm, folder, "4711")["coverage"]["notes"] == said["coverage"]["notes"]


def test_without_a_log_one_line_says_where_it_was_looked_for(slurm: FakeSlurm, folder: Path) -> None:
    put(folder, "slurm-47110.out")
    complains(run(slurm, folder, "4711"), "no log of job 4711", str(folder), "Slurm is not reachable", "name its log")


# ── by the usual names ───────────────────────────────────────────────────────────────────────


USUAL = """
slurm-4711.out train-4711.out train_4711.err 4711.log train.o4711 train.e4711 logs/slurm-4711.out log/4711.out slurm_logs/4711/stdout.log
out/x-4711.out.gz outputs/4711_0_log.out job4711.out 4711/rank0.out slurm/job_4711.txt logs/4711-node07-3.log train_4711_20261120.log
slurm-4711-rank3.out
"""
OTHERS = """
slurm-14711.out slurm-47110.out train-4711.py step_4711.log ckpt-4711.txt a4711f.log slurm-4711x.out seed4711.log results/slurm-4711.out
"""


def test_usual_names(slurm: FakeSlurm, folder: Path) -> None:
    for number, name in enumerate(USUAL.split()):
        place = folder / str(number)
        put(place, name)
        if name.endswith(".gz"):
            (place / name).write_bytes(gzip.compress(KEY.encode()))
        assert found(slurm, place, "4711")["coverage"]["files"] == 1, name


def test_names_of_other_things(slurm: FakeSlurm, folder: Path) -> None:
    for name in OTHERS.split():
        put(folder, name)
    complains(run(slurm, folder, "4711"), "no log of job 4711")


def test_out_and_err_are_one_job(slurm: FakeSlurm, folder: Path) -> None:
    put(folder, "train-4711.out", "step 1 loss 2.0\n")
    put(folder, "train-4711.err", KEY)
    said = found(slurm, folder, "4711")
    assert said["coverage"]["files"] == 2
    assert "and 1 more, found by their names" in said["coverage"]["notes"][0]


# ── arrays, het jobs, several ids ────────────────────────────────────────────────────────────


def test_a_task_of_an_array_without_slurm(slurm: FakeSlurm, folder: Path) -> None:
    put(folder, "slurm-4711_3.out", OOM)
    put(folder, "slurm-4711_30.out", KEY)
    put(folder, "4711_3_log.out", KEY)  # submitit's: rank 3 of job 4711
    said = found(slurm, folder, "4711_3")
    assert (said["cause"]["id"], said["coverage"]["files"]) == ("cuda-oom", 1)


def test_an_array_is_all_its_tasks(slurm: FakeSlurm, folder: Path) -> None:
    put(folder, "slurm-4711_0.out", OOM)
    put(folder, "slurm-4711_1.out", KEY)
    slurm.scontrol({"4711": "\n".join(
        record(raw, folder, ArrayJobId="4711", ArrayTaskId=task, StdOut=f"{folder}/slurm-4711_{task}.out", StdErr=f"{folder}/slurm-4711_{task}.out")
        for raw, task in (("4712", "0"), ("4711", "1"))
    )})  # fmt: skip
    with_slurm = run(slurm, folder, "4711").stdout
    (slurm.folder / "scontrol").unlink()
    for said in (with_slurm, run(slurm, folder, "4711").stdout):
        assert {"cuda-oom", "python-error"} <= set(said.split())


def test_several_ids_and_one_that_is_nowhere(slurm: FakeSlurm, folder: Path) -> None:
    put(folder, "slurm-1.out", OOM)
    put(folder, "slurm-2.out", KEY)
    done = run(slurm, folder, "1", "2", "3")
    assert {"cuda-oom", "python-error"} <= set(done.stdout.split())
    assert "no log of job 3" in done.stderr
    assert run(slurm, folder, "1,2").stdout == run(slurm, folder, "1", "2").stdout


# ── what the exit status tells ───────────────────────────────────────────────────────────────


def test_what_nobody_knows_has_a_status_of_its_own(slurm: FakeSlurm, folder: Path) -> None:
    put(folder, "slurm-1.out", "")
    put(folder, "slurm-2.out", "step 129 | loss 2.2\nstep 130 | loss 2.")
    put(folder, "slurm-3.out", KEY)
    assert [run(slurm, folder, "--exit-code", job).returncode for job in "123"] == [4, 4, 1]
    assert run(slurm, folder, "1").returncode == 0
    assert [worst(statuses) for statuses in ([0, 4], [4, 3], [3, 1, 0], [0, 0])] == [4, 3, 1, 0]


# ── what each version of sacct tells, of a job that scontrol has forgotten ───────────────────

VERSIONS = [(20, 11), (22, 5), (23, 11), (24, 5), (25, 11)]
ON_COMMAND_LINE = "named on the command line of sbatch"
WAYS = [
    ("", "slurm-4711.out", "found by its name"),
    ("sbatch -o logs/%x-%j.txt job.sh", "logs/train-4711.txt", ON_COMMAND_LINE),
    ("sbatch -ologs/a.txt job.sh -o b.txt", "logs/a.txt", ON_COMMAND_LINE),
    ("sbatch --output=first.txt --output last.txt job.sh", "last.txt", ON_COMMAND_LINE),
    ("sbatch -N2 --gres gpu:8 --exclusive -e '%j of.err' job.sh --output=args.txt", "4711 of.err", ON_COMMAND_LINE),
    ("sbatch --output=a|b.txt --wrap 'python train.py | tee log\nsleep 1\n'", "a|b.txt", ON_COMMAND_LINE),
    ("srun -o run-%j.txt python train.py", "run-4711.txt", ON_COMMAND_LINE),
]


@pytest.mark.parametrize(
    ("version", "line", "name", "how"), [(VERSIONS[min(n, 4)], *way) for n, way in enumerate(WAYS)]
)
def test_the_log_is_found_by_what_sacct_tells(
    slurm: FakeSlurm, folder: Path, tmp_path: Path, version: tuple[int, int], line: str, name: str, how: str
) -> None:
    place = tmp_path / "elsewhere"
    put(place, name)
    for other in ("args.txt", "first.txt", "slurm-4712.out"):
        put(place, other, OOM)
    slurm.scontrol()
    slurm.sacct(version, [row("4710", place), row("4711", place, SubmitLine=line), row("4712", place)])
    said = found(slurm, folder, "4711")
    assert said["first_failure"]["file"] == str(place / name)
    assert how in said["coverage"]["notes"][0]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_log_that_sacct_names(slurm: FakeSlurm, folder: Path, tmp_path: Path, version: tuple[int, int]) -> None:
    place = tmp_path / "elsewhere"
    put(place, "mine/4714-3.txt", "step 1 loss 2.0\n")
    put(place, "mine/4714-3.err", OOM)
    slurm.scontrol()
    told = {"StdOut": "mine/%j-%a.txt", "StdErr": f"{place}/mine/%j-%a.err", "Comment": "for the paper\nwith | and |"}
    rows = [row("4711_2", place, JobIDRaw="4713"), row("4711_3", place, JobIDRaw="4714", **told)]
    slurm.sacct(version, rows)
    said = found(slurm, folder, "4711_3")
    if version < (24, 5):
        assert said["coverage"]["bytes"] == 0, "no word of the log: Slurm's record alone speaks"
        assert any("log" in item for item in said["coverage"]["missing"])
    else:
        assert (said["cause"]["id"], said["coverage"]["files"]) == ("cuda-oom", 2)
        assert said["coverage"]["notes"] == []


def test_a_task_is_never_taken_for_the_array_whose_number_it_shares(slurm: FakeSlurm, folder: Path) -> None:
    """%j of the last task is the array's own number."""
    put(folder, "run-4711.txt", OOM)
    put(folder, "run-4712.txt", KEY)
    slurm.scontrol()
    line = "sbatch --array=0-1 -o run-%j.txt job.sh"
    slurm.sacct((23, 11), [row(f"4711_{k}", folder, JobIDRaw=str(4712 - k), SubmitLine=line) for k in (0, 1)])
    causes = [found(slurm, folder, f"4711_{k}")["cause"]["id"] for k in (0, 1)]
    assert causes == ["python-error", "cuda-oom"]


def test_the_log_that_the_script_names(slurm: FakeSlurm, folder: Path, tmp_path: Path) -> None:
    put(tmp_path / "elsewhere", "of-4711.txt")
    script = folder / "job.sh"
    script.write_text("#!/bin/bash\n#SBATCH -o of-%j.txt\nsrun python train.py\n")
    slurm.scontrol()
    slurm.sacct((20, 11), [row("4711", tmp_path / "elsewhere")])
    said = found(slurm, folder, "--script", "job.sh", "4711")
    assert "named in the batch script" in said["coverage"]["notes"][0]


def test_a_log_that_moved_is_found_by_its_name(slurm: FakeSlurm, folder: Path) -> None:
    """Slurm names a folder of the cluster; the log was copied here."""
    put(folder, "slurm-4711.out")
    gone = "/scratch/demo/slurm-4711.out"
    slurm.scontrol({"4711": record("4711", Path("/scratch/demo"), StdOut=gone, StdErr=gone)})
    said = found(slurm, folder, "4711")
    assert said["first_failure"]["file"] == "slurm-4711.out"
    note = f"the log that Slurm names, {gone}, is not here: read ./slurm-4711.out, found by its name"
    assert said["coverage"]["notes"][0] == note


# ── jobs that have not ended ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("state", "log", "headline"),
    [
        ("PENDING", None, "? the job has not started\n"),
        ("RUNNING", "", "? the job is still running, and its log is empty"),
        ("RUNNING", "step 1/9 loss 2.0\n", "? the job is still running; no failure so far"),
        ("RUNNING", KEY, "✗ rank 3 raised"),
    ],
)
def test_a_job_that_has_not_ended_says_so(
    slurm: FakeSlurm, folder: Path, state: str, log: str | None, headline: str
) -> None:
    if log is not None:
        put(folder, "run.out", log)
    known = {"JobState": state, "StdErr": f"{folder}/run.out", "ExitCode": "0:0"}
    slurm.scontrol({"4711": record("4711", folder, Reason="Resources" if log is None else "None", **known)})
    done = run(slurm, folder, "4711")
    assert done.stdout.startswith(headline)
    assert "run.out (not there" not in done.stdout


# ── a report beside the log, and one that must not go over it ────────────────────────────────


def test_a_report_beside_a_log_that_was_found_by_its_name(slurm: FakeSlurm, folder: Path) -> None:
    put(folder, "logs/slurm-4711.out")
    for _ in range(2):  # the second time it lies there itself, and is no log of the job
        assert run(slurm, folder, "4711", "--beside-log").stdout == ""
        assert "python-error" in (folder / "logs" / "slurmdoctor-4711.txt").read_text()
        assert found(slurm, folder, "4711")["coverage"]["files"] == 1


def test_no_report_goes_over_the_log_that_was_found(slurm: FakeSlurm, folder: Path) -> None:
    put(folder, "slurm-4711.out")
    complains(run(slurm, folder, "4711", "-o", "slurm-4711.out"), "is the file that is read")
    assert (folder / "slurm-4711.out").read_text() == KEY


def test_rows_of_several_jobs_say_once_how_their_logs_were_found(slurm: FakeSlurm, folder: Path) -> None:
    for job in "123":
        put(folder, f"slurm-{job}.out", OOM)
    done = run(slurm, folder, "1", "2", "3")
    assert done.stdout.count("cuda-oom") >= 3
    assert (done.stderr.count("Slurm is not reachable from here"), done.stderr.count("\n")) == (1, 1)


# ── for agents ───────────────────────────────────────────────────────────────────────────────


def test_an_agent_gets_only_logs_of_folders_that_are_open_to_it(
    slurm: FakeSlurm, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(slurm.folder))
    monkeypatch.chdir(folder)
    put(folder, "slurm-4711.out", OOM)
    (tmp_path / "open").mkdir()
    question = {"job_id": "4711", "allowed": [str(tmp_path / "open")]}
    refused = answer(question)
    assert "no log of job 4711" in refused["error"]
    assert str(folder) not in refused["error"]
    put(tmp_path / "open", "logs/slurm-4711.out", KEY)
    assert answer(question)["report"]["cause"]["id"] == "python-error"
    slurm.scontrol({"4711": record("4711", folder)})  # Slurm names a folder that is not open
    put(tmp_path / "open", "logs/slurm-4711.out", KEY)
    put(folder, "run.out", OOM)
    assert "cuda-oom" not in str(answer(question))


@pytest.mark.parametrize("n", ["9" * 15, "9" * 400, "9" * 5000, "²"], ids=["15", "400", "5000", "no digit to int()"])
def test_no_number_is_too_long(n: str) -> None:
    scontrol = (
        f"JobId={n} UserId=u({n}) JobState=TIMEOUT ExitCode={n}:0 TimeLimit=1-{n}:00 RunTime={n} HetJobIdSet=7-{n},{n}\n"
        f"   NumNodes={n} NumTasks={n} NtasksPerN:B:S:C={n}:0:*:* MinMemoryNode={n}M TRES=cpu=8,gres/gpu={n}\n"
        f"   HetJobOffset=1 NodeList=n[{n},1-{n}]\n"
    )
    sacct = f"JobID|State|Elapsed|ReqMem|MaxRSS|ExitCode\n7|CANCELLED by {n}|1-{n}:00|{n}G|{n}|{n}:0\n"
    for told in (scontrol, sacct, scontrol + sacct):
        jobinfo.read([("long", told)])
