"""The footer without a Slurm: whatever happens to slurmdoctor, the script's end stays as it was."""

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

import pytest
from click.testing import CliRunner

from slurmdoctor.cli import cli, hook
from slurmdoctor.model import Diagnosis
from slurmdoctor.slurm import query

BASH = shutil.which("bash")
pytestmark = pytest.mark.skipif(BASH is None or shutil.which("timeout") is None, reason="needs bash and coreutils")


def here(*shells: str) -> list[str]:
    """Those of the shells that are installed."""
    return [shell for shell in shells if shutil.which(shell.split()[0])]


SHELLS = here("bash", "bash --posix", "zsh", "dash", "busybox sh", "mksh", "ksh")
SAYS = 'echo "verdict on status $3"'


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    return tmp_path / "doctor"


def put(tool: Path, body: str) -> None:
    tool.write_text(f"#!/bin/bash\n{body}\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)


def run(
    tool: Path, body: str, *, before: str = "", shell: str = "bash", log: IO[str] | None = None, **env: Any
) -> subprocess.CompletedProcess[str]:
    """One run of a job's script; a variable that is None is not set."""
    script = tool.with_name("job.sh")
    script.write_text(f"#!/bin/bash\n{before}\n{hook.script('footer', seconds=2, command=str(tool))}\n{body}\n")
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("SLURM")}
    given = {
        k: v for k, v in {**inherited, "SLURM_JOB_ID": "42", **env, "PATH": "/usr/bin:/bin"}.items() if v is not None
    }
    output, command = subprocess.PIPE if log is None else log, [*shell.split(), script.name]
    return subprocess.run(command, env=given, cwd=tool.parent, stdout=output, stderr=output, text=True, timeout=30)


