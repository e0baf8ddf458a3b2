"""An error that the job survived is not its end: who printed it, what that writer did after it, and what ended the job tell."""

from collections.abc import Callable, Sequence

import pytest

from builders import FAILED, LIMIT, cause_of, raised
from slurmdoctor import diagnose
from slurmdoctor.input.sources import Text
from slurmdoctor.model import LIMITS

SHELL = "/var/spool/slurmd/job99/slurm_script: line 3: "
HEAD = "loading /scratch/demo/data\nmodel has 23.5 M parameters\noptimizer is AdamW\nfound 4 checkpoints\n"
PLAIN = "".join(f"step {step} loss 2.{step}\n" for step in range(30))
OOM = raised("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
CAUGHT = raised("FileNotFoundError: [Errno 2] No such file or directory: '/scratch/demo/extra.json'")
TALK = [f"{word} is ready\n" for word in ("cache", "model", "loader", "sampler", "writer", "mixer", "table", "queue")]
CRASH = raised()
ENDED = "Killing subprocess 28833\nMain process received SIGTERM, exiting\n"


def verdict(*log: str) -> str:
    return diagnose("".join(log)).verdict


def confidence(*log: str) -> str | None:
    return diagnose("".join(log)).cause.confidence


def stamped(text: str, minute: int) -> str:
    return f"2026-03-01 {10 + minute // 60:02}:{minute % 60:02}:11,204 - demo - INFO - {text}"


def logged(lines: Sequence[str]) -> list[str]:
    return [stamped(line, n + 1) for n, line in enumerate(lines)]


def after(seconds: float, text: str) -> str:
    return f"2026-03-01 10:{int(seconds) // 60:02}:{int(seconds) % 60:02},204 - demo - INFO - {text}\n"


STYLES: dict[str, Callable[[int], str]] = {
    "mmengine": lambda n: stamped(f"Epoch(train) [{n // 10}][{n % 10 * 50}/2439]  lr: 1.0e-04  loss: 0.{99 - n}", n),
    "plain": lambda n: f"[{n}/650] Epoch {n}: Train Loss: 0.{990 - n}, Train L1 Loss: 0.{880 - n}",
    "keras": lambda n: f"Epoch {n}/650 - 3s - loss: 0.{990 - n} - accuracy: 0.{100 + n} - val_loss: 0.{990 - n}",
    "jax": lambda n: f"I0301 10:{n % 60:02}:11.204817 140212 train.py:210] train step: {n * 100}, loss: 2.{990 - n}",
    "lammps": lambda n: f"    {n * 1000:8d}   0.{9921 - n}      -6.{1204 + n}            0     -4.{7711 - n}    1024.0",
    "openfoam": lambda n: f"Time = {n * 0.25}\n\nExecutionTime = {n * 3.5} s  ClockTime = {n * 4} s",
    "wrf": lambda n: f"Timing for main: time 2026-03-01_{n // 60:02}:{n % 60:02}:00 on domain   1:    2.31{n} elapsed",
    "snakemake": lambda n: f"[Sun Mar  1 10:{n % 60:02}:11 2026]\nFinished job {n}.\n{n} of 386 steps ({n // 4}%) done",
}


@pytest.mark.parametrize("style", STYLES)
def test_whatever_a_program_calls_its_steps_they_show_that_an_error_was_survived(style: str) -> None:
    work = "".join(f"{STYLES[style](n)}\n" for n in range(1, 150))
    assert verdict(HEAD, CAUGHT, work) != "failed"
    assert cause_of(HEAD, CAUGHT, work, ENDED) == "sigterm"


def test_ranks_that_fail_one_after_another_make_no_steps() -> None:
    failing = "".join(f"step {n} of rank {n} failed: no batch\n" for n in range(1, 40))
    assert verdict(HEAD, CRASH, failing, HEAD * 100) == "failed"


def test_output_that_was_held_back_comes_after_the_traceback_that_ended_it() -> None:
    steps = [f"step {n} loss 2.{100 - n} lr 0.001" for n in range(10, 60, 10)]
    work = "".join(f"{step}\n" for step in steps)
    timed = "".join(f"{stamped(step, n)}\n" for n, step in enumerate(steps))
    assert cause_of(CRASH, HEAD, work) == "python-error"
    # but not where steps stand above it, where the last step of all was made, where they have times, or somebody caught it
    assert verdict(work, CRASH, HEAD, work) != "failed"
    assert verdict(CRASH, HEAD, work, "step 100/100 loss 1.1 lr 0.001\n") != "failed"
    assert verdict(stamped("starting", 0) + "\n", CRASH, timed) != "failed"
    assert verdict(raised(where="load"), PLAIN) == "no-failure"
    assert verdict(CRASH, *(f"{step} {'x' * 400}\n" for step in PLAIN.splitlines())) == "no-failure"


@pytest.mark.parametrize(
    ("limit", "log"),
    [
        ("lines_before_another", lambda n: cause_of(HEAD, CAUGHT, *TALK[:n], CRASH) == "python-error"),
        ("lines_printed", lambda n: confidence(HEAD, CRASH, *TALK[:n]) == "medium"),
        ("lines_excused", lambda n: verdict(stamped("Could not count", 0).replace("INFO", "WARNING"), "\n", CAUGHT, *logged(TALK[:n])) != "failed"),
        ("rising_steps", lambda n: cause_of(PLAIN, OOM, *logged([f"batch {k}/99 written\n" for k in range(n)]), LIMIT) != "cuda-oom"),
        ("many_rising_steps", lambda n: cause_of(HEAD, CAUGHT, *logged([f"batch {k}/99 written\n" for k in range(n)]), ENDED) == "sigterm"),
        ("long_work", lambda n: cause_of(after(0, "starting"), CAUGHT, *(after(k, f"batch {k}/99 written") for k in range(1, 6)), after(n, "batch 9/99 written"), ENDED) == "sigterm"),
        ("steps_of_any", lambda n: verdict(PLAIN, CRASH, *logged([f"step {k} loss 2.1\n" for k in range(40, 40 + n)])) != "failed"),
        ("steps_of_others", lambda n: verdict(raised(label="[rank3]: "), *(f"[rank0]: step {k} loss 2.1\n" for k in range(n))) != "failed"),
        ("retry_lines", lambda n: verdict(CAUGHT, " .\n" * (2 * LIMITS.retry_lines - n - 1), "attempt 2/5 succeeded\n", *TALK[:2]) != "failed"),
        ("level_within", lambda n: verdict("m" * (2 * LIMITS.level_within - n - 8), " WARNING CUDA error: out of memory\n") != "failed"),
        ("lines_after_tool", lambda n: verdict("cp: cannot stat 'x': No such file or directory\n", *TALK[:n]) != "failed"),
        ("lines_after_command", lambda n: verdict(f"{SHELL}conda: command not found\n", *TALK[:n]) != "failed"),
    ],
)  # fmt: skip
def test_each_limit_turns_the_verdict(limit: str, log: Callable[[int], bool]) -> None:
    enough = getattr(LIMITS, limit)
    assert (log(enough - 1), log(enough)) == (False, True)


AGENT = "failed (exitcode: 1) local_rank: 0 (pid: 519) of binary: /usr/bin/python\n"


@pytest.mark.parametrize(
    ("beside", "survived"),
    [
        ("", True),
        (FAILED, True),
        (FAILED.replace("task 2", "tasks 0-3"), False),
        (f"ERROR:torch.distributed.elastic.multiprocessing.api:{AGENT}", False),
        ("[rank: 1] Child process with PID 5 terminated with code 1. Forcefully terminating all other\n", False),
    ],
)
def test_where_several_processes_write_another_error_is_no_sign_of_survival(beside: str, survived: bool) -> None:
    log = (HEAD, CAUGHT, *TALK[: LIMITS.lines_before_another], CRASH, beside)
    assert cause_of(*log) == ("python-error" if survived else "file-not-found")


def test_what_launchers_and_other_ranks_print_is_no_talk_of_an_errors_writer() -> None:
    assert confidence(HEAD, CRASH, "wandb: View run at https://wandb.example.org/1\n" * 9) == "high"
    oom = "".join(f"[rank3]: {line}\n" for line in OOM.splitlines())
    assert cause_of("[rank0]: step 1/10 loss 2.0\n", oom, "[rank0]: All done\n") == "cuda-oom"


STAMP = "2026-11-02 10:00:0{} - {} - "


@pytest.mark.parametrize(
    "log",
    [
        # each line of it, as torch._dynamo prints what it falls back from
        *("".join(f"[2026-03-01 14:53:32,330] demo.compile: [{level}] {line}\n" for line in CAUGHT.splitlines()) + HEAD
          for level in ("WARNING", "INFO")),
        # below the record, and records go on
        f"{STAMP.format(0, 'WARNING')}Could not count the FLOPs\n{CAUGHT}{STAMP.format(1, 'INFO')}epoch 1 begins\n",
        f"{STAMP.format(0, 'WARNING')}Could not count the FLOPs\n{CAUGHT}none found\n{STAMP.format(1, 'INFO')}epoch 1 begins\n",
        f"{STAMP.format(0, 'WARNING')}Could not count the FLOPs\nwe go on\nOSError: bad file\n{STAMP.format(1, 'INFO')}epoch 1 begins\n",
        f"WARNING:root:Failed to import apex: {CAUGHT}done\n",
        "[rank2]:[W1102 10:00:03.123456789 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=62, addr=[n1]:41012, remote=[n1]:29500): failed to recv, got 0 bytes\n",
        'versions of NumPy, modules must be compiled with NumPy 2.0.\n\nTraceback (most recent call last):  File "<string>", line 1, in <module>\n  File "/scratch/demo/a.py", line 2, in <module>\n    import numexpr\nAttributeError: _ARRAY_API not found\nread 40 rows\n',
        raised("KeyError: '/psm_a1b2c3'", file="/usr/lib/python3.10/multiprocessing/resource_tracker.py", where="main"),
    ],
)  # fmt: skip
def test_who_logs_an_error_as_a_warning_goes_on(log: str) -> None:
    assert verdict(log) == "unknown"


@pytest.mark.parametrize(
    "log",
    [
        # the last record before a process dies need not be about why
        f"{STAMP.format(0, 'WARNING')}the seed is not set\n{CAUGHT}{STAMP.format(1, 'INFO')}rank 1 begins\n",
        f"{STAMP.format(0, 'WARNING')}Could not count the FLOPs\n{CAUGHT}",
        f"{STAMP.format(0, 'ERROR')}the step failed\n{CAUGHT}{STAMP.format(1, 'INFO')}closing\n",
        f"[W1102 10:00:03.123456789 socket.cpp:207] [c10d] The hostname of the client socket cannot be retrieved. err=-3\n{CAUGHT}{STAMP.format(1, 'INFO')}rank 1 begins\n",
        f"{STAMP.format(0, 'WARNING')}Could not count the FLOPs\nworker 3 failed\n{CAUGHT}{STAMP.format(1, 'INFO')}epoch 1 begins\n",
        f"{STAMP.format(0, 'WARNING')}Could not save\n{STAMP.format(1, 'ERROR')}CUDA error: out of memory\n{STAMP.format(2, 'INFO')}epoch 1 begins\n",
        f"{CRASH}attempt 2/5 succeeded\n{TALK[0]}",
        f"stderr: {CRASH}",
        f"worker 3 failed:\n{CRASH}",
    ],
)
def test_words_above_an_error_excuse_nothing(log: str) -> None:
    assert verdict(log) == "failed"


@pytest.mark.parametrize(
    ("above", "below"),
    [
        ("User: kim\n", FAILED),
        ("", "GPU health check: PASSED\n"),
        ("", "rsync failed, retrying in 5 s\n"),
        ("", "Exit code: 0\n"),
        (f"{STAMP.format(0, 'WARNING')}exception in training loop\n", f"{STAMP.format(1, 'INFO')}shutting down\n"),
        ("", "".join(f"async writer: batch {n}/4 written\n" for n in range(1, 5))),
    ],
)
def test_words_around_a_real_error_do_not_excuse_it(above: str, below: str) -> None:
    assert cause_of(PLAIN, above, OOM, below) == "cuda-oom"


UNRESOLVED = "'[Errno -3] Temporary failure in name resolution'"
WORK = "".join(f"graph {n}/40 read, {n * 12} nodes\n" for n in range(1, 9))
BANNER = "==========\nJob finished at 10:00\nThu Nov 12 10:00:00 CET 2026\nreal\t0m1.0s\nuser\t0m0.5s\nsys\t0m0.1s\nState: RUNNING\n"
GIT = "git@git.example.org: Permission denied (publickey).\nfatal: Could not read from remote repository.\n\nPlease make sure you have the correct access rights\nand the repository exists.\n"


@pytest.mark.parametrize(
    "log",
    [
        f"{SHELL}conda: command not found\n{WORK}",
        f"{SHELL}/scratch/demo/env/bin/activate: No such file or directory\n{WORK}",
        f"{WORK}cp: cannot stat 'out/*.csv': No such file or directory\n",
        GIT + WORK,
        f"wget: unable to resolve host address 'data.example.org'\n{WORK}",
    ],
)
def test_what_other_programs_print_shows_that_the_script_went_on(log: str) -> None:
    assert verdict(log) == "unknown"
    assert cause_of(log, CRASH) == "python-error"


@pytest.mark.parametrize(
    "log",
    [
        f"{SHELL}orca: command not found\n{BANNER}",
        f"cp: cannot stat 'input.dat': No such file or directory\n{BANNER}",
        # nothing else does the work of what starts it
        f"{SHELL}python: command not found\n{WORK}",
        f"{SHELL}./simulate: No such file or directory\n{WORK}",
        f"{SHELL}syntax error near unexpected token `done'\n{WORK}",
    ],
)
def test_a_scripts_own_banner_shows_nothing(log: str) -> None:
    assert verdict(log) == "failed"


def test_what_is_tried_again_counts_as_ignored_though_it_only_follows_from_something() -> None:
    retry = f"WARNING:hub:{UNRESOLVED} thrown while requesting HEAD https://hub.example.org/a\nRetrying in 1s [Retry 1/5].\n"
    assert "ignored 2 earlier errors that the job recovered from" in diagnose(HEAD + retry + CRASH).reasons


def test_in_another_file_it_takes_more_words() -> None:
    errors = Text.source(f"{SHELL}conda: command not found\n", "job.err")
    lines = LIMITS.lines_after_command * LIMITS.lines_elsewhere
    for count, expected in ((lines - 1, "failed"), (lines, "unknown")):
        assert diagnose([errors, Text.source("a graph was read\n" * count, "job.out")]).verdict == expected


def test_a_shells_line_is_outlived_by_the_ranks_work() -> None:
    steps = "".join(f"{rank}: iteration {step} loss 2.1\n" for step in range(1, 31) for rank in range(4))
    shell = f"{SHELL}python: command not found\n"
    assert cause_of(shell, steps, raised(label="2: "), FAILED) == "python-error"
    assert cause_of(shell, raised(label="2: "), FAILED) == "command-not-found"


def test_of_an_error_of_a_task_that_slurm_does_not_name_nobody_is_sure() -> None:
    of_rank = raised(label="[rank3]: ")
    assert confidence(of_rank, FAILED) == "medium"
    assert confidence(of_rank, FAILED.replace("task 2", "task 3")) == "high"


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        # two lines of work an hour apart are no work of an hour; what a later error outlived for long, the one above did
        ((after(0, "starting"), CAUGHT, after(1, "batch 1/99 written"), after(3000, "batch 2/99 written"), ENDED), "file-not-found"),
        ((CAUGHT, raised("ValueError: bad", where="load"), *(f"batch {n}/99 written\n" for n in range(60)), ENDED), "sigterm"),
        # what srun could not start, nobody's further words show to have started
        ((HEAD, "slurmstepd: error: execve(): ./flow: No such file or directory\n", *TALK, LIMIT), "command-not-found"),
        # what its writer's record excused needs no further line to be outlived
        ((f"{STAMP.format(0, 'WARNING')}Could not count the FLOPs\n", CAUGHT, f"{STAMP.format(1, 'INFO')}rank 1 begins\n", LIMIT), "time-limit"),
    ],
)  # fmt: skip
def test_what_ended_the_job_after_an_error_that_it_outlived(log: Sequence[str], cause: str) -> None:
    assert cause_of(*log) == cause


