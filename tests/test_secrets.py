"""Kinds of secrets are data: each is masked in every form in which a log shows it, and what only looks like one is not."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from planted_secrets import FORMS, KINDS, readable, shown_parts
from slurmdoctor import diagnose
from slurmdoctor.knowledge import builtin, folders, load
from slurmdoctor.knowledge.workshop.check import check_paths
from slurmdoctor.knowledge.workshop.proof import planted
from slurmdoctor.model import SecretKind
from slurmdoctor.report import render
from slurmdoctor.report import text_report as text
from slurmdoctor.report.redaction import Redactor, redact

DESCRIBED = load((builtin() / "secrets.yaml",)).secrets
LOOK_ALIKES = [line for kind in DESCRIBED for line in kind.no_match]


@pytest.mark.parametrize("kind", KINDS)
def test_a_secret_is_masked_in_every_form(kind: str) -> None:
    name, make = KINDS[kind]
    for form, put in FORMS.items():
        secret = make(random.Random(kind + form))
        line = put(name, secret)
        shown = redact(line)
        assert "[redacted " in shown, line
        assert not [part for part in shown_parts(form, secret) if part in readable(shown)], (line, shown)
        assert redact(shown) == shown


@pytest.mark.parametrize("kind", DESCRIBED, ids=lambda kind: kind.id)
def test_a_kind_takes_its_examples_alone_and_with_all_others(kind: SecretKind) -> None:
    rng = random.Random(kind.id)
    for example in kind.match:
        line, secrets = planted(example, rng)
        assert secrets
        for shown in (Redactor("default", (kind,)).text(line), redact(line), redact(line, "strict")):
            assert "[redacted " in shown
            assert not [secret for secret in secrets if secret in shown], (line, shown)


def test_what_looks_like_a_secret_stays() -> None:
    assert len(set(LOOK_ALIKES)) >= 200
    assert [line for line in LOOK_ALIKES if redact(line) != line] == []


def test_the_kinds_of_the_public_scanners_are_there() -> None:
    assert len(DESCRIBED) >= 120
    assert [kind.id for kind in DESCRIBED if not kind.match or not kind.no_match or not kind.source] == []


def test_a_site_has_kinds_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "ours.yaml").write_text(
        "secrets:\n  - id: portal-token\n    source: our portal\n    literals: ['prt_']\n    regex: 'prt_[a-z0-9]{32}'\n"
        "    examples: {match: ['tried prt_<hex 32>'], no_match: ['prt_rank=3']}\n"
    )
    assert check_paths([tmp_path], folders([tmp_path])).problems == []
    said = (
        'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    f()\nRuntimeError: the portal refused prt_'
        + "0a1b2c3d" * 4
        + "\n"
    )
    assert "0a1b2c3d" in render(diagnose(said), "json")
    assert "refused [redacted portal token]" in render(diagnose(said, rules=[tmp_path]), "json")


# ── arguments of programs, and places where tokens stand ─────────────────────────────────────


@pytest.mark.parametrize(
    "line",
    [
        "subprocess.CalledProcessError: Command '['docker', 'login', '-u', 'kim', '-p', '{}']' returned non-zero exit status 1.",
        "subprocess.CalledProcessError: Command '['sshpass', '-p', '{}', 'ssh', 'node07']' returned non-zero exit status 5.",
        "subprocess.CalledProcessError: Command '['curl', '-s', '-u', 'kim:{}', 'https://example.org']' returned non-zero exit status 22.",
        'Popen(["mysql", "-u", "root", "-p{}", "runs"])',
        "mysql -uroot -p{} runs",
        "curl --user kim:{} https://example.org",
        "Set-Cookie: theme=dark; Path=/, session={}",
        "('x-api-key', '{}Aa7')",
        "GET /login?key=0&user=kim&pass={}",
        "passcode: {}",
        "password: {}",
        "redis://:{}/more@cache:6379/0",
        "postgresql://svc:ab/{}@db.example.org/x",
        "machine example.org login kim password {}",
        "db.example.org:5432:runs:kim:{}",
        "echo {} | docker login -u kim --password-stdin",
        "auth=('kim', '{}')",
        "torchrun t.py --lr 0.1 --password\n{}",
        '<wsse:Password Type="PasswordText">{}</wsse:Password>',
        "<td>db_password</td><td>{}7</td>",
        "podman login -u kim -p={} registry.example.org",
        "docker login --username kim --password {} registry.example.org",
        "unzip -P {} a.zip",
    ],
)  # fmt: skip
def test_passwords_in_arguments_and_addresses(line: str) -> None:
    assert "mwsxrvcvmfc" not in redact(line.format("mwsxrvcvmfc"))


HF = "hf" + "_" + "aBcDeFgHiJ" * 3 + "kLmN"


@pytest.mark.parametrize("before", ["job-", "out_", "/scratch/demo/", "(", "tried ", "\\n", "%3D", "\u00ad"])
def test_a_token_in_a_file_name_and_beside_signs(before: str) -> None:
    for behind in (".out", "-rank0.log", "_0", ")", "\\n"):
        shown = redact(before + HF + behind)
        assert shown.replace("\u00ad", "") == f"{before}[redacted hf token]{behind}".replace("\u00ad", "")


def test_a_token_that_a_line_of_eighty_columns_breaks() -> None:
    line = f"{'gated repo, tried with':>60} {HF} and failed"
    assert redact(f"{line[:80]}\n{line[80:]}") == f"{line[:61]}[redacted hf token] and failed"
    assert redact(line[:80]) == f"{line[:61]}[redacted hf token]"
    framed = f"│ {line[:78]} │\n│ {line[78:]}"
    assert HF[20:] not in redact(framed)


@pytest.mark.parametrize("label", ["", "[rank3]: ", "3: "])
def test_a_diagnosis_of_wrapped_lines(label: str) -> None:
    said = f"huggingface_hub.errors.GatedRepoError: 401 Client Error for {HF} of this gated repository"
    width = 80 - len(label)
    lines = ["Traceback (most recent call last):", '  File "/srv/a.py", line 3, in main', "    login()"]
    lines += [said[at : at + width] for at in range(0, len(said), width)]
    found = diagnose(
        "".join(f"{label}{line}\n" for line in lines) + "srun: error: n1: task 3: Exited with exit code 1\n"
    )
    shown = text.render_text(found, width=100, colour=False, context=99) + render(found, "json")
    assert "Client Error" in shown
    assert not [part for part in (HF[3:13], HF[-10:]) if part in shown]


# ── the work is linear ───────────────────────────────────────────────────────────────────────

PIECES = ["token=", "--password ", "://a:", "key: '", "hf_", "['curl', '-u', ", "\\\"secret\\\": ", "a@", "eyJ", "wandb key ",
          "[redacted x]", "pass", "-----BEGIN PRIVATE KEY-----", "%3D", "\u00ad", "api_key" + "." * 40, "docker login ", "x" * 60 + "\n", "AKIA", "basic "]  # fmt: skip


def calls(work: Callable[[], Any]) -> int:
    """How many functions are called, in Python and in C."""
    count = 0

    def note(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("piece", PIECES)
def test_twice_the_text_is_twice_the_work(piece: str) -> None:
    redact(piece * 20)
    once, twice = (calls(lambda times=times: redact(piece * times)) for times in (500, 1000))  # type: ignore[misc]
    assert twice <= 2.2 * once + 100


def test_a_megabyte_in_one_line() -> None:
    line = "step=1 loss=2.5 key=value tokens=4096 " * 28_000
    assert redact(f"{line} password=mwsxrvcvmfc") == f"{line} password=[redacted secret]"
