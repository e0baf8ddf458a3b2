"""Slurm's records: parsed from text, joined, and weighed against what a log says."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from cases import finding_of, values
from slurmdoctor import diagnose
from slurmdoctor.model import Diagnosis, JobRecord, from_code
from slurmdoctor.report.text_report import render_text
from slurmdoctor.slurm import jobinfo, logs
from slurmdoctor.slurm.job_evidence import warned
from slurmdoctor.slurm.jobinfo import seconds, size
from slurmdoctor.slurm.script.parser import parse
from tables import table

RECORDS = Path(__file__).parent / "job_records"
SCONTROL, STEPS = ((RECORDS / f"{command}.txt").read_text(encoding="utf-8") for command in ("scontrol", "sacct"))
ROWS = table("record_rows")


def scontrol(state: str = "FAILED", reason: str = "NonZeroExitCode", exit: str = "1:0") -> str:
    return SCONTROL.format(id=42, state=state, reason=reason, exit=exit)


def record(*texts: str, job: str | None = None) -> JobRecord:
    found = jobinfo.read([(f"text {n}", text) for n, text in enumerate(texts)], job)
    assert found is not None
    return found


def said(log: str, *texts: str) -> Diagnosis:
    return diagnose(log, record=record(*texts))


# ── parsing ──────────────────────────────────────────────────────────────────────────────────


def test_scontrol() -> None:
    job = record(scontrol())
    assert (job.id, job.name, job.state, job.reason, job.uid) == ("42", "train run", "FAILED", "NonZeroExitCode", 4001)
    assert job.nodes == ("gpu07", "gpu08")
    assert (job.num_nodes, job.num_tasks, job.tasks_per_node) == (2, 16, 8)
    assert (job.time_limit, job.elapsed, job.restarts) == (3600, 3600, 0)
    assert (job.work_dir, job.std_out) == ("/home/kim/my run", "/home/kim/my run/log-42.out")
    assert job.req_mem == 200 << 30
    assert job.exit == from_code(1)
    assert job.quotes["state"].line == 3


def test_both_are_joined() -> None:
    job = record(scontrol(exit="143:0"), STEPS.format(job="FAILED", exit="15:0", step="FAILED", code="1:0"))
    assert job.sources == {"scontrol", "sacct"}
    assert ([s.id for s in job.steps], [s.id for s in job.work_steps]) == (["batch", "0"], ["0"])
    assert job.max_rss == 1992294 * 1024
    assert job.exit is not None
    assert (job.exit.code, job.exit.signal) == (143, "SIGTERM")


def test_one_saved_file_may_hold_all_that_slurm_says() -> None:
    node = "NodeName=gpu08 Arch=x86_64\n   State=DOWN ThreadsPerCore=2\n   Reason=Not responding [slurm@2026-11-20T11:00:05]\n"
    job, steps = scontrol(exit="1:0"), STEPS.format(job="FAILED", exit="1:0", step="FAILED", code="1:0")
    apart = record(job, steps, node)
    assert apart.bad_nodes.keys() == {"gpu08"}
    for texts in ((job, steps, node), (steps, job, node), (node, job, steps)):
        one = record("\n".join(texts))
        assert (one.bad_nodes, one.steps and one.steps[0].id, one.sources) == (apart.bad_nodes, "batch", apart.sources)
        assert (one.state, one.reason, one.exit) == (apart.state, apart.reason, apart.exit)


@pytest.mark.parametrize("now", ["RUNNING", "PENDING", "COMPLETING", "FAILED", "COMPLETED"])
def test_of_a_job_that_runs_again_sacct_tells_an_earlier_end(now: str) -> None:
    told = record(scontrol(now), STEPS.format(job="NODE_FAIL", exit="0:0", step="CANCELLED", code="0:15"))
    assert told.state == ("NODE_FAIL" if now == "COMPLETED" else now)
    older = STEPS.format(job="RUNNING", exit="0:0", step="RUNNING", code="0:0")
    assert record(scontrol(now), older).state == now


def test_a_node_of_another_job_is_no_bad_node_of_this_one() -> None:
    nodes = "".join(f"NodeName=gpu{n:02d} State={state}\n" for n, state in ((7, "IDLE"), (8, "DOWN"), (9, "DOWN")))
    assert record(scontrol(), nodes).bad_nodes.keys() == {"gpu08"}


def test_sacct_with_bars_and_with_a_cut_state() -> None:
    text = "JobID|State|ExitCode|UID|NodeList\n7_3|CANCELLED by 4001|0:0|4001|gpu07\n7_3.0|CANCELLED|0:15||gpu07\n"
    job = record(text, job="7_3")
    assert (job.state, job.cancelled_by, job.uid, job.array_task) == ("CANCELLED", 4001, 4001, 3)
    assert job.steps[0].state == "CANCELLED"
    assert record("JobID  State\n------ ----------\n5      OUT_OF_ME+\n").state == "OUT_OF_MEMORY"


def test_the_worst_task_of_an_array_stands_for_it() -> None:
    text = "JobID|State|ExitCode\n" + "".join(
        f"7_{k}|{s}|{c}\n" for k, s, c in [(0, "COMPLETED", "0:0"), (1, "FAILED", "1:0"), (2, "FAILED", "2:0")]
    )
    job = record(text, job="7")
    assert job.array_task == 1
    assert job.siblings == ("7_2",)
    assert record(text, job="7_2").array_task == 2
    assert jobinfo.read([("sacct", text)], "8") is None


def test_a_component_of_a_het_job_has_an_id_and_a_raw_one_of_its_own() -> None:
    text = "JobID|State|ExitCode\n20+0|COMPLETED|0:0\n20+1|FAILED|5:0\n"
    assert record(text, job="20").het_offset == 1
    assert record(text, job="20+0").state == "COMPLETED"
    rows = [("20+0", 20), ("20+1", 21), ("22+0", 22), ("22+1", 23)]
    text = "JobID|JobIDRaw|State|ExitCode\n" + "".join(f"{name}|{raw}|FAILED|1:0\n" for name, raw in rows)
    assert {raw: record(text, job=str(raw)).id for raw in (21, 23)} == {21: "20+1", 23: "22+1"}
    assert jobinfo.read([("sacct", text.replace("JobIDRaw", "Comment"))], "21") is None


def test_a_step() -> None:
    job = record(STEPS.format(job="COMPLETED", exit="0:0", step="OUT_OF_MEMORY", code="0:125"), job="42.0")
    assert (job.step, job.state) == ("0", "OUT_OF_MEMORY")


def test_times_and_sizes() -> None:
    times = {"01:30:00": 5400, "90": 5400, "2-00:00:00": 172800, "1-12": 129600, "1:30": 90}
    assert {text: seconds(text) for text in times} == times
    assert seconds("00:00:05.123") == 5
    assert [seconds(text) for text in ("UNLIMITED", "x", "")] == [None] * 3
    sizes = {"800M": 800 << 20, "1.5G": 3 << 29, "12K": 12288, "400": 400 << 20, "1.5.2G": None, "?": None}
    assert {text: size(text) for text in sizes} == sizes


@pytest.mark.parametrize(("lines", "node"), ROWS["memory"])
def test_the_memory_a_node_that_a_job_asked_for(lines: str, node: int | None) -> None:
    text = lines if "|" in lines else f"{scontrol()}   {lines}\n"
    assert record(text).req_mem == (node and node << 20)


HEAD = "JobID|State|ExitCode|NodeList\n"


@pytest.mark.parametrize(("states", "chosen"), ROWS["worst"])
def test_of_several_jobs_the_one_that_failed_worst_is_meant(states: dict[str, str], chosen: str) -> None:
    assert record(HEAD + "".join(f"{job}|{state}|1:0|gpu07\n" for job, state in states.items())).id == chosen


def test_a_row_of_sacct_adds_what_scontrol_has_lost() -> None:
    """A node that failed and left the job; a step is seen with what it has of its own, and one that sacct lacks is missing."""
    row = f"{HEAD}42|NODE_FAIL|1:0|gpu[07-09]\n42.0|FAILED|1:0|gpu09\n42.1|CANCELLED||\n43.0|FAILED|1:0|gpu01\n"
    assert record(scontrol(), row).nodes == ("gpu07", "gpu08", "gpu09")
    assert record(scontrol(), row.replace("07-09", "07")).nodes == ("gpu07", "gpu08")
    assert [one.id for one in record(row).steps] == ["0", "1"]
    first, second, third = (record(scontrol(), row, job=f"42.{step}") for step in range(3))
    assert (first.nodes, first.quotes["exit"].line) == (("gpu09",), 3)
    assert (second.state, second.nodes, second.exit) == ("CANCELLED", ("gpu07", "gpu08", "gpu09"), from_code(1))
    assert (third.state, third.missing) == ("FAILED", ("step 42.2 (not in sacct's table)",))


def test_the_tasks_of_an_array_and_their_states() -> None:
    """Those that wait are one; a state that sacct cuts is whole where enough of it is left; another array's is none of them."""
    table = f"{HEAD}7_[3-9]|PENDING||\n7_2|NODE_F+|1:0|\n7_1|FAILE+|1:0|\n8_1|FAILED|1:0|\n9|FAIL+|1:0|\n"
    found = jobinfo.tasks([("sacct", table)], "7")
    assert [(job.array_task, job.state) for job in found] == [(1, "FAILE"), (2, "NODE_FAIL"), (None, "PENDING")]
    waits = SCONTROL.replace("JobId={id}", "JobId={id} ArrayJobId=7 ArrayTaskId=3-9%2")
    texts = [("scontrol", waits.format(id=7, state="PENDING", reason="None", exit="0:0")), ("sacct", table)]
    assert [job.label for job in jobinfo.tasks(texts, "7")] == ["7_1", "7_2", "7_[3-9%2]"]
    assert jobinfo.tasks([("sacct", table)], "9") == []


