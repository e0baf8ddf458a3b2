"""The jobs that sacct tells of as a survey's items: every run of every job once, with its logs, and one call a day."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from slurmdoctor.model import JobRecord, UserError
from slurmdoctor.slurm import windows
from slurmdoctor.slurm.logs import LogIndex, find
from slurmdoctor.survey.listing import AGAIN, Accounts, find_accounted
from slurmdoctor.survey.rows import OWN_JOBS, How, Item
from slurmdoctor.survey.work import diagnose_one
from surveyed import rows_of, survey

KNOWN = [
    "JobID", "JobIDRaw", "JobName", "User", "UID", "Account", "Cluster", "Partition", "State", "ExitCode", "Submit",
    "Start", "End", "ElapsedRaw", "NNodes", "NodeList", "AllocTRES", "WorkDir", "SubmitLine", "Comment", "StdOut", "StdErr",
]  # fmt: skip
SACCT = """#!{python}
import subprocess
import sys
args = sys.argv[1:]
open({asked!r}, "a").write(" ".join(["sacct", *args]) + "\\n")
if args == ["-e"]:
    print(" ".join({known!r}))
    sys.exit()
options = dict(word.lstrip("-").partition("=")[::2] for word in args)
rows, down = {rows!r}, {down!r}
if options["endtime"][:10] in down:
    sys.exit("sacct: error: slurm_persist_conn_open: failed to open")
fields = options["format"].split(",")
print(options["delimiter"].join(fields))
for row in rows:
    if row["Start"] <= options["endtime"] and row["End"] >= options["starttime"] or row["End"] == "Unknown":
        print(options["delimiter"].join(row.get(field, "") for field in fields))
"""
SCONTROL = "#!/bin/sh\necho scontrol $* >> {asked}\necho 'AccountingStorageTRES   = cpu,mem,node,billing,gres/gpu'\n"
Sacct = Callable[..., Path]
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


@pytest.fixture
def sacct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sacct:
    """Programs that answer from these rows, as the windows of a real one would cut them. Returns what they were asked."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}/usr/bin{os.pathsep}/bin")

    def put(rows: Sequence[Mapping[str, str]], without: Sequence[str] = (), down: Sequence[str] = ()) -> Path:
        known = [name for name in KNOWN if name not in without]
        values = {"python": sys.executable, "asked": str(programs / "asked")}
        (programs / "sacct").write_text(SACCT.format(rows=list(rows), known=known, down=list(down), **values))
        (programs / "scontrol").write_text(SCONTROL.format(**values))
        for name in ("sacct", "scontrol"):
            (programs / name).chmod(0o755)
        return programs / "asked"

    return put


USUAL = """JobID=4711 JobName=train User=demo Account=vision Cluster=alps Partition=gpu State=FAILED ExitCode=1:0 ElapsedRaw=3600
NNodes=1 NodeList=node01 AllocTRES=cpu=8,gres/gpu=4 Submit=2026-11-20T09:00:00 Start=2026-11-20T10:00:00 End=2026-11-20T11:00:00"""


def row(tmp: Path, **cells: str) -> dict[str, str]:
    usual = dict(cell.split("=", 1) for cell in USUAL.split())
    usual |= {"UID": str(os.getuid()), "WorkDir": str(tmp), "SubmitLine": "sbatch job.sh"}
    return {**usual, "JobIDRaw": cells.get("JobID", "4711"), **cells}


