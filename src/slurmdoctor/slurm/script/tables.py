"""The tables of `rules/lint`: the checks, and what Slurm, launchers and training programs call their options.

`knowledge.expressions` has the language of the checks' conditions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from msgspec import convert

from slurmdoctor.knowledge import LINT, builtin
from slurmdoctor.model import Frozen

Level = Literal["error", "warning", "note"]
Texts = str | tuple[str, ...]
"""One text, or several, of which the first one counts that can be filled in."""


class Check(Frozen, forbid_unknown_fields=True):
    """One mistake that a script can hold: `when` a condition holds, or for `each` item of a list."""

    id: str
    level: Level
    says: Texts
    why: Texts
    fix: Texts
    when: str | None = None
    each: str | None = None
    at: str | None = None
    causes: frozenset[str] = frozenset()
    reference: str | None = None
    bad: str | None = None
    good: str | None = None


class Programs(Frozen):
    """`arguments.yaml`."""

    launchers: Mapping[str, str]
    """Program or Python module -> launcher: `torch.distributed.run` -> `torchrun`."""
    sizes: Mapping[str, str]
    """Argument -> fact: `tensor-model-parallel-size` -> `tp`."""
    switches: Mapping[str, str]
    """The same for arguments without a value."""
    kept: frozenset[str]
    """Arguments that name where something is kept."""
    kept_variables: re.Pattern[str]
    """Variables that do."""
    short_options: Mapping[str, str]
    """Options of sbatch and srun: `N` -> `nodes`."""
    flags: frozenset[str]
    """Options that take no value, or take it only behind `=`."""
    srun_only: frozenset[str]
    """Options that #SBATCH lines do not know."""
    node_local: re.Pattern[str]
    """Paths that only one node sees."""
    step_marks: Mapping[str, re.Pattern[str]]
    """Fact -> what the commands of the step hold where it is so."""
    script_marks: Mapping[str, re.Pattern[str]]
    """The same for the whole script."""
    environments: re.Pattern[str]
    """Scripts that are read in for an environment, and set nothing that the checks ask for."""
    per_task: frozenset[str]
    """Variables that have another value in every task; the batch shell sees only its own."""
    monitors: re.Pattern[str]
    """Commands that go on until something ends them."""
    address: re.Pattern[str]
    """The end of a text after which an address comes, one for all tasks."""
    file_patterns: Mapping[str, str]
    """Variables of a task, and srun's patterns of file names for the same: `SLURM_PROCID` -> `%t`."""
    copying: frozenset[str]
    """Programs that copy files to where the script needs them."""
    quick: frozenset[str]
    """Commands that are no work of their own."""
    kills: frozenset[str]
    """Programs that end a process."""
    no_work: frozenset[str]
    """Programs whose exit status is not the training's, and hides none."""
    starts: frozenset[str]
    """Programs that start the work: a test in front of one is no clean-up."""
    read_variables: frozenset[str]
    """Programs that fill in variables themselves."""
    before_programs: frozenset[str]
    """Programs that run the one behind them."""
    shells: frozenset[str]
    """Shells: each runs what is behind `-c`."""
    facts_for_fixes: tuple[str, ...]
    """Facts that fixes may use."""


@cache
def checks() -> tuple[Check, ...]:
    """The checks."""
    return convert(_table("checks.yaml")["checks"], tuple[Check, ...])


@cache
def programs() -> Programs:
    """What programs call their options."""
    table = _table("arguments.yaml")
    for name in ("launchers", "sizes", "switches"):
        table[name] = {alias: fact for fact, aliases in table[name].items() for alias in aliases}
    return convert(table, Programs, dec_hook=lambda _, text: re.compile(text))


def _table(name: str) -> dict[str, Any]:
    from pathlib import Path

    import yaml  # here: hardly any diagnosis has a script

    table: dict[str, Any] = yaml.safe_load(Path(builtin(), LINT, name).read_text(encoding="utf-8"))
    return table