def test_what_is_a_record_of_slurm_and_which_nodes_are_bad() -> None:
    for text in ("JobId=7 JobName=x\n", "NodeName=gpu07 Arch=x86_64\n", "JobID|State\n", "  JobIDRaw  State\n"):
        assert jobinfo.looks_like_slurm(text)
    assert not any(map(jobinfo.looks_like_slurm, ("the JobID of it\n", "x" * 4000 + "JobId=7\n", "JobIDs 7\n")))
    nodes = "NodeName=n1 Arch=x\n   State=IDLE+DRAIN\nNodeName=n2 State=IDLE\n   Reason=old\nNodeName=n3\nNodeName=n4 State=MIXED*\n"
    assert jobinfo.bad_nodes("PartitionName=gpu\n   State=DOWN TotalCPUs=64\n") == {}
    assert jobinfo.bad_nodes(nodes) == {"n1": "IDLE+DRAIN", "n4": "MIXED*"}


def test_torn_texts_do_no_harm() -> None:
    for text in ("", "JobId=", "JobId=1", "JobID\n", "JobID|State\n|\n", "NodeName=", "JobId=1 =\n==\n" * 3):
        jobinfo.read([("torn", text)])


# ── logs ─────────────────────────────────────────────────────────────────────────────────────


def test_patterns(tmp_path: Path) -> None:
    named = {"work_dir": str(tmp_path), "std_out": "out/%x-%5j.log", "std_err": str(tmp_path / "gone.err")}
    job = replace(record(scontrol()), **named)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "train run-00042.log").touch()
    for k in range(3):
        (tmp_path / f"rank-42-{k}.log").touch()
    found, missing = logs.find(job, ["rank-%j-%t.log"])
    assert [Path(f).name for f in found] == ["train run-00042.log", "rank-42-0.log", "rank-42-1.log", "rank-42-2.log"]
    assert missing == [f"log {tmp_path / 'gone.err'} (not there, or not readable)"]


