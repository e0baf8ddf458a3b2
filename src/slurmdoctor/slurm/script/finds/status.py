"""Where the exit status of the training is lost, or another one takes its place. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from slurmdoctor.slurm.script.finds.subject import Occurrence, Subject
from slurmdoctor.slurm.script.model import Command
from slurmdoctor.slurm.script.steps import argv, is_work

_NO_WORK = frozenset({"exit", "wait", "kill", "true", ":", "tee"})
_STARTS = frozenset({"srun", "mpirun", "mpiexec", "exec", "sbatch"})


def hidden_by_pipe(subject: Subject) -> Iterator[Occurrence]:
    """`srun ... | tee log` without pipefail: the script's exit status is tee's."""
    command = _last_step(subject)
    if command and command.piped_to and "xargs" not in command.piped_to and "pipefail" not in subject.script.options:
        sh = subject.script.interpreter if subject.script.interpreter in ("sh", "dash") else None
        yield Occurrence(command.line, {"program": command.piped_to[-1], "sh": sh})


def after_exec(subject: Subject) -> Iterator[Occurrence]:
    """`exec srun ...` with commands or traps behind it."""
    command = _last_step(subject)
    if command and command.name == "exec" and command.function is None:
        skipped = [c.line for c in _after(subject, command)] or [trap.line for trap in subject.script.traps]
        if skipped:
            yield Occurrence(command.line, {"last": skipped[0]})


def hidden_by_last(subject: Subject) -> Iterator[Occurrence]:
    """`srun ...` and then `echo done`: the script's exit status is echo's."""
    command, script = _last_step(subject), subject.script
    if command is None or command.name == "exec" or command.piped_to or command.background or command.function:
        return
    if "errexit" in script.options or any(handling in script.text for handling in ("$?", "PIPESTATUS", "||")):
        return
    behind = [c for c in _after(subject, command) if c.name not in _NO_WORK]
    if behind and not is_work(behind[-1]):
        yield Occurrence(command.line, {"name": behind[-1].name, "last": behind[-1].line})


def last_test(subject: Subject) -> Iterator[Occurrence]:
    """`[ -n "$PID" ] && kill $PID` as the last statement: where the test is false, the exit status is 1."""
    for one in subject.script.last_tests:
        of_task = one.parent is None or argv(one.parent)[:1] == ["srun"]
        if of_task and one.program.rpartition("/")[2] not in _STARTS and "python" not in one.program:
            better = f"if {one.test}; then {one.then}; fi"
            short = len(better) <= 160 and "\n" not in better
            yield Occurrence(one.line, {"program": one.program, "better": better if short else None})


def _last_step(subject: Subject) -> Command | None:
    """The command of the step whose exit status matters."""
    step = subject.main or (subject.steps[-1] if subject.steps else None)
    return step.command if step else None


def _after(subject: Subject, command: Command) -> list[Command]:
    return [c for c in subject.own if c.line > command.line and c.function is None]
