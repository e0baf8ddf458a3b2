"""What the finders look at, and what they find."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field

from slurmdoctor.slurm.script.directives import number
from slurmdoctor.slurm.script.model import Command, Script, Word
from slurmdoctor.slurm.script.programs import Programs
from slurmdoctor.slurm.script.steps import Step


class Occurrence(Struct, frozen=True):
    """One occurrence: its line, and the names that the check's sentences use."""

    line: int
    names: Mapping[str, int | str | None] = field(default_factory=dict)


class Subject(Struct, frozen=True):
    """A script with its steps."""

    script: Script
    steps: Sequence[Step]
    main: Step | None
    """The step that trains."""
    programs: Programs

    @property
    def own(self) -> Iterator[Command]:
        """The commands that the script itself runs, outside of strings."""
        return (command for command in self.script.commands if command.depth == 0)

    def step_of(self, command: Command) -> Step | None:
        """The step that a command starts."""
        return next((step for step in self.steps if step.command is command), None)

    def count(self, step: Step | None, name: str) -> int | None:
        """A number that srun is given, or else the script: `nodes`, `ntasks`."""
        given = (step.option(name) if step else None) or self.script.directive(name)
        return number(given.value) if given else None

    def tasks(self, step: Step | None) -> int | None:
        """How many tasks a step has."""
        nodes, per_node = self.count(step, "nodes"), self.count(step, "ntasks-per-node")
        told = self.count(step, "ntasks")
        if told is not None and step is not None and (step.option("ntasks") or not step.option("nodes")):
            return told
        if nodes is None:
            return told
        return nodes * per_node if per_node else nodes


def program_of(step: Step) -> tuple[tuple[Word, ...], int | None]:
    """srun's words, and which of them is its program."""
    words, own = step.command.words, step.runs[0].words
    at = len(words) - len(own)
    return words, at if own and words[at:] == own else None
