"""A batch script's text → its directives, settings and commands, and the variables that Slurm will set from them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import asdict

from slurmdoctor.slurm.script.bash_reader import Reader, TooMuchError
from slurmdoctor.slurm.script.model import Directive, Script, is_comment, last_of, plain_signal
from slurmdoctor.slurm.script.tables import programs

LONGEST, LONGEST_LINE = 256 * 1024, 16 * 1024
"""Characters of a script, and of a line. One that has more is read up to there; so is one that needs more of the next two."""
_HOOK = re.compile(r"^# --- slurmdoctor: .*\n(?:(?!# --- ).*\n)*# --- end of slurmdoctor -+$", re.M)
"""The footer in a script, by its first and last line: its traps and commands are not the script's."""
_SHEBANG = re.compile(r"#!\s*(?:\S*/env\s+(?:-\S+\s+)*)?(?:\S*/)?([\w.+-]+)")
_DIRECTIVE = re.compile(r"^#SBATCH\b", re.MULTILINE)
_LANGUAGES = {".py": "Python", ".yaml": "YAML", ".yml": "YAML", ".json": "JSON", ".toml": "TOML", ".ipynb": "JSON"}


class SignalRequest(NamedTuple):
    """`--signal=B:USR1@120`."""

    signal: str
    """`USR1`, also where it is asked for by its number."""
    seconds: int
    """How long before the time limit."""
    batch_shell: bool
    """Whether the batch shell gets it, not the steps."""
    line: int


def parse(text: str, name: str = "script") -> Script:
    """The parsed script. Lines that are no bash are in `broken`; the others are read all the same."""
    text, cut = _readable(text)
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n")
    directives, ignored = read(lines)
    interpreter, unread = _kind(lines, name)
    reader = Reader(slurm_variables(directives))
    try:
        if not unread:
            reader.read(_HOOK.sub(lambda hook: "\n" * hook[0].count("\n"), lines))
    except TooMuchError:
        cut = reader.line
    within = {line for first, last in reader.code.documents for line in range(first, last + 1)}
    return Script(
        name,
        text,
        directives=tuple(directives),
        ignored=tuple(one for one in ignored if one.line not in within and not unread),
        interpreter=interpreter,
        unread=unread,
        cut=cut,
        **asdict(reader.code),
    )


def parse_beside(text: str, name: str) -> Script:
    """The script of a job whose log is read: what is wrong with it costs a note, never the verdict."""
    if is_no_text(text):
        return Script(name, "", fault="it is no text")
    try:
        return parse(text, name)
    except Exception as error:
        return Script(name, "", fault=f"internal error, {type(error).__name__}: please report it")


def _readable(text: str) -> tuple[str, int | None]:
    """A script up to where it is longer than scripts are, and the line that is the first one left out."""
    lines = text[:LONGEST].split("\n")
    end = len(lines) - (len(text) > LONGEST)
    end = next((at for at in range(end) if len(lines[at]) > LONGEST_LINE), end)
    return ("\n".join(lines[:end]) + "\n", end + 1) if end < len(lines) else (text, None)


def is_batch_script(text: str) -> bool:
    """Whether sbatch would take it for one: an `#SBATCH` line in a program, or among the comments at the top."""
    text = text.lstrip("\ufeff")
    top = re.match(r"(?:[ \t]*(?:#[^\n]*)?(?:\n|\Z))*", text)
    return _DIRECTIVE.search(text if text.startswith("#!") else top[0] if top else "") is not None


def is_no_text(text: str) -> bool:
    """Whether it is a program, a pickle or an image: no shell reads NUL, and what is no UTF-8 at all is no text."""
    start = text[:4096]
    return "\0" in text or start.count("\ufffd") > len(start) / 20


def _kind(text: str, name: str) -> tuple[str, str]:
    """The shell that reads it, and its language where none does: (`sh`, ``), (`python`, `Python`)."""
    if found := _SHEBANG.match(text):
        program = found[1].rstrip("0123456789.")
        return program, "" if program in programs().shells else program.capitalize()
    language = _LANGUAGES.get(Path(name).suffix.lower(), "")
    return "" if language else "bash", language


# ── directives ──


