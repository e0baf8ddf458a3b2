"""Hostile names at every door: what is printed steers no terminal, and a name cannot add a line of its own."""

from pathlib import Path

import pytest

from cases import run
from rule_files import cause_file
from tables import table

OOM = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity\n"
SPOOFED = "no failure found, all is well"
# the clipboard, the window's title, colour and an empty screen, the same in C1, a bell and backspaces, text turned around; line ends
STEERS = (
    "\x1b]52;c;ZXZpbA==\x07\x1b]0;t\x1b\\\x1b[31;1m\x1b[2J\x9b2J\x9d52;c;ZXZp\x9c\x07\x08\x08\u202egol\u2066\u200f"
    f"\n{SPOOFED}\r{SPOOFED}\x0b\x85\u2028{SPOOFED}"
)
HOSTILE = {"steers": f"evil{STEERS}x", "surrogate": "evil\udc9b2Jx"}
CALLS: list[str] = table("door_calls")["calls"]
"""A call a line; what is in braces is hostile, or a file or folder that is."""
SEVERAL_LINES = ("hook --command", "lint")
"""Calls that print a script's text."""


def _rule(title: str) -> str:
    """A file of a cause whose texts hold the title, as YAML escapes it."""
    quoted = _escaped(title)
    return cause_file("site/lost-tape", title=f'"lost it {quoted}"', summary=f'"It stopped {quoted}."')


def _escaped(name: str) -> str:
    return name.encode("unicode_escape").decode().replace('"', '\\"')


def _placed(folder: Path, name: str) -> dict[str, str]:
    """What stands for the words in braces."""
    escaped = _escaped(name)
    files: dict[str, str | bytes] = {
        f"logs/{name}.log": OOM,
        f"binary/{name}.log": b"\x7fELF\0\0\1\2" * 900,
        "tape.log": "[rank1]: TapeError: tape library is gone\n",
        f"broken/{name}.yaml": f'"{escaped}": 1\ncause: "{escaped}"\n',
        "site/lost-tape.yaml": _rule(name),
        f"rule/{name}.yaml": _rule(name),
        f"cases/{name}/job.log": OOM,
        f"cases/{name}/truth.yaml": "failed: true\ncause: nccl-timeout\nrank: 7\n",
        f"{name}.sbatch": f"#!/bin/bash\n#SBATCH --nodes={name}\n#SBATCH --{name}\nsrun python {name} | tee {name}\n#SBATCH --mem=4G\n",
    }
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data if isinstance(data, bytes) else data.encode("utf-8", "surrogateescape"))
    (folder / "empty" / name).mkdir(parents=True)
    (folder / "absent").mkdir()
    named = {"name": name, "absent": f"absent/{name}", "near": f"logs/{name}.lo", "empty": f"empty/{name}", "script": f"{name}.sbatch",
             "tape-log": "tape.log", "site": "site", "cases": "cases", "broken-folder": "broken", "log": f"logs/{name}.log"}  # fmt: skip
    named |= {what: f"{what}/{name}.yaml" for what in ("broken", "rule")} | {"binary": f"binary/{name}.log"}
    return {f"{{{what}}}": path for what, path in named.items()}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, dict[str, str]]]:
    folders = {which: tmp_path_factory.mktemp(which) for which in HOSTILE}
    return {which: (folder, _placed(folder, HOSTILE[which])) for which, folder in folders.items()}


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


@pytest.mark.parametrize(
    ("which", "call"),
    [("steers", call) for call in CALLS] + [("surrogate", call) for call in CALLS if "rules" not in call],
)
def test_no_name_steers_what_is_printed(
    which: str, call: str, places: dict[str, tuple[Path, dict[str, str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, named = places[which]
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", str(folder))  # no Slurm
    words = call.split()
    for what, text in named.items():
        words = [word.replace(what, text) for word in words]
    called = run(*words)
    told = (called.stdout + called.stderr).decode("utf-8", "surrogateescape")
    assert told
    assert [char for char in told if _steers(char)] == []
    assert call.startswith(SEVERAL_LINES) or not any(line.startswith(SPOOFED) for line in told.splitlines())
    assert "Traceback" not in told


def test_a_mention_in_a_name_reaches_nobody(tmp_path: Path) -> None:
    path = tmp_path / "`<!channel> @everyone **x** [y](http:~~evil.example).log"
    path.write_text(OOM)
    told = run("diagnose", "--format", "markdown", path).stdout.decode()
    assert "<!channel>" not in told
    assert "@everyone" not in told
