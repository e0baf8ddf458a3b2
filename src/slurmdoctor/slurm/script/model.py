"""The types of a batch script, as the parser sees it."""

from __future__ import annotations

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


class Trap(Struct, frozen=True):
    """`trap 'kill $PID' EXIT TERM`."""

    signals: frozenset[str]
    """Without `SIG`; `EXIT` is one too."""
    line: int


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
    options: frozenset[str] = frozenset()
    """`errexit`, `pipefail`, `nounset`, as `set` turns them on."""
    broken: tuple[int, ...] = ()
    """Lines that are no bash."""
    early: tuple[tuple[str, int], ...] = ()
    """Per-task variables that the batch shell fills in before a step could: (name, line)."""

    def directive(self, name: str) -> Directive | None:
        """The one that counts: of several, Slurm takes the last."""
        return next((d for d in reversed(self.directives) if d.name == name), None)
