"""The types of a batch script, as the parser sees it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct, field

_TO_LINE_END = re.compile(rb"(?:.*\\\n){0,100}.*")
"""The rest of a line and those that continue it, of which no command has more."""


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
    """As it stands in the script, quotes and all."""
    at: int = 0
    """Which piece of the command it comes from: an unquoted variable makes several words."""


class Command(Struct, frozen=True):
    """One simple command: a program with its arguments."""

    words: tuple[Word, ...]
    line: int
    background: bool = False
    piped_to: tuple[str, ...] = ()
    """The programs behind it in its pipe."""
    outputs: tuple[str, ...] = ()
    """Files that its output is redirected to."""
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
    source: bytes = b""
    """The script that it stands in, where it is part of no string."""
    span: tuple[int, int] = (0, 0)
    """Where it begins and ends there."""

    @property
    def before(self) -> str:
        """What stands before it on its first line: `if `."""
        start = self.span[0]
        return self.source[self.source.rfind(b"\n", 0, start) + 1 : start].decode("utf-8", "replace")

    @property
    def behind(self) -> str:
        """What stands behind it on its last line: ` 2>&1 | tee log`."""
        found = _TO_LINE_END.match(self.source, self.span[1])
        return found[0].decode("utf-8", "replace") if found else ""

    @property
    def name(self) -> str:
        """The program without its folder."""
        return self.words[0].text.rpartition("/")[2] if self.words else ""

    @property
    def args(self) -> tuple[str, ...]:
        return tuple(w.text for w in self.words[1:])

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
    """The whole assignment as it stands in the script."""


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
    """As it stands there: `${SLURM_NODEID}`."""
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
    """The commands of it: of a loop all that stand in it."""
    text: str
    """The beginning of it as it is written."""
    pid: str | None = None
    """The variable that keeps its process id."""
    subshell: bool = False


class LastTest(Struct, frozen=True):
    """A text's last statement, where that is a test with a command behind it: `[ -n "$PID" ] && kill $PID`."""

    line: int
    test: str
    then: str
    program: str
    """The command's program."""
    parent: Command | None = None
    """The command whose string it is the last statement of."""


class Script(Struct, frozen=True):
    """A batch script: its directives, commands and assignments."""

    name: str
    text: str
    directives: tuple[Directive, ...] = ()
    ignored: tuple[Directive, ...] = ()
    """#SBATCH lines below the first command: Slurm does not read them."""
    commands: tuple[Command, ...] = ()
    """All commands in order. Those of a command's string follow directly after it."""
    assignments: tuple[Assignment, ...] = ()
    traps: tuple[Trap, ...] = ()
    broken: tuple[int, ...] = ()
    """Lines that are no bash."""
    early: tuple[EarlyUse, ...] = ()
    """Per-task variables that the batch shell fills in before a step could."""
    exported_early: tuple[Early, ...] = ()
    """The same, exported by the script: `export RANK=$SLURM_PROCID`."""
    background: tuple[Background, ...] = ()
    last_tests: tuple[LastTest, ...] = ()
    read: tuple[tuple[str, int], ...] = ()
    """Other scripts that this one reads in: (name, line)."""
    documents: tuple[tuple[int, int], ...] = ()
    """First and last line of each here-document."""
    interpreter: str = "bash"
    """The program of the first line, or what the file's name stands for: `sh`, `python`, `yaml`."""
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