def read(text: str) -> tuple[list[Directive], list[Directive]]:
    """The directives that count, and those below the first command, which do not."""
    good: list[Directive] = []
    late: list[Directive] = []
    begun = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#SBATCH"):
            (late if begun else good).extend(options(_words(line[7:]), number)[0])
        elif line.strip() and not is_comment(line):
            begun = True
    return good, late


def _words(text: str, comments: bool = True) -> list[str]:
    try:
        return shlex.split(text, comments)
    except ValueError:
        return text.split("#")[0].split()


def submitted(line: str) -> tuple[list[Directive], list[str]]:
    """The options of `sbatch -o out.log job.sh 8`, and the script with its own arguments."""
    words = _words(line, comments=False)[1:]
    given, at = options(words, 0)
    return given, words[at:]


def options(words: Sequence[str], line: int) -> tuple[list[Directive], int]:
    """sbatch's or srun's options, and the index of the first word that is none: srun's program."""
    found: list[Directive] = []
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--"):
        word = words[at]
        at += 1
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
        else:
            name, equals = programs().short_options.get(word[1], word[1]), word[2:]
            value = equals.removeprefix("=")
        if not equals and name not in programs().flags and at < len(words) and not words[at].startswith("--"):
            equals = value = words[at]
            at += 1
        found.append(Directive(name, value if equals else None, line))
    return found, at


def number(value: str | None) -> int | None:
    """`8`, `gpu:8`, `gpu:h100:8`, `2-4` (at least 2)."""
    found = re.search(r"(?:^|:)([0-9]{1,9})(?:-\d+)?(?:\(.*\))?$", value or "")
    return int(found[1]) if found else None


def whole(text: str | None) -> int | None:
    """A number as programs take it, of a size that means anything."""
    return int(text) if text and re.fullmatch("[0-9]{1,9}", text) else None


def gpus(directives: Sequence[Directive]) -> tuple[int | None, int | None]:
    """GPUs a node, as any of Slurm's options asks for them, and the line of the one that does."""
    by_name = {d.name: d for d in directives}
    nodes = number(by_name["nodes"].value) if "nodes" in by_name else 1
    tasks = number(by_name["ntasks-per-node"].value) if "ntasks-per-node" in by_name else None
    for name in ("gpus-per-node", "gres", "gpus-per-task", "gpus"):
        if (found := by_name.get(name)) is None:
            continue
        parts = (found.value or "").split(",")
        part = next((p for p in parts if name != "gres" or p.startswith("gpu")), None)
        count = None if part is None else number(part) if ":" in part or part.isdigit() else 1
        if count is None:
            continue
        if name == "gpus-per-task":
            count = count * tasks if tasks else None
        elif name == "gpus":
            count = count // nodes if nodes and count % nodes == 0 else None
        return count, found.line
    return None, None


def signal_request(directives: Sequence[Directive]) -> SignalRequest | None:
    """The signal that the script asks for before its time limit."""
    given = last_of(directives, "signal")
    parts = given and re.fullmatch(r"(?:([BR]+):)?(?:SIG)?([A-Za-z]+\d?|\d+)(?:@(\d{1,9}))?", given.value or "")
    if not given or not parts:
        return None
    return SignalRequest(plain_signal(parts[2]), int(parts[3] or 60), "B" in (parts[1] or ""), given.line)


def slurm_variables(directives: Sequence[Directive]) -> dict[str, str]:
    """What the job will see in its environment."""
    by_name = {d.name: d.value for d in directives}
    wanted = ("nodes", "ntasks-per-node", "ntasks", "cpus-per-task")
    nodes, per_node, tasks, cpus = (number(by_name.get(name)) for name in wanted)
    if tasks is None and per_node and nodes:
        tasks = per_node * nodes
    per_gpu, _ = gpus(directives)
    found = {
        "NNODES": nodes,
        "JOB_NUM_NODES": nodes,
        "NTASKS": tasks,
        "NPROCS": tasks,
        "NTASKS_PER_NODE": per_node,
        "GPUS_ON_NODE": per_gpu,
        "GPUS_PER_NODE": per_gpu,
        "CPUS_PER_TASK": cpus,
    }
    return {f"SLURM_{name}": str(value) for name, value in found.items() if value is not None}
