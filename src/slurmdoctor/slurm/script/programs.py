"""`rules/lint/arguments.yaml`: the options of Slurm, and what launchers and training programs call theirs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from msgspec import Struct

from slurmdoctor.knowledge.paths import LINT, builtin


class Programs(Struct, frozen=True):
    """The table."""

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
    caches: frozenset[str]
    """Variables that name a cache."""
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

    def is_local(self, path: str | None) -> bool:
        return self.node_local.search(path or "") is not None


@cache
def programs() -> Programs:
    """The table, read when it is first needed."""
    import yaml  # here: hardly any diagnosis has a script

    table = yaml.safe_load((builtin() / LINT / "arguments.yaml").read_text(encoding="utf-8"))
    return Programs(
        launchers=_by_alias(table["launchers"]),
        sizes=_by_alias(table["sizes"]),
        switches=_by_alias(table["switches"]),
        kept=frozenset(table["kept"]),
        kept_variables=re.compile(table["kept_variables"]),
        caches=frozenset(table["caches"]),
        short_options=table["short_options"],
        flags=frozenset(table["flags"]),
        srun_only=frozenset(table["srun_only"]),
        node_local=re.compile(table["node_local"]),
        step_marks={name: re.compile(regex) for name, regex in table["step_marks"].items()},
        script_marks={name: re.compile(regex) for name, regex in table["script_marks"].items()},
    )


def _by_alias(table: Mapping[str, list[str]]) -> dict[str, str]:
    return {alias: fact for fact, aliases in table.items() for alias in aliases}
