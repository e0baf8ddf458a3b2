"""The types of a batch script, as the parser sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Directive:
    """One option of one #SBATCH line."""

    name: str
    """The long name, without dashes: `ntasks-per-node`."""
    value: str | None
    line: int


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command: its text with known variables filled in, and whether all of it is known."""

    text: str
    known: bool = True
    raw: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command, wherever it stands."""

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
    """0: runs in the script itself; more: in a string that another shell runs."""
    function: str | None = None
    parent: Command | None = None
    """The command whose string this stands in."""

    @property
    def name(self) -> str:
        return self.words[0].text.rpartition("/")[2] if self.words else ""

    @property
    def args(self) -> tuple[str, ...]:
        return tuple(w.text for w in self.words[1:])


@dataclass(frozen=True, slots=True)
class Assignment:
    """`NAME=value`, exported or not."""

    name: str
    value: str | None
    """None where it is computed."""
    raw: str
    line: int
    exported: bool = False
    depth: int = 0
    double_quoted: bool = False
    likely: str = ""
    """The value, or the default that counts where the job's environment does not say otherwise."""


@dataclass(frozen=True, slots=True)
class Script:
    """A batch script, taken apart."""

    name: str
    text: str
    shell: str | None
    directives: tuple[Directive, ...] = ()
    ignored: tuple[Directive, ...] = ()
    """#SBATCH lines below the first command: Slurm does not read them."""
    commands: tuple[Command, ...] = ()
    """All commands, those inside strings too, in order."""
    assignments: tuple[Assignment, ...] = ()
    exports: Mapping[str, Assignment] = field(default_factory=dict)
    traps: tuple[tuple[str, frozenset[str], int], ...] = ()
    """(command, signals, line)."""
    options: frozenset[str] = frozenset()
    """`errexit`, `pipefail`, `nounset`, as `set` turns them on."""
    broken: tuple[int, ...] = ()
    """Lines that the parser could not take."""
    early: tuple[tuple[str, int], ...] = ()
    """Per-task variables that the batch shell fills in before a step could: (name, line)."""

    def directive(self, name: str) -> Directive | None:
        """The one that counts: of several, Slurm takes the last."""
        return next((d for d in reversed(self.directives) if d.name == name), None)
