"""What a job that Slurm or a person ended was doing: the advice follows the steps, the checkpoints and the warnings that the log shows."""

import re
from datetime import datetime, timedelta

import pytest

from slurmdoctor import Diagnosis, diagnose
from slurmdoctor.slurm.jobinfo import read

BANNER = "Job ID:       3565401\nNodes:        2 (node[07-08])\nGPUs/node:    4\nIB interface: ib0\nRestart cnt:  {0}\n"
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
    assert found.cause.id == "time-limit"
    told(found, 'no step came in the 61 min after "Starting training: step 0"', never=MORE_TIME)


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


def test_the_time_of_the_newest_checkpoint_is_known_where_its_line_has_a_date() -> None:
    first = SAVES["step 500"].replace("10:20", "10:02")
    for save, time in (("ckpts/global_step500", "2026-05-12T10:14:02"), ("step 500", "2026-05-12T10:20:00")):
        assert diagnose(steps(60, 1) + first + SAVES[save]).facts["checkpoint_time"] == time
    assert "checkpoint_time" not in diagnose(steps(60, 1) + SAVES["output/checkpoint-500"]).facts


def test_a_save_that_only_began_is_no_checkpoint() -> None:
    begun = "[rank 0] INFO     Async checkpoint started: checkpoints/step_600\n"
    found = diagnose(steps(600, 2) + begun + LIMIT.format(at(seconds=1210)))
    assert (retry(found), "checkpoint" in found.facts) == ("after-fix", False)


# ── restarts that gain no step ──


def run(restart: int, end: str, begin: int = 500, form: str = "[step {0}] loss=7.9 | lr=3e-4\n") -> str:
    resumed = f"[rank 0] INFO     Resumed from step {begin}, 262,144,000 tokens seen\n" if restart else ""
    made = "".join(form.format(step) for step in range(begin + 10, begin + 90, 10))
    return BANNER.format(restart) + resumed + made + end.format(at(days=restart, minutes=2))


PREEMPTED = "slurmstepd: error: *** JOB 3565401 ON node07 CANCELLED AT {0} DUE TO PREEMPTION ***\n"


OF_RANK_0 = "[rank 0] INFO     [step {0}] loss=5.6 | lr=3e-4\n"


@pytest.mark.parametrize("end", [LIMIT, PREEMPTED])
@pytest.mark.parametrize("form", [OF_RANK_0, "[step {0}] loss=7.9\n", "iteration {0}/ 5000 | lm loss: 2.3\n"])
def test_restarts_without_a_gain_are_counted(end: str, form: str) -> None:
    found = diagnose("".join(run(n, end, form=form) for n in range(4)))
    assert retry(found) == "after-fix"
    told(found, "3 restarts gained no step", "each began again at step 500", "every 40 steps", "--signal")


@pytest.mark.parametrize("end", [LIMIT, PREEMPTED])
def test_restarts_that_gain_steps_are_left_in_peace(end: str) -> None:
    found = diagnose("".join(run(n, end, begin=500 + 80 * n) for n in range(4)))
    told(found, never="gained no step|Checkpoint more often")


def test_what_to_ask_slurm_names_the_job_where_the_log_does() -> None:
    cancelled = "slurmstepd: error: *** JOB 4711 ON node07 CANCELLED AT 2026-11-20T10:00:00 ***\n"
    assert "`sacct -j 4711 -o" in diagnose(cancelled).fixes[0].do
    assert "`sacct -j JOBID --format" in diagnose("srun: error: node07: task 3: Killed\n").fixes[0].do


# ── what the log, or Slurm's record, shows decides what is advised, and what never is ──

TALK = "".join(f"batch {n} of the corpus done in a while, and all of it is well so far\n" for n in range(100))
STEP = OF_RANK_0.format(810)
SAVES_FIRST = "[rank 0] WARNING  Shutdown requested at step 812 — saving emergency checkpoint\n"
FORCED = (
    "[rank 0] WARNING  Received SIGTERM — requesting graceful shutdown\n"
    f"{SAVES_FIRST}[rank 0] ERROR    Graceful shutdown timed out after 120.0s — forcing exit\n"
    "srun: error: node07: tasks 0-3: Exited with exit code 1\n"
)
COMMITTED = "[rank 0] INFO     Checkpoint committed: checkpoints/step_812 (step=812)\n"
BUILT = "world_size=8\n[rank 0] INFO     Model built\n"
SCONTROL = (
    f"JobId=3565401 JobName=x\n   JobState=TIMEOUT Reason=TimeLimit\n   StartTime={at()} EndTime={at(hours=26)}\n"
)
SACCT = "JobID|JobName|State|ExitCode|UID\n3565401|x|CANCELLED by {0}|0:0|2001\n3565401.0|train|CANCELLED by {0}|0:15|2001\n"
NO_RESUME = f"{MORE_TIME}|{FROM_CHECKPOINT}"


@pytest.mark.parametrize(
    ("log", "texts", "never", "record"),
    [
        (steps(300, 42) + LIMIT.format(at(seconds=12640)), ["longer --time", "step 300"], "stall|py-spy", None),
        (steps(60, 1740) + LIMIT.format(at(hours=29.3)), ["60 steps in 28.8 h", "appears stalled"], MORE_TIME, None),
        (f"{at()} INFO Starting training: step 0\n" + SCANCEL.format(at(seconds=40)), [], "NCCL_DEBUG|hung", None),
        ("Starting training\n" + TALK + LIMIT.format(at(hours=2)), [], "NCCL_DEBUG|hung at", None),
        # an emergency checkpoint that did not fit the warning's window
        (STEP + FORCED, ["--signal=TERM@360", "shutdown_timeout_sec=360"], "Python|traceback", None),
        (STEP + SAVES_FIRST + COMMITTED + LIMIT.format(at(hours=2)), ["Resume from checkpoints/step_812"], "cut off", None),
        # without times the log cannot tell a slow job from a hang
        (
            BANNER.format(0) + BUILT + LIMIT.format(at(hours=1)),
            ["If it hung at its start", "NCCL_DEBUG=INFO"], FROM_CHECKPOINT, None,
        ),
        # Slurm tells the end where the log just stops, and who cancelled it
        (steps(60, 1), ["No step came after step 60", "26 h before"], NO_RESUME, ("scontrol.txt", SCONTROL)),
        *(("hello\n" + SCANCEL.format(at(hours=2)), [f"uid {uid}"], "Find out who|Ask who", ("sacct.txt", SACCT.format(uid)))
          for uid in (2001, 0)),
    ],
)  # fmt: skip
def test_the_advice_follows_what_the_job_was_doing(
    log: str, texts: list[str], never: str, record: tuple[str, str] | None
) -> None:
    told(diagnose(log, record=read([record]) if record else None), *texts, never=never)


def test_a_forced_exit_is_told_as_the_signal_that_it_follows() -> None:
    assert diagnose(STEP + FORCED).cause.id == "sigterm"
