"""What may be wrong in a script several times: each list has its function, and its name in `each:` of `checks.yaml`. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from slurmdoctor.slurm.script.directives import number
from slurmdoctor.slurm.script.model import Command, Script
from slurmdoctor.slurm.script.programs import Programs
from slurmdoctor.slurm.script.steps import Step, arguments, argv, is_work

_PLACEHOLDER = re.compile(r"<(?:[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|(?:your|YOUR|Your)[-_ ][\w -]{2,40})>")
_KILLS = frozenset({"kill", "pkill", "killall"})
_NO_WORK = frozenset({"exit", "wait", "kill", "true", ":", "tee"})


class Occurrence(Struct, frozen=True):
    """One occurrence: its line, and the names that the check's sentences use."""

    line: int
    names: Mapping[str, int | str | None] = field(default_factory=dict)


class Subject(Struct, frozen=True):
    """A script with its steps."""

    script: Script
    steps: Sequence[Step]
    main: Step | None
    """The step that trains."""
    programs: Programs

    @property
    def own(self) -> Iterator[Command]:
        """The commands that the script itself runs, outside of strings."""
        return (command for command in self.script.commands if command.depth == 0)


def read_occurrences(subject: Subject) -> dict[str, list[Occurrence]]:
    """Every list with what it holds."""
    return {name: list(find(subject)) for name, find in LISTS.items()}


# ── directives ──


def _srun_only(subject: Subject) -> Iterator[Occurrence]:
    """`#SBATCH --no-container-mount-home`."""
    for given in subject.script.directives:
        if given.name in subject.programs.srun_only:
            yield Occurrence(given.line, {"option": f"--{given.name}"})


def _unexpanded(subject: Subject) -> Iterator[Occurrence]:
    """`#SBATCH --output=$HOME/log`."""
    for given in subject.script.directives:
        if given.value and "$" in given.value:
            yield Occurrence(given.line, {"option": f"--{given.name}", "value": given.value})


def _ignored(subject: Subject) -> Iterator[Occurrence]:
    """An #SBATCH line below the first command."""
    for given in subject.script.ignored:
        yield Occurrence(given.line, {"option": f"--{given.name}"})


def _pinned(subject: Subject) -> Iterator[Occurrence]:
    """`srun --nodelist=node7` in a job that may get other nodes."""
    if subject.script.directive("nodelist"):
        return
    for step in subject.steps:
        pinned = step.option("nodelist")
        if pinned and "$" not in (pinned.value or ""):
            yield Occurrence(pinned.line, {"node": pinned.value})


# ── text ──


def _placeholders(subject: Subject) -> Iterator[Occurrence]:
    """`<YOUR_ACCOUNT>`: what a template leaves to be filled in."""
    for line, text in enumerate(subject.script.text.splitlines(), 1):
        comment = text.lstrip().startswith("#") and not text.startswith("#SBATCH")
        if not comment and (found := _PLACEHOLDER.search(text)):
            yield Occurrence(line, {"name": found[0]})


def _broken(subject: Subject) -> Iterator[Occurrence]:
    """A line that is no bash, and no template's either."""
    empty = {one.line for one in _placeholders(subject)}
    return (Occurrence(line) for line in subject.script.broken if line not in empty)


def _early(subject: Subject) -> Iterator[Occurrence]:
    """`srun bash -c "echo $SLURM_PROCID"`: the batch shell fills it in."""
    return (Occurrence(line, {"name": name}) for name, line in dict.fromkeys(subject.script.early))


# ── places ──


def _kept_locally(subject: Subject) -> Iterator[Occurrence]:
    """`--save /tmp/checkpoints`: what must outlive the job on a path that only one node sees."""
    for line, what, path in _kept(subject):
        if subject.programs.is_local(path):
            yield Occurrence(line, {"what": what, "path": path})


def _kept(subject: Subject) -> Iterator[tuple[int, str, str | None]]:
    """(line, what is kept there, path)."""
    for command in subject.main.runs if subject.main else ():
        for name, value, line, _ in arguments(command):
            if name in subject.programs.kept:
                yield line, name if "." in name else f"--{name}", value
    for given in subject.script.directives:
        if given.name in ("output", "error"):
            yield given.line, f"--{given.name}", given.value
    for one in subject.script.assignments:
        if subject.programs.kept_variables.search(one.name):
            yield one.line, one.name, one.likely
    for command in subject.own:
        if command.name == "tee":
            for file in command.args:
                yield command.line, "tee", file