def test_patterns_of_an_array() -> None:
    job = JobRecord("99", array_job="42", array_task=13)
    assert logs.expand("%A_%a.out", job) == "42_13.out"
    assert logs.expand("%b-%%-%N", job) == f"3-%-{logs.ANY}"
    assert logs.expand("\\%j", job) == "%j"
    assert logs.expand("%999999999j", job) == "0000000099", "as wide as Slurm makes it, and no wider"


# ── one verdict from all witnesses ───────────────────────────────────────────────────────────

STEADY = "".join(f"2026-11-20 10:{m:02d}:30 step {m}/90 loss 1.5\n" for m in range(1, 60))
TRACEBACK = """Traceback (most recent call last):
  File "/w/train.py", line 9, in main
    load(k)
ValueError: shard 5 is empty
"""
LIMIT = "slurmstepd: error: *** JOB 42 ON gpu07 CANCELLED AT 2026-11-20T11:00:00 DUE TO TIME LIMIT ***\n"
DONE = STEADY[: len(STEADY) // 3] + "2026-11-20 10:21:00 Training completed in 21 min\n"
HUNG = "".join(STEADY.splitlines(keepends=True)[:11])


def test_a_job_that_hung_tells_how_long_and_one_that_made_progress_what_it_needs() -> None:
    record = scontrol("TIMEOUT", "TimeLimit", "0:15")
    hung, steady = said(HUNG + LIMIT, record), said(STEADY + LIMIT, record)
    assert (hung.facts["ended"], hung.facts["idle_min"]) == ("hung", 48)
    assert steady.facts["needed_min"] > 60


def test_what_is_missing_is_named() -> None:
    assert said(TRACEBACK, scontrol()).coverage.missing == ("sacct",)
    assert diagnose(TRACEBACK).coverage.missing == ("sacct", "scontrol")


def test_the_worst_step_of_an_earlier_run_says_nothing_of_this_one() -> None:
    """Slurm keeps DerivedExitCode when it requeues a job."""
    text = scontrol("COMPLETED", "None", "0:0").replace("ExitCode=0:0", "ExitCode=0:0 DerivedExitCode=0:15")
    assert said("all is said\n", text).verdict == "failed"
    assert said("all is said\n", text.replace("Restarts=0", "Restarts=1")).verdict == "no-failure"


def test_the_signal_that_the_script_asks_for_before_the_limit_is_part_of_the_record() -> None:
    script = parse("#!/bin/bash\n#SBATCH --signal=B:USR1@120\nsrun python train.py\n", "job.sbatch")
    found = warned(record(scontrol()), script)
    assert (found.warned_by, found.warned_before) == ("SIGUSR1", 120)


def test_logs_of_all_components_of_a_het_job(tmp_path: Path) -> None:
    for name in ("het-25-0.log", "het-26-1.log", "het-99-0.log"):
        (tmp_path / name).write_text("x\n")
    text = SCONTROL.replace("JobId={id}", "JobId=25 HetJobId=25 HetJobOffset=0\n   HetJobIdSet=25-26")
    job = record(text.format(id=25, state="FAILED", reason="None", exit="1:0"))
    assert job.het_ids == ("25", "26")
    found, _ = logs.find(replace(job, work_dir=str(tmp_path)), ["het-%j-%t.log"])
    assert [Path(f).name for f in found] == ["het-25-0.log", "het-26-1.log"]


def test_an_earlier_report_in_the_log_is_no_news() -> None:
    text = f"Training at step 4/9 loss 1.0\n{TRACEBACK}"
    report = render_text(diagnose(text), width=100, colour=False)
    again = diagnose(text + "--- slurmdoctor 0.1.0, job 42 ---\n" + report + "--- end of slurmdoctor ---\n")
    assert [e.line for e in again.evidence] == [e.line for e in diagnose(text).evidence]
    other = report.replace("ValueError: shard 5 is empty", "torch.OutOfMemoryError: CUDA out of memory. Tried to")
    assert diagnose(other + text).cause.id == "python-error"


def test_a_mistake_of_the_script_is_mended_before_the_next_run() -> None:
    script = parse("#!/bin/bash\n#SBATCH -N1\nbash -c 'while sleep 9; do date; done' &\nsrun python a.py\nwait\n")
    timeout = record(scontrol("TIMEOUT", "TimeLimit", "0:15"))
    found = diagnose(DONE + LIMIT, record=timeout, script=script)
    assert found.retry is not None
    assert found.retry.advice == "after-fix"
    assert values(finding_of(DONE + LIMIT, record=timeout, script=script).reasons, "had-finished")
