"""The types of a batch script, as the parser sees it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import field

from slurmdoctor.model import Frozen, signal_name
from slurmdoctor.slurm.script.tables import programs


class Directive(Frozen):
    """One option of one #SBATCH line, or of one srun command."""

    name: str
    """The long name, without dashes: `ntasks-per-node`."""
    value: str | None
    line: int


class Premature(Frozen):
    """A variable with another value in every task, which the batch shell fills in before a task could."""

    name: str
    line: int
    written: str
    """As it is written there: `${SLURM_NODEID}`."""


class Word(Frozen):
    """One word of a command, or the value of a variable, with the known variables filled in."""

    text: str
    known: bool = True
    """Whether all of it is known."""
    line: int = 0
    premature: tuple[Premature, ...] = ()
    items: tuple[Word, ...] | None = None
    """The words of an array."""
    written: str = ""
    """As it is written in the script, with its quotes."""

    @property
    def cost(self) -> int:
        """What it takes, in characters."""
        return 1 + len(self.text) + 10 * len(self.premature)


class Command(Frozen):
    """One simple command: a program with its arguments, and where it runs."""

    words: tuple[Word, ...] = ()
    line: int = 0
    background: bool = False
    piped_to: tuple[str, ...] = ()
    """The programs behind it in its pipe."""
    outputs: tuple[str, ...] = ()
    """Files that its output is redirected to."""
    appends: bool = False
    """Whether it adds to what is in them: `>>`."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Assignments before it: `NCCL_DEBUG=INFO python ...`."""
    depth: int = 0
    """0: it runs in the script itself; more: in a string that another shell runs."""
    function: str | None = None
    """The function of the script that it is part of."""
    parent: Command | None = None
    """The command whose string it is part of: `srun` of `srun bash -c "python train.py"`."""
    subshell: bool = False
    """It runs in `( ... )`."""
    document: tuple[Premature, ...] = ()
    """What the batch shell fills in too early in its here-document."""

    @property
    def name(self) -> str:
        """The program without its folder."""
        return base(self.words[0].text) if self.words else ""

    @property
    def args(self) -> tuple[str, ...]:
        return tuple(w.text for w in self.words[1:])

    @property
    def variables(self) -> set[str]:
        """The variables that it names."""
        return {name for word in self.words for name in re.findall(r"\$\{?(\w+)", word.written)}


class Assignment(Frozen):
    """`NAME=value`, exported or not."""

    name: str
    word: Word
    """Its value, or the default that counts where the job's environment does not set another."""
    line: int
    exported: bool = False
    subshell: bool = False
    """It is made in `( ... )`, and gone behind it."""
    written: str = ""
    """The whole assignment as it is written in the script."""


class Background(Frozen):
    """What the script leaves running: `monitor.sh &`."""

    name: str
    line: int
    commands: tuple[Command, ...]
    """The commands of it: all of a loop's."""
    text: str
    """The beginning of it as it is written."""
    pid: str | None = None
    """The variable that keeps its process id."""
    subshell: bool = False


class LastTest(Frozen):
    """A text's last statement, where that is a test with a command behind it: `[ -n "$PID" ] && kill $PID`."""

    line: int
    program: str
    """The command's program."""
    parent: Command | None = None
    """The command whose string it is the last statement of."""


class Code(Frozen, kw_only=True):
    """What a text of bash does, in the order of its lines."""

    commands: list[Command] = field(default_factory=list)
    """All commands. Those of a command's string follow directly after it."""
    assignments: list[Assignment] = field(default_factory=list)
    broken: list[int] = field(default_factory=list)
    """Lines that are no bash."""
    background: list[Background] = field(default_factory=list)
    last_tests: list[LastTest] = field(default_factory=list)
    documents: list[tuple[int, int]] = field(default_factory=list)
    """First and last line of each here-document."""


class Script(Code):
    """A batch script: its directives, commands and assignments."""

    name: str
    text: str
    directives: tuple[Directive, ...] = ()
    ignored: tuple[Directive, ...] = ()
    """#SBATCH lines below the first command: Slurm does not read them."""
    interpreter: str = "bash"
    """The program of the first line: `sh`, `python`."""
    unread: str = ""
    """Its language, where no shell reads it."""

    cut: int | None = None
    """The first line that was not read, of a script that is too much to read."""
    fault: str | None = None
    """Why nothing of it could be used beside a log."""

    @property
    def of_sh(self) -> bool:
        """Whether a plain POSIX shell reads it, which lacks what bash has."""
        return self.interpreter in ("sh", "dash")

    def directive(self, name: str) -> Directive | None:
        """The one that counts: of several, Slurm takes the last."""
        return last_of(self.directives, name)

    @property
    def traps(self) -> dict[str, int]:
        """Each signal that it handles, without `SIG` (`EXIT` is one too), with the line of its first trap."""
        traps = [c for c in self.commands if c.name == "trap" and len(c.words) > 2 and c.args[0] != "-"]
        return {plain_signal(word): c.line for c in reversed(traps) for word in c.args[1:]}

    @property
    def sourced(self) -> list[tuple[str, int]]:
        """Other scripts that this one reads in: (name, line)."""
        return [(c.args[0], c.line) for c in self.commands if c.name in ("source", ".") and c.args]

    @property
    def settings(self) -> list[tuple[str, int]]:
        """Those of them that may set what the checks ask for."""
        return [(name, line) for name, line in self.sourced if not programs().environments.search(name)]

    @property
    def execs(self) -> list[Command]:
        """Where another program takes this one's place."""
        return [c for c in self.commands if c.name == "exec" and c.depth == 0 and c.args]


def is_comment(line: str) -> bool:
    """Whether a shell passes over a line: an #SBATCH line is a comment too."""
    return line.lstrip().startswith("#")


def base(word: str) -> str:
    """A program without its folder."""
    return word.rpartition("/")[2]


def argv(command: Command) -> list[str]:
    """A command's words from its program on: `exec`, `time`, `env A=1` and their options are left out."""
    words = [w.text for w in command.words]
    at = 0
    while at < len(words) - 1 and (words[at] in programs().before_programs or re.match(r"\w+=", words[at])):
        at += 1
        while at < len(words) and words[at].startswith("-"):
            at += 1
    return words[at:]


def is_srun(command: Command) -> bool:
    """Whether a command is srun's."""
    return base("".join(argv(command)[:1])) == "srun"


def last_of(given: Sequence[Directive], name: str) -> Directive | None:
    """The option that counts: of several, Slurm takes the last."""
    return next((d for d in reversed(given) if d.name == name), None)


def plain_signal(word: str) -> str:
    """`TERM` for `TERM`, `SIGTERM` and `15`; `EXIT` for `0`."""
    name = (signal_name(int(word)) if re.fullmatch("[0-9]{1,2}", word) else None) or word
    return "EXIT" if name == "0" else name.upper().removeprefix("SIG")