def log(path: Path, text: str = OOM, at: str = "2026-11-20T11:00:00") -> str:
    """Written last at this time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (datetime.fromisoformat(at).timestamp(),) * 2)
    return str(path)


def told(first: int = 20, last: int = 22, **asked: Any) -> Accounts:
    return find_accounted(datetime(2026, 11, first), datetime(2026, 11, last), windows.Asked(**asked))


def items(first: int = 20, last: int = 22, **asked: Any) -> list[Item]:
    return list(told(first, last, **asked))


def names(item: Item) -> list[str]:
    return [one.path.rpartition("/")[2] for one in item.logs]


def test_one_call_a_day_whatever_the_jobs(sacct: Sacct, tmp_path: Path) -> None:
    asked = sacct([row(tmp_path, JobID=str(4700 + k), End=f"2026-11-2{k % 3}T12:00:00") for k in range(90)])
    found = {item.id: item.key for item in items(20, 23)}
    assert (len(found), found["4711"]) == (90, "alps:4711@1795165200")
    calls = asked.read_text().splitlines()
    assert [call.split()[0] for call in calls] == ["sacct", "scontrol", "sacct", "sacct", "sacct"]


WAYS = {
    "StdOut": ({"StdOut": "logs/%x.%j.txt"}, "logs/train.4711.txt"),
    "submit line": ({"SubmitLine": "sbatch -J train --output=mine-%j.log job.sh"}, "mine-4711.log"),
    "script": ({"SubmitLine": "sbatch ours.sh 8"}, "deep/train-4711.txt"),
    "default": ({}, "slurm-4711.out"),
    "usual name": ({}, "logs/train-4711.err"),
}


@pytest.mark.parametrize(("cells", "file"), WAYS.values(), ids=WAYS)
def test_where_a_log_is_found(sacct: Sacct, tmp_path: Path, cells: dict[str, str], file: str) -> None:
    (tmp_path / "ours.sh").write_text("#!/bin/bash\n#SBATCH -o deep/%x-%j.txt\nsrun python train.py\n")
    log(tmp_path / file)
    sacct([row(tmp_path, **cells)], without=() if "StdOut" in cells else ("StdOut", "StdErr"))
    (item,) = items()
    assert names(item) == [file.rpartition("/")[2]]


def test_a_file_that_is_not_the_job_users_is_not_read_for_another(sacct: Sacct, tmp_path: Path) -> None:
    log(tmp_path / "mine.log")
    sacct([row(tmp_path, SubmitLine=f"sbatch -o {tmp_path}/mine.log job.sh", UID=str(os.getuid() + 1))])
    (item,) = items()
    assert (names(item), item.notes[-1]) == ([], f"log {tmp_path}/mine.log (not a file of the job's user)")


def test_a_script_speaks_for_a_job_only_while_it_is_as_it_was(sacct: Sacct, tmp_path: Path) -> None:
    sacct([row(tmp_path)])
    script = "#!/bin/bash\npython train.py | tee log\n"  # changed on the 21st, after the job was submitted
    for text, day, own in ((script, 19, True), (script, 21, False), ("\x7fELF", 19, False), ("print(1)", 19, False)):
        log(tmp_path / "job.sh", text, f"2026-11-{day}T00:00:00")
        assert [item.script for item in items()] == [str(tmp_path / "job.sh") if own else None]


def test_completed_jobs_are_rows_and_read_when_asked(sacct: Sacct, tmp_path: Path) -> None:
    done = row(tmp_path, State="COMPLETED", ExitCode="0:0", AllocTRES="cpu=8")
    sacct([done, row(tmp_path, JobID="4711.0", State="COMPLETED")])
    log(tmp_path / "slurm-4711.out")
    (bare,), (whole,) = items(), items(completed=True)
    assert (bare.key, bare.read, bare.logs) == (whole.key, False, ())
    assert (whole.read, names(whole)) == (True, ["slurm-4711.out"])
    known = [(len(one.steps), one.gpus, one.elapsed) for one in (bare.record, whole.record) if one]
    assert known == [(0, 0, 3600), (1, 0, 3600)]


def test_what_never_started_and_what_a_survey_sent_itself_is_told_and_left_out(sacct: Sacct, tmp_path: Path) -> None:
    never = row(tmp_path, State="CANCELLED by 1001", NodeList="None assigned", ElapsedRaw="0")
    own = [row(tmp_path, JobID="4713", JobName=name, State="CANCELLED by 1001") for name in (OWN_JOBS, "slurmdoctor-4")]
    sacct([never, row(tmp_path, JobID="4712", State="CANCELLED by 1001"), *own])
    accounts = told(20, 21)
    found = [(item.id, item.record and (item.record.state, item.record.cancelled_by)) for item in accounts]
    assert found == [("4712", ("CANCELLED", 1001))]
    assert sorted(accounts.notes) == [
        "left out as slurmdoctor's own, which read logs: 2",
        "left out as they ended before they started: 1",
    ]


def test_components_of_a_het_job_are_one_job(sacct: Sacct, tmp_path: Path) -> None:
    sacct([
        row(tmp_path, JobID="4711+0", JobIDRaw="4711", State="COMPLETED"),
        row(tmp_path, JobID="4711+1", JobIDRaw="4712", NodeList="node[02-03]", NNodes="2", AllocTRES="gres/gpu=8"),
        row(tmp_path, JobID="4711+1.0", JobIDRaw="4712.0", ExitCode="5:0"),
    ])  # fmt: skip
    log(tmp_path / "slurm-4711.out")
    (item,) = items()
    assert item.record is not None
    assert (item.id, names(item), item.record.state) == ("4711", ["slurm-4711.out"], "FAILED")
    assert (item.record.nodes, item.record.num_nodes, item.record.gpus) == (("node01", "node02", "node03"), 3, 12)


LINE = "slurmstepd: error: *** JOB 4711 ON node01 CANCELLED AT 2026-11-20T10:59:59 DUE TO JOB REQUEUE ***\n"


def _twice(tmp: Path) -> list[dict[str, str]]:
    second = {"Submit": "2026-11-20T11:00:00", "Start": "2026-11-20T11:02:00", "End": "2026-11-20T12:00:00"}
    return [row(tmp, **second), row(tmp, State="REQUEUED")]  # sacct may print the last run first


def test_each_run_of_a_requeued_job_has_its_own_part_of_the_log(sacct: Sacct, tmp_path: Path) -> None:
    sacct(_twice(tmp_path))
    log(tmp_path / "slurm-4711.out", f"step 1\n{LINE}step 1\n{OOM}\n", "2026-11-20T12:00:00")
    first, second = items()
    cut = len(f"step 1\n{LINE}")
    assert [(one.begins, one.ends) for item in (first, second) for one in item.logs] == [(0, cut), (cut, 0)]
    assert first.key != second.key
    runs = [item.record and (item.record.state, item.record.restarts) for item in (first, second)]
    assert runs == [("REQUEUED", None), ("FAILED", 1)]


def test_a_log_that_the_next_run_emptied_is_not_the_run_befores(sacct: Sacct, tmp_path: Path) -> None:
    sacct(_twice(tmp_path))
    log(tmp_path / "slurm-4711.out", f"step 1\n{OOM}\n", "2026-11-20T12:00:00")
    first, second = items()
    assert (names(first), names(second)) == ([], ["slurm-4711.out"])
    assert "a later run has written to it" in " ".join(diagnose_one(first, How()).notes)


OTHERS = "srun: error: node02: task 1: Exited with exit code 1\n"


@pytest.mark.parametrize(
    ("state", "known", "append"),
    [*((one, True, True) for one in sorted(AGAIN)), ("NODE_FAIL", False, True), ("NODE_FAIL", True, False), ("REQUEUED", False, False)],
)  # fmt: skip
def test_no_row_has_a_node_or_a_line_of_another_run(
    sacct: Sacct, tmp_path: Path, state: str, known: bool, append: bool
) -> None:
    second, first = _twice(tmp_path)
    line = LINE.replace("JOB REQUEUE", "NODE FAILURE") if append else ""
    sacct([{**second, "NodeList": "node02"}, {**first, "State": state}][0 if known else 1 :])
    log(tmp_path / "slurm-4711.out", f"step 1\n{line}step 1\n[rank1]: {OOM}\n{OTHERS}", "2026-11-20T12:00:00")
    rows = [diagnose_one(item, How()) for item in items()]
    assert rows[0].cause != "cuda-oom"
    assert all(one.node is None or one.node in one.nodes for one in rows), [(one.node, one.nodes) for one in rows]


def _one_file(tmp: Path, second: str, written: str, **cells: str) -> list[dict[str, str]]:
    """Two jobs with one --output, the second of which begins as soon as the first has ended."""
    log(tmp / "same.out", OOM, written)
    one = {"SubmitLine": "sbatch --output=same.out job.sh"}
    later = {"Start": "2026-11-20T11:00:00", "End": "2026-11-20T11:00:20", "State": second, **cells}
    return [row(tmp, JobID="36", **one), row(tmp, JobID="37", **one, **later)]


@pytest.mark.parametrize(
    ("state", "cells"),
    [("FAILED", {}), ("COMPLETED", {}), ("RUNNING", {"End": "Unknown"}), ("FAILED", {"End": "2026-11-22T11:00:00"})],
)
def test_a_file_that_a_later_job_has_written_to_is_that_jobs(
    sacct: Sacct, tmp_path: Path, state: str, cells: dict[str, str]
) -> None:
    sacct(_one_file(tmp_path, state, "2026-11-20T11:00:20", **cells), without=("StdOut", "StdErr"))
    [first], others = ([item for item in items(20, 21) if (item.id == "36") == own] for own in (True, False))
    told = diagnose_one(first, How())
    assert (told.job_id, told.read, told.cause, told.confidence) == ("36", "no-log", "exit-code", "low")
    assert f"log {tmp_path}/same.out (a later job (37) has written to same.out)" in told.notes
    assert [names(item) for item in others if item.read] == [["same.out"]] * (state == "FAILED" and not cells)


def test_a_log_that_no_later_job_has_written_to_is_kept(sacct: Sacct, tmp_path: Path) -> None:
    sacct(_one_file(tmp_path, "FAILED", "2026-11-20T10:59:00"), without=("StdOut", "StdErr"))
    assert [names(item) for item in items() if item.id == "36"] == [["same.out"]]
    sacct([row(tmp_path, StdOut="same.out")])
    log(tmp_path / "same.out", OOM, "2026-11-20T11:30:00")  # touched by nobody known
    (item,) = items()
    told = diagnose_one(item, How())
    assert (told.cause, names(item)) == ("cuda-oom", ["same.out"])
    assert "written to after the job's end" in " ".join(told.notes)


def test_a_row_without_a_log_says_why_and_what_slurm_means(sacct: Sacct, tmp_path: Path) -> None:
    sacct([row(tmp_path, StdOut="gone.out"), row(tmp_path, JobID="4712", State="REQUEUED", ExitCode="0:0")])
    first, second = (diagnose_one(item, How()) for item in items())
    assert first.notes == ("log gone.out (not there, or not readable)",)
    assert (second.verdict, second.cause, second.gpu_hours_lost) == ("failed", "preempted", 4.0)


def test_a_job_whose_logs_cannot_be_looked_for_is_a_row(
    sacct: Sacct, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LogIndex, "there", None)
    sacct([row(tmp_path)])
    [record] = [item.record for item in items() if item.record and not item.logs]
    assert record.missing[-1].startswith("logs (TypeError")


def test_a_day_that_sacct_does_not_tell_is_noted_and_the_others_go_on(sacct: Sacct, tmp_path: Path) -> None:
    rows = [row(tmp_path, JobID=str(day), Start=f"2026-11-{day}T10:00:00", End=f"2026-11-{day}T11:00:00") for day in (20, 21, 22)]  # fmt: skip
    sacct(rows, down=["2026-11-22"])
    accounts = told(20, 23)
    assert ([item.id for item in accounts], accounts.failed_days) == (["20", "22"], 1)
    why = "sacct failed: cannot be reached: the accounting database does not answer"
    assert accounts.notes == [f"2026-11-21: {why}; jobs of that day are missing"]
    with pytest.raises(UserError, match="the accounting database does not answer"):
        items(21, 22)


def test_a_folder_is_listed_once_for_all_jobs(sacct: Sacct, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scan = Mock(wraps=os.scandir)
    monkeypatch.setattr(os, "scandir", scan)
    jobs = range(4711, 4731)
    for job, rank in product(jobs, range(2)):
        log(tmp_path / f"rank{rank}-{job}-node{rank}.out")
    sacct([row(tmp_path, JobID=str(job), StdOut="rank%t-%j-%N.out") for job in jobs])
    assert [len(item.logs) for item in items()] == [2] * 20
    scan.assert_called_once_with(str(tmp_path))


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a-4711-%t.out", {"a-4711-0.out", "a-4711-1.out"}),
        ("%N-4711-0.out", {"a-4711-0.out"}),
        ("%N4711%t", {"a-4711-0.out", "a-4711-1.out", "b-14711-0.out"}),
        ("%N", {"a-4711-0.out", "a-4711-1.out", "b-14711-0.out", "c[1]*.out"}),
        ("c[1]*%t.out", {"c[1]*.out"}),
        ("c[1]*.out", {"c[1]*.out"}),
        ("d%t", set()),
    ],
)
def test_what_a_pattern_leaves_open_is_matched_as_a_shell_does(
    tmp_path: Path, pattern: str, expected: set[str]
) -> None:
    for name in ("a-4711-0.out", "a-4711-1.out", "b-14711-0.out", ".hidden-4711-9.out", "c[1]*.out"):
        (tmp_path / name).touch()
    (tmp_path / "d-folder").mkdir()
    found, _ = find(JobRecord("1", std_out=f"{tmp_path}/{pattern}"))
    assert {Path(file).name for file in found} == expected


def test_without_paths_the_jobs_are_those_of_sacct(sacct: Sacct, tmp_path: Path) -> None:
    asked = sacct([row(tmp_path), row(tmp_path, JobID="4712", State="COMPLETED")], down=["2026-11-22"])
    log(tmp_path / "slurm-4711.out")
    done = survey("--since", "2026-11-20", "--until", "2026-11-22", "--user", "demo", "--user", "jane", "--partition", "gpu",
                  "--out", tmp_path / "out")  # fmt: skip
    said = "2 jobs, 1 of them failed; 1 read; 1 COMPLETED, and not read without --all-states"
    assert (done.code, done.stdout.splitlines()[0]) == (1, said), done.stderr
    assert [line.partition(": ")[2][:10] for line in done.stderr.splitlines()] == ["2026-11-21"]
    assert rows_of(tmp_path / "out", 'job_id, cause, read, gpus, "user"') == [
        ("4711", "cuda-oom", "yes", 4, "demo"),
        ("4712", None, "not-asked", 4, "demo"),
    ]
    assert "--user=demo,jane --partition=gpu" in asked.read_text()


def test_a_second_survey_makes_no_row_worse(sacct: Sacct, tmp_path: Path) -> None:
    call = ("--since", "2026-11-20", "--until", "2026-11-22", "--out", tmp_path / "out")
    first, second = _twice(tmp_path)[::-1]
    sacct([first])
    log(tmp_path / "slurm-4711.out", f"step 1\n{LINE}")
    assert survey(*call).code == 0
    sacct([first, second])
    log(tmp_path / "slurm-4711.out", f"step 1\n{OOM}\n", "2026-11-20T12:00:00")  # the second run emptied it
    assert survey(*call).stdout.splitlines()[0].endswith("1 job unchanged since the last run")
    (tmp_path / "slurm-4711.out").unlink()
    assert survey(*call).stdout.startswith("2 jobs unchanged")
    assert rows_of(tmp_path / "out", "state, cause") == [("FAILED", "cuda-oom"), ("REQUEUED", "preempted")]


def test_where_no_job_is_found_that_is_said_and_no_more(sacct: Sacct, tmp_path: Path) -> None:
    sacct([])
    done = survey("--since", "2026-11-20", "--until", "2026-11-21", "--partition", "nosuch", "--out", tmp_path / "out")
    assert (done.code, done.stdout) == (0, "no job of partition nosuch ended from 2026-11-20 00:00 to before 2026-11-21 00:00\n")  # fmt: skip
