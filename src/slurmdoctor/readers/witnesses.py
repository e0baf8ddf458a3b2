"""Reads who says that a process ended: srun, torchelastic, DeepSpeed, mp.spawn, Lightning, Composer, mpirun, Horovod, time and bash.

Formats: Slurm 20 to 25 (srun launch messages), PyTorch >= 1.9 (torch.distributed.elastic.multiprocessing), DeepSpeed launch.py,
torch.multiprocessing.spawn, Lightning >= 2.2's subprocess launcher, Composer's (composer/cli/launcher.py), Open MPI's mpirun, horovodrun,
kubectl exec, GNU time and bash.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from slurmdoctor.model import ExitReport, Line, ProcessExit
from slurmdoctor.model.exits import from_code, from_words
from slurmdoctor.model.ranges import expand
from slurmdoctor.ranks.lines import Lines
from slurmdoctor.ranks.timestamps import parse_time
from slurmdoctor.search.compiled import lazy

SRUN = (b"srun: error: ",)
TABLE = (b"exitcode  : ", b"Root Cause (first observed failure)")
AGENT = (b"failed (exitcode: ",)
DEEPSPEED = (b"exits with return code = ",)
SPAWN = (b"ProcessExitedException", b"-- Process ", b"terminated with signal ", b"terminated with exit code ")
PARENT = (
    b"returned non-zero exit status ",
    b"' died with <Signals.",
    b"failed with exit code ",
    b"command terminated with exit code ",
)
MPIRUN = (
    b"exited on signal ",
    b" noticed that process rank ",
    b"exited with non-zero",
    b"exited with exit code",
    b"BAD TERMINATION",
    b"Process name: ",
)
HYDRA = (b"RUNNING AT ",)
COMPOSER = (b" crashed with exit code ",)
HOROVOD = (b" exit with status code ",)
LIGHTNING = (b"Child process with PID ",)
TIME = (b"Command exited with non-zero status ", b"Command terminated by signal ")
BASH = (
    b" Segmentation fault", b" Killed ", b" Aborted ", b" Bus error", b" Terminated ", b" Illegal instruction", b" (core dumped)",
)  # fmt: skip

_SRUN = lazy(r"srun: error: (?P<node>[^\s:]+): tasks? (?P<tasks>[\d,\s-]+): (?P<words>.+)")
_AGENT = lazy(r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<local>\d+) \(pid: (?P<pid>\d+)\)")
_DEEPSPEED = lazy(r"exits with return code = (?P<code>-?\d+)")
_SPAWN = lazy(r"process (?P<rank>\d+) terminated with (?:signal (?P<signal>SIG\w+)|exit code (?P<code>-?\d+))")
_PARENT = lazy(
    r"returned non-zero exit status (?P<code>\d+)|died with <Signals\.(?P<signal>SIG\w+): \d+>|(?:command|[Jj]ob|[Pp]rocess)[^.]{0,40} failed with exit code (?P<code>\d+)|^command terminated with exit code (?P<code>\d+)"
)
_MPIRUN = lazy(
    r"process rank (?P<rank>\d+) with PID (?P<pid>\d+) on node (?P<node>\S+) exited on signal (?P<signal>\d+)"
    r"|Process name: (?:\[(?:\[\d+,\d+\]|[^\s,\]]+),(?P<rank>\d+)\]|(?P<rank>\d+)\s*$)"
)
_HYDRA = lazy(r"^=\s+(?:RANK (?P<rank>\d+) )?PID (?P<pid>\d+) RUNNING AT (?P<node>\S+)")
_HYDRA_END = lazy(
    r"^=?\s*(?:KILLED BY SIGNAL: (?P<signal>\d+)|.*EXIT STRING: .*\(signal (?P<signal>\d+)\)|EXIT (?:STATUS|CODE): (?P<code>\d+))"
)
_MPI_CODE = lazy(r"Exit code:\s+(\d+)")
_COMPOSER = lazy(r"\bRank (?P<rank>\d+) crashed with exit code (?P<code>-?\d+)\.")
_HOROVOD = lazy(r"^Process (?P<rank>\d+) exit with status code (?P<code>\d+)\.")
_LIGHTNING = lazy(
    r"(?:\[rank: (?P<local>\d+)\] )?Child process with PID (?P<pid>\d+) terminated with code (?P<code>-?\d+)\. Forcefully"
)
_TIME = lazy(r"^Command (?:exited with non-zero status (?P<code>\d+)|terminated by signal (?P<signal>\d+))\s*$")
_BASH = lazy(
    r"(?:^|[\s/])[^\s:]*: line \d+: +(?P<pid>\d+) (?P<words>Segmentation fault|Killed|Aborted|Bus error|Terminated|Illegal instruction)(?: +\(core dumped\))? "
    r"|^(?P<words>Segmentation fault|Aborted|Bus error|Illegal instruction) +\(core dumped\)\s*$"
)
_ROOT = "Root Cause (first observed failure)"
_TABLE_FIELD = lazy(r"^\s*(?P<name>time|host|rank|exitcode|error_file|traceback)\s+: (?P<value>.*)$")
_TABLE_RANK = lazy(r"(\d+) \(local_rank: (\d+)\)")
_TABLE_CODE = lazy(r"(-?\d+) \(pid: (\d+)\)")


def read_srun(lines: Lines, line: Line) -> Iterator[ExitReport]:
    if not (found := _SRUN.search(line.text)):
        return
    death = from_words(found["words"])
    if death is not None:
        yield ExitReport(line, "srun", death, node=found["node"], tasks=tuple(expand(found["tasks"].replace(" ", ""))))


def read_agent(lines: Lines, line: Line) -> Iterator[ExitReport]:
    if found := _AGENT.search(line.text):
        yield ExitReport(
            line, "torchelastic agent", from_code(int(found["code"])), local_rank=int(found["local"]), pid=int(found["pid"]),
            node=line.origin.node, time=line.origin.time,
        )  # fmt: skip


def read_table(lines: Lines, line: Line) -> Iterator[ExitReport]:
    """One entry of torchelastic's failure table, from its `exitcode` line; the root's own even where the log ends before that."""
    if _ROOT in line.text:
        yield from _cut_root(lines, line)
        return
    fields: dict[str, str] = {}
    first = False
    for above in lines.before(line, 6):
        if found := _TABLE_FIELD.match(above.text):
            fields.setdefault(found["name"], found["value"].strip())
        elif _ROOT in above.text:
            first = True
            break
        elif not above.text.strip().startswith("["):
            break
    below: list[str] = []
    for after in lines.after(line, 40):
        if (found := _TABLE_FIELD.match(after.text)) and found["name"] in ("error_file", "traceback"):
            below.append(found["value"]) if found["name"] == "traceback" else None
        elif after.text.startswith(("[", "----", "====")) or not below:
            break
        else:
            below.append(after.text)
    code = _TABLE_CODE.search(line.text)
    if code:
        entry = _entry(line, fields, from_code(int(code[1])), first)
        yield replace(entry, pid=int(code[2]), traceback=tuple(below))


def _cut_root(lines: Lines, line: Line) -> Iterator[ExitReport]:
    below = [found for after in lines.after(line, 8) if (found := _TABLE_FIELD.match(after.text))]
    fields = {found["name"]: found["value"].strip() for found in below}
    if "exitcode" in fields:
        return
    entry = _entry(line, fields, ProcessExit(None, None, "unknown"), first=True)
    if entry.rank is not None:
        yield entry


def _entry(line: Line, fields: Mapping[str, str], death: ProcessExit, first: bool) -> ExitReport:
    rank = _TABLE_RANK.search(fields.get("rank", ""))
    stamp = parse_time(fields.get("time", ""))
    return ExitReport(
        line, "torchelastic table", death, rank=int(rank[1]) if rank else None, local_rank=int(rank[2]) if rank else None,
        node=fields.get("host") or None, time=stamp[0] if stamp else None, first=first,
    )  # fmt: skip


def read_deepspeed(lines: Lines, line: Line) -> Iterator[ExitReport]:
    # its `--local_rank=7` is the last command of the node whichever process died: never a rank
    if found := _DEEPSPEED.search(line.text):
        yield ExitReport(
            line, "deepspeed launcher", from_code(int(found["code"])), node=line.origin.node, time=line.origin.time
        )


def read_spawn(lines: Lines, line: Line) -> Iterator[ExitReport]:
    if found := _SPAWN.search(line.text):
        death = from_code(int(found["code"])) if found["code"] else from_words_of_signal(found["signal"])
        yield ExitReport(
            line, "torch.multiprocessing.spawn", death, local_rank=int(found["rank"]), rank=line.origin.rank
        )


def read_parent(lines: Lines, line: Line) -> Iterator[ExitReport]:
    """A parent in Python or Ray that says how its child ended (subprocess.CalledProcessError)."""
    if found := _PARENT.search(line.text):
        death = from_code(int(found["code"])) if found["code"] else from_words_of_signal(found["signal"])
        yield ExitReport(line, "parent process", death, rank=line.origin.rank, node=line.origin.node)


def read_mpirun(lines: Lines, line: Line) -> Iterator[ExitReport]:
    text = line.text
    if " noticed that process rank " in text and " signal " not in text:  # PRRTE breaks the line
        text = " ".join((text, *(after.text for after in lines.after(line, 1))))
    found = _MPIRUN.search(text)
    if found and found["signal"]:
        yield ExitReport(
            line,
            "mpirun",
            from_code(-int(found["signal"])),
            rank=int(found["rank"]),
            pid=int(found["pid"]),
            node=found["node"],
        )
    elif found:
        # the lines of one message come in any order where a collector stamps them all alike
        for near in (line, *lines.after(line, 2), *lines.before(line, 1)):
            if code := _MPI_CODE.search(near.text):
                yield ExitReport(line, "mpirun", from_code(int(code[1])), rank=int(found["rank"]))
                return


def read_hydra(lines: Lines, line: Line) -> Iterator[ExitReport]:
    """Intel MPI and MPICH: a box that names the process, then its end; MPICH gives a signal's number as a code, and spells it out below."""
    if not (found := _HYDRA.search(line.text)):
        return
    ends = [end for after in lines.after(line, 5) if (end := _HYDRA_END.search(after.text))]
    if not ends:
        return
    end = next((e for e in ends if e["signal"]), ends[0])
    death = from_code(-int(end["signal"]) if end["signal"] else int(end["code"]))
    rank = int(found["rank"]) if found["rank"] else None
    yield ExitReport(line, "mpirun", death, rank=rank, pid=int(found["pid"]), node=found["node"])