def test_the_same_error_again_may_be_another_processs() -> None:
    again = CAUGHT.replace("extra", "other")
    assert "extra" in (diagnose(HEAD + CAUGHT + "".join(TALK) + again).first_failure.text or "")


@pytest.mark.parametrize("below", ["reward 0.4\n", "Trial 3 completed after 10 iterations.\n"])
def test_beside_a_status_of_0_one_more_line_shows_that_the_error_ended_nothing(below: str) -> None:
    assert diagnose(CRASH + below, exit_status=0).verdict == "no-failure"
    assert diagnose(CRASH, exit_status=0).verdict == "failed"
    assert cause_of(PLAIN, CRASH, "Training complete\n", exit_status=0) == "python-error"


def test_what_stands_below_an_exception_without_a_message_is_not_its_message() -> None:
    warned = "".join(f"train.py:{n}: UserWarning: {'the version is not told, ' * 16}\n" for n in range(8))
    refused = "Cannot find primary config 'base'. Check that it's in your config search path.\n"
    found = diagnose(CRASH + "\n" + raised("KeyboardInterrupt") + warned + refused)
    assert "usage-error" in {other.id for other in found.others}


def test_a_log_that_ends_within_a_frame_was_cut() -> None:
    assert verdict("step 5/60 loss 1.4 47.2 ms/step\n", CRASH[:60]) == "failed"


