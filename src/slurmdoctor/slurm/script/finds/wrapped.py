"""A command of srun → the same with a shell in each task, as a line to paste. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from slurmdoctor.slurm.script.finds.subject import Subject
from slurmdoctor.slurm.script.model import Command

_PIECES = re.compile(
    r"""(?P<single>'[^']*')
      | (?P<later>\\\$\{?(?P<of>\w+)\}?)
      | (?P<escaped>\\.)
      | (?P<computed>\$\(\((?:[^()]|\([^()]*\))*\)\)|\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`)
      | (?P<array>"?\$\{\w+\[[@*]\]\}"?|"?\$[@*]"?)
      | (?P<variable>\$\{(?P<name>\w+)[^{}]*\}|\$(?P<plain>\w+))
      | (?P<other>[^'\\$`"]+|.)""",
    re.X | re.S,
)
"""A word as it is written, in pieces that a shell treats alike."""


def in_task(
    subject: Subject,
    command: Command,
    program: int,
    values: Mapping[str, str] | None = None,
    whole: bool = False,
    change: Callable[[str], str] = lambda text: text,
) -> str | None:
    """`srun -N 2 bash -c '...'`: what the task must fill in is left to it, what only the batch script knows is filled in before.

    `values` are variables of the script that stand for one of a task. `whole`: the program is one quoted word, the command.
    `change` is made to what the task's shell will read.
    """
    written = _written(command, program)
    if whole:
        inner = written[0][1:-1]
        if written[0][:1] == '"':
            inner = re.sub(r'\\([$`"\\])', r"\1", inner)
        written = [inner, *written[1:]]
    arrays = {piece for word in written for piece in _arrays(word)}
    if len(arrays) > 1:
        return None
    kept = _seen_by_tasks(subject)
    inner = " ".join("".join(_inside(word, kept, subject.programs.per_task, values or {})) for word in written)
    behind = "".join(f" bash {array}" for array in arrays)
    return _line(command, program, f"bash -c '{change(inner)}'".removesuffix("''") + behind)


def joined(command: Command, program: int) -> str:
    """`srun bash -c "$CMD"`: the words as one string, which the batch shell fills in and the task's shell reads."""
    inner = " ".join(_written(command, program))
    return _line(command, program, 'bash -c "' + re.sub(r'(?<!\\)"', "", inner) + '"')


def own_line(command: Command) -> str:
    """The command itself as one line, without what stands behind it."""
    return _one_line(command.before + " ".join(_written(command, 0)))


def _line(command: Command, program: int, shell: str) -> str:
    """The command's line with `shell` for its program and all behind that."""
    before = _written(command, 0)[: -len(_written(command, program))]
    return _one_line(f"{command.before}{' '.join(before)} {shell}{command.behind}")


def _one_line(text: str) -> str:
    return " ".join(map(str.strip, text.split("\\\n"))).strip()


def _written(command: Command, program: int) -> list[str]:
    """The command's words as they are written, from the program on: each once, however many words it makes."""
    first = command.words[program].at
    return [text for at, text in {w.at: w.written for w in command.words}.items() if at >= first]


def _seen_by_tasks(subject: Subject) -> Mapping[str, bool]:
    """The script's variables, and whether its tasks see them too."""
    found: dict[str, bool] = {}
    for one in subject.script.assignments:
        found[one.name] = found.get(one.name, False) or one.exported
    return found


def _arrays(word: str) -> Iterator[str]:
    for found in _PIECES.finditer(word):
        if found["array"]:
            yield found[0]


def _inside(word: str, seen: Mapping[str, bool], per_task: frozenset[str], values: Mapping[str, str]) -> Iterator[str]:
    """The word as it stands between the single quotes of `bash -c`."""
    for found in _PIECES.finditer(word):
        name = found["name"] or found["plain"] or ""
        if found["single"]:
            text = found[0][1:-1]
            yield '"' + re.sub(r'(["`\\])', r"\\\1", text) + '"' if _names_task(text, per_task) else rf"'\''{text}'\''"
        elif found["later"]:
            yield found[0].removeprefix("\\") if found["of"] in per_task else found[0]
        elif found["escaped"]:
            yield " " if found[0] == "\\\n" else found[0]
        elif found["array"]:
            yield '"$@"'
        elif name in values:
            yield values[name]
        elif found["computed"]:
            yield found[0] if _names_task(found[0], per_task) else f"'\"{found[0]}\"'"
        elif found["variable"] and name not in per_task and (not seen.get(name, name[:1].isupper())):
            yield f"'\"{found[0]}\"'"
        else:
            yield found[0].replace("'", r"'\''")


def _names_task(text: str, per_task: frozenset[str]) -> bool:
    return any(name in per_task for name in re.findall(r"\w+", text))
