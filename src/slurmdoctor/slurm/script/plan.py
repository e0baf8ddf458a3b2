"""Script → all that the checks of `rules/lint` may ask for: facts by name, and lists of what occurs several times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from slurmdoctor.slurm.script.facts import Fact, read_facts
from slurmdoctor.slurm.script.model import Script
from slurmdoctor.slurm.script.occurrences import Occurrence, Subject, read_occurrences
from slurmdoctor.slurm.script.programs import programs
from slurmdoctor.slurm.script.steps import main_step, steps


class Plan(Struct, frozen=True):
    """What a script is going to do."""

    facts: Mapping[str, Fact]
    lines: Mapping[str, int]
    """Fact -> the line that gives it."""
    lists: Mapping[str, Sequence[Occurrence]]


def plan(script: Script) -> Plan:
    """The plan of a script."""
    found, known = steps(script), programs()
    main = main_step(found)
    facts = read_facts(script, main, known)
    return Plan(facts.values, facts.lines, read_occurrences(Subject(script, found, main, known)))
