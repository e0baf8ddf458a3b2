"""No secret passes any door: reports, lint, the footer, answers to agents, error messages, the workshop of the rules."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from planted_secrets import FORMS, KINDS, readable
from slurmdoctor import diagnose
from slurmdoctor.cli import cli
from slurmdoctor.cli import output as door
from slurmdoctor.cli.sandbox import answer
from slurmdoctor.knowledge import builtin, load
from slurmdoctor.model import UserError
from slurmdoctor.report import explain, render
from slurmdoctor.report import text_report as text

SECRET = KINDS["mistral"][1](__import__("random").Random("doors"))
TOKEN = "hf" + "_" + "qWeRtYuIoP" * 3 + "aSdF"
WORD = "mwsxrvcvmfc"
PLANTED = {
    "argv": FORMS["argv"]("API_KEY", SECRET),
    "aligned": FORMS["aligned"]("API_KEY", SECRET),
    "triple json": FORMS["triple json"]("API_KEY", SECRET),
    "table": FORMS["table"]("API_KEY", SECRET),
    "file name": f"cannot open /scratch/demo/job-{TOKEN}.out",
    "full width": FORMS["full width"]("api_key", SECRET),
    "password": f"login failed with password: {WORD}",
    "docker": f"CalledProcessError: Command '['docker', 'login', '-u', 'kim', '-p', '{WORD}']' returned non-zero exit status 1.",
    "curl": f"curl -u kim:{WORD} https://example.org",
    "cookie": f"Set-Cookie: a=b; Path=/, session={SECRET}",
    "url": f"redis://:ab/{WORD}@cache:6379/0",
    "wrapped": f"{'gated repo, tried with':>60} {TOKEN}"[:80],
}
"""What a log holds of a secret; none of SECRET, TOKEN and WORD may be shown, nor a half of it."""


def leaks(shown: str) -> list[str]:
    shown = readable(shown)
    return [
        half
        for whole in (SECRET, TOKEN[3:], WORD)
        for half in (whole[: len(whole) // 2], whole[-len(whole) // 2 :])
        if half in shown
    ]


def log(line: str) -> str:
    return (
        f"[rank3]: Traceback (most recent call last):\n[rank3]:   File \"/srv/a.py\", line 3, in main\n[rank3]:     {line}\n"
        f"[rank3]: RuntimeError: boom {line}\nsrun: error: n1: task 3: Exited with exit code 1\n{line}\n"
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["default", "strict"])
@pytest.mark.parametrize("form", PLANTED)
def test_reports(form: str, mode: str) -> None:
    found = diagnose(log(PLANTED[form]), redact=mode)
    shown = [
        text.render_text(found, width=4000, colour=False, context=99, ranks=True),
        text.render_text(found, width=80, colour=True, context=99, ranks=True),
        render(found, "json"),
        render(found, "markdown"),
        render(found, "slack"),
        render(found, "html"),
    ]
    assert "[redacted " in shown[0]
    assert leaks("\n".join(shown)) == []


@pytest.mark.parametrize("mode", ["default", "strict"])
@pytest.mark.parametrize("form", PLANTED)
def test_answers_to_agents(form: str, mode: str) -> None:
    assert leaks(json.dumps(answer({"text": log(PLANTED[form]), "redact": mode}), ensure_ascii=False)) == []
    missing = answer({"path": f"logs/{PLANTED[form]}", "allowed": ["/scratch/demo"], "redact": mode})
    assert "error" in missing
    assert leaks(missing["error"]) == []


SCRIPT = """#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=8
set -x
srun python t.py {} | tee out.log
torchrun --nnodes=2 t.py {}
"""


@pytest.mark.parametrize("mode", ["default", "strict"])
@pytest.mark.parametrize("form", ["text", "json", "github"])
def test_lint(form: str, mode: str, tmp_path: Path) -> None:
    script = tmp_path / f"job-{TOKEN}.sbatch"
    script.write_text(SCRIPT.format(f"--token {TOKEN} --api-key {SECRET}", f"--password {WORD}"))
    done = CliRunner().invoke(cli, ["lint", "--format", form, "--redact", mode, str(script)])
    assert done.exit_code == 1
    assert "[redacted " in done.output
    assert leaks(done.output) == []
    if form == "json":
        assert json.loads(done.output)["files"][0]["wrong"]


def run(*args: str) -> str:
    return CliRunner().invoke(cli, list(args)).output


def workshop(folder: Path) -> dict[str, Callable[[], str]]:
    """What each command of the workshop prints, with secrets in lines, names of files and ids."""
    line = f"[rank3]: loader.TapeError: tape library is gone, --api-key {SECRET} --password {WORD} {TOKEN}"
    rule = folder / f"job-{TOKEN}.yaml"
    case = folder / "cases" / f"run-{TOKEN}"
    case.mkdir(parents=True)
    (case / "truth.yaml").write_text("{failed: true, cause: cuda-oom, rank: 3}")
    (case / "job.log").write_text(log(line))

    def new() -> str:
        told = run("rules", "new", "lost-tape", "--line", line, "--folder", str(folder))
        return told + (folder / "lost-tape.yaml").read_text()

    def check() -> str:
        rule.write_text(
            f"cause: site/x\ntitle: x\nrules:\n  - id: site/x/y\n    regex: 'tape ('\n    examples: {{match: ['{line}']}}\n"
        )
        return run("rules", "check", str(rule)) + run("rules", "fmt", str(rule))

    return {
        "new": new,
        "check": check,
        "test": lambda: run("rules", "test", str(folder / "cases")),
        "test json": lambda: run("rules", "test", "--format", "json", str(folder / "cases")),
    }  # fmt: skip


@pytest.mark.parametrize("command", ["new", "check", "test", "test json"])
def test_the_workshop(command: str, tmp_path: Path) -> None:
    shown = workshop(tmp_path)[command]()
    assert "[redacted " in shown
    assert leaks(shown) == []


@pytest.mark.parametrize("form", PLANTED)
def test_error_messages(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    door.complain(UserError(f"no such file: {PLANTED[form]}", f"name a file, not {PLANTED[form]}"))
    door.complain(ValueError(PLANTED[form]))
    told = capsys.readouterr().err
    assert "[redacted " in told
    assert leaks(told) == []


def test_what_we_say_ourselves_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    known = load((builtin(),))
    for cause in known.causes.values():
        page = explain.text(cause, known)
        door.say(page)
        assert capsys.readouterr().out == page + "\n", cause.id
