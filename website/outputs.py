"""What the pages show as output of the program, run again: `python -m website.outputs` writes it anew into them.

A block marked as console holds commands (`$ ...`) with their output; a line `...` in it stands for lines that are left out.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from website.links import ROOT

TEXTS = ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.M | re.S)
_CALL = re.compile(r"^\$ (?P<command>.*(?:(?<=\\)\n.*)*)\n(?P<output>(?:(?!\$ ).*\n)*)", re.M)
_LEFT_OUT = re.compile(r"^ *\.\.\.\n", re.M)


def shown(markdown: str) -> Iterator[tuple[str, str]]:
    """Each command with the output shown below it, if there is one."""
    for block in _BLOCK.finditer(markdown):
        yield from ((call["command"], call["output"]) for call in _CALL.finditer(block[1]) if call["output"].strip())


def printed(command: str) -> str:
    """What the command prints, run in the repository at 92 columns as somebody without Slurm runs it."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "slurmdoctor")
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m slurmdoctor "$@"\n')
        program.chmod(0o755)
        given = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "XDG", "FORCE"))}
        given["SLURM_CONF"] = os.devnull  # a Slurm of this machine may know the jobs of the examples
        given |= {"PATH": f"{folder}:{os.defpath}", "COLUMNS": "92", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
        given |= {"HOME": folder, "TMPDIR": folder, "PYTHONPATH": str(ROOT / "src")}
        given["XDG_CACHE_HOME"] = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")  # rules are read once
        made = subprocess.run(
            ["sh", "-c", command], cwd=ROOT, env=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120
        )
    return "".join(f"{line.rstrip()}\n" for line in made.stdout.decode().rstrip().splitlines())


def same(output: str, real: str) -> bool:
    """Whether the output shown is the real one, but for what is left out."""
    parts = [re.escape(part) for part in _LEFT_OUT.split(output.rstrip() + "\n")]
    return re.fullmatch(r"(?:.*\n)*".join(parts), real) is not None


def renewed(markdown: str) -> str:
    """The text with real output in each block of which nothing is left out."""

    def call(hit: re.Match[str]) -> str:
        output = hit["output"]
        if not output.strip() or _LEFT_OUT.search(output):
            return hit[0]
        return f"$ {hit['command']}\n{printed(hit['command'])}{output[len(output.rstrip()) + 1 :]}"

    return _BLOCK.sub(lambda block: f"```console\n{_CALL.sub(call, block[1])}```", markdown)


if __name__ == "__main__":
    for text in TEXTS:
        path = ROOT / text
        path.write_text(renewed(path.read_text()))