BEGIN = "Starting run on node{node}\nreading /scratch/demo/data\n"
REQUEUED = "slurmstepd: error: *** JOB 881 ON node07 CANCELLED AT 2026-11-02T10:00:00 DUE TO JOB REQUEUE ***\n"
OMP = "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded\n"


@pytest.mark.parametrize(
    "begin",
    [
        BEGIN,
        "nohup: ignoring input\n",
        "Loaded module: python3/3.7.5\nLoaded module: cuda/10.0\n",
        "Namespace(lr=0.{node}, seed=1)\n",
        "[demo@node07 proj]$ python train.py --lr 0.{node}\n",
        "demo@node07:~/proj$ torchrun --nproc_per_node=2 train.py\n",
        "wandb: Tracking run with wandb version 0.24.{node}\n",
        OMP,
    ],
)
@pytest.mark.parametrize("end", [OOM, OOM + REQUEUED])
def test_of_several_runs_in_one_file_the_last_one_is_the_verdicts(begin: str, end: str) -> None:
    found = diagnose(begin.replace("{node}", "07") + end + begin.replace("{node}", "09") + CRASH)
    assert found.cause.id == "python-error"
    assert "cuda-oom" in {before["cause"] for before in found.facts["earlier"]}


def test_a_later_run_that_works_has_survived_the_failure_of_the_one_before() -> None:
    work = "".join(f"graph {n} of 90 was read, it has {n * 12} nodes\n" for n in range(90))
    assert verdict(BEGIN, OOM, BEGIN, work) == "unknown"


@pytest.mark.parametrize(
    "begin",
    [
        # ranks print it, in any order; one line alone
        "INFO [rank 0] starting on node07\nINFO [rank 0] reading data\n",
        "Starting run on node07\nStarting run on node07\n",
        "data\n",
        # a process names itself, or one of its lines does; it is a warning; the words are too few
        "(Trainer pid=41) Starting run of the model\n(Trainer pid=41) reading the whole data\n",
        "Starting run on node07 of the demo\nINFO [rank 0] reading data\n",
        "UserWarning: this is slow on such a node\n  shown only once in each of the processes\n",
        "configuration\nreading\n",
    ],
)
def test_what_any_rank_may_print_is_no_start(begin: str) -> None:
    assert cause_of(begin, OOM, begin, CRASH) == "cuda-oom"


def test_a_start_stands_above_the_first_end_and_again_with_the_line_below_it() -> None:
    begin = BEGIN.format(node="07")
    assert cause_of(OOM, begin, CRASH, begin, CAUGHT) == "cuda-oom"
    assert cause_of(begin, OOM, begin.replace("reading", "writing"), CRASH) == "cuda-oom"
