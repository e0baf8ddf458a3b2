"""Programs in the place of those that train: each writes down how it was called, in a file of its own."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_RECORD = """#!/bin/sh
name=${0##*/}
{ printf '%s\\0' "$name" "$@"; printf '\\n'; env -0; } >"$SEEN/.$$" && mv "$SEEN/.$$" "$SEEN/call-$$-$name"
"""
_TRAINS = 'eval "$TRAINING"\n'
"""What the training does: the job's environment says it."""
_SYNCS = """case $1 in
run) shift; while [ "${1#--}" != "$1" ]; do shift; done; exec "$@";;
sync) [ -e "$SEEN/environment" ] || { touch "$SEEN/built-$$"; sleep 1; touch "$SEEN/environment"; };;
esac
"""
_MONITORS = "exec sleep 300\n"
_PROGRAMS = {
    _TRAINS: ("torchrun", "python", "deepspeed"),
    _SYNCS: ("uv",),
    _MONITORS: ("monitor.sh", "date_loop.sh"),
}


def write(folder: Path) -> None:
    """All programs."""
    folder.mkdir(parents=True)
    for does, names in _PROGRAMS.items():
        for name in names:
            (folder / name).write_text(_RECORD + does)
            (folder / name).chmod(0o755)
    # `bash -l` sets PATH anew
    (folder / ".bash_profile").write_text(f"PATH={folder}:$PATH\n")


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a program, in a task."""

    program: str
    args: tuple[str, ...]
    env: dict[str, str]

    def option(self, name: str) -> str | None:
        """The value of `--name=value` or `--name value`; dashes and underscores are one."""
        wanted = name.replace("-", "_")
        for at, word in enumerate(self.args):
            found = re.match(r"--([\w-]+)(?:=(.*))?$", word, re.S)
            if found and found[1].replace("-", "_") == wanted:
                return found[2] if found[2] is not None else next(iter(self.args[at + 1 :]), None)
        return None

    @property
    def task(self) -> int:
        return int(self.env["SLURM_PROCID"])


def calls(seen: Path) -> list[Call]:
    """The calls that were written down, in the order of their tasks."""
    return sorted(_read(seen), key=lambda call: (call.task, call.program))


def _read(seen: Path) -> Iterator[Call]:
    for file in seen.glob("call-*"):
        words, _, env = file.read_text(errors="replace").partition("\0\n")
        name, *args = words.split("\0")
        yield Call(name, tuple(args), dict(pair.split("=", 1) for pair in env.split("\0") if "=" in pair))
