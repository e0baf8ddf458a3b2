"""Hostile names at every door: what is printed steers no terminal, and a name cannot add a line of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slurmdoctor import cli

OOM = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity\n"
SPOOFED = "no failure found, all is well"
HOSTILE = {
    # the clipboard, the window's title, colour and an empty screen, the same in C1, a bell and backspaces, text turned around
    "sequences": "\x1b]52;c;ZXZpbA==\x07\x1b]0;t\x1b\\\x1b[31;1m\x1b[2J\x9b2J\x9d52;c;ZXZp\x9c\x07\x08\x08\u202egol\u2066\u200f",
    "line": f"\n{SPOOFED}\r{SPOOFED}\x0b\x85\u2028{SPOOFED}",
    "surrogate": "\udc9b2J",
}
Place = Callable[[Path, str], list[str]]
"""(a folder, a hostile name) -> the arguments of a call."""


def _log(folder: Path, name: str, text: str | bytes = OOM) -> str:
    path = folder / f"{name}.log"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def _rule(folder: Path, name: str, title: str = "lost the tape library") -> str:
    """A file of a cause whose texts hold the name, as YAML escapes it."""
    quoted = title.encode("unicode_escape").decode().replace('"', '\\"')
    path = folder / f"{name}.yaml"
    path.write_text(
        f'cause: site/lost-tape\ntitle: "lost it {quoted}"\nrole: root\nexit_classes: [python-error]\nretry: elsewhere\n'
        f'summary: "It stopped {quoted}."\nrules:\n- id: site/lost-tape/loader\n  source: loader\n'
        "  applies_to: exception\n  literals: ['tape library is gone']\n  regex: 'TapeError: tape library is gone'\n"
        "  examples:\n    match: ['TapeError: tape library is gone']\nfixes:\n- do: Exclude the node.\n"
    )
    return str(path)


def _with_rules(folder: Path, name: str, *call: str) -> list[str]:
    site = folder / "site"
    site.mkdir()
    _rule(site, "lost-tape", name)
    return [*call, "--rules", str(site)]


def _empty(folder: Path, name: str) -> str:
    (folder / name).mkdir()
    return str(folder / name)


def _broken(folder: Path, name: str) -> str:
    """A rule file with a wrong key of that name."""
    path = folder / f"{name}.yaml"
    quoted = name.encode("unicode_escape").decode().replace('"', '\\"')
    path.write_text(f'"{quoted}": 1\ncause: "{quoted}"\n')
    return str(path)


def _case(folder: Path, name: str) -> list[str]:
    """A labelled log that is told wrongly."""
    case = folder / "cases" / name
    case.mkdir(parents=True)
    (case / "job.log").write_text(OOM)
    (case / "truth.yaml").write_text("failed: true\ncause: nccl-timeout\nrank: 7\n")
    return ["rules", "test", str(folder / "cases")]


def _script(folder: Path, name: str) -> str:
    path = folder / f"{name}.sbatch"
    path.write_text(
        f"#!/bin/bash\n#SBATCH --nodes={name}\n#SBATCH --{name}\nsrun python {name} | tee {name}\n#SBATCH --mem=4G\n"
    )
    return str(path)


DOORS: dict[str, Place] = {
    "no such log": lambda d, n: ["diagnose", str(d / n)],
    "a folder without logs": lambda d, n: ["diagnose", _empty(d, n)],
    "a glob": lambda d, n: ["diagnose", str(d / f"{n}*")],
    "a near name": lambda d, n: ["diagnose", _log(d, n)[:-1]],
    "a binary log": lambda d, n: ["diagnose", _log(d, n, b"\x7fELF\0\0\1\2" * 900)],
    "a log of that name": lambda d, n: ["diagnose", "--ranks", "--context", "9", _log(d, n)],
    "as JSON": lambda d, n: ["diagnose", "--format", "json", _log(d, n)],
    "as Markdown": lambda d, n: ["diagnose", "--format", "markdown", _log(d, n)],
    "as a message of Slack": lambda d, n: ["diagnose", "--format", "slack", _log(d, n)],
    "an unknown option": lambda d, n: ["diagnose", f"--{n}"],
    "an unknown command": lambda d, n: [n],
    "no choice": lambda d, n: ["diagnose", "--format", n],
    "no number": lambda d, n: ["diagnose", "--exit-status", n],
    "no limit": lambda d, n: ["diagnose", "--time-limit", n],
    "a job": lambda d, n: ["diagnose", "--job", n],
    "Slurm's text": lambda d, n: ["diagnose", "--slurm-info", n],
    "no text of Slurm's": lambda d, n: ["diagnose", "--slurm-info", _log(d, n)],
    "a script": lambda d, n: ["diagnose", "--script", n, _log(d, "job")],
    "a folder of rules": lambda d, n: ["diagnose", "--rules", n, _log(d, "job")],
    "a broken rule": lambda d, n: ["diagnose", "--rules", str(Path(_broken(d, n)).parent), _log(d, "job")],
    "a site's title": lambda d, n: _with_rules(d, n, "diagnose", _log(d, "job", "[rank1]: TapeError: tape library is gone")),
    "explain": lambda d, n: ["explain", n],
    "explain a site's cause": lambda d, n: _with_rules(d, n, "explain", "site/lost-tape"),
    "rules list": lambda d, n: _with_rules(d, n, "rules", "list"),
    "rules list as JSON": lambda d, n: _with_rules(d, n, "rules", "list", "--format", "json"),
    "rules check, nothing there": lambda d, n: ["rules", "check", n],
    "rules check, broken": lambda d, n: ["rules", "check", _broken(d, n)],
    "rules check, a title": lambda d, n: ["rules", "check", _rule(d, n, n)],
    "rules check, an empty folder": lambda d, n: ["rules", "check", _empty(d, n)],
    "rules fmt": lambda d, n: ["rules", "fmt", _broken(d, n)],
    "rules new": lambda d, n: ["rules", "new", n, "--folder", str(d)],
    "rules new, a line": lambda d, n: ["rules", "new", "site/tape", "--line", f"TapeError: gone {n}", "--folder", str(d / n)],
    "rules test": _case,
    "lint, nothing there": lambda d, n: ["lint", n],
    "lint": lambda d, n: ["lint", _script(d, n)],
    "lint as JSON": lambda d, n: ["lint", "--format", "json", _script(d, n)],
    "lint for GitHub": lambda d, n: ["lint", "--format", "github", _script(d, n)],
    "hook": lambda d, n: ["hook", "--command", n],
    "hook of a kind": lambda d, n: ["hook", "--kind", n],
    "footer": lambda d, n: ["footer", "--status", n, "--shell", "1"],
    "mcp": lambda d, n: ["mcp", "--allow", n],
}  # fmt: skip


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))  # no Slurm

    def call(arguments: list[str]) -> str:
        monkeypatch.setattr(sys, "argv", ["slurmdoctor", *arguments])
        cli._run()
        told = capfd.readouterr()
        return told.out + told.err

    return call


def _steers(char: str) -> bool:
    code = ord(char)
    return (
        (code < 32 and char not in "\t\n")
        or 0x7F <= code < 0xA0
        or char in "\u061c\u200e\u200f\u2028\u2029\ufeff"
        or 0x202A <= code <= 0x202E
        or 0x2066 <= code <= 0x206F
        or 0xD800 <= code < 0xE000
    )


@pytest.mark.parametrize("payload", HOSTILE)
@pytest.mark.parametrize("door", DOORS)
def test_no_name_steers_what_is_printed(door: str, payload: str, run: Callable[..., str], tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    try:
        call = DOORS[door](work, f"evil{HOSTILE[payload]}x")
    except UnicodeEncodeError:
        pytest.skip("no file can hold this")
    told = run(call)
    assert told
    assert [char for char in told if _steers(char)] == []
    if door not in ("hook", "lint", "lint as JSON", "lint for GitHub"):  # a shell's text is not one line
        assert not any(line.startswith(SPOOFED) for line in told.splitlines())
    assert "Traceback" not in told


def test_a_mention_in_a_name_reaches_nobody(run: Callable[..., str], tmp_path: Path) -> None:
    name = "`<!channel> @everyone **x** [y](http:~~evil.example)"
    path = _log(tmp_path, name)
    for form in ("markdown", "slack"):
        told = run(["diagnose", "--format", form, path])
        assert "<!channel>" not in told.replace("\\u003c", "<") or form == "slack"  # in a text element it is text
        assert "@everyone" not in told or form == "slack"
