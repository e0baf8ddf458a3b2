"""#SBATCH lines that Slurm takes for something else than they look like. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from slurmdoctor.slurm.script.finds.subject import Occurrence, Subject

_BLANKS = re.compile(r"^#SBATCH\s[^\"'#]*?(?<![\w-])(--[\w-]+)(?:\s+=\s*|=\s+)([^\s#-][^\s#]*)")
_COMMENTED = re.compile(r"^(#[ \t]*SBATCH)((?:\s+-{1,2}[A-Za-z][^\s#=]*(?:[ =][^\s#-][^\s#]*)?)+)\s*(?:#.*)?$", re.I)


def blanks(subject: Subject) -> Iterator[Occurrence]:
    """`#SBATCH --job-name = x`."""
    for line, text in enumerate(subject.script.text.splitlines(), 1):
        if found := _BLANKS.match(text):
            yield Occurrence(line, {"option": found[1], "better": f"{found[1]}={found[2]}"})


def commented(subject: Subject) -> Iterator[Occurrence]:
    """`# SBATCH --gres=gpu:8` above the first command."""
    for line, text in enumerate(subject.script.text.splitlines(), 1):
        if text.strip() and not text.lstrip().startswith("#"):
            return
        if not text.startswith("#SBATCH") and (found := _COMMENTED.match(text)):
            yield Occurrence(line, {"mark": found[1], "option": found[2].strip()})


def late_folders(subject: Subject) -> Iterator[Occurrence]:
    """`--output=logs/%j.out`, and `mkdir -p logs` in the script."""
    made = {_folder(f"{arg}/"): c.line for c in subject.own if c.name == "mkdir" for arg in c.args}
    for given in subject.script.directives:
        folder = _folder(re.split("[%$]", given.value or "")[0]) if given.name in ("output", "error") else ""
        if folder and folder in made:
            yield Occurrence(given.line, {"option": f"--{given.name}", "folder": folder, "made": made[folder]})


def _folder(file: str) -> str:
    return re.sub(r"^(?:\./|\$\{?SLURM_SUBMIT_DIR\}?/)", "", file).rpartition("/")[0].rstrip("/")
