"""Variables of a task that the batch shell fills in, or that no shell ever does; with the command as it should be. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from slurmdoctor.slurm.script.bash.quotes import Piece, Quotes, piece
from slurmdoctor.slurm.script.bash.syntax import strings
from slurmdoctor.slurm.script.finds.subject import Occurrence, Subject, program_of
from slurmdoctor.slurm.script.finds.wrapped import in_task, joined, own_line
from slurmdoctor.slurm.script.model import Assignment, Command, Early, EarlyUse, Word
from slurmdoctor.slurm.script.steps import Step, argv, is_srun

_OF_NODE = frozenset({"SLURM_NODEID", "SLURMD_NODENAME"})
_PLACES = frozenset({"nodelist", "relative", "exclude", "jobid", "job-name"})
"""Options of srun that the batch script may well fill in."""
_FILES = frozenset({"output", "error", "input"})


def early(subject: Subject) -> Iterator[Occurrence]:
    """`srun train.py --rank $SLURM_PROCID`: the batch shell fills it in, once for all tasks."""
    told: set[tuple[int, str]] = set()
    for use in subject.script.early:
        one, step = use.early, subject.step_of(use.command)
        if not _differs(subject, one.name, step) or (one.line, one.name) in told:
            continue
        names = _cure(subject, use, step)
        if names is None:
            continue
        told.add((one.line, one.name))
        if "wrapped" in names:  # one command, one cure
            told.update(
                (other.early.line, other.early.name) for other in subject.script.early if other.command is use.command
            )
        yield Occurrence(one.line, {"shown": f"${one.name}", **names})


def exported(subject: Subject) -> Iterator[Occurrence]:
    """`export RANK=$SLURM_PROCID` in the batch script: every task inherits the one value."""
    main = subject.main
    if main is None or not is_srun(main.command):
        return
    written = " ".join(word.written for word in main.command.words)
    found, handled = [], {(use.early.line, use.early.name) for use in subject.script.early}
    for one in subject.script.exported_early:
        given = next((a for a in _exports(subject, one.line) if re.search(rf"\$\{{?{one.name}\b", a.written)), None)
        if given is None or (one.line, one.name) in handled or re.search(rf"\b{re.escape(given.name)}=", written):
            continue
        used = re.search(rf"\$\{{?{re.escape(given.name)}\b", written)
        if _differs(subject, one.name, main) and one.through is None and (used or not main.launchers):
            found.append((one, given))
    # a line is deleted as a whole, so all that it exports moves
    lines = dict.fromkeys(one.line for one, _ in found)
    wrapped = _exporting(subject, main, [a.written for line in lines for a in _exports(subject, line)])
    for one, given in found:
        names = {"shown": f"${one.name}", "variable": given.name, "assignment": f"export {given.written}"}
        in_front = main.command.before.rstrip().endswith(given.written)
        yield Occurrence(one.line, {**names, "instead" if in_front else "wrapped": wrapped})


def _exports(subject: Subject, line: int) -> list[Assignment]:
    """The variables that a line of the script exports."""
    return [one for one in subject.script.assignments if one.exported and one.line == line]


def _exporting(subject: Subject, main: Step, written: Sequence[str]) -> str | None:
    """The command, in which each task exports its own value first."""
    words, program = program_of(main)
    assignment = "export " + " ".join(written)
    if program is None:
        return None
    shell = next(iter(strings(main.command)), None)
    if shell is None:
        line = in_task(subject, main.command, program, change=lambda inner: f"{assignment}; {inner}")
    else:
        own = words[shell[0]].written
        if own[:1] not in ("'", '"') or re.fullmatch(r'"\$\{?\w+\}?"', own):
            return None
        first = Piece("", '"' if own[0] == '"' else "'").written(assignment)
        line = own_line(main.command).replace(own, f"{own[0]}{first}; {own[1:]}", 1) + main.command.behind.rstrip()
    before = main.command.before.lstrip()
    kept = re.sub("|".join(re.escape(one) + r"\s*" for one in written) or "^", "", before)
    return kept + line.removeprefix(before) if line else None


def never(subject: Subject) -> Iterator[Occurrence]:
    r"""`srun torchrun --node_rank=\$SLURM_NODEID`: srun starts no shell that could fill it in."""
    for step in subject.steps:
        words, program = program_of(step)
        if program is None or not is_srun(step.command):
            continue
        shell = {at for at, _, _ in strings(step.command)}
        yield from _escaped_twice(subject, step)
        if not shell and _is_command_line(words[program]):
            first = words[program].text.split()[0]
            cure = in_task(subject, step.command, program, whole=True)
            yield Occurrence(words[program].line, {"program": first, "wrapped": cure})
            continue
        for at, word in enumerate(words):
            name = _waiting(word, subject.programs.per_task)
            if at >= program and name and not shell and not _reads_variables(words[program:]):
                cure = in_task(subject, step.command, program)
                yield Occurrence(word.line, {"shown": f"${name}", "wrapped": cure})
                break


def _escaped_twice(subject: Subject, step: Step) -> Iterator[Occurrence]:
    r"""`bash -c '... \$SLURM_NODEID'`: between single quotes the backslash is left to the task's shell, which takes the $ as text."""
    for _, text, first in strings(step.command):
        if re.search(r"\b(?:(?:ba|da|z)?sh -\w*c|ssh|eval|awk|python3? -c)\b|<<", text):
            continue
        for line in (first + at for at, one in enumerate(text.split("\n")) if "\\$" in one):
            place = piece(
                subject.script.text, line, r"[\w.-]*=?\\\$\{?(?:" + "|".join(subject.programs.per_task) + r")\b\}?"
            )
            if place and place.quotes == "'":
                name = re.search(r"SLURM\w+", place.text)
                yield Occurrence(
                    line, {"shown": f"${name[0] if name else ''}", "plain": place.text.replace("\\$", "$")}
                )


