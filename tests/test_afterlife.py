"""What a writer prints after an error: an error that was outlived ended nothing, and what may have been outlived is not sure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

import slurmdoctor
from slurmdoctor.report.result import Diagnosis

HEAD = ["loading /scratch/demo/data", "model has 23.5 M parameters", "optimizer is AdamW", "found 4 checkpoints"]
LOADED = ["Traceback (most recent call last):", '  File "/scratch/demo/train.py", line 88, in <module>', "    main()"]
FRAMES = [*LOADED, '  File "/scratch/demo/train.py", line 71, in main', '    raise KeyError("mask")']
ERROR = "KeyError: 'mask'"
CRASH = [*FRAMES, ERROR]
WAS_CAUGHT = ["FileNotFoundError: [Errno 2] No such file or directory: '/scratch/demo/extra.json'"]
CAUGHT = [*LOADED, '    open("/scratch/demo/extra.json")', *WAS_CAUGHT]
LONG = 60


def verdict(*parts: Iterable[str]) -> Diagnosis:
    return slurmdoctor.diagnose("\n".join(line for part in parts for line in part) + "\n")


def cause_of(*parts: Iterable[str]) -> str | None:
    found = verdict(*parts).cause
    return found.id if found else None


def stamped(text: str, minute: int) -> str:
    return f"2026-03-01 {10 + minute // 60:02}:{minute % 60:02}:11,204 - demo - INFO - {text}"


STYLES: dict[str, Callable[[int], str]] = {
    "mmengine": lambda n: stamped(f"Epoch(train) [{n // 10}][{n % 10 * 50}/2439]  lr: 1.0e-04  loss: 0.{99 - n}", n),
    "mmcv": lambda n: stamped(f"Epoch [{n // 10 + 4}][{n % 10 * 50 + 50}/2439]\tlr: 1.0e-04, loss: 0.{99 - n}", n),
    "plain": lambda n: (
        f"[{n}/650] Epoch {n}: Train Loss: 0.{990 - n}, Train L1 Loss: 0.{880 - n}, and a few more words of it"
    ),
    "keras": lambda n: (
        f"Epoch {n}/650 - 3s - loss: 0.{990 - n} - accuracy: 0.{100 + n} - val_loss: 0.{990 - n} - val_accuracy: 0.7"
    ),
    "jax": lambda n: f"I0301 10:{n % 60:02}:11.204817 140212 train.py:210] train step: {n * 100}, loss: 2.{990 - n}",
    "lammps": lambda n: (
        f"    {n * 1000:8d}   0.{9921 - n}      -6.{1204 + n}            0     -4.{7711 - n}    -0.0{3122 + n}        1024.0"
    ),
    "openfoam": lambda n: (
        f"Time = {n * 0.25}\n\nExecutionTime = {n * 3.5} s  ClockTime = {n * 4} s, and residuals of it at 1e-07"
    ),
    "wrf": lambda n: (
        f"Timing for main: time 2026-03-01_{n // 60:02}:{n % 60:02}:00 on domain   1:    2.31{n} elapsed seconds"
    ),
    "snakemake": lambda n: f"[Sun Mar  1 10:{n % 60:02}:11 2026]\nFinished job {n}.\n{n} of 386 steps ({n // 4}%) done",
}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("many", [1, 3], ids=["short", "long"])
def test_whatever_a_program_calls_its_steps_they_show_that_an_error_was_survived(style: str, many: int) -> None:
    work = [STYLES[style](n) for n in range(1, many * LONG + 90)]
    assert verdict(HEAD, CAUGHT, work).verdict != "failed"


@pytest.mark.parametrize("style", STYLES)
def test_what_ended_the_job_hours_later_is_something_else(style: str) -> None:
    work = [STYLES[style](n) for n in range(1, 150)]
    found = cause_of(HEAD, CAUGHT, work, ["Killing subprocess 28833", "Main process received SIGTERM, exiting"])
    assert found == "sigterm"


@pytest.mark.parametrize("level", ["WARNING", "INFO"])
def test_a_traceback_that_a_logger_prints_as_a_warning_ends_nothing(level: str) -> None:
    label = f"[2026-03-01 14:53:32,330] demo.compile: [{level}] "
    logged = [label + line for line in CRASH]
    assert verdict(HEAD, logged, HEAD, ["all files are read"]).verdict != "failed"


def test_ranks_that_fail_one_after_another_make_no_steps() -> None:
    told = [f"step {n} of rank {n} failed: no batch" for n in range(1, 40)]
    assert verdict(HEAD, CRASH, told, HEAD * 100).verdict == "failed"


def test_output_that_was_held_back_comes_after_the_traceback_that_ended_it() -> None:
    work = [f"step {n} loss 2.{100 - n} lr 0.001" for n in range(10, 60, 10)]
    assert cause_of(CRASH, HEAD, work) == "python-error"
    # but not where steps stand above it, where the last step of all was made, or where they have times
    assert verdict(work, CRASH, HEAD, work).verdict != "failed"
    assert verdict(CRASH, HEAD, work, ["step 100/100 loss 1.1 lr 0.001"]).verdict != "failed"
    assert (
        verdict([stamped("starting", 0)], CRASH, [stamped(step, n) for n, step in enumerate(work)]).verdict != "failed"
    )


def test_a_run_that_spoke_on_and_met_another_error_was_ended_by_that_one() -> None:
    talk = [
        f"{word} is ready" for word in ("cache", "model", "loader", "sampler", "writer", "profiler", "mixer", "table")
    ]
    assert cause_of(HEAD, CAUGHT, talk, CRASH) == "python-error"
    assert cause_of(HEAD, CAUGHT, talk[:3], CRASH) == "file-not-found"


def test_of_an_error_that_much_other_output_follows_nobody_is_sure() -> None:
    talk = [f"{word} is ready" for word in ("cache", "model", "loader", "sampler", "writer", "profiler", "mixer")]

    def sure(*parts: Iterable[str]) -> str | None:
        cause = verdict(*parts).cause
        return cause.confidence if cause else None

    assert sure(HEAD, CRASH) == "high"
    assert sure(HEAD, CRASH, talk[:3], ["wandb: View run at https://wandb.example.org/1"] * 9) == "high"
    assert sure(HEAD, CRASH, talk) == "medium"


def test_an_error_that_was_survived_again_and_again_is_not_the_end_of_a_log_that_only_stops() -> None:
    rounds = [[*CRASH, *(f"step {n * 10 + k} loss 2.{99 - n} lr 0.001" for k in range(5))] for n in range(5)]
    assert verdict(HEAD, *rounds, CRASH).verdict != "failed"
    assert verdict(HEAD, *rounds, CRASH, ["srun: error: node07: task 0: Exited with exit code 1"]).verdict == "failed"
    assert verdict(HEAD, rounds[0], CRASH).verdict == "failed"


def test_where_another_program_ended_after_it_nobody_is_sure() -> None:
    refused = ["usage: train.py [-h] [--workers N]", "train.py: error: argument --workers: expected one argument"]
    other = [line.replace("train.py", "caption.py") for line in LOADED]
    found = verdict(refused, other, ["KeyboardInterrupt"]).cause
    assert found is not None
    assert found.confidence == "medium"
    same = verdict(refused, LOADED, ["KeyboardInterrupt"]).cause
    assert same is not None
    assert same.confidence == "high"


def test_what_stands_below_an_exception_without_a_message_is_not_its_message() -> None:
    warned = [f"train.py:{n}: UserWarning: {'the version is not told, ' * 16}" for n in range(8)]
    refused = ["Cannot find primary config 'base'. Check that it's in your config search path."]
    found = verdict(CRASH, ["", *LOADED, "KeyboardInterrupt"], warned, refused)
    assert "usage-error" in {other.id for other in found.others}