def read_horovod(lines: Lines, line: Line) -> Iterator[ExitReport]:
    if found := _HOROVOD.search(line.text):
        yield ExitReport(line, "horovodrun", from_code(int(found["code"])), rank=int(found["rank"]))


def read_composer(lines: Lines, line: Line) -> Iterator[ExitReport]:
    if found := _COMPOSER.search(line.text):
        yield ExitReport(line, "composer launcher", from_code(int(found["code"])), rank=int(found["rank"]))


def read_lightning(lines: Lines, line: Line) -> Iterator[ExitReport]:
    """Its launcher starts the node's other processes and numbers them by their local rank."""
    if found := _LIGHTNING.search(line.text):
        # `[rank: 1] ` before it is its own word for the local rank
        local = int(found["local"]) if found["local"] else line.origin.rank
        yield ExitReport(
            line, "Lightning launcher", from_code(int(found["code"])), local_rank=local, pid=int(found["pid"])
        )


def read_time(lines: Lines, line: Line) -> Iterator[ExitReport]:
    if found := _TIME.search(line.text):
        code = int(found["code"]) if found["code"] else -int(found["signal"])
        yield ExitReport(line, "time", from_code(code), rank=line.origin.rank, node=line.origin.node)


def read_bash(lines: Lines, line: Line) -> Iterator[ExitReport]:
    if (found := _BASH.search(line.text)) and (death := from_words(found["words"])):
        pid = int(found["pid"]) if found["pid"] else None
        yield ExitReport(line, "bash", death, pid=pid, rank=line.origin.rank, node=line.origin.node)


def from_words_of_signal(name: str) -> ProcessExit:
    """`SIGKILL` -> its ProcessExit."""
    import signal

    number = getattr(signal, name, None)
    return from_code(-int(number)) if number is not None else ProcessExit(None, name, "other")


READERS = {
    "srun": (SRUN, read_srun), "table": (TABLE, read_table), "agent": (AGENT, read_agent), "deepspeed": (DEEPSPEED, read_deepspeed),
    "spawn": (SPAWN, read_spawn), "parent": (PARENT, read_parent), "mpirun": (MPIRUN, read_mpirun), "bash": (BASH, read_bash),
    "hydra": (HYDRA, read_hydra), "horovod": (HOROVOD, read_horovod), "lightning": (LIGHTNING, read_lightning), "time": (TIME, read_time),
    "composer": (COMPOSER, read_composer),
}  # fmt: skip
"""Name -> (the literals that admit a line, the reader of that line)."""
