"""What a job that Slurm or a person ended was doing: the advice follows the steps, the checkpoints and the warnings that the log shows."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pytest

from slurmdoctor import Diagnosis, diagnose
from slurmdoctor.slurm.jobinfo import read

BANNER = """=== KempnerForge Multi-Node Training ===
Job ID:       3565401
Nodes:        2 (node[07-08])
GPUs/node:    4
Total GPUs:   8
IB interface: ib0
Restart cnt:  {0}
=========================================
"""
START = datetime(2026, 5, 12, 10, 14, 0)
LIMIT = "slurmstepd: error: *** JOB 3565401 ON node07 CANCELLED AT {0} DUE TO TIME LIMIT ***\n"
SCANCEL = "slurmstepd: error: *** JOB 3565401 ON node07 CANCELLED AT {0} ***\n"
MORE_TIME = r"longer --time|more time\b(?! does)|`--time=\d"
FROM_CHECKPOINT = r"[Rr]esume from"


def at(**after: float) -> str:
    return (START + timedelta(**after)).isoformat(timespec="seconds")


def steps(count: int, seconds: float, form: str = "{0} [Step {1}] Node 0/GPU 0: Loss=2.4 | Mem=18.2GB/40GB\n") -> str:
    return "".join(form.format(at(seconds=n * seconds).replace("T", " "), n) for n in range(1, count + 1))


def advice(found: Diagnosis) -> str:
    return " ".join(f"{fix.do} {fix.why}" for fix in found.fixes)


def retry(found: Diagnosis) -> str | None:
    return found.retry.advice if found.retry else None


def told(found: Diagnosis, *texts: str, never: str = "") -> None:
    for text in texts:
        assert text in advice(found), advice(found)
    if never:
        assert not re.search(never, advice(found)), advice(found)


# ── hours without a step are a stall, and never a reason for more time ──


@pytest.mark.parametrize("made", [60, 4, 2, 1])
@pytest.mark.parametrize("end", [LIMIT, SCANCEL])
def test_hours_after_the_last_step_are_a_stall(made: int, end: str) -> None:
    found = diagnose(steps(made, 1) + end.format(at(hours=26)))
    assert retry(found) == "after-fix"
    told(found, f"{at(seconds=made)}", "26 h before", "py-spy dump", never=f"{MORE_TIME}|{FROM_CHECKPOINT}|as it is;")


def test_slurms_record_tells_the_end_where_the_log_just_stops() -> None:
    record = read(
        [
            (
                "scontrol.txt",
                f"JobId=3565401 JobName=x\n   JobState=TIMEOUT Reason=TimeLimit\n   StartTime={at()} EndTime={at(hours=26)}\n",
            )
        ]
    )
    found = diagnose(steps(60, 1), record=record)
    told(found, "No step came after step 60", "26 h before", never=f"{MORE_TIME}|{FROM_CHECKPOINT}")


def test_a_steady_job_is_not_accused_and_may_ask_for_more() -> None:
    found = diagnose(steps(300, 42) + LIMIT.format(at(seconds=300 * 42 + 40)))
    told(found, "longer --time", "step 300", never="stall|py-spy")


def test_few_steps_in_more_than_a_day_appear_stalled() -> None:
    found = diagnose(steps(60, 1740) + LIMIT.format(at(hours=29.3)))
    told(found, "60 steps in 28.8 h", "appears stalled", never=MORE_TIME)


# ── a training loop that began and made no step ──

BEGUN = [
    "[rank 0] INFO     Starting training: step 0 -> 50000\n",
    "[rank 0] INFO     Starting training: step=0, max_steps=50000, batch_size=4, world_size=8\n",
    "training ...\n",
    "***** Running training *****\n",
    "[rank0]:[titan] 2026-05-12 10:15:09,101 - root - INFO - Training starts at step 1.\n",
]


@pytest.mark.parametrize("began", BEGUN)
@pytest.mark.parametrize("end", [LIMIT, SCANCEL])
def test_without_a_first_step_nothing_can_be_resumed(began: str, end: str) -> None:
    found = diagnose(BANNER.format(0) + began + end.format(at(hours=2)))
    assert retry(found) == "after-fix"
    told(found, "NCCL_DEBUG=INFO TORCH_DISTRIBUTED_DEBUG=DETAIL", "GID_INDEX", "GLOO_SOCKET_IFNAME=ib0")
    told(found, never=f"{MORE_TIME}|{FROM_CHECKPOINT}|[Rr]esubmit it")


def test_the_time_without_a_step_is_told() -> None:
    found = diagnose(f"{at(seconds=69)} INFO Starting training: step 0\n" + LIMIT.format(at(minutes=62, seconds=22)))
    assert found.cause is not None
    assert found.cause.id == "time-limit"
    told(found, 'no step came in the 61 min after "Starting training: step 0"', never=MORE_TIME)


def test_a_job_that_was_cancelled_as_it_began_did_not_hang() -> None:
    found = diagnose(f"{at()} INFO Starting training: step 0\n" + SCANCEL.format(at(seconds=40)))
    told(found, never="NCCL_DEBUG|hung")


def test_a_program_that_goes_on_talking_did_not_hang() -> None:
    talk = "".join(f"batch {n} of the corpus done in a while, and all of it is well so far\n" for n in range(100))
    told(diagnose("Starting training\n" + talk + LIMIT.format(at(hours=2))), never="NCCL_DEBUG|hung at")


# ── resume: only from a checkpoint that the log shows ──

SAVES = {
    "checkpoints/step_500": "[rank 0] INFO     Checkpoint committed: checkpoints/step_500 (step=500)\n",
    "/scratch/demo/ckpt": "  successfully saved checkpoint from iteration     500 to /scratch/demo/ckpt [ t 1/2, p 1/1 ]\n",
    "output/checkpoint-500": "Model weights saved in output/checkpoint-500/model.safetensors\n",
    "ckpts/global_step500": "[2026-05-12 10:14:02,123] [INFO] [torch_checkpoint_engine.py:23:save] [Torch] Saved ckpts/global_step500/mp_rank_00_model_states.pt.\n",
    "step 500": "2026-05-12 10:20:00 INFO saved checkpoint at step 500\n",
}


@pytest.mark.parametrize("path", SAVES)
def test_a_checkpoint_that_was_saved_is_named(path: str) -> None:
    found = diagnose(steps(60, 1) + SAVES[path] + steps(600, 2) + LIMIT.format(at(seconds=1210)))
    assert (retry(found), found.facts["checkpoint_step"]) == ("resume", 500)
    told(found, f"Resume from {path}")


@pytest.mark.parametrize(
    ("save", "time"),
    [
        ("ckpts/global_step500", "2026-05-12T10:14:02"),
        ("step 500", "2026-05-12T10:20:00"),
        ("output/checkpoint-500", None),
    ],
)
def test_the_time_of_the_newest_checkpoint_is_known_where_its_line_has_a_date(save: str, time: str | None) -> None:
    found = diagnose(steps(60, 1) + SAVES["step 500"].replace("10:20", "10:02") * (time is not None) + SAVES[save])
    assert found.facts.get("checkpoint_time") == time


def test_a_save_that_only_began_is_no_checkpoint() -> None:
    found = diagnose(
        steps(600, 2)
        + "[rank 0] INFO     Async checkpoint started: checkpoints/step_600\n"
        + LIMIT.format(at(seconds=1210))
    )
    assert "checkpoint" not in found.facts
    assert retry(found) == "after-fix"


# ── restarts that gain no step ──


def run(
    restart: int, end: str, begin: int = 500, form: str = "[rank 0] INFO     [step {0}] loss=5.6 | lr=3.00e-04\n"
) -> str:
    resumed = f"[rank 0] INFO     Resumed from step {begin}, 262,144,000 tokens seen\n" if restart else ""
    made = "".join(form.format(step) for step in range(begin + 10, begin + 90, 10))
    return BANNER.format(restart) + resumed + made + end.format(at(days=restart, minutes=2))


PREEMPTED = "slurmstepd: error: *** JOB 3565401 ON node07 CANCELLED AT {0} DUE TO PREEMPTION ***\n"


@pytest.mark.parametrize("end", [LIMIT, PREEMPTED])
@pytest.mark.parametrize(
    "form",
    [
        "[rank 0] INFO     [step {0}] loss=5.6 | lr=3e-4\n",
        "[step {0}] loss=7.9 | lr=3e-4\n",
        "iteration {0}/ 5000 | lm loss: 2.3\n",
    ],
)
def test_restarts_without_a_gain_are_counted(end: str, form: str) -> None:
    found = diagnose("".join(run(n, end, form=form) for n in range(4)))
    assert retry(found) == "after-fix"
    told(found, "3 restarts gained no step", "each began again at step 500", "every 40 steps", "--signal")


@pytest.mark.parametrize("end", [LIMIT, PREEMPTED])
def test_restarts_that_gain_steps_are_left_in_peace(end: str) -> None:
    told(
        diagnose("".join(run(n, end, begin=500 + 80 * n) for n in range(4))),
        never="gained no step|Checkpoint more often",
    )


# ── an emergency checkpoint that did not fit the warning's window ──


def test_a_forced_exit_asks_for_a_longer_window() -> None:
    found = diagnose(
        "[rank 0] INFO     [step 810] loss=5.6 | lr=3e-4\n"
        "[rank 0] WARNING  Received SIGTERM — requesting graceful shutdown\n"
        "[rank 0] WARNING  Shutdown requested at step 812 — saving emergency checkpoint\n"
        "[rank 0] ERROR    Graceful shutdown timed out after 120.0s — forcing exit\n"
        "srun: error: node07: tasks 0-3: Exited with exit code 1\n"
    )
    assert found.cause is not None
    assert found.cause.id == "sigterm"
    told(found, "--signal=TERM@360", "shutdown_timeout_sec=360", never="Python|traceback")


def test_the_window_follows_from_how_long_a_save_takes() -> None:
    found = diagnose(
        "#SBATCH --signal=B:TERM@120\n"
        "2026-05-12 10:00:00 [rank 0] INFO     Async checkpoint started: checkpoints/step_500\n"
        "2026-05-12 10:02:20 [rank 0] INFO     Checkpoint committed: checkpoints/step_500 (step=500)\n"
        "2026-05-12 10:14:00 [rank 0] INFO     [step 810] loss=5.6 | lr=3e-4\n"
        "2026-05-12 10:14:01 [rank 0] WARNING  Shutdown requested at step 812 — saving emergency checkpoint\n"
        + LIMIT.format("2026-05-12T10:16:00")
    )
    told(found, "--signal=B:TERM@300", "a save takes 140 s here")


def test_a_save_that_was_committed_needs_no_window() -> None:
    found = diagnose(
        "[rank 0] INFO     [step 810] loss=5.6 | lr=3e-4\n"
        "[rank 0] WARNING  Shutdown requested at step 812 — saving emergency checkpoint\n"
        "[rank 0] INFO     Checkpoint committed: checkpoints/step_812 (step=812)\n" + LIMIT.format(at(hours=2))
    )
    told(found, "Resume from checkpoints/step_812", never="cut off")


# ── Slurm knows who cancelled it ──

SACCT = "JobID|JobName|State|ExitCode|UID\n3565401|x|CANCELLED by {0}|0:0|2001\n3565401.0|train|CANCELLED by {0}|0:15|2001\n"


@pytest.mark.parametrize("uid", [2001, 0])
def test_who_cancelled_it_is_not_asked_where_slurm_tells(uid: int) -> None:
    record = read([("sacct.txt", SACCT.format(uid))])
    found = diagnose("hello\n" + SCANCEL.format(at(hours=2)), record=record)
    told(found, f"uid {uid}", never="Find out who|Ask who")


# ── a log without steps says so, and how long it was silent ──


def test_silence_before_the_limit_is_told() -> None:
    found = diagnose(
        BANNER.format(0)
        + f"{at()} [rank 0] INFO     Model (PP stage 0/1): 6,738,415,616 parameters\n"
        + LIMIT.format(at(minutes=62, seconds=22))
    )
    assert "restarts" not in found.facts
    told(found, f"the last line with a time is of {at()}, 62 min before", never=f"{MORE_TIME}|{FROM_CHECKPOINT}")


def test_without_times_the_log_cannot_tell_a_slow_job_from_a_hang() -> None:
    found = diagnose(BANNER.format(0) + "world_size=8\n[rank 0] INFO     Model built\n" + LIMIT.format(at(hours=1)))
    told(found, "If it hung at its start", "NCCL_DEBUG=INFO", never=FROM_CHECKPOINT)


def test_what_to_ask_slurm_names_the_job_where_the_log_does() -> None:
    cancelled = "slurmstepd: error: *** JOB 4711 ON node07 CANCELLED AT 2026-11-20T10:00:00 ***\n"
    assert "`sacct -j 4711 -o" in diagnose(cancelled).fixes[0].do
    assert "`sacct -j JOBID --format" in diagnose("srun: error: node07: task 3: Killed\n").fixes[0].do
