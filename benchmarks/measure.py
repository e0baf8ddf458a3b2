"""Runs commands in turn and measures them: wall time, CPU time, peak memory of the largest process."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median


@dataclass
class Runs:
    """What the runs of one command took."""

    wall: list[float] = field(default_factory=list)
    """Seconds."""
    cpu: list[float] = field(default_factory=list)
    """Seconds of all its processes, user and system."""
    memory: list[float] = field(default_factory=list)
    """MB of its largest process."""
    failed: bool = False
    """Whether it ended with another status than 0."""

    @property
    def seconds(self) -> float:
        return median(self.wall)

    @property
    def cpu_seconds(self) -> float:
        return median(self.cpu)

    @property
    def peak(self) -> float:
        return max(self.memory)


def run(command: Sequence[str], env: Mapping[str, str], runs: Runs) -> None:
    """Add one run; its output goes to a pipe, which is read, as by `| cat`."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env)
    assert process.stdout is not None
    while process.stdout.read(1 << 20):
        pass
    # of a process and of those that it waited for: times add up, memory is the largest one's
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.stdout.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    runs.failed |= process.returncode != 0
    runs.wall.append(wall)
    runs.cpu.append(used.ru_utime + used.ru_stime)
    runs.memory.append(used.ru_maxrss / 1000)


def interleaved(
    commands: Mapping[str, Sequence[str]],
    times: int,
    env: Mapping[str, str],
    *,
    warm: bool = True,
    may_fail: bool = False,
) -> dict[str, Runs]:
    """Run every command once to warm caches, then each in turn, so that a busy machine is busy for all of them."""
    results = {name: Runs() for name in commands}
    for turn in range(not warm, times + 1):
        for name, command in commands.items():
            run(command, env, results[name] if turn else Runs())
            if results[name].failed and not may_fail:
                raise SystemExit(f"{' '.join(command)} failed")
    return results


def together(several: Iterable[Runs]) -> Runs:
    """All of these as runs of one command."""
    found = Runs()
    for runs in several:
        found.wall += runs.wall
        found.cpu += runs.cpu
        found.memory += runs.memory
    return found
