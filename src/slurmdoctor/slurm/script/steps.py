"""The steps of a script: each srun, or a launcher without one, with the commands that it runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from slurmdoctor.slurm.script.directives import options
from slurmdoctor.slurm.script.model import Command, Directive, Script
from slurmdoctor.slurm.script.programs import programs

_BEFORE_PROGRAMS = frozenset({"exec", "time", "env", "nohup", "command", "stdbuf"})
_PYTHON = re.compile(r"python[\d.]*$|\.py$")


class Launcher(NamedTuple):
    """A launcher that a command calls: `torchrun`, or `python -m torch.distributed.run`."""

    name: str
    line: int
    bare: bool
    """Whether the program itself is called, not its module by a Python of the script's choice."""


class Argument(NamedTuple):
    """`--tp 8`, `--tp=8`, `-tp 8` or Hydra's `model.tp=8`."""

    name: str
    """Without dashes in front, and with `-` for `_`."""
    value: str | None
    line: int
    known: bool
    """Whether the value depends on the script alone."""


class Step(Struct, frozen=True):
    """One srun, or a launcher without one, with all commands that it runs."""

    command: Command
    options: tuple[Directive, ...]
    """srun's own."""
    runs: tuple[Command, ...]

    def option(self, name: str) -> Directive | None:
        """The one that counts: of several, srun takes the last."""
        return next((d for d in reversed(self.options) if d.name == name), None)

    @property
    def launchers(self) -> list[Launcher]:
        return [found for command in self.runs if (found := launcher(command))]


def steps(script: Script) -> list[Step]:
    """All steps of a script, in order; those of a function where the script calls it."""
    found: list[Step] = []
    called = {command.name for command in script.commands} | {None}
    for at, command in enumerate(script.commands):
        words = argv(command)
        if words and _base(words[0]) == "srun" and command.function in called:
            end = at + 1
            while end < len(script.commands) and script.commands[end].runs_in(command):
                end += 1
            own_options, behind = options(words[1:], command.line)
            program = len(command.words) - len(words) + 1 + behind
            own = Command(command.words[program:], command.line, depth=command.depth, parent=command)
            found.append(Step(command, tuple(own_options), (own, *script.commands[at + 1 : end])))
        elif command.depth == 0 and launcher(command) and "srun" not in map(_base, words):
            found.append(Step(command, (), (command,)))
    return found


def is_srun(command: Command) -> bool:
    """Whether a command is srun's."""
    return argv(command)[:1] == ["srun"]


def main_step(found: Sequence[Step]) -> Step | None:
    """The step that trains: the last one that starts a launcher, or else Python."""
    launching = [step for step in found if step.launchers]
    working = [step for step in found if any(map(is_work, step.runs))]
    return next(reversed(launching or working), None)


def step_outputs(script: Script) -> list[str]:
    """File name patterns that the script gives its steps (`srun --output=log-%t`), and files it redirects them to."""
    found: list[str] = []
    for step in steps(script):
        for given in (step.option("output"), step.option("error")):
            if given and given.value and given.value not in ("none", "all") and not given.value.isdigit():
                found.append(given.value)
        found += [file for file in step.command.outputs if not file.startswith("/dev/")]
    filled = [re.sub(r"\$\{?(\w+)\}?", lambda m: programs().file_patterns.get(m[1], "%t"), file) for file in found]
    return list(dict.fromkeys(file for file in filled if "$" not in file))


# ── commands ──


def argv(command: Command) -> list[str]:
    """A command's words from its program on: `exec`, `time`, `env A=1` and their options are left out."""
    words = [w.text for w in command.words]
    at = 0
    while at < len(words) - 1 and (words[at] in _BEFORE_PROGRAMS or re.match(r"\w+=", words[at])):
        at += 1
        while at < len(words) and words[at].startswith("-"):
            at += 1
    return words[at:]


def launcher(command: Command) -> Launcher | None:
    """The launcher that a command calls."""
    words, known = argv(command), programs().launchers
    for before, word, after in zip(["", *words], words, [*words[1:], ""], strict=False):
        if word == "-c":
            return None
        program = _base(word)
        name = known.get(program) or known.get(f"{program} {after}")
        if name is not None:
            # `uv run torchrun` and `/opt/venv/bin/torchrun` say whose it is
            bare = program == name and before != "-m" and word == program and "run" not in words[: words.index(word)]
            return Launcher(name, line_of(command, word), bare)
    return None


def is_work(command: Command) -> bool:
    """Whether a command starts a launcher or Python."""
    return launcher(command) is not None or any(_PYTHON.search(word) for word in argv(command)[:6])


def arguments(command: Command) -> Iterator[Argument]:
    """The named arguments of a command, whatever program takes them."""
    words = command.words
    for at, word in enumerate(words):
        found = re.match(r"(?:--?|\+{0,2})([A-Za-z][\w.-]*)(?:=(.*))?$", word.text, re.S)
        if not found or (not word.text.startswith("-") and found[2] is None):
            continue
        value, known = found[2], word.known
        if value is None and at + 1 < len(words) and not words[at + 1].text.startswith("-"):
            value, known = words[at + 1].text, words[at + 1].known
        value = value.strip("\"'") if value is not None else None
        yield Argument(found[1].replace("_", "-"), value, word.line or command.line, known)


def line_of(command: Command, text: str) -> int:
    """The line on which a word of the command stands."""
    return next((w.line for w in command.words if w.text == text and w.line), command.line)


def _base(word: str) -> str:
    return word.rpartition("/")[2]
