"""Checks of the variables of a task: those that the batch shell fills in too early, and those that no shell ever does. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from slurmdoctor.slurm.script.bash_reader import strings
from slurmdoctor.slurm.script.model import Early, EarlyUse, Word
from slurmdoctor.slurm.script.plan import Occurrence, Plan, Step, argv, is_srun

_OF_NODE = frozenset({"SLURM_NODEID", "SLURMD_NODENAME"})
_PLACES = frozenset({"nodelist", "relative", "exclude", "jobid", "job-name"})
"""Options of srun that the batch script may well fill in."""
_FILES = frozenset({"output", "error", "input"})
_READ_VARIABLES = frozenset({"bash", "sh", "zsh", "env", "ssh", "xargs", "parallel", "awk", "perl"})
"""Programs that fill in variables themselves."""
_OTHER_LANGUAGE = re.compile(r"\b(?:(?:ba|da|z)?sh -\w*c|ssh|eval|awk|python3? -c)\b|<<")


def expanded_early(plan: Plan) -> Iterator[Occurrence]:
    """`srun train.py --rank $SLURM_PROCID`: the batch shell fills it in, once for all tasks."""
    seen: set[tuple[int, str]] = set()
    for use in plan.script.early:
        one, step = use.early, plan.step_of(use.command)
        if not _differs(plan, one.name, step) or (one.line, one.name) in seen:
            continue
        names = _fix(plan, use, step)
        if names is None:
            continue
        seen.add((one.line, one.name))
        if not names:  # one command, one finding
            others = (other.early for other in plan.script.early if other.command is use.command)
            seen.update((other.line, other.name) for other in others)
        yield Occurrence(one.line, {"shown": f"${one.name}", **names})


def _differs(plan: Plan, name: str, step: Step | None) -> bool:
    """Whether the tasks of a step can have different values: one node has one node id."""
    if name in _OF_NODE:
        return plan.count(step, "nodes") != 1
    if name == "SLURM_LOCALID" and plan.count(step, "ntasks-per-node") == 1:
        return False
    return plan.tasks(step) != 1


def _fix(plan: Plan, use: EarlyUse, step: Step | None) -> dict[str, str] | None:
    """What to write instead, where one line says it; None where it is no mistake."""
    one, at, words = use.early, use.at, use.command.words
    escaped = {"escaped": _escaped(plan, one)}
    if at is None:
        return escaped if _reaches_tasks(plan, use) else None
    if step is None:
        return escaped
    if at == step.program and _is_command_line(words[at]):
        return None
    written = " ".join(word.written for word in words)
    if one.name == "SLURMD_NODENAME" and any(map(plan.programs.address.search, written.split(one.written)[:-1])):
        return None
    if any(at == string for string, _, _ in strings(use.command)):
        return escaped
    if step.program is not None and at >= step.program:
        return {}
    held = (o for o in step.options if f"${one.name}" in (o.value or "") or one.written in (o.value or ""))
    option = next(held, None)
    if option is None or option.name in _PLACES:
        return None
    pattern = plan.programs.file_patterns.get(one.name)
    return {"pattern": pattern, "option": f"--{option.name}"} if option.name in _FILES and pattern else None


def _reaches_tasks(plan: Plan, use: EarlyUse) -> bool:
    """Whether a here-document is read by tasks: `srun bash <<EOF`, or a file that is written here and started by srun."""
    words = argv(use.command)
    if is_srun(use.command):
        return True
    written = {*use.command.outputs, *(words[1:] if words[:1] == ["tee"] else ())}
    started = {word.text.rpartition("/")[2] for step in plan.steps for word in step.command.words}
    return any(file.rpartition("/")[2] in started for file in written)


def _escaped(plan: Plan, one: Early) -> str:
    r"""`--node_rank=\${SLURM_NODEID}`: the variable with what is before it in its word, and a backslash."""
    lines = plan.script.text.splitlines()
    line = lines[one.line - 1] if 0 < one.line <= len(lines) else ""
    found = re.search(r"[\w.-]*=?\"?" + re.escape(one.written), line)
    return (found[0] if found else one.written).replace('"', "").replace(one.written, "\\" + one.written)


def exported_early(plan: Plan) -> Iterator[Occurrence]:
    """`export RANK=$SLURM_PROCID` in the batch script: every task inherits the one value."""
    main = plan.main
    if main is None or not is_srun(main.command):
        return
    written = " ".join(word.written for word in main.command.words)
    handled = {(use.early.line, use.early.name) for use in plan.script.early}
    for one in plan.script.exported_early:
        exports = (a for a in plan.script.assignments if a.exported and a.line == one.line)
        given = next((a for a in exports if re.search(rf"\$\{{?{one.name}\b", a.written)), None)
        if given is None or (one.line, one.name) in handled or re.search(rf"\b{re.escape(given.name)}=", written):
            continue
        used = re.search(rf"\$\{{?{re.escape(given.name)}\b", written)
        if _differs(plan, one.name, main) and one.through is None and (used or not main.launchers):
            names = {"shown": f"${one.name}", "variable": given.name, "assignment": f"export {given.written}"}
            yield Occurrence(one.line, names)


def never_filled_in(plan: Plan) -> Iterator[Occurrence]:
    r"""`srun torchrun --node_rank=\$SLURM_NODEID`: srun starts no shell that could fill it in."""
    for step in plan.steps:
        words, program = step.command.words, step.program
        if program is None or not is_srun(step.command):
            continue
        if list(strings(step.command)):
            yield from _escaped_twice(plan, step)
        elif _is_command_line(words[program]):
            yield Occurrence(words[program].line, {"program": words[program].text.split()[0]})
        elif not _reads_variables(words[program]):
            waiting = ((word, _waiting(word, plan.programs.per_task)) for word in words[program:])
            found = ((word, name) for word, name in waiting if name)
            for word, name in [*found][:1]:
                yield Occurrence(word.line, {"shown": f"${name}"})


def _escaped_twice(plan: Plan, step: Step) -> Iterator[Occurrence]:
    r"""`bash -c '... \$SLURM_NODEID'`: between single quotes the backslash is left to the task's shell, which takes the $ as text."""
    waiting = re.compile(r"[\w.-]*=?\\\$\{?(" + "|".join(plan.programs.per_task) + r")\b\}?")
    for at, text, first in strings(step.command):
        if step.command.words[at].written.startswith("'") and not _OTHER_LANGUAGE.search(text):
            for line, one in enumerate(text.split("\n"), first):
                if found := waiting.search(one):
                    yield Occurrence(line, {"shown": f"${found[1]}", "plain": found[0].replace("\\$", "$")})


def _is_command_line(word: Word) -> bool:
    """A whole command between quotes: srun takes it for the name of a program."""
    return " " in word.text and word.written[:1] in ("'", '"') and not word.written.startswith('"$')


def _waiting(word: Word, per_task: frozenset[str]) -> str | None:
    """The variable of a task that a word keeps for a shell to fill in."""
    if not re.search(r"\\\$|'[^']*\$", word.written):
        return None
    return next((name for name in re.findall(r"\$\{?(\w+)", word.text) if name in per_task), None)


def _reads_variables(program: Word) -> bool:
    """A program that fills in variables itself: a shell, `env -S`, `ssh`, awk, or an unknown script of the user's."""
    name = program.text.rpartition("/")[2]
    return name in _READ_VARIABLES or name.endswith(".sh") or program.text.startswith("./")
