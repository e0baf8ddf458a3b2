"""The types of a batch script, as the parser sees it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct, field


class Directive(Struct, frozen=True):
    """One option of one #SBATCH line, or of one srun command."""

    name: str
    """The long name, without dashes: `ntasks-per-node`."""
    value: str | None
    line: int


class Word(Struct, frozen=True):
    """One word of a command: its text with the known variables filled in, and whether all of it is known."""

    text: str
    known: bool = True
    line: int = 0
    written: str = ""
    """As it is written in the script, with its quotes."""


class Command(Struct, frozen=True):
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

    @property
    def name(self) -> str:
        """The program without its folder."""
        return self.words[0].text.rpartition("/")[2] if self.words else ""

    @property
    def args(self) -> tuple[str, ...]:
        return tuple(w.text for w in self.words[1:])

    @property
    def variables(self) -> set[str]:
        """The variables that it names."""
        return {name for word in self.words for name in re.findall(r"\$\{?(\w+)", word.written)}

    def runs_in(self, outer: Command) -> bool:
        """Whether this command is part of a string of the other one."""
        parent = self.parent
        while parent is not None and parent is not outer:
            parent = parent.parent
        return parent is not None


class Assignment(Struct, frozen=True):
    """`NAME=value`, exported or not."""

    name: str
    value: str | None
    """None where it is computed."""
    line: int
    exported: bool = False
    likely: str = ""
    """The value, or the default that counts where the job's environment does not set another."""
    subshell: bool = False
    """It is made in `( ... )`, and gone behind it."""
    pid: bool = False
    """`PID=$!`"""
    written: str = ""
    """The whole assignment as it is written in the script."""


class Trap(Struct, frozen=True):
    """`trap 'kill $PID' EXIT TERM`."""

    signals: frozenset[str]
    """Without `SIG`; `EXIT` is one too."""
    line: int


class Early(Struct, frozen=True):
    """A variable with another value in every task, which the batch shell fills in before a task could."""

    name: str
    line: int
    written: str
    """As it is written there: `${SLURM_NODEID}`."""
    through: str | None = None
    """The variable of the script that brings it: `CMD` of `CMD="train.py $SLURM_PROCID"; srun $CMD`."""


class EarlyUse(Struct, frozen=True):
    """An `Early` where it takes effect."""

    early: Early
    command: Command
    """The srun, or the command that the here-document goes to."""
    at: int | None = None
    """The word of the command; None: its here-document."""


class Background(Struct, frozen=True):
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


class LastTest(Struct, frozen=True):
    """A text's last statement, where that is a test with a command behind it: `[ -n "$PID" ] && kill $PID`."""

    line: int
    program: str
    """The command's program."""
    parent: Command | None = None
    """The command whose string it is the last statement of."""


class Code(Struct, frozen=True, kw_only=True):
    """What a text of bash does, in the order of its lines."""

    commands: list[Command] = field(default_factory=list)
    """All commands. Those of a command's string follow directly after it."""
    assignments: list[Assignment] = field(default_factory=list)
    traps: list[Trap] = field(default_factory=list)
    broken: list[int] = field(default_factory=list)
    """Lines that are no bash."""
    early: list[EarlyUse] = field(default_factory=list)
    """Per-task variables that the batch shell fills in before a step could."""
    exported_early: list[Early] = field(default_factory=list)
    """The same, exported by the script: `export RANK=$SLURM_PROCID`."""
    background: list[Background] = field(default_factory=list)
    last_tests: list[LastTest] = field(default_factory=list)
    read: list[tuple[str, int]] = field(default_factory=list)
    """Other scripts that this one reads in: (name, line)."""
    documents: list[tuple[int, int]] = field(default_factory=list)
    """First and last line of each here-document."""


class Script(Code, frozen=True):
    """A batch script: its directives, commands and assignments."""

    name: str
    text: str
    directives: tuple[Directive, ...] = ()
    ignored: tuple[Directive, ...] = ()
    """#SBATCH lines below the first command: Slurm does not read them."""
    interpreter: str = "bash"
    """The program of the first line, or what the file's name means: `sh`, `python`, `yaml`."""
    unread: str = ""
    """Why its commands were not read, where they were not."""
    settings: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """What a recipe sets, by dotted names, each with its line: `slurm.nodes`."""
    mixed: bool = False
    """A heterogeneous job: its parts have sizes of their own."""
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
        return next((d for d in reversed(self.directives) if d.name == name), None)
