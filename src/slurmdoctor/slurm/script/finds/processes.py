"""Processes that the script leaves running behind its steps. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from slurmdoctor.slurm.script.finds.subject import Occurrence, Subject
from slurmdoctor.slurm.script.model import Background, Command
from slurmdoctor.slurm.script.steps import is_srun, is_work

_QUICK = frozenset({"echo", "date", "printf", "true", ":", "hostname", "export"})
_KILLS = frozenset({"kill", "pkill", "killall"})


def background(subject: Subject) -> Iterator[Occurrence]:
    """`monitor.sh &`: a process that nothing ends."""
    script, waits = subject.script, [c for c in subject.own if c.name == "wait"]
    kills = [c for c in subject.own if c.name in _KILLS and c.function is None]
    named = [(c.line, {name for word in c.words for name in re.findall(r"\$\{?(\w+)", word.written)}) for c in kills]
    kept = {one.pid for one in script.background if one.pid}
    if any("EXIT" in trap.signals for trap in script.traps):
        return
    replaced = any(c.name == "exec" and len(c.words) > 1 for c in subject.own)
    reaches_kill = not replaced and "errexit" not in script.options
    for one in script.background:
        if not one.name or _is_step(one) or _is_awaited(one, waits) or one.line > _last_work(subject):
            continue
        # a kill of another one's PID does not end this one
        kill = (at > one.line and (not names & kept or one.pid in names) for at, names in named)
        if not (reaches_kill and any(kill)):
            inside = "( ... )" if one.subshell else None
            wait, sh = _waits_for_all(subject, one, waits), script.of_sh
            bash = {"wait_of_sh": wait} if sh else {"wait": wait, "ended": one.name}
            yield Occurrence(one.line, {"name": one.name, "inside": inside, **bash})


def unawaited(subject: Subject) -> Iterator[Occurrence]:
    """`mpirun ... &`, and then the script ends."""
    last = _last_work(subject)
    for one in subject.script.background:
        if one.line > last and one.commands[0].function is None and one.name:
            yield Occurrence(one.line, {"name": one.name})


def _last_work(subject: Subject) -> int:
    """The line of the last command that the script waits for, and that takes its time: not `echo done`."""
    lines = (c.line for c in subject.own if not c.background and c.name not in _QUICK)
    return max(lines, default=0)


def _waits_for_all(subject: Subject, one: Background, waits: Sequence[Command]) -> int | None:
    """The line of a bare `wait` behind it, which waits for it too, where nothing else is to wait for."""
    if any(is_srun(command) and command.background for command in subject.own):
        return None
    return next((c.line for c in waits if not c.args and c.line > one.line), None)


def _is_step(one: Background) -> bool:
    return any(is_srun(command) for command in one.commands)


def _is_awaited(one: Background, waits: Sequence[Command]) -> bool:
    """Runs side by side that the script waits for are its work, not its helpers."""
    return bool(waits) and waits[-1].line >= one.line and any(map(is_work, one.commands))


def lost_pid(subject: Subject) -> Iterator[Occurrence]:
    """`( monitor & PID=$! ); kill $PID`: the variable is gone behind the subshell, and the kill ends nothing."""
    lost = {a.name: a for a in subject.script.assignments if a.pid and a.subshell}
    kept = {a.name for a in subject.script.assignments if not a.subshell}
    for command in subject.own:
        if command.name not in _KILLS or command.subshell:
            continue
        for name in (n for word in command.words for n in re.findall(r"\$\{?(\w+)", word.written)):
            if name in lost and name not in kept:
                line = lost[name].line
                yield Occurrence(line, {"name": name, "kill": command.line, "braces": _braces(subject, line)})
                return


def _braces(subject: Subject, line: int) -> str | None:
    """`( a & B=$! )` → `{ a & B=$!; }`."""
    text = subject.script.text.splitlines()[line - 1].strip()
    found = re.fullmatch(r"\(([^()]*)\)", text)
    return f"{{ {found[1].strip(' ;')}; }}" if found else None
