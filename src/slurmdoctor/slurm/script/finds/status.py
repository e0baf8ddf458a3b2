"""Where the exit status of the training is lost, or another one takes its place. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from slurmdoctor.slurm.script.bash.quotes import Piece, piece
from slurmdoctor.slurm.script.finds.subject import Occurrence, Subject
from slurmdoctor.slurm.script.model import Command, LastTest
from slurmdoctor.slurm.script.steps import Step, is_srun, is_work

_NO_WORK = frozenset({"exit", "wait", "kill", "true", ":", "tee"})
_GUARDED = re.compile(r"^(?:#!|[^#\n]).*(?:pipefail|PIPESTATUS)", re.M)
_ERREXIT = re.compile(r"^(?:#!|\s*set\b).*\s-(?:\w*e|\w*o\s+errexit)", re.M)
_HANDLED = re.compile(_ERREXIT.pattern + r"|\$\?|PIPESTATUS|\|\|", re.M)
_STARTS = frozenset({"srun", "mpirun", "mpiexec", "exec", "sbatch"})


def hidden_by_pipe(subject: Subject) -> Iterator[Occurrence]:
    """`srun ... | tee log` without pipefail: the script's exit status is tee's."""
    command = _last_step(subject)
    if command is None or "xargs" in command.piped_to or _GUARDED.search(subject.script.text):
        return
    if command.piped_to:
        sh = subject.script.interpreter if subject.script.of_sh else None
        yield Occurrence(command.line, {"program": command.piped_to[-1], "sh": sh})
    elif subject.main and "bash" in command.args:
        yield from _hidden_in_string(subject, subject.main, command)


def _hidden_in_string(subject: Subject, main: Step, command: Command) -> Iterator[Occurrence]:
    """`srun bash -c 'python train.py | tee log'`."""
    own = [c for c in main.runs if c.parent is command and c.depth > command.depth]
    for inner in own:
        if inner.piped_to and is_work(inner):
            start = re.escape(" ".join(word.written for word in own[0].words[:2]))
            found = piece(subject.script.text, own[0].line, start)
            yield Occurrence(inner.line, {"program": inner.piped_to[-1], "unguarded": found.text if found else None})


def after_exec(subject: Subject) -> Iterator[Occurrence]:
    """`exec srun ...` with commands or traps behind it."""
    for command in subject.own:
        if command.name == "exec" and len(command.words) > 1 and command.function is None:
            behind = [c.line for c in _after(subject, command) if c.name != "exec"]
            skipped = behind or [trap.line for trap in subject.script.traps]
            if skipped:
                yield Occurrence(command.line, {"last": skipped[0]})
            return


def hidden_by_last(subject: Subject) -> Iterator[Occurrence]:
    """`srun ...` and then `echo done`: the script's exit status is echo's."""
    command, script = _last_step(subject), subject.script
    if command is None or command.name == "exec" or command.piped_to or command.background or command.function:
        return
    if _HANDLED.search(script.text):
        return
    behind = [c for c in _after(subject, command) if c.name not in _NO_WORK]
    if behind and not is_work(behind[-1]):
        yield Occurrence(command.line, {"name": behind[-1].name, "last": behind[-1].line})


def last_test(subject: Subject) -> Iterator[Occurrence]:
    """`[ -n "$PID" ] && kill $PID` as the last statement: where the test is false, the exit status is 1."""
    for one in subject.script.last_tests:
        of_task = one.parent is None or is_srun(one.parent)
        if of_task and one.program.rpartition("/")[2] not in _STARTS and "python" not in one.program:
            yield Occurrence(one.line, {"program": one.program, **_as_condition(subject, one)})


def _as_condition(subject: Subject, one: LastTest) -> dict[str, str]:
    """`if ...; then ...; fi`, which keeps the status of a training directly before it."""
    better, plain = f"if {one.test}; then {one.then}; fi", f"{one.test} && {one.then}"
    if len(better) > 160 or "\n" in better:
        return {}
    before = [c for c in subject.script.commands if c.parent is one.parent and c.line <= one.line][-2:-1]
    works = any(is_work(c) or (subject.main and c is subject.main.command) for c in before)
    if works and not _ERREXIT.search(subject.script.text) and "$?" not in one.test:
        better = f"status=$?; {better}; exit $status"
    for written in (plain, Piece("", '"').written(plain)):
        if place := piece(subject.script.text, one.line, re.escape(written)):
            return {"test": written, "better": place.written(better)}
    return {}


def _last_step(subject: Subject) -> Command | None:
    """The command of the step whose exit status matters."""
    step = subject.main or (subject.steps[-1] if subject.steps else None)
    mpi = (command for command in subject.own if command.name in ("mpirun", "mpiexec"))
    return step.command if step else max(mpi, key=lambda command: command.line, default=None)


def _after(subject: Subject, command: Command) -> list[Command]:
    return [c for c in subject.own if c.line > command.line and c.function is None]