# ── processes ──


def _background(subject: Subject) -> Iterator[Occurrence]:
    """`monitor.sh &`: a process that the script leaves running behind its steps."""
    script = subject.script
    if any("EXIT" in trap.signals for trap in script.traps):
        return
    waits = [c.line for c in subject.own if c.name == "wait"]
    kills = [c.line for c in subject.own if c.name in _KILLS and c.function is None]
    replaced = any(c.name == "exec" and len(c.words) > 1 for c in subject.own)
    reaches_kill = not replaced and "errexit" not in script.options
    for command in subject.own:
        program = next(iter(argv(command)), "").rpartition("/")[2]
        if not command.background or program in ("", "srun"):
            continue
        killed = reaches_kill and any(line > command.line for line in kills)
        # runs side by side that the script waits for are its work, not its helpers
        waited = is_work(command) and any(line >= command.line for line in waits)
        if not killed and not waited:
            yield Occurrence(command.line, {"name": command.name, "never": "yes" if replaced and kills else None})


def _sync_everywhere(subject: Subject) -> Iterator[Occurrence]:
    """`srun bash -c "uv sync && ..."` on many tasks at once, with no single process before them."""
    if any(c.name == "uv" and "sync" in c.args for c in subject.own):
        return
    for step in subject.steps:
        syncing = [c for c in step.runs if argv(c)[:2] == ["uv", "sync"]]
        if not syncing:
            continue
        count = step.option("ntasks")
        alone = count is not None and number(count.value) == 1
        guarded = any("SLURM_LOCALID" in w.text for w in step.command.words)
        if not alone and not guarded:
            yield Occurrence(syncing[0].line)
        return


# ── the exit status ──


def _hidden_by_pipe(subject: Subject) -> Iterator[Occurrence]:
    """`srun ... | tee log` without pipefail: the script's exit status is tee's."""
    command = _last_step(subject)
    if command and command.piped_to and "xargs" not in command.piped_to and "pipefail" not in subject.script.options:
        yield Occurrence(command.line, {"program": command.piped_to[-1]})


def _after_exec(subject: Subject) -> Iterator[Occurrence]:
    """`exec srun ...` with commands or traps behind it."""
    command = _last_step(subject)
    if command and command.name == "exec":
        skipped = [c.line for c in _after(subject, command)] or [trap.line for trap in subject.script.traps]
        if skipped:
            yield Occurrence(command.line, {"last": skipped[0]})


def _hidden_by_last(subject: Subject) -> Iterator[Occurrence]:
    """`srun ...` and then `echo done`: the script's exit status is echo's."""
    command, script = _last_step(subject), subject.script
    if command is None or command.name == "exec" or command.piped_to or command.background:
        return
    if "errexit" in script.options or any(handling in script.text for handling in ("$?", "PIPESTATUS", "||")):
        return
    behind = [c for c in _after(subject, command) if c.name not in _NO_WORK]
    if behind and not is_work(behind[-1]):
        yield Occurrence(command.line, {"name": behind[-1].name, "last": behind[-1].line})


def _last_step(subject: Subject) -> Command | None:
    """The command of the step whose exit status matters."""
    step = subject.main or (subject.steps[-1] if subject.steps else None)
    return step.command if step else None


def _after(subject: Subject, command: Command) -> list[Command]:
    return [c for c in subject.own if c.line > command.line and c.function is None]


LISTS: Mapping[str, Callable[[Subject], Iterator[Occurrence]]] = {
    "srun_only": _srun_only,
    "unexpanded": _unexpanded,
    "ignored": _ignored,
    "pinned": _pinned,
    "placeholders": _placeholders,
    "broken": _broken,
    "early": _early,
    "kept_locally": _kept_locally,
    "background": _background,
    "sync_everywhere": _sync_everywhere,
    "hidden_by_pipe": _hidden_by_pipe,
    "after_exec": _after_exec,
    "hidden_by_last": _hidden_by_last,
}
