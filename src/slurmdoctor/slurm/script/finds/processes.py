"""Processes that the script leaves running behind its steps. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from slurmdoctor.slurm.script.finds.subject import Occurrence, Subject
from slurmdoctor.slurm.script.model import Command
from slurmdoctor.slurm.script.steps import is_srun, is_work

_QUICK = frozenset({"echo", "date", "printf", "true", ":", "hostname", "export"})
_KILLS = frozenset({"kill", "pkill", "killall"})


def background(subject: Subject) -> Iterator[Occurrence]:
    """`nvidia-smi dmon &`, and a `wait` that waits for it too: what else may run in the background is work, and ends."""
    script, own = subject.script, list(subject.own)
    if any("EXIT" in trap.signals for trap in script.traps):
        return
    kills = [(c.line, _variables(c)) for c in own if c.name in _KILLS and c.function is None]
    kept = {one.pid for one in script.background if one.pid}
    waits = [(c.line, _variables(c) if c.args else None) for c in own if c.name == "wait"]
    works = any(is_srun(c) or is_work(c) for c in own)
    in_front = [c.line for c in own if not c.background and c.name not in {*_QUICK, "sleep"}]
    replaced = any(c.name == "exec" and len(c.words) > 1 for c in own)
    left = [one for one in script.background if subject.programs.monitors.search(one.text)]
    work = {one.line for one in script.background} - {one.line for one in left}
    for one in left:
        wait = next((at for at, names in waits if at > one.line and (names is None or one.pid in names)), None)
        # a kill of another one's PID does not end this one
        killed = any(at > one.line and (not names & kept or one.pid in names) for at, names in kills)
        served = wait is not None and not works and not any(one.line < at < wait for at in in_front)
        if served or not (replaced or (wait and not killed)) or any(map(is_srun, one.commands)):
            continue
        inside, mixed = "( ... )" if one.subshell else None, wait if work else None
        bash = {"wait_of_sh": wait} if script.of_sh else {"wait": wait, "ended": one.name}
        yield Occurrence(one.line, {"name": one.name, "inside": inside, "mixed": mixed, **bash})


def _variables(command: Command) -> set[str]:
    return {name for word in command.words for name in re.findall(r"\$\{?(\w+)", word.written)}


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


def lost_pid(subject: Subject) -> Iterator[Occurrence]:
    """`( monitor & PID=$! ); kill $PID`: the variable is gone behind the subshell, and the kill ends nothing."""
    lost = {a.name: a for a in subject.script.assignments if a.pid and a.subshell}
    kept = {a.name for a in subject.script.assignments if not a.subshell}
    for command in subject.own:
        if command.name not in _KILLS or command.subshell:
            continue
        for name in _variables(command):
            if name in lost and name not in kept:
                line = lost[name].line
                yield Occurrence(line, {"name": name, "kill": command.line, "braces": _braces(subject, line)})
                return


def _braces(subject: Subject, line: int) -> str | None:
    """`( a & B=$! )` → `{ a & B=$!; }`."""
    text = subject.script.text.splitlines()[line - 1].strip()
    found = re.fullmatch(r"\(([^()]*)\)", text)
    return f"{{ {found[1].strip(' ;')}; }}" if found else None
