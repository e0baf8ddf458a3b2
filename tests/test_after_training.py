"""What the exit status says where the log does not: a status that was given, a launcher's last command, a run that trained nothing."""

from pathlib import Path

import pytest

from builders import said, watchdog
from slurmdoctor import diagnose

STEPS = "".join(f"iteration {n}/ 500 | elapsed time per iteration (ms): 4161.1 | lm loss: 2.1\n" for n in range(1, 30))
DONE = "iter 390 step 39: loss 5.1, iter time: 2110.33ms (optimizer.step)\nTraining time: 86301.22s\nMemory used: 61.33 GB\n"


@pytest.mark.parametrize(
    ("status", "cause", "exit_class", "says"),
    [
        (1, "exit-code", "python-error", "traceback"),
        (2, "exit-code", "usage-error", "arguments"),
        (9, "exit-code", "other", "memory"),
        (137, "killed", "killed", "memory"),
        (-9, "killed", "killed", "memory"),
        (143, "sigterm", "terminated", "time limit"),
        (15, "exit-code", "other", "time limit"),
        (271, "sigterm", "terminated", "time limit"),
        (134, "abort", "abort", "printed just before"),
        (139, "segfault", "segfault", "stack"),
        (126, "command-not-found", "not-executable", "path"),
        (127, "command-not-found", "not-found", "path"),
    ],
)
def test_a_status_has_a_meaning_and_advice_of_its_own(status: int, cause: str, exit_class: str, says: str) -> None:
    found = diagnose(STEPS, exit_status=status)
    assert (found.cause.id, found.cause.confidence) == (cause, "low")
    assert (found.exit.exit_class, bool(found.exit.how)) == (exit_class, True)
    assert says in said(found)
    shown = diagnose(STEPS + "srun: error: node07: task 3: Bus error (core dumped)\n", exit_status=status)
    assert shown.exit.signal == "SIGBUS", "an exit that the log shows stays"


AFTER = [
    "srun: Terminating StepId=4711.0\nslurmstepd: error: *** STEP 4711.0 ON node07 CANCELLED AT 2026-05-12T10:16:09 ***\n",
    "srun: Terminating job step 4711.0\nslurmstepd: error: *** STEP 4711.0 ON node07 CANCELLED AT 2026-05-12T10:16:09 DUE to SIGNAL Killed ***\n",
    "slurmstepd: error: *** STEP 4711.0 ON node07 CANCELLED AT 2026-05-12T10:16:09 ***\nslurmstepd: error: *** JOB 4711 ON node07 CANCELLED AT 2026-05-12T10:16:12 ***\n",
]


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("killed", ["Killed", "Exited with exit code 137"])
def test_the_kill_that_came_first_is_named_and_memory_first(after: str, killed: str) -> None:
    log = f"{STEPS}srun: error: node08: task 12: {killed}\n{after}srun: error: node07: tasks 0-7: Terminated\n"
    found = diagnose(log)
    assert (found.cause.id, found.first_failure.rank) == ("killed", 12)
    assert "memory" in found.fixes[0].do
    assert "node08" in found.fixes[0].do


ALL_BUT_LOCAL_ZERO = "srun: error: node01: tasks 1-7: Exited with exit code 1\nsrun: error: node02: tasks 9-15: Exited with exit code 1\n"


@pytest.mark.parametrize("done", [DONE, STEPS + "[after training is done] datetime: 2026-05-12 10:19:11\n"])
def test_after_a_training_the_launchers_last_line_is_to_blame(done: str) -> None:
    found = diagnose(done + ALL_BUT_LOCAL_ZERO)
    assert "training had finished" in said(found)
    assert "local id 0 (0,8)" in said(found)
    assert "exit 0" in found.fixes[0].do
    assert "Python" not in said(found)
    assert (len(found.extent.ranks), found.extent.of) == (14, 16)


def test_only_after_a_training_and_only_of_some_tasks_the_local_ids_are_named() -> None:
    found = diagnose(DONE + "srun: error: node01: tasks 0-7: Exited with exit code 3\n")
    assert "local id" not in said(found)
    assert "had finished" in said(found)
    assert "had finished" not in said(diagnose(STEPS + ALL_BUT_LOCAL_ZERO))


def test_the_end_of_those_that_waited_is_not_the_missing_ranks() -> None:
    waits = "".join(
        watchdog(n, f"[rank{n}]:[E512 10:44:12.102837465 ProcessGroupNCCL.cpp:685] ", 18) for n in range(1, 8)
    )
    found = diagnose(f"world_size=8\n{waits}srun: error: node01: tasks 1-7: Aborted (core dumped)\n")
    assert (found.first_failure.rank, found.exit.signal) == (0, None)


LOADED = (
    "INFO:megatron.bridge.training.checkpointing: loading distributed checkpoint from {0}/default/checkpoints at iteration 20\n"
    " successfully loaded checkpoint from {0}/default/checkpoints [ t 1/2, p 1/1 ] at iteration 20\n"
    "INFO:megatron.bridge.training.train:done with setup ...\ntraining ...\n"
)
END = "[after training is done] datetime: 2026-05-12 10:19:11\n"


def test_an_old_run_that_is_resumed_and_done_is_told() -> None:
    found = diagnose(LOADED.format("/opt/Megatron-Bridge/nemo_experiments") + END)
    assert found.verdict == "no-failure"
    assert "no training step was made: the run resumed at step 20" in found.reasons[0]
    assert "/opt/Megatron-Bridge/nemo_experiments/default/checkpoints" in found.reasons[0]
    assert "use another checkpoint folder" in found.reasons[0]


def test_a_run_that_goes_on_training_is_left_in_peace_and_so_are_two_files(tmp_path: Path) -> None:
    """One file resumes, another is done: which came first nobody knows."""
    trained = diagnose(LOADED.format("nemo_experiments") + STEPS.replace("iteration ", "iteration 4") + END)
    (tmp_path / "a-42.err").write_text("Resuming from /data/ckpt/step_500\n")
    (tmp_path / "b-42.out").write_text("training finished\n")
    for found in (trained, diagnose([tmp_path / "a-42.err", tmp_path / "b-42.out"])):
        assert (found.verdict, "no training step" in said(found)) == ("no-failure", False)


BANNER = "Nodes:        2 (node[07-08])\nGPUs/node:    4\nTotal GPUs:   8\n"


@pytest.mark.parametrize(("world", "says"), [(4, "only 4 of them train together"), (1, "each process trains alone")])
def test_checking_the_launch_a_part_of_the_gpus_is_told(world: int, says: str) -> None:
    found = diagnose(f"{BANNER}[rank 0] INFO     DeviceMesh: dims=['dp_shard'], world_size={world}\n{STEPS}{END}")
    assert any(says in note and "8 GPUs" in note for note in found.coverage.notes)


@pytest.mark.parametrize("text", [BANNER + "world_size=8\n", "world_size=4\n", "Total GPUs: 8\ndata parallel size 4\n"])
def test_checking_the_launch_whole_or_unknown_worlds_are_left_in_peace(text: str) -> None:
    assert not any("GPUs" in note for note in diagnose(text + STEPS + END).coverage.notes)