def _is_command_line(word: Word) -> bool:
    """A whole command between quotes: srun takes it for the name of a program."""
    return " " in word.text and word.written[:1] in ("'", '"') and not word.written.startswith('"$')


def _waiting(word: Word, per_task: frozenset[str]) -> str | None:
    """The variable of a task that a word keeps for a shell to fill in."""
    if not re.search(r"\\\$|'[^']*\$", word.written):
        return None
    return next((name for name in re.findall(r"\$\{?(\w+)", word.text) if name in per_task), None)


def _reads_variables(words: Sequence[Word]) -> bool:
    """A program that fills in variables itself: a shell, `env -S`, `ssh`, awk, or an unknown script of the user's."""
    name = words[0].text.rpartition("/")[2]
    known = ("bash", "sh", "zsh", "env", "ssh", "xargs", "parallel", "awk", "perl")
    return name in known or name.endswith(".sh") or words[0].text.startswith("./")


def _differs(subject: Subject, name: str, step: Step | None) -> bool:
    """Whether the tasks of a step can have different values: one node has one node id."""
    if name in _OF_NODE:
        return subject.count(step, "nodes") != 1
    if name == "SLURM_LOCALID":
        return subject.count(step, "ntasks-per-node") != 1 and subject.tasks(step) != 1
    return subject.tasks(step) != 1


def _cure(subject: Subject, use: EarlyUse, step: Step | None) -> dict[str, str | None] | None:
    """The placeholders of the cure that fits; None where it is no mistake."""
    one, at = use.early, use.at
    if at is None:
        return _in_document(subject, use)
    if step is None:
        return {"escaped": _escaped(subject, one)}
    words, program = program_of(step)
    if at == program and _is_command_line(words[at]):
        return None
    written = " ".join(word.written for word in use.command.words)
    if one.name == "SLURMD_NODENAME" and any(map(subject.programs.address.search, written.split(one.written)[:-1])):
        return None
    if any(at == string for string, _, _ in strings(use.command)):
        return {"escaped": _escaped(subject, one)}
    if program is None or at < program:
        option = next(
            (o for o in step.options if f"${one.name}" in (o.value or "") or one.written in (o.value or "")), None
        )
        if option is None or option.name in _PLACES:
            return None
        pattern = subject.programs.file_patterns.get(one.name)
        return {"pattern": pattern, "option": f"--{option.name}"} if option.name in _FILES and pattern else None
    if use.command.depth:
        return {"wrapped": _in_outer(use.command, in_task(subject, use.command, program))}
    if re.fullmatch(r'"?\$\{\w+\[[@*]\]\}"?', words[at].written):
        return _of_array(subject, use, program)
    if one.through is not None and words[at].written.strip('"') not in (f"${one.through}", f"${{{one.through}}}"):
        return {"wrapped": in_task(subject, use.command, program, {one.through: one.written})}
    if one.through is not None:
        return {"escaped": _escaped(subject, one), "quoted": joined(use.command, program)}
    return {"wrapped": in_task(subject, use.command, program)}


def _in_outer(command: Command, line: str | None) -> str | None:
    """`sbatch --wrap "srun ..."`, where the string is this one command."""
    outer = command.parent
    if outer is None or outer.depth or line is None:
        return None
    for at, text, _ in strings(outer):
        own = outer.words[at].written
        if text.strip().startswith("srun") and own[:1] in ("'", '"') and "\n" not in text:
            quotes: Quotes = '"' if own[0] == '"' else "'"
            return (
                own_line(outer).replace(own, own[0] + Piece("", quotes).written(line) + own[0], 1)
                + outer.behind.rstrip()
            )
    return None


def _of_array(subject: Subject, use: EarlyUse, program: int) -> dict[str, str | None]:
    """`ARGS=(--rank $SLURM_PROCID)`: its words go into one string, if none has blanks or quotes in it."""
    line = subject.script.text.splitlines()[use.early.line - 1]
    if re.search(r"[\"'\\]", line):
        return {}
    quoted = re.sub(r"\$\{(\w+)\[@\]\}", r"${\1[*]}", joined(use.command, program))
    return {"escaped": _escaped(subject, use.early), "quoted": quoted}


def _in_document(subject: Subject, use: EarlyUse) -> dict[str, str | None] | None:
    """`srun bash <<EOF`, or a file that is written here and started by srun below."""
    words = argv(use.command)
    name = words[0].rpartition("/")[2] if words else ""
    if name == "srun":
        return {"escaped": _escaped(subject, use.early)}
    written = [*use.command.outputs, *(words[1:] if name == "tee" else ())]
    started = (word.text for step in subject.steps for word in step.command.words)
    if written and any(file.rpartition("/")[2] == text.rpartition("/")[2] for file in written for text in started):
        return {"escaped": _escaped(subject, use.early)}
    return None


def _escaped(subject: Subject, one: Early) -> str:
    return _piece(subject, one).replace(one.written, "\\" + one.written)


def _piece(subject: Subject, one: Early) -> str:
    """`--node_rank=${SLURM_NODEID}`: the variable with what stands before it in its word."""
    lines = subject.script.text.splitlines()
    line = lines[one.line - 1] if 0 < one.line <= len(lines) else ""
    found = re.search(r"[\w.-]*=?\"?" + re.escape(one.written), line)
    return (found[0] if found else one.written).replace('"', "")
