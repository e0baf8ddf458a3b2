"""How the tasks come to their Python packages: `uv sync`, and what `uv run` does unasked. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from slurmdoctor.slurm.script.bash.quotes import piece
from slurmdoctor.slurm.script.directives import number
from slurmdoctor.slurm.script.finds.subject import Occurrence, Subject, program_of
from slurmdoctor.slurm.script.model import Command
from slurmdoctor.slurm.script.steps import Step, argv, is_srun

_OF_PLACE = re.compile(r"--(?:(?:no-)?container-[\w-]+|mpi|export)\b(?P<value>=)?")
"""Options of srun that say where and in what a task runs."""


def sync_everywhere(subject: Subject) -> Iterator[Occurrence]:
    """`srun bash -c "uv sync && ..."` on many tasks at once, with no single process before them."""
    if any(c.name == "uv" and "sync" in c.args for c in subject.own):
        return
    for step in subject.steps:
        syncing = [c for c in step.runs if argv(c)[:2] == ["uv", "sync"]]
        if not syncing:
            continue
        count = step.option("ntasks")
        alone = count is not None and number(count.value) == 1
        guarded = any(one in w.text for w in step.command.words for one in ("SLURM_LOCALID", "SLURM_PROCID"))
        if not alone and not guarded and subject.tasks(step) != 1:
            first = _in_one_process(subject, step, syncing[0])
            yield Occurrence(syncing[0].line, {"tasks": subject.tasks(step), "first": first})
        return


def implicit_sync(subject: Subject) -> Iterator[Occurrence]:
    """`uv run python` in the container of every task, with no `uv sync` before: each builds the environment first."""
    main, script = subject.main, subject.script
    if main is None or "UV_NO_SYNC" in script.text or subject.tasks(main) == 1:
        return
    if any(c.name == "uv" and ("sync" in c.args or "pip" in c.args) for c in script.commands):
        return
    image = main.option("container-image") or script.directive("container-image")
    for command in main.runs if image else ():
        words = argv(command)
        if words[:2] == ["uv", "run"] and not {"--no-sync", "--frozen", "--isolated", "--no-project"} & set(words):
            first = _in_one_process(subject, main, command)
            yield Occurrence(command.line, {"tasks": subject.tasks(main), "first": first})
            return


def _in_one_process(subject: Subject, step: Step, command: Command) -> str | None:
    """`srun -N 1 --ntasks=1 bash -c "cd ... && uv sync"`, in the step's own container."""
    sync = piece(subject.script.text, command.line, r"uv sync(?:\s+--?[\w=./-]+)*|uv run\b")
    if sync is None or not is_srun(step.command):
        return None
    text = sync.text.replace("uv run", "uv sync")
    moved = [c for c in step.runs if c.parent is command.parent and c.name == "cd" and c.line <= command.line]
    for one in moved[-1:]:
        folder = piece(subject.script.text, one.line, r"\bcd\s+[^\s;&]+")
        if folder is None:
            return None
        text = f"{folder.text} && {text}"
    quotes = sync.quotes or ('"' if moved else "")
    shell = f"bash -c {quotes}{text}{quotes}" if quotes else text
    return " ".join(["srun -N 1 --ntasks=1", *_options_of_place(subject, step), shell])


def _options_of_place(subject: Subject, step: Step) -> Iterator[str]:
    words, program = program_of(step)
    for word, after in pairwise(words[: (program or 0) + 1]):
        if found := _OF_PLACE.match(word.written):
            name = word.written[2:].partition("=")[0]
            yield (
                word.written if found["value"] or name in subject.programs.flags else f"{word.written} {after.written}"
            )
