"""Slurm's records: parsed from text, joined, and weighed against what a log says."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from cases import codes, finding_of, values
from slurmdoctor import diagnose
from slurmdoctor.model import Diagnosis, Finding, JobRecord
from slurmdoctor.report.text_report import render_text
from slurmdoctor.slurm import jobinfo, logs
from slurmdoctor.slurm.jobinfo import seconds, size

pytestmark = pytest.mark.usefixtures("golden_verdicts")

SCONTROL = """JobId={id} JobName=train run
   UserId=kim(4001) GroupId=kim(4001) MCS_label=N/A
   JobState={state} Reason={reason} Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode={exit}
   RunTime={ran} TimeLimit=01:00:00 TimeMin=N/A
   StartTime=2026-11-20T10:00:00 EndTime=2026-11-20T11:00:00 Deadline=N/A
   SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-11-20T10:00:00
   PreemptEligibleTime=2026-11-20T10:00:00 PreemptTime={preempt}
   Partition=gpu AllocNode:Sid=login:1
   NodeList=gpu[07-08]
   BatchHost=gpu07
   NumNodes=2 NumCPUs=64 NumTasks=16 CPUs/Task=4 ReqB:S:C:T=0:0:*:*
   TRES=cpu=64,mem=400G,node=2,billing=64
   Socks/Node=* NtasksPerN:B:S:C=8:0:*:* CoreSpec=*
   Command=/home/kim/run/job.sbatch --name "a b"
   WorkDir=/home/kim/my run
   StdErr=/home/kim/my run/log-{id}.err
   StdIn=/dev/null
   StdOut=/home/kim/my run/log-{id}.out

"""
STEPS = """         JobID      State ExitCode DerivedExitCode    Elapsed     MaxRSS     ReqMem   NodeList
-------------- ---------- -------- --------------- ---------- ---------- ---------- ----------
            42 {job:>10} {exit:>8}             0:0   01:00:00                  400G gpu[07-08]
      42.batch     FAILED      1:0                   01:00:00     12268K            gpu07
          42.0 {step:>10} {code:>8}                   01:00:00   1992294K            gpu[07-08]
