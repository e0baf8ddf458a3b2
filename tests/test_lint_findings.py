"""Scripts that hold a mistake in its many forms, and scripts that only look like it: what lint promises to tell apart."""

import re
from pathlib import Path

import pytest

from slurmdoctor import LogText, diagnose
from slurmdoctor.model import ScriptMistake
from slurmdoctor.slurm.script import lint, parse
from tables import parsed

BASH = "#!/bin/bash\n"
PROMISES = {  # scripts by what lint promises of them: which checks find them on which line, and words of what they say
    promise: cases
    for file in sorted((Path(__file__).parent / "lint_cases").glob("*.yaml"))
    for promise, cases in parsed(file.read_text()).items()
}


def findings(script: str, name: str = "job.sbatch") -> list[ScriptMistake]:
    return lint(parse(script, name))


@pytest.mark.parametrize("promise", PROMISES)
def test_it_finds_what_is_wrong_and_nothing_else_and_says_what_to_do(promise: str) -> None:
    for case in PROMISES[promise]:
        found = findings(case["script"], case.get("name", "job.sbatch"))
        assert [f"{m.check}:{m.line}" for m in found] == case["finds"], case["script"]
        text = " ".join(f"{m.says}. {m.fix}" for m in found)
        assert [words for words in case.get("says", ()) if words not in text] == [], text


def test_one_signal_is_proposed_for_one_line() -> None:
    traps = "trap 'kill -USR1 $PID' USR1\n"
    proposed = {("B:TERM@20", ""): "TERM@300", ("B:TERM@120", ""): "TERM@120", ("B:USR1@20", ""): "USR1@300"}
    proposed |= {("B:USR1@20", traps): "B:USR1@300", ("TERM@20", ""): "TERM@300"}
    for (given, trap), signal in proposed.items():
        found = findings(f"{BASH}#SBATCH -n 1 --signal={given}\n{trap}srun python a.py\n")
        assert {one for m in found for one in re.findall(r"--signal=(\S+?@\d+)", m.fix)} == {signal}


def test_diagnose_says_of_the_line_what_lint_says() -> None:
    log = (
        "2026-11-03T08:58:00 [trainer] caught SIGTERM, writing emergency checkpoint to /ckpt/step_8123\n"
        "slurmstepd: error: *** STEP 991.0 ON h1 CANCELLED AT 2026-11-03T09:00:01 DUE TO TIME LIMIT ***\n"
        "srun: error: h1: tasks 0-3: Killed\n"
    )
    script = f"{BASH}#SBATCH -n 4\n#SBATCH --signal=B:SIGTERM@120\nsrun python train.py\n"
    fix = diagnose(LogText(log), script=parse(script, "job.sbatch")).fixes[0].do
    assert [
        words for words in ("--signal=B:SIGTERM@120 (job.sbatch:3)", "to `--signal=TERM@360`") if words not in fix
    ] == []
    assert "`--signal=TERM@120`" in "".join(m.fix for m in findings(script) if m.check == "signal-window")
