"""`python -m benchmarks.survey`: `slurmdoctor survey run` over generated jobs with one and with two workers, in turn.

JOBS=10000 (of mixed sizes, a megabyte each in the mean), HUNDRED=1000 (jobs of 100 KB), TURNS=1, and FOLDER=.bench change what is run;
LOGS=FOLDER reads logs that are there. The tables are printed; docs/performance.md has them. What it writes it deletes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from benchmarks.jobs import plans, write

FOLDER = Path(os.environ.get("FOLDER", ".bench")) / "survey"
_EACH = 0.1
"""Seconds between two looks at the processes."""
_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Ran(Struct):
    """What a run took."""

    workers: int
    wall: float = 0.0
    cpu: float = 0.0
    """Seconds of all its processes, as they were last seen."""
    peak: float = 0.0
    """MB of all its processes together, what they share counted once for each."""
    rows: int = 0
    dataset: int = 0
    """Bytes of the dataset."""


def main() -> None:
    """Make the jobs, survey them with one and two workers in turn, print what it took."""
    try:
        if there := os.environ.get("LOGS"):
            told(Path(there), there)
            return
        for name, count, size in (
            ("jobs of 100 KB", int(os.environ.get("HUNDRED", "1000")), 100_000),
            ("jobs of mixed sizes", int(os.environ.get("JOBS", "10000")), None),
        ):
            write(FOLDER / "logs", plans(count, seed=1, size=size))
            told(FOLDER / "logs", f"{count:,} {name}")
            shutil.rmtree(FOLDER / "logs")
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)


def told(logs: Path, name: str) -> None:
    """Survey these logs in turn, and print the table."""
    size = sum(file.stat().st_size for file in logs.rglob("*") if file.is_file())
    print(f"\n{name}, {size / 1e9:.2f} GB, load {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores\n")
    turns = range(int(os.environ.get("TURNS", "1")))
    print(*table([survey(logs, workers) for _ in turns for workers in (1, 2)], size), sep="\n", flush=True)


def table(runs: Sequence[Ran], size: int) -> Iterator[str]:
    """One row a run; the speed is also told by CPU time, which a busy machine changes least."""
    yield "| workers | wall s | CPU s | jobs/s | MB/s | jobs per CPU second | 100 KB per CPU second | peak MB in all | rows | bytes a row |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for ran in runs:
        yield (
            f"| {ran.workers} | {ran.wall:.1f} | {ran.cpu:.1f} | {ran.rows / ran.wall:.1f} | {size / 1e6 / ran.wall:.1f} | {ran.rows / ran.cpu:.1f} "
            f"| {size / 1e5 / ran.cpu:.1f} | {ran.peak:.0f} | {ran.rows:,} | {ran.dataset / max(1, ran.rows):.0f} |"
        )
    one, two = ([ran.wall for ran in runs if ran.workers == workers] for workers in (1, 2))
    yield f"\nTwo workers to one: {min(one) / min(two):.2f} times the speed."


def survey(logs: Path, workers: int) -> Ran:
    """One run over these logs, into a dataset of its own."""
    out = FOLDER / f"out-{workers}"
    shutil.rmtree(out, ignore_errors=True)
    ran = Ran(workers)
    command = [
        sys.executable,
        "-m",
        "slurmdoctor",
        "survey",
        "run",
        "--jobs",
        str(workers),
        "--out",
        str(out),
        str(logs),
    ]
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    watcher = threading.Thread(target=_watch, args=(process, ran))
    watcher.start()
    _, said = process.communicate()
    ran.wall = time.perf_counter() - started
    watcher.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} exited with {process.returncode}: {said.decode(errors='replace')}")
    ran.rows, ran.dataset = _rows(out)
    return ran


def _watch(process: subprocess.Popen[bytes], ran: Ran) -> None:
    """Add up what the processes of a run use, as long as it runs."""
    used: dict[int, float] = {}
    while process.poll() is None:
        memory = 0.0
        for pid, cpu, mega in _family(process.pid):
            used[pid] = max(cpu, used.get(pid, 0.0))
            memory += mega
        ran.peak = max(ran.peak, memory)
        ran.cpu = sum(used.values())
        time.sleep(_EACH)


def _family(first: int) -> Iterator[tuple[int, float, float]]:
    """(process id, CPU seconds, MB) of a process and of all below it."""
    parents: dict[int, int] = {}
    seen: dict[int, tuple[float, float]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        pid = int(stat.parent.name)
        parents[pid] = int(fields[1])
        seen[pid] = (int(fields[11]) + int(fields[12])) / _TICK, int(fields[21]) * _PAGE / 1e6
    below = {first}
    for _ in range(4):
        below |= {pid for pid, parent in parents.items() if parent in below}
    return ((pid, *seen[pid]) for pid in below if pid in seen)


def _rows(out: Path) -> tuple[int, int]:
    import pyarrow.dataset as parquet

    files = list(out.rglob("*.parquet"))
    return parquet.dataset([str(file) for file in files]).count_rows(), sum(file.stat().st_size for file in files)


if __name__ == "__main__":
    main()
