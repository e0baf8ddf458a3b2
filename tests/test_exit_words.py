"""What the exit line says of a code: what was reported, never more (rows k, l; S29, S30)."""

from __future__ import annotations

import pytest

from slurmdoctor import diagnose
from slurmdoctor.report.words import ending, headline, meaning_of, retry

CONTAINER = """\
slurmstepd: error: pyxis: container start failed with error code: 1
slurmstepd: error: pyxis: printing enroot log file:
slurmstepd: error: pyxis:     [ERROR] No such file or directory: /scratch/demo/train.sqsh
slurmstepd: error: spank: required plugin spank_pyxis.so: task_init() failed with rc=-1
srun: error: node07: task 0: Exited with exit code 1
"""
UV = """\
error: failed to open file `/root/.cache/uv/sdists-v9/.git`: No space left on device (os error 28)
srun: error: node07: task 3: Exited with exit code 2
"""
SCRIPT = """\
python: can't open file '/scratch/demo/trian.py': [Errno 2] No such file or directory
srun: error: node07: task 0: Exited with exit code 2
"""
COPY = """\
cp: cannot stat '/scratch/demo/x.bin': No such file or directory
srun: error: node07: task 0: Exited with exit code 1
"""


@pytest.mark.parametrize(
    ("log", "said"),
    [(CONTAINER, "code 1"), (UV, "code 2"), (SCRIPT, "code 2"), (COPY, "code 1")],
    ids=["s29-container", "s30-uv", "s30-cannot-open", "row-l"],
)
def test_a_code_that_only_srun_reported_is_no_python_error_and_no_refusal(log: str, said: str) -> None:
    line = ending(diagnose(log))
    assert line.startswith(said)
    assert line.endswith("(reported by srun)")
    assert not {"Python", "argument", "refused"} & set(line.split())


def test_what_a_code_means_claims_no_more_than_it_shows() -> None:
    assert "Python exits with 1" in meaning_of("python-error"), "so do other programs"
    assert meaning_of("usage-error").startswith("many programs exit with 2")


def test_an_unknown_cause_has_an_unknown_outlook() -> None:
    found = diagnose("step 1 loss 2.0 lr 1\nsrun: error: node07: task 3: Exited with exit code 1\n")
    assert headline(found) == "rank 3 on node07 exited with 1; the log does not say why"
    assert retry(found) == "the cause is unknown: it may fail the same way again"


def test_a_kill_says_that_its_sender_is_unknown_only_where_it_is() -> None:
    killed = "step 1 loss 2.0 lr 1\nsrun: error: node07: task 3: Killed\n"
    assert ending(diagnose(killed)) == "killed by SIGKILL on rank 3 (reported by srun); the log does not say by whom"
    memory = (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0. Some of the step tasks have been OOM Killed.\n"
    )
    assert "by whom" not in ending(diagnose(killed + memory))