"""


def scontrol(
    state: str = "FAILED",
    reason: str = "NonZeroExitCode",
    exit: str = "1:0",
    ran: str = "01:00:00",
    preempt: str = "None",
) -> str:
    return SCONTROL.format(id=42, state=state, reason=reason, exit=exit, ran=ran, preempt=preempt)


def record(*texts: str, job: str | None = None) -> JobRecord:
    found = jobinfo.read([(f"text {n}", text) for n, text in enumerate(texts)], job)
    assert found is not None
    return found


def said(log: str, *texts: str) -> Diagnosis:
    return diagnose(log, record=record(*texts))


def concluded(log: str, *texts: str) -> Finding:
    return finding_of(log, record=record(*texts))


def cause(found: Diagnosis) -> str | None:
    return found.cause.id if found.cause else None


# ── parsing ──────────────────────────────────────────────────────────────────────────────────


def test_scontrol() -> None:
    job = record(scontrol())
    assert (job.id, job.name, job.state, job.reason, job.uid) == ("42", "train run", "FAILED", "NonZeroExitCode", 4001)
    assert job.nodes == ("gpu07", "gpu08")
    assert (job.num_nodes, job.num_tasks, job.tasks_per_node) == (2, 16, 8)
    assert (job.time_limit, job.elapsed, job.restarts) == (3600, 3600, 0)
    assert job.work_dir == "/home/kim/my run"
    assert job.std_out == "/home/kim/my run/log-42.out"
    assert job.req_mem == 200 << 30
    assert job.exit is not None
    assert job.exit.code == 1
    assert job.quotes["state"].line == 3


def test_both_are_joined() -> None:
    job = record(scontrol(exit="143:0"), STEPS.format(job="FAILED", exit="15:0", step="FAILED", code="1:0"))
    assert job.sources == {"scontrol", "sacct"}
    assert [s.id for s in job.steps] == ["batch", "0"]
    assert [s.id for s in job.work_steps] == ["0"]
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


def test_sacct_with_bars() -> None:
    text = "JobID|State|ExitCode|UID|NodeList\n7_3|CANCELLED by 4001|0:0|4001|gpu07\n7_3.0|CANCELLED|0:15||gpu07\n"
    job = record(text, job="7_3")
    assert (job.state, job.cancelled_by, job.uid, job.array_task) == ("CANCELLED", 4001, 4001, 3)
    assert job.steps[0].state == "CANCELLED"


def test_a_cut_state_is_known() -> None:
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


def test_a_component_of_a_het_job() -> None:
    text = "JobID|State|ExitCode\n20+0|COMPLETED|0:0\n20+1|FAILED|5:0\n"
    assert record(text, job="20").het_offset == 1
    assert record(text, job="20+0").state == "COMPLETED"


def test_a_step() -> None:
    job = record(STEPS.format(job="COMPLETED", exit="0:0", step="OUT_OF_MEMORY", code="0:125"), job="42.0")
    assert (job.step, job.state) == ("0", "OUT_OF_MEMORY")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("01:30:00", 5400),
        ("90", 5400),
        ("2-00:00:00", 172800),
        ("1-12", 129600),
        ("1:30", 90),
        ("UNLIMITED", None),
        ("x", None),
        ("", None),
    ],
)
def test_seconds(text: str, value: int | None) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize(
    ("text", "value"), [("800M", 800 << 20), ("1.5G", 3 << 29), ("12K", 12288), ("400", 400 << 20), ("?", None)]
)
def test_size(text: str, value: int | None) -> None:
    assert size(text) == value


@pytest.mark.parametrize(
    "text", ["", "JobId=", "JobId=1", "JobID\n", "JobID|State\n|\n", "NodeName=", "JobId=1 =\n==\n" * 3]
)
def test_torn_texts_do_no_harm(text: str) -> None:
    jobinfo.read([("torn", text)])


# ── logs ─────────────────────────────────────────────────────────────────────────────────────


def test_patterns(tmp_path: Path) -> None:
    job = replace(
        record(scontrol()), work_dir=str(tmp_path), std_out="out/%x-%5j.log", std_err=str(tmp_path / "gone.err")
    )
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


def test_out_of_memory_without_a_line() -> None:
    found = said(STEADY, scontrol("OUT_OF_MEMORY", "OutOfMemory", "0:125"))
    assert cause(found) == "host-oom"
    assert found.exit.exit_class == "oom-killed"
    assert found.first_failure is not None
    assert found.first_failure.text == "JobState=OUT_OF_MEMORY Reason=OutOfMemory Dependency=(null)"
    assert found.first_failure.rank is None


def test_out_of_memory_behind_lost_peers() -> None:
    log = STEADY + "srun: error: gpu08: task 13: Killed\n"
    found = said(log, scontrol("OUT_OF_MEMORY", "OutOfMemory", "0:125"))
    assert cause(found) == "host-oom"
    assert found.first_failure is not None
    assert (found.first_failure.rank, found.first_failure.node) == (13, "gpu08")


def test_time_limit_of_a_job_that_made_progress() -> None:
    found = said(STEADY + LIMIT, scontrol("TIMEOUT", "TimeLimit", "0:15"))
    assert cause(found) == "time-limit"
    assert "made-progress" in codes(concluded(STEADY + LIMIT, scontrol("TIMEOUT", "TimeLimit", "0:15")).reasons)
    assert found.facts["needed_min"] > 60


def test_time_limit_of_a_job_that_hung() -> None:
    hung = "".join(STEADY.splitlines(keepends=True)[:11])
    found = said(hung + LIMIT, scontrol("TIMEOUT", "TimeLimit", "0:15"))
    assert cause(found) == "hang"
    assert (found.facts["ended"], found.facts["idle_min"]) == ("hung", 48)


def test_time_limit_of_a_job_that_had_finished() -> None:
    done = STEADY[: len(STEADY) // 3] + "2026-11-20 10:21:00 Training completed in 21 min\n"
    found = said(done + LIMIT, scontrol("TIMEOUT", "TimeLimit", "0:15"))
    assert cause(found) == "time-limit"
    assert found.facts["ended"] == "finished"


def test_time_limit_after_an_error() -> None:
    found = concluded(STEADY[:400] + TRACEBACK + LIMIT, scontrol("TIMEOUT", "TimeLimit", "0:15"))
    assert found.cause == "python-error"
    assert "idled-into-limit" in codes(found.reasons)


@pytest.mark.parametrize("uid", [4001, 0, 7])
def test_cancelled_by_whom(uid: int) -> None:
    table = f"JobID|State|ExitCode\n42|CANCELLED by {uid}|0:0\n42.0|CANCELLED|0:15\n"
    found = concluded(STEADY, scontrol("CANCELLED", "None", "0:15"), table)
    assert found.cause == "cancelled"
    recorded = values(found.reasons, "recorded")
    assert (recorded["uid"], recorded["owner"]) == (uid, 4001)


def test_node_failure_and_the_node_to_leave_out() -> None:
    node = "NodeName=gpu08 Arch=x86_64\n   State=DOWN* ThreadsPerCore=1\n   Reason=Not responding [slurm@10:40:00]\n"
    found = said(
        STEADY + "RuntimeError: Connection closed by peer [10.0.0.7]:33\n", scontrol("NODE_FAIL", "None", "0:0"), node
    )
    assert cause(found) == "node-failure"
    assert found.retry is not None
    assert (found.retry.advice, found.retry.exclude_nodes) == ("elsewhere", ("gpu08",))
    assert "sbatch --exclude=gpu08 job.sbatch" in render_text(found, width=100, colour=False)


def test_no_node_is_left_out_without_evidence() -> None:
    found = said(STEADY, scontrol("NODE_FAIL", "None", "0:0"))
    assert found.retry is not None
    assert found.retry.exclude_nodes == ()


def test_preempted() -> None:
    found = said(STEADY, scontrol("CANCELLED", "None", "0:15", preempt="2026-11-20T10:59:00"))
    assert cause(found) == "preempted"


def test_completed_with_a_dead_python_inside() -> None:
    table = STEPS.format(job="COMPLETED", exit="0:0", step="FAILED", code="1:0")
    found = concluded(STEADY[:200] + TRACEBACK, scontrol("COMPLETED", "None", "0:0"), table)
    assert found.cause == "python-error"
    name, state, ended = values(found.reasons, "completed-status-hides")["step"]
    assert (name, state, ended.code) == ("0", "FAILED", 1)


def test_completed_after_a_failed_step() -> None:
    table = (
        STEPS.format(job="COMPLETED", exit="0:0", step="FAILED", code="1:0")
        + "          42.1  COMPLETED      0:0                   00:10:00   1992294K            gpu07\n"
    )
    found = said(
        "srun: error: gpu07: task 3: Exited with exit code 1\n" + STEADY, scontrol("COMPLETED", "None", "0:0"), table
    )
    assert found.verdict == "no-failure"


def test_a_143_that_hides_a_first_1() -> None:
    log = (
        STEADY[:400]
        + TRACEBACK
        + "srun: error: gpu07: task 5: Exited with exit code 1\nsrun: error: gpu08: tasks 8-15: Terminated\n"
    )
    found = said(log, scontrol("FAILED", "NonZeroExitCode", "143:0"))
    assert (cause(found), found.exit.code) == ("python-error", 1)
    hidden = values(concluded(log, scontrol("FAILED", "NonZeroExitCode", "143:0")).reasons, "record-hides-exit")
    assert hidden["own"] == 1


def test_failed_with_nothing_in_the_log() -> None:
    found = said(STEADY, scontrol("FAILED", "NonZeroExitCode", "127:0"))
    assert cause(found) == "command-not-found"
    assert cause(said(STEADY, scontrol("FAILED", "NonZeroExitCode", "17:0"))) == "exit-code"


def test_a_waiting_job() -> None:
    found = said("\n", scontrol("PENDING", "Resources", "0:0", ran="00:00:00"))
    assert found.verdict == "unknown"
    waits = concluded("\n", scontrol("PENDING", "Resources", "0:0", ran="00:00:00"))
    assert values(waits.reasons, "not-started") == {"why": "Resources"}


def test_what_is_missing_is_named() -> None:
    assert said(TRACEBACK, scontrol()).coverage.missing == ("sacct",)
    assert diagnose(TRACEBACK).coverage.missing == ("sacct", "scontrol")


# ── what a walk through real jobs has shown ──────────────────────────────────────────────────

OOM = (
    "2026-11-20 10:01:30 step 1/2 loss 1.5\n"
    "slurmstepd-gpu07: error: Detected 1 oom-kill event(s) in StepId=42.0. Some of your processes may have been killed "
    "by the cgroup out-of-memory handler.\n"
    "srun: error: gpu07: task 1: Out Of Memory\n2026-11-20 10:02:30 step 2/2 loss 1.2\nTraining finished\n"
)


def test_the_others_ran_to_the_end_but_the_job_failed() -> None:
    assert cause(diagnose(OOM, exit_status=1)) == "host-oom"
    found = said(OOM, scontrol("FAILED", "NonZeroExitCode", "1:0"))
    assert cause(found) == "host-oom"
    assert found.first_failure is not None
    assert found.first_failure.rank == 1


def test_a_step_out_of_memory_without_accounting() -> None:
    text = scontrol("FAILED", "NonZeroExitCode", "1:0").replace("ExitCode=1:0", "ExitCode=1:0 DerivedExitCode=0:125")
    found = said("\n", text)
    assert (cause(found), found.exit.exit_class) == ("host-oom", "oom-killed")


def test_the_worst_step_of_an_earlier_run_says_nothing_of_this_one() -> None:
    """Slurm keeps DerivedExitCode when it requeues a job."""
    text = scontrol("COMPLETED", "None", "0:0").replace("ExitCode=0:0", "ExitCode=0:0 DerivedExitCode=0:15")
    assert said("all is said\n", text).verdict == "failed"
    assert said("all is said\n", text.replace("Restarts=0", "Restarts=1")).verdict == "no-failure"


def test_a_small_sample_of_memory_is_not_told() -> None:
    table = STEPS.format(job="OUT_OF_ME+", exit="0:125", step="OUT_OF_ME+", code="0:125").replace("1992294K", "8336K")
    assert "max_rss_gib" not in said(STEADY, scontrol("OUT_OF_MEMORY", "OutOfMemory", "0:125"), table).facts


def test_a_step_that_was_cancelled() -> None:
    table = "JobID|State|ExitCode|UID\n42|FAILED|9:0|4001\n42.0|CANCELLED by 4001|0:9|\n"
    log = STEADY + (
        "slurmstepd-gpu07: error: *** STEP 42.0 ON gpu07 CANCELLED AT 2026-11-20T11:00:00 ***\n"
        "srun: error: gpu07: tasks 0-1: Killed\n"
    )
    found = concluded(log, scontrol("FAILED", "NonZeroExitCode", "137:0"), table)
    assert found.cause == "cancelled"
    assert codes(found.reasons) == {"recorded"}
    assert values(found.reasons, "recorded")["step"] == "0"


@pytest.mark.parametrize(
    ("ended", "log"), [("0:10", ""), ("138:0", "srun: error: gpu07: tasks 0-15: User defined signal 1\n")]
)
def test_the_signal_before_the_limit_that_nobody_handled(ended: str, log: str) -> None:
    from slurmdoctor.slurm.job_evidence import warned
    from slurmdoctor.slurm.script.parser import parse

    script = parse("#!/bin/bash\n#SBATCH --signal=B:USR1@120\nsrun python train.py\n", "job.sbatch")
    steady = STEADY.replace("10:59:30", "10:58:00")
    told = warned(record(scontrol("FAILED", "NonZeroExitCode", ended, ran="00:58:10")), script)
    assert (told.warned_by, told.warned_before) == ("SIGUSR1", 120)
    found = diagnose(steady + log, record=told, script=script)
    assert cause(found) == "time-limit"
    assert found.facts["signalled"]
    early = warned(record(scontrol("FAILED", "NonZeroExitCode", ended, ran="00:20:00")), script)
    assert cause(diagnose(steady + log, record=early, script=script)) != "time-limit"


def test_logs_of_all_components_of_a_het_job(tmp_path: Path) -> None:
    for name in ("het-25-0.log", "het-26-1.log", "het-99-0.log"):
        (tmp_path / name).write_text("x\n")
    text = SCONTROL.replace("JobId={id}", "JobId=25 HetJobId=25 HetJobOffset=0\n   HetJobIdSet=25-26")
    job = replace(record(text.format(id=25, state="FAILED", reason="None", exit="1:0", ran="00:01:00", preempt="None")))
    assert job.het_ids == ("25", "26")
    found, _ = logs.find(replace(job, work_dir=str(tmp_path)), ["het-%j-%t.log"])
    assert [Path(f).name for f in found] == ["het-25-0.log", "het-26-1.log"]


def test_a_program_that_srun_could_not_start() -> None:
    log = "slurmstepd-n1: error: execve(): torchrunn: No such file or directory\n" * 2
    found = diagnose(log + "srun: error: n1: tasks 0-1: Exited with exit code 2\n")
    assert (cause(found), found.exit.code, found.exit.exit_class) == ("command-not-found", 2, "not-found")


def test_an_earlier_report_in_the_log_is_no_news() -> None:
    text = f"Training at step 4/9 loss 1.0\n{TRACEBACK}"
    report = render_text(diagnose(text), width=100, colour=False)
    again = diagnose(text + "--- slurmdoctor 0.1.0, job 42 ---\n" + report + "--- end of slurmdoctor ---\n")
    assert [e.line for e in again.evidence] == [e.line for e in diagnose(text).evidence]
    other = report.replace("ValueError: shard 5 is empty", "torch.OutOfMemoryError: CUDA out of memory. Tried to")
    assert cause(diagnose(other + text)) == "python-error"


def test_a_mistake_of_the_script_is_mended_before_the_next_run() -> None:
    from slurmdoctor.slurm.script.parser import parse

    script = parse("#!/bin/bash\n#SBATCH -N1\nbash -c 'while sleep 9; do date; done' &\nsrun python a.py\nwait\n")
    done = STEADY[: len(STEADY) // 3] + "2026-11-20 10:21:00 Training completed in 21 min\n" + LIMIT
    timeout = record(scontrol("TIMEOUT", "TimeLimit", "0:15"))
    found = diagnose(done, record=timeout, script=script)
    assert found.retry is not None
    assert found.retry.advice == "after-fix"
    assert values(finding_of(done, record=timeout, script=script).reasons, "had-finished")