@pytest.mark.parametrize("does", [None, "exit 9", "kill -KILL $$", "echo noise >&2; exit 1", "kill -TERM 0"])
def test_a_program_that_breaks_or_is_not_there_is_not_heard_of(tool: Path, does: str | None) -> None:
    if does:
        put(tool, does)
    done = run(tool, "exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "", "")


@pytest.mark.parametrize("name", ["TERM", "USR1", "HUP"])
def test_a_signal_still_ends_it_as_that_signal(tool: Path, name: str) -> None:
    put(tool, SAYS)
    done = run(tool, f"(sleep 0.3; kill -{name} $$) & sleep 1")
    assert done.returncode == -getattr(signal, f"SIG{name}")
    assert "verdict" in done.stderr


def test_a_signal_during_the_footer_changes_nothing(tool: Path) -> None:
    put(tool, "sleep 1; echo done")
    done = run(tool, "(sleep 0.4; kill -TERM $$; kill -USR1 $$) & exit 5")
    assert done.returncode == 5
    assert "done" in done.stderr


@pytest.mark.parametrize("does", ["sleep 60", "trap '' TERM INT; sleep 60 & wait; sleep 60", "yes", "yes >&2"])
def test_time_and_output_are_bounded(tool: Path, does: str) -> None:
    put(tool, does)
    start = time.monotonic()
    done = run(tool, "exit 6")
    assert done.returncode == 6
    assert time.monotonic() - start < 6
    assert len(done.stderr) <= 16384


CANCELLED = "slurmstepd: error: *** JOB 42 ON node07 CANCELLED AT 2026-11-20T12:00:00 ***"


@pytest.mark.parametrize(
    ("traps", "body", "told"),
    [
        ("trap 'exit 0' SIGUSR1 15", "exit 0", False),
        ("trap 'exit 0' TERM", "exit 3", True),
        ("trap - TERM", "exit 0", True),
        ("trap 'exit 0' TERM\necho 'torch.OutOfMemoryError: CUDA out of memory.'", "exit 0", True),
    ],
)
def test_a_script_that_handles_its_end_and_ends_well_was_not_cancelled(
    tool: Path, traps: str, body: str, told: bool
) -> None:
    put(tool, f'exec {Path(sys.executable).with_name("slurmdoctor")} "$@"')
    log = tool.with_name("job.log")
    with log.open("a") as opened:
        script = f"{traps}\necho '{CANCELLED}'\n{body}"
        run(tool, script, log=opened, SLURM_CONF="/nowhere", SLURMDOCTOR_TIMEOUT="60")
    assert ("--- slurmdoctor" in log.read_text()) == told


def test_it_reads_no_longer_than_its_shell_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    def read(*_: object, time_limit: float, **__: object) -> Diagnosis:
        limits.append(time_limit)
        return Diagnosis("no-failure")

    monkeypatch.setenv("SLURM_JOB_ID", "42")
    monkeypatch.setattr("slurmdoctor.pipeline.diagnose", read)
    monkeypatch.setattr("slurmdoctor.slurm.query.ask", lambda *_: query.Answers())
    for seconds in ("1", "30"):
        CliRunner().invoke(cli, ["footer", "--shell", "1", "--time-limit", seconds])
    assert [round(limit) for limit in limits] == [1, 22]
    assert all(limit < wanted for limit, wanted in zip(limits, (1, 30), strict=True))


@pytest.mark.parametrize("shell", here("bash", "sh", "dash", "zsh", "busybox sh"))
@pytest.mark.parametrize(
    ("before", "status"),
    [("(exit 7)", 7), ("true", 0), ("false; true", 0), ("set -u; (exit 7)", 7), ("set -e; false && true", 1)],
)
def test_pasted_at_the_end_it_keeps_the_status_of_what_is_above(
    tool: Path, shell: str, before: str, status: int
) -> None:
    put(tool, SAYS)
    found = run(tool, "\n", before=f"echo words\n{before}", shell=shell)
    assert found.returncode == status, found.stderr
    assert found.stderr == f"verdict on status {status}\n"


@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_read_from_a_file_it_hands_no_status_on(tool: Path, shell: str) -> None:
    put(tool, SAYS)
    own = tool.with_name("hook.sh")
    own.write_text(hook.script("footer", seconds=2, command=str(tool)))
    script = tool.with_name("job.sh")
    script.write_text("set -e\nfalse && true\n. ./hook.sh\necho goes on\n")
    env = {"SLURM_JOB_ID": "42", "PATH": "/usr/bin:/bin"}
    found = subprocess.run([shell, script.name], env=env, cwd=tool.parent, capture_output=True, text=True, timeout=30)
    assert (found.returncode, found.stdout, found.stderr) == (0, "goes on\n", "verdict on status 0\n")


def test_only_in_the_batch_script_and_without_the_jobs_python_settings(tool: Path) -> None:
    put(tool, SAYS)
    assert run(tool, "exit 1", SLURM_JOB_ID=None).stderr == ""
    assert run(tool, "exit 1", SLURM_STEP_ID="0").stderr == ""
    assert run(tool, "exit 1", SLURMDOCTOR_HOOK="off").stderr == ""
    put(tool, 'echo "[${PYTHONPATH-unset}]"')
    assert "[unset]" in run(tool, "export PYTHONPATH=/broken\nexit 1").stderr


def test_traps_and_arguments_of_the_script_live_on(tool: Path) -> None:
    put(tool, SAYS)
    done = run(tool, "exit 4", before='trap \'echo "mine \\"saw\\" $?"\' EXIT')
    assert (done.returncode, done.stdout) == (4, 'mine "saw" 4\n')
    assert "verdict on status 4" in done.stderr
    strict = run(tool, "false\necho never", before="set -eE\ntrap 'echo ERR' ERR\ntrap 'echo mine $?' EXIT")
    assert (strict.returncode, strict.stdout) == (1, "ERR\nmine 1\n")
    assert run(tool, "set -x\nexit 2").stderr.count("+ ") < 12
    own = run(tool, "trap 'echo usr1; exit 8' USR1\nkill -USR1 $$\nsleep 1")
    assert (own.returncode, own.stdout) == (8, "usr1\n")
    assert run(tool, 'set -- a "b c"\necho "$#:$2"', before="trap ':' EXIT").stdout == "2:b c\n"


def test_a_trap_that_speaks_before_every_command_changes_no_status(tool: Path) -> None:
    put(tool, SAYS)
    before = "set -eT\ntrap 'echo \"+ $BASH_COMMAND\"' DEBUG\ntrap 'echo mine $?' EXIT"
    for status in (0, 3):
        done = run(tool, f"exit {status}", before=before)
        assert (done.returncode, done.stdout.splitlines().count(f"mine {status}")) == (status, 1)


BEFORE = ("", "set -euC", "trap 'echo \"mine $?\"' EXIT\ntrap : USR1")
ENDS = (
    "exit 0", "exit 4", "set -e; false; :", "nosuch", "set -- a; f() { return 3; }; f || exit", "exec >&-; exit 5",
    "(exit 3)", "set -eu; false | cat; (exit 6)",
)  # fmt: skip


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_ends_as_without_it(tool: Path, shell: str) -> None:
    put(tool, SAYS)
    bare = tool.with_name("bare.sh")
    unset = ["set -u; echo $nothing"] if shell != "zsh" else []  # zsh leaves without its traps then
    for n, body in enumerate([*ENDS, *unset]):
        before = BEFORE[(n + SHELLS.index(shell)) % len(BEFORE)]
        bare.write_text(f"{before}\n{body}\n")
        plain = subprocess.run([*shell.split(), str(bare)], capture_output=True, text=True)
        done = run(tool, body, before=before, shell=shell)
        assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
        told = [line for line in done.stderr.splitlines() if line.startswith("verdict")]
        assert told == [f"verdict on status {plain.returncode}"]
        assert len(done.stderr.splitlines()) == len(plain.stderr.splitlines()) + 1


@pytest.mark.parametrize("shell", SHELLS)
def test_it_speaks_in_the_log_where_the_script_has_closed_its_errors(tool: Path, shell: str) -> None:
    put(tool, SAYS)
    for body in ("exec 2>&-", "exec 2>/dev/null", "exec >&- 2>&-"):
        log = tool.with_name("job log.out")
        with log.open("w") as opened:
            assert run(tool, f"{body}\nexit 3", shell=shell, log=opened).returncode == 3
        assert log.read_text() == "verdict on status 3\n"


@pytest.mark.parametrize("shell", here("zsh", "mksh", "bash"))
def test_a_debug_trap_leaves_nothing_behind(tool: Path, tmp_path: Path, shell: str) -> None:
    put(tool, SAYS)
    (tmp_path / "tmp").mkdir()
    done = run(tool, "exit 4", before="trap 'echo touch pwned' DEBUG", shell=shell, TMPDIR=str(tmp_path / "tmp"))
    assert (done.returncode, "no such file" in done.stderr) == (4, False)
    assert "verdict on status 4" in done.stderr or shell == "bash"
    assert not list((tmp_path / "tmp").iterdir())
    assert not (tmp_path / "pwned").exists()


@pytest.mark.skipif(not here("zsh"), reason="needs zsh")
@pytest.mark.parametrize("says", ["results.csv", "./results.csv", "$PWD/results.csv"])
@pytest.mark.parametrize("trap", ["TRAPEXIT() {{ echo {} }}", "unsetopt debugbeforecmd; trap 'echo {}' DEBUG"])
def test_what_a_trap_of_zsh_says_is_no_file_of_ours(tool: Path, tmp_path: Path, trap: str, says: str) -> None:
    put(tool, SAYS)
    precious = tmp_path / "results.csv"
    precious.write_text("precious")
    (tmp_path / "tmp").mkdir()
    says = says.replace("$PWD", str(tmp_path))
    before = f"cd {tmp_path}; {trap.format(says)}"
    done = run(tool, "exit 4", before=before, shell="zsh", TMPDIR=str(tmp_path / "tmp"))
    assert (done.returncode, precious.read_text()) == (4, "precious")
    assert not list((tmp_path / "tmp").iterdir())


HOSTILE = (
    "", "0", "-1", "08", "a[$(touch pwned)]", "$(touch pwned)", "`touch pwned`", "';touch pwned;'", "x\ny", "*", "-h", "9" * 99999,
)  # fmt: skip
SETTINGS = ("SLURMDOCTOR_TIMEOUT", "SLURMDOCTOR_WHEN", "SLURMDOCTOR_HOOK", "SLURMDOCTOR")
OF_SLURM = ("SLURM_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_OPEN_MODE", "SLURM_JOB_NAME", "SLURM_ARRAY_TASK_ID")


@pytest.mark.parametrize("shell", here("bash", "zsh", "dash"))
def test_hostile_words_are_never_run_and_as_settings_count_for_nothing(tool: Path, shell: str) -> None:
    put(tool, 'echo "verdict: $*"')
    for value in HOSTILE:
        hostile: dict[str, Any] = dict.fromkeys(SETTINGS, value)
        as_settings = run(tool, "exit 6", shell=shell, **hostile)
        usual = "verdict: footer --status 6 --when failed --before= --time-limit 2 "
        assert as_settings.stderr.startswith(usual), value[:20]
        hostile = dict.fromkeys(OF_SLURM, value or "42")
        of_slurm = run(tool, "exit 6", shell=shell, **hostile)
        for done in (as_settings, of_slurm):
            assert (done.returncode, done.stdout) == (6, ""), value[:20]
            assert done.stderr.startswith("verdict: footer --status 6 "), value[:20]
            assert len(done.stderr.splitlines()) == 1
    assert not tool.with_name("pwned").exists()


@pytest.mark.parametrize("kind", hook.KINDS)
def test_kinds_are_bash(kind: str, tmp_path: Path) -> None:
    text = hook.script(kind, command="/opt/a b/slurmdoctor")
    assert not re.search(r"@[A-Z]+@", text)
    file = tmp_path / "x.sh"
    file.write_text(text)
    assert subprocess.run([str(BASH), "-n", str(file)], capture_output=True).returncode == 0
    assert "'/opt/a b/slurmdoctor'" in text


@pytest.mark.parametrize("answer", ["", "Welcome to the cluster\n41", "$(touch pwned)", "41;east", "41"])
def test_the_watching_job_takes_only_a_job_id(tmp_path: Path, answer: str) -> None:
    fake = tmp_path / "sbatch"
    put(fake, f"printf '%s\\n' \"$@\" --- >> {tmp_path}/asked\ncat <<'E'\n{answer}\nE")
    put(tmp_path / "squeue", "echo '--partition=gpu --account=(null)'")
    script = tmp_path / "watched"
    script.write_text(hook.script("dependency", command="/opt/$(touch pwned) b/slurmdoctor"))
    command, env = ["sh", str(script), "job.sh"], {"PATH": f"{tmp_path}:/bin"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    asked = (tmp_path / "asked").read_text().split("---\n")[1:-1]
    assert done.returncode == 0
    if answer.startswith("41"):
        assert done.stdout == "41\n"
        assert "--dependency=afternotok:41\n" in asked[0]
        watches = "'/opt/$(touch pwned) b/slurmdoctor' diagnose --time-limit 240 --job 41 --if-failed"
        assert f"--partition=gpu\n--wrap=timeout 300 {watches}\n" in asked[0]
    else:
        assert (asked, done.stdout.strip()) == ([], answer)
        assert done.stderr.startswith("slurmdoctor: sbatch answered with no job id")
    assert not (tmp_path / "pwned").exists()


def test_the_command() -> None:
    printed = CliRunner().invoke(cli, ["hook", "--timeout", "12", "--when", "always", "--command", "/x/slurmdoctor"])
    assert (printed.exit_code, "limit=12" in printed.output, "when=always" in printed.output) == (0, True, True)
    assert "afterok" not in CliRunner().invoke(cli, ["hook", "--kind", "dependency"]).output


def test_footer_outside_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    found = CliRunner().invoke(cli, ["footer", "--status", "1", "--shell", "1"])
    assert (found.exit_code != 0, "inside a job" in str(found.exception)) == (True, True)


def test_children_that_still_run(tmp_path: Path) -> None:
    for text in ("10 (srun) S 7 10", "11 (srun) Z 7 11", "12 (sleep) S 7 12", "13 (srun) S 9 13"):
        (tmp_path / text[:2]).mkdir()
        (tmp_path / text[:2] / "stat").write_text(text)
    (tmp_path / "14").mkdir()
    assert hook.running_steps(7, sorted(tmp_path.iterdir())) == ("srun",)
