"""`rules/lint/arguments.yaml`: the options of Slurm, and what launchers and training programs call theirs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from msgspec import Struct, convert

from slurmdoctor.knowledge import LINT, builtin


class Programs(Struct, frozen=True):
    """The table."""

    launchers: Mapping[str, str]
    """Program or Python module -> launcher: `torch.distributed.run` -> `torchrun`."""
    sizes: Mapping[str, str]
    """Argument -> fact: `tensor-model-parallel-size` -> `tp`."""
    switches: Mapping[str, str]
    """The same for arguments without a value."""
    settings: Mapping[str, str]
    """Setting of a recipe -> fact: `slurm.ntasks_per_node` -> `tasks_per_node`."""
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
    environments: re.Pattern[str]
    """Scripts that are read in for an environment, and set nothing that the checks ask for."""
    per_task: frozenset[str]
    """Variables that have another value in every task; the batch shell sees only its own."""
    monitors: re.Pattern[str]
    """Commands that go on until something ends them."""
    address: re.Pattern[str]
    """The end of a text behind which an address stands, one for all tasks."""
    file_patterns: Mapping[str, str]
    """Variables of a task, and srun's patterns of file names for the same: `SLURM_PROCID` -> `%t`."""
    several_nodes: Mapping[str, str]
    """What torchrun is told on several nodes, by argument."""
    sets_master: str
    """The command that makes one node and one port known to all tasks."""
    facts_for_fixes: tuple[str, ...]
    """Facts that fixes may use."""

    def is_local(self, path: str | None) -> bool:
        return self.node_local.search(path or "") is not None


@cache
def programs() -> Programs:
    """The table, read when it is first needed."""
    import yaml  # here: hardly any diagnosis has a script

    table = yaml.safe_load((builtin() / LINT / "arguments.yaml").read_text(encoding="utf-8"))
    for name in ("launchers", "sizes", "switches", "settings"):
        table[name] = {alias: fact for fact, aliases in table[name].items() for alias in aliases}
    return convert(table, Programs, dec_hook=lambda _, text: re.compile(text))
