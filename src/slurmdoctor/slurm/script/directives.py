"""#SBATCH lines → directives, and the variables that Slurm will set from them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from slurmdoctor.slurm.script.model import Directive
from slurmdoctor.slurm.script.programs import programs


class SignalRequest(NamedTuple):
    """`--signal=B:USR1@120`."""

    signal: str
    """`USR1`, or a number."""
    seconds: int | None
    """How long before the time limit."""
    batch_shell: bool
    """Whether the batch shell gets it, not the steps."""
    line: int


def read(text: str) -> tuple[list[Directive], list[Directive]]:
    """The directives that count, and those below the first command, which do not."""
    good: list[Directive] = []
    late: list[Directive] = []
    begun = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#SBATCH"):
            (late if begun else good).extend(options(_words(line[7:]), number)[0])
        elif line.strip() and not line.lstrip().startswith("#"):
            begun = True
    return good, late


def is_mixed(text: str) -> bool:
    """Whether the job is heterogeneous: `#SBATCH hetjob` stands between the options of its parts."""
    return re.search(r"^#SBATCH\s+(?:hetjob|packjob)\b", text, re.M) is not None


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split("#")[0].split()


def options(words: Sequence[str], line: int) -> tuple[list[Directive], int]:
    """sbatch's or srun's options, and the index of the first word that is none: srun's program."""
    found: list[Directive] = []
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--"):
        word = words[at]
        at += 1
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
        else:
            name, equals, value = (
                programs().short_options.get(word[1], word[1]),
                "=" if len(word) > 2 else "",
                word[2:].removeprefix("="),
            )
        if not equals and name not in programs().flags and at < len(words) and not words[at].startswith("--"):
            value, equals = words[at], "="
            at += 1
        found.append(Directive(name, value if equals else None, line))
    return found, at


def number(value: str | None) -> int | None:
    """`8`, `gpu:8`, `gpu:h100:8`, `2-4` (at least 2)."""
    found = re.search(r"(?:^|:)([0-9]{1,9})(?:-\d+)?(?:\(.*\))?$", value or "")
    return int(found[1]) if found else None


def whole(text: str | None) -> int | None:
    """A number as programs take it, of a size that means anything."""
    return int(text) if text and re.fullmatch("[0-9]{1,9}", text) else None


def gpus(directives: Sequence[Directive]) -> tuple[int | None, Directive | None]:
    """GPUs a node, as any of Slurm's options asks for them, and the one that does."""
    by_name = {d.name: d for d in directives}
    nodes = number(by_name["nodes"].value) if "nodes" in by_name else 1
    tasks = number(by_name["ntasks-per-node"].value) if "ntasks-per-node" in by_name else None
    for name in ("gpus-per-node", "gres", "gpus-per-task", "gpus"):
        found = by_name.get(name)
        if found is None or (name == "gres" and "gpu" not in (found.value or "")):
            continue
        part = next((p for p in (found.value or "").split(",") if name != "gres" or p.startswith("gpu")), "")
        count = number(part) if ":" in part or part.isdigit() else 1
        if count is None:
            continue
        if name == "gpus-per-task":
            return (count * tasks, found) if tasks else (None, found)
        if name == "gpus":
            return (count // nodes, found) if nodes and count % nodes == 0 else (None, found)
        return count, found
    return None, None


def signal_request(directives: Sequence[Directive]) -> SignalRequest | None:
    """The signal that the script asks for before its time limit."""
    given = next((d for d in reversed(directives) if d.name == "signal"), None)
    if given is None:
        return None
    parts = re.fullmatch(r"(?:([BR]+):)?(?:SIG)?([A-Za-z]+\d?|\d+)(?:@(\d+))?", given.value or "")
    if parts is None:
        return None
    return SignalRequest(parts[2].upper(), whole(parts[3] or "60"), "B" in (parts[1] or ""), given.line)


def slurm_variables(directives: Sequence[Directive]) -> dict[str, str]:
    """What the job will see in its environment."""
    by_name = {d.name: d.value for d in directives}
    nodes, per_node, tasks = (number(by_name.get(n)) for n in ("nodes", "ntasks-per-node", "ntasks"))
    if tasks is None and per_node and nodes:
        tasks = per_node * nodes
    per_gpu, _ = gpus(directives)
    found = {
        "SLURM_NNODES": nodes,
        "SLURM_JOB_NUM_NODES": nodes,
        "SLURM_NTASKS": tasks,
        "SLURM_NPROCS": tasks,
        "SLURM_NTASKS_PER_NODE": per_node,
        "SLURM_GPUS_ON_NODE": per_gpu,
        "SLURM_GPUS_PER_NODE": per_gpu,
        "SLURM_CPUS_PER_TASK": number(by_name.get("cpus-per-task")),
    }
    return {name: str(value) for name, value in found.items() if value is not None}
