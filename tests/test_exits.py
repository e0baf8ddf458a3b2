"""One table of endings (codes, signals, torchrun's negatives, sacct's pairs, srun's words), and what the exit line says of them: never more than was reported."""

import re

import pytest

from slurmdoctor import diagnose
from slurmdoctor.model import JobRecord, ProcessExit, expand, from_code, from_sacct, from_words, ranges
from slurmdoctor.readers.tracebacks import from_handler
from slurmdoctor.report.wording import ending, exit_words, headline, meaning_of, retry
from slurmdoctor.slurm import jobinfo

CODES = {
    0: "ok", 1: "python-error", 2: "usage-error", 3: "other", 126: "not-executable", 127: "not-found", 253: "oom-killed",
    **dict.fromkeys([9, 11, 13, 15, 250], "other"),
}  # fmt: skip
"""Plain codes; some merely equal a signal's number."""


@pytest.mark.parametrize(
    ("end", "signal", "exit_class"),
    [
        *((from_code(code), None, means) for code, means in CODES.items()),
        (from_code(130), "SIGINT", "interrupted"),
        (from_code(134), "SIGABRT", "abort"),
        (from_code(-6), "SIGABRT", "abort"),
        (from_code(135), "SIGBUS", "bus-error"),
        (from_code(137), "SIGKILL", "killed"),
        (from_code(-9), "SIGKILL", "killed"),
        (from_code(139), "SIGSEGV", "segfault"),
        (from_code(143), "SIGTERM", "terminated"),
        (from_code(-15), "SIGTERM", "terminated"),
        (from_words("Exited with exit code 1"), None, "python-error"),
        (from_words("Exited with exit code 143"), "SIGTERM", "terminated"),
        (from_words("Out Of Memory"), "SIGKILL", "oom-killed"),
        (from_words("Segmentation fault (core dumped)"), "SIGSEGV", "segfault"),
        (from_words("Aborted (core dumped)"), "SIGABRT", "abort"),
        (from_words("Terminated"), "SIGTERM", "terminated"),
        (from_words("Bus error"), "SIGBUS", "bus-error"),
        (from_words("Killed"), "SIGKILL", "killed"),
        (from_sacct("0:9"), "SIGKILL", "killed"),
        (from_sacct("0:125"), "SIGKILL", "oom-killed"),
        (from_handler("[n1:61 :0:65] Caught signal 7 (Bus error: nonexistent physical address)"), "SIGBUS", "bus-error"),
        (from_handler("[cn07:12345] Signal: Segmentation fault (11)"), "SIGSEGV", "segfault"),
        (from_handler("*** SIGFPE received at time=1752060214 on cpu 22 ***"), "SIGFPE", "other"),
        (from_handler("*** SIGSEGV (@0x0) received by PID 41 (TID 0x7f) from PID 0; stack trace: ***"), "SIGSEGV", "segfault"),
        (from_handler("Fatal Python error: Aborted"), "SIGABRT", "abort"),
    ],
)  # fmt: skip
def test_each_ending_has_one_meaning_whoever_tells_it(end: ProcessExit, signal: str | None, exit_class: str) -> None:
    assert (end.signal, end.exit_class) == (signal, exit_class)


def test_what_is_no_ending_is_none() -> None:
    assert from_words("launch failed") is None
    assert from_sacct("n/a") is None
    for text in ("Signal: strong", "the handler caught signal 7", "Fatal Python error: init_import_site"):
        assert from_handler(text) is None


def test_lists_of_tasks_go_both_ways() -> None:
    assert expand("0-3,7") == (0, 1, 2, 3, 7)
    assert ranges(expand("2,4-5,7")) == "2,4-5,7"
    assert expand("x,3,0-99999999") == (3,)


def test_a_signal_that_has_no_name_is_not_called_sigterm() -> None:
    """Slurm's own 0:53: the job's output file could not be opened."""
    end = from_sacct("0:53")
    assert end is not None
    assert (end.shell_code, exit_words(end)) == (None, "a signal that has no name")


@pytest.mark.parametrize("code", [4, 6, 7, 8, 9, 11, 15])
def test_a_script_that_ends_with_a_signals_number_was_not_signalled(code: int) -> None:
    """sacct prints both `exit 9` and 137 as 9:0: alone, it proves no signal."""
    saved = f"JobID|State|ExitCode\n42|FAILED|{code}:0\n42.batch|FAILED|{code}:0\n"
    record = jobinfo.read([("sacct", saved)])
    footer = JobRecord("42", state="RUNNING", exit_status=code)
    srun = f"srun: error: gpu07: task 0: Exited with exit code {code}\n"
    for log, one, status in (("", record, None), ("", footer, None), ("", None, code), (srun, record, None)):
        found = diagnose(log, record=one, exit_status=status)
        assert (found.cause.id, found.cause.confidence) == ("exit-code", "low")
        assert (found.exit.code, found.exit.signal) == (code, None)


@pytest.mark.parametrize("name", ["SIGTER", "SIGEMT", "SIG_DFL", "SIGUNUSED"])
def test_a_signals_name_that_is_unknown_here_is_an_ending_all_the_same(name: str) -> None:
    found = diagnose(f"x\nprocess 1 terminated with signal {name}\n")
    assert (found.verdict, found.cause.id) == ("failed", "exit-code")
    assert "exit-code" in str(found) + found.to_json()


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("slurmstepd: error: pyxis: container start failed with error code: 1", 1),
        ("error: failed to open file `/root/.cache/uv/sdists-v9/.git`: No space left on device (os error 28)", 2),
        ("python: can't open file '/scratch/demo/trian.py': [Errno 2] No such file or directory", 2),
        ("cp: cannot stat '/scratch/demo/x.bin': No such file or directory", 1),
    ],
)
def test_a_code_that_only_srun_reported_is_no_python_error_and_no_refusal(line: str, code: int) -> None:
    ended = ending(diagnose(f"{line}\nsrun: error: node07: task 3: Exited with exit code {code}\n"))
    assert re.fullmatch(rf"code {code}( on rank 3)? \(reported by srun\)", ended)


def test_what_a_code_means_claims_no_more_than_it_shows() -> None:
    assert "Python exits with 1" in meaning_of("python-error"), "so do other programs"
    assert meaning_of("usage-error").startswith("many programs exit with 2")
    assert "rarely the first failure" in meaning_of("terminated")


def test_an_unknown_cause_has_an_unknown_outlook() -> None:
    found = diagnose("step 1 loss 2.0 lr 1\nsrun: error: node07: task 3: Exited with exit code 1\n")
    assert headline(found) == "rank 3 on node07 exited with 1; the log does not say why"
    assert retry(found) == "the cause is unknown: it may fail the same way again"


def test_a_kill_says_that_its_sender_is_unknown_only_where_it_is() -> None:
    killed = "step 1 loss 2.0 lr 1\nsrun: error: node07: task 3: Killed\n"
    assert ending(diagnose(killed)) == "killed by SIGKILL on rank 3 (reported by srun); the log does not say by whom"
    memory = (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0. Some of the step tasks have been OOM Killed."
    )
    assert "by whom" not in ending(diagnose(f"{killed}{memory}\n"))
