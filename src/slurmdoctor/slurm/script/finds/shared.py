"""What tasks that run at once write to one file, and arrays that have nothing for them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from slurmdoctor.slurm.script.finds.subject import Occurrence, Subject
from slurmdoctor.slurm.script.model import Command, Script
from slurmdoctor.slurm.script.steps import is_srun, is_work

_TASK = "SLURM_ARRAY_TASK_ID"
_INDEXED = re.compile(r"\$\{([A-Za-z]\w*)\[([^\]@*]{2,60}|[1-9])\]")
_OF_BASH = re.compile(r"BASH_\w+|PIPESTATUS|FUNCNAME|DIRSTACK|GROUPS|MAPFILE|COPROC")
_TEST = re.compile(r"^[^#]*(?:\[\s|\(\(|\b(?:case|test)\s)")


def array_logs(subject: Subject) -> Iterator[Occurrence]:
    """`--array=0-99 --output=result.log`."""
    mode = subject.script.directive("open-mode")
    if not _is_array(subject) or (mode and mode.value == "append"):
        return
    for given in subject.script.directives:
        value = given.value or ""
        if given.name in ("output", "error") and value and not re.search(r"%\d*[ajJ]|[$\\]|^/dev/", value):
            names = {"option": f"--{given.name}", "value": value, "better": _numbered(value, "-%A_%a")}
            yield Occurrence(given.line, names)


def outputs(subject: Subject) -> Iterator[Occurrence]:
    """`python sweep.py > out.csv` in an array, and `srun -n 8 bash -c 'python sweep.py > out.csv'`."""
    moves = any(c.name in ("cd", "pushd") and not all(w.known for w in c.words) for c in subject.script.commands)
    if _is_array(subject) and not moves and not _chooses(subject.script):
        for command in subject.own:
            if is_work(command) or is_srun(command) or command.words[0].text.startswith("./"):
                yield from _fixed(command, command.behind, "the tasks of the array", _TASK)
    for step in subject.steps:
        tasks, shell = subject.tasks(step) or 1, " ".join(step.command.args)
        if tasks > 1 and not moves and not any(name in shell for name in subject.programs.per_task):
            for command in step.runs:
                if command.parent is step.command and command.depth and is_work(command):
                    yield from _fixed(command, shell, f"{tasks} tasks", "SLURM_PROCID")


def _chooses(script: Script) -> bool:
    """Whether one task of the array does what the others don't."""
    names = {_TASK, *(one.name for one in script.assignments if _TASK in one.likely)}
    lines = filter(_TEST.match, script.text.splitlines())
    return any(names & set(re.findall(r"\w+", line)) for line in lines)


def _fixed(command: Command, around: str, many: str, variable: str) -> Iterator[Occurrence]:
    for file in command.outputs:
        if "$" not in file and not file.startswith("/dev/") and ">>" not in around:
            yield Occurrence(command.line, {"many": many, "file": file, "better": _numbered(file, f".${variable}")})


def _numbered(file: str, mark: str) -> str:
    """`out.csv` → `out.$SLURM_PROCID.csv`."""
    return re.sub(r"(?<=[^/])(\.\w+)?$", lambda end: mark + end[0], file, count=1)


def _is_array(subject: Subject) -> bool:
    given = subject.script.directive("array")
    return given is not None and not re.fullmatch(r"\d+", given.value or "")


def unset_arrays(subject: Subject) -> Iterator[Occurrence]:
    """`${LRS[$SLURM_ARRAY_TASK_ID]}` where nothing sets LRS."""
    if any(not subject.programs.environments.search(name) for name, _ in subject.script.read) or subject.script.unread:
        return
    lines = subject.script.text.splitlines()
    named = {
        name for text in lines if not text.startswith("#") for name in re.findall(r"(?<![\w{#!$])[A-Za-z]\w*", text)
    }
    for line, text in enumerate(lines, 1):
        for found in () if text.lstrip().startswith("#") else _INDEXED.finditer(text):
            if found[1] not in named and not _OF_BASH.fullmatch(found[1]):
                yield Occurrence(line, {"name": found[1], "written": f"{found[0]}}}"})
                named.add(found[1])
