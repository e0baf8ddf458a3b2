"""The command as it should be, for the checks that look at the step that trains: names for their fixes. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from msgspec.structs import replace

from slurmdoctor.slurm.script.bash.quotes import piece
from slurmdoctor.slurm.script.bash.syntax import strings
from slurmdoctor.slurm.script.finds.subject import Subject, program_of
from slurmdoctor.slurm.script.finds.wrapped import in_task, own_line
from slurmdoctor.slurm.script.model import Command
from slurmdoctor.slurm.script.steps import Step, argv, is_srun, launcher

_PROGRAM = r"(?<![\w./-])(?:torchrun|torch\.distributed\.run)\b"
_ALONE = r"(?:(?<!\s)\s+--(?:standalone|nnodes[= ]\S+))"
_VENDORED = re.compile(r"\S*3rdparty/Megatron-LM/\S*")
_BEHIND = re.compile(
    r"(?P<to>(?:\s+(?:\d?>>?&?|&>>?|<)\s*[^\s|;&<>][^\s|;&]*)*)(?:\s*\|(?P<both>&?)\s*(?P<tee>tee(?:\s+[^\s|;&]+)+))?(?P<rest>\s*\|\|\s*[^\s|;&]+(?:\s+[^\s|;&]+)*)?\s*(?:#.*)?"
)
"""What may stand behind an srun that goes into the background: redirects, a pipe to tee, `|| exit`."""


def read_cures(subject: Subject) -> Mapping[str, str]:
    """Every name that a fix can use."""
    return {} if subject.main is None else dict(_cures(subject, subject.main))


def _cures(subject: Subject, main: Step) -> Iterator[tuple[str, str]]:
    torchrun = next((c for c in main.runs if (found := launcher(c)) and found.name == "torchrun"), None)
    if torchrun is not None:
        given = {name for word in torchrun.words if (name := _option(word.text))}
        told = subject.programs.several_nodes
        missing = [text for name, text in told.items() if name == "nnodes" or name not in given]
        alone = _PROGRAM + rf"(?:.*?{_ALONE})?"
        yield from _changed(subject, main, torchrun, "with_srun", "^$", "{}{}".format, "")
        everywhere = " ".join(missing)
        yield from _changed(subject, main, torchrun, "on_all_nodes", alone, _on_all_nodes, everywhere)
        nodes = r"--nnodes[= ]\S+?(?=[\s\"']|$)"
        yield from _changed(subject, main, torchrun, "with_node_rank", nodes, "{} {}".format, told["node-rank"])
        if not {"MASTER_ADDR", "MASTER_PORT"} & {one.name for one in subject.script.assignments}:
            yield "sets_master", subject.programs.sets_master
    vendored = (c for c in main.runs if any(_VENDORED.fullmatch(word.text) for word in c.words))
    if megatron := next(vendored, None):
        yield from _with_path(subject, megatron)
    if line := _passes_signals_on(subject, main):
        yield "command", line


def _option(word: str) -> str | None:
    found = re.match(r"--([\w-]+)", word)
    return found[1].replace("_", "-") if found else None


def _changed(
    subject: Subject, main: Step, command: Command, name: str, pattern: str, put: Callable[[str, str], str], added: str
) -> Iterator[tuple[str, str]]:
    """The whole srun with a shell in each task; or, where there is one, what to replace in its string, and with what.

    `put` puts what is added into what the pattern finds.
    """
    _, program = program_of(main)
    if command in (main.command, main.runs[0]) and program is not None and not list(strings(main.command)):
        line = in_task(
            subject,
            main.command,
            program,
            change=lambda text: re.sub(pattern, lambda m: put(m[0], added), text, count=1),
        )
        if line is not None and added in line:
            yield (
                name,
                line if is_srun(main.command) else re.sub(r"\bbash -c '", "srun bash -c '", line, count=1),
            )
        elif held := next(
            (a.line for a in subject.script.assignments if re.search(r"^\w+\+?=(?!')(?s:.*?)" + _PROGRAM, a.written)),
            None,
        ):
            yield "held", str(held)
        return
    lines = {command.line, *(word.line for word in command.words if word.line)}
    found = (found for line in sorted(lines) if (found := piece(subject.script.text, line, pattern)))
    if place := next(found, None):
        yield f"{name}_from", place.text
        yield f"{name}_to", put(place.text, place.written(added))


def _on_all_nodes(text: str, added: str) -> str:
    program = re.match(_PROGRAM, text)
    end = program.end() if program else len(text)
    return f"{text[:end]} {added}{re.sub(_ALONE, '', text[end:])}"


def _with_path(subject: Subject, command: Command) -> Iterator[tuple[str, str]]:
    """`uv run python ...` → `PYTHONPATH=... uv run python ...`."""
    if command.depth == 0:
        command = replace(command, words=command.words[len(command.words) - len(argv(command)) :])
    folder = next(word.text.rpartition("/")[0] for word in command.words if _VENDORED.fullmatch(word.text))
    first = command.words[0]
    place = piece(
        subject.script.text, first.line or command.line, r"(?<![\w./-])" + re.escape(first.written) + r"\s+\S+"
    )
    if place is not None:
        where = folder if folder.startswith("/") else f"$PWD/{folder}"
        env = "" if place.quotes else "env "
        yield "without_path", place.text
        yield "with_path", place.written(f"{env}PYTHONPATH={where}:${{PYTHONPATH:-}} ") + place.text


def _passes_signals_on(subject: Subject, main: Step) -> str | None:
    """`srun ... & PID=$!`, where the srun is a command by itself."""
    command = main.command
    behind = _BEHIND.fullmatch(command.behind)
    if not is_srun(command) or command.depth or command.function or command.subshell or command.background:
        return None
    if behind is None or not re.fullmatch(r"\s*(?:\w+=\S*\s+)*", command.before):
        return None
    line, to = own_line(command), behind["to"]
    if behind["tee"]:
        if subject.script.of_sh:
            return None
        both = " 2>&1" if behind["both"] or "2>&1" in to else ""
        to = f"{to.replace(' 2>&1', '')} > >({behind['tee'].strip()}){both}"
    return f"{line}{to} & PID=$!; wait $PID || wait $PID{behind['rest'] or ''}"
