"""No secret passes any door: reports, lint, the footer, answers to agents, error messages, the workshop of the rules."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from planted_secrets import FORMS, KINDS, readable
from slurmdoctor import diagnose
from slurmdoctor.cli import cli, output as door
from slurmdoctor.cli.sandbox import answer
from slurmdoctor.knowledge import builtin, load
from slurmdoctor.model import Diagnosis, RankTimeline, RankTimelines, Rival, Span, UserError
from slurmdoctor.report import explain, paint, render, text_report as text
from slurmdoctor.report.redaction import Redactor
from test_report_chat import hostile

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


def shown_in_every_form(found: Diagnosis) -> str:
    forms = [render(found, form) for form in ("json", "markdown", "slack", "html")]
    forms += [text.render_text(found, width=wide, colour=wide == 80, context=99, ranks=True) for wide in (4000, 80)]
    return "\n".join(forms)


@pytest.mark.parametrize("form", PLANTED)
def test_reports_and_answers_to_agents(form: str) -> None:
    planted = PLANTED[form]
    for mode in ("default", "strict"):
        shown = shown_in_every_form(diagnose(log(planted), redact=mode))
        shown += json.dumps(answer({"text": log(planted), "redact": mode}), ensure_ascii=False)
        missing = answer({"path": f"logs/{planted}", "allowed": ["/scratch/demo"], "redact": mode})
        assert "[redacted " in shown
        assert leaks(shown + missing["error"]) == []


def test_no_field_of_a_verdict_shows_a_secret() -> None:
    for planted in PLANTED.values():
        rank_timeline = RankTimeline((3,), (planted,), planted, (Span(0, 1, "running"),), (), planted)
        found = replace(
            hostile(planted),
            others=(Rival("cuda-oom", "low", planted),),
            rank_timelines=RankTimelines((rank_timeline,), 0.0, 1.0),
        )
        assert leaks(shown_in_every_form(Redactor().apply(found))) == []


KEY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"


@pytest.mark.parametrize(
    "lines",
    [[KEY] * 9, [KEY, KEY, KEY[:20], "-----END RSA PRIVATE" + " KEY-----"], [f"3: {KEY}"] * 5, ["HF_" + "TOKEN=hf_" + KEY[:34]]],
)  # fmt: skip
def test_no_neighbour_of_the_evidence_shows_a_secret(lines: list[str]) -> None:
    raised = ["Traceback (most recent call last):", '  File "a.py", line 1, in f', "KeyError: 'x'"]
    for mode in ("default", "strict"):
        html = diagnose("\n".join([*lines, *raised, *lines, ""]), redact=mode).to_html()
        assert KEY[:20] not in html
        assert "KeyError" in html


@pytest.mark.parametrize("label", ["", "[rank3]: ", "3: [rank3]: "])
def test_a_token_that_the_log_breaks_into_two_lines(label: str) -> None:
    said = f"huggingface_hub.errors.GatedRepoError: 401 Client Error for {TOKEN} of this gated repository"
    width = 80 - len(label)
    lines = ["Traceback (most recent call last):", '  File "/srv/a.py", line 3, in main', "    login()"]
    lines += [said[at : at + width] for at in range(0, len(said), width)]
    ended = "srun: error: n1: task 3: Exited with exit code 1\n"
    found = diagnose("".join(f"{label}{line}\n" for line in lines) + ended)
    shown = text.render_text(found, width=100, colour=False, context=99) + render(found, "json") + found.to_html()
    assert "Client Error" in shown
    assert leaks(shown) == []


SCRIPT = """#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=8
set -x
srun python t.py {} | tee out.log
torchrun --nnodes=2 t.py {}
"""


@pytest.mark.parametrize("form", ["text", "json", "github"])
def test_lint(form: str, tmp_path: Path) -> None:
    script = tmp_path / f"job-{TOKEN}.sbatch"
    script.write_text(SCRIPT.format(f"--token {TOKEN} --api-key {SECRET}", f"--password {WORD}"))
    for mode in ("default", "strict"):
        done = CliRunner().invoke(cli, ["lint", "--format", form, "--redact", mode, str(script)])
        assert done.exit_code == 1
        assert "[redacted " in done.output
        assert leaks(done.output) == []


def test_the_workshop(tmp_path: Path) -> None:
    """With secrets in lines, in names of files and in ids."""
    line = f"[rank3]: loader.TapeError: tape library is gone, --api-key {SECRET} --password {WORD} {TOKEN}"
    rule = tmp_path / f"job-{TOKEN}.yaml"
    case = tmp_path / "cases" / f"run-{TOKEN}"
    case.mkdir(parents=True)
    (case / "truth.yaml").write_text("{failed: true, cause: cuda-oom, rank: 3}")
    (case / "job.log").write_text(log(line))
    rule.write_text(
        f"cause: site/x\ntitle: x\nrules:\n  - id: site/x/y\n    regex: 'tape ('\n    examples: {{match: ['{line}']}}\n"
    )
    for command in (
        ["new", "lost-tape", "--line", line, "--folder", str(tmp_path)],
        ["check", str(rule)],
        ["test", str(case.parent)],
        ["test", "--format", "json", str(case.parent)],
    ):
        shown = CliRunner().invoke(cli, ["rules", *command]).output
        shown += (tmp_path / "lost-tape.yaml").read_text()
        assert "[redacted " in shown
        assert leaks(shown) == []


def test_error_messages(capsys: pytest.CaptureFixture[str]) -> None:
    for planted in PLANTED.values():
        door.complain(UserError(f"no such file: {planted}", f"name a file, not {planted}"))
        door.complain(ValueError(planted))
        told = capsys.readouterr().err
        assert "[redacted " in told
        assert leaks(told) == []


def test_what_we_say_ourselves_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    known = load((builtin(),))
    for cause in known.causes.values():
        page = paint([[row] for row in explain.rows(cause, known)])
        door.say(page)
        assert capsys.readouterr().out == page + "\n", cause.id
