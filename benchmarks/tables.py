"""The tables of docs/performance.md: what was measured, beside what was aimed at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.measure import Runs

BEGIN = "<!-- `make bench` writes what follows -->"
END = "<!-- `make bench` wrote what is above -->"
ONE, TWO, GREP = "slurmdoctor, one process", "slurmdoctor, two", "grep, three passes"
GOALS = {"quiet": (0.5, 0.35), "nccl": (0.5, 0.35), "noisy": (0.6, 0.4), "varied": (0.8, 0.6), "cascade": (1.0, 0.8)}
"""Kind of log -> its goals in one process and in two: wall time to the greps', at 1 GB."""
SMALL = 0.25
"""Goal of a log below 10 MB: CPU seconds more than a log of a few lines."""
START, FIRST = 1.3, 0.5
"""Goals of a start: CPU time to that of bare imports; of the first one: CPU seconds more than of a later one."""


@dataclass(frozen=True)
class Log:
    """All commands on one log."""

    kind: str
    size: int
    """Bytes."""
    runs: dict[str, Runs]


@dataclass(frozen=True)
class StartUp:
    paste: Runs
    """A paste of 20 KB."""
    few: Runs
    """A log of a few lines."""
    bare: Runs
    """What imports the libraries alone."""
    first: Runs
    """A paste of 20 KB, in an installation that nobody has used yet."""


def logs_table(logs: Iterable[Log]) -> list[str]:
    """All commands on all logs."""
    rows = [
        "| log | command | wall s | CPU s | MB/s | to grep | CPU to grep | peak MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for log in logs:
        grep = log.runs[GREP]
        for name, runs in log.runs.items():
            rows.append(
                f"| {log.kind} | {name} | {runs.seconds:.2f} | {runs.cpu_seconds:.2f} | {log.size / 1e6 / runs.seconds:.0f} | "
                f"{runs.seconds / grep.seconds:.2f} | {runs.cpu_seconds / grep.cpu_seconds:.2f} | {runs.peak:.0f} |"
            )
    return rows


def goals_table(logs: Sequence[Log], start: StartUp) -> list[str]:
    """What was aimed at: the logs are those of the largest size."""
    rows = ["| goal | at most | is | |", "|---|---|---|---|"]
    for log in logs:
        for name, goal in zip((ONE, TWO), GOALS.get(log.kind, ()), strict=False):
            ratio = log.runs[name].seconds / log.runs[GREP].seconds
            rows.append(_goal(f"{log.kind}, {name.removeprefix('slurmdoctor, ')}: wall time to grep", goal, ratio))
    rows.append(
        _goal("a paste of 20 KB: CPU time to bare imports", START, start.paste.cpu_seconds / start.bare.cpu_seconds)
    )
    more = start.first.cpu_seconds - start.paste.cpu_seconds
    rows.append(_goal("the first start: CPU seconds more than a later one", FIRST, more))
    return rows


def _goal(what: str, at_most: float, found: float) -> str:
    return f"| {what} | {at_most:.2f} | {found:.2f} | {'met' if round(found, 2) <= at_most else '**missed**'} |"


def small_table(logs: Iterable[Log], few: Runs) -> list[str]:
    """Logs for which a user waits at a prompt: what they cost above a start."""
    rows = [
        "| log | MB | one process: CPU s above a start | two processes: wall s | three greps: CPU s | |",
        "|---|---|---|---|---|---|",
    ]
    for log in logs:
        above = log.runs[ONE].cpu_seconds - few.cpu_seconds
        verdict = "" if log.size >= 10e6 else "met" if round(above, 2) <= SMALL else "**missed**"
        rows.append(
            f"| {log.kind} | {log.size / 1e6:.0f} | {above:.2f} | {log.runs[TWO].seconds:.2f} | "
            f"{log.runs[GREP].cpu_seconds:.2f} | {verdict} |"
        )
    return rows


def start_table(start: StartUp) -> list[str]:
    rows = ["| start | wall ms | CPU ms | CPU to bare |", "|---|---|---|---|"]
    for name, runs in {
        "`slurmdoctor diagnose`, 20 KB": start.paste,
        "the same, the first one after the installation": start.first,
        "the same of a few lines": start.few,
        "`python -c 'import click, regex, yaml'`": start.bare,
    }.items():
        ratio = runs.cpu_seconds / start.bare.cpu_seconds
        rows.append(f"| {name} | {runs.seconds * 1e3:.0f} | {runs.cpu_seconds * 1e3:.0f} | {ratio:.2f} |")
    return rows


def real_table(logs: Sequence[Log], few: Runs) -> list[str]:
    """Real logs, as a user reads them: one file at a time, and nothing said of processes."""
    seconds = {log.kind: log.runs[TWO].seconds for log in logs}
    ratios = {log.kind: log.runs[TWO].seconds / log.runs[GREP].seconds for log in logs}
    above = {log.kind: log.runs[TWO].cpu_seconds - few.cpu_seconds for log in logs}
    worst = max(above, key=lambda name: above[name])
    size = {log.kind: log.size for log in logs}
    return [
        "| real logs | |",
        "|---|---|",
        f"| files, MB in all | {len(logs)}, {sum(size.values()) / 1e6:.1f} |",
        f"| wall s in all, and of the greps | {sum(seconds.values()):.1f}, {sum(log.runs[GREP].seconds for log in logs):.1f} |",
        f"| median wall time to grep (a start is most of it) | {median(ratios.values()):.1f} |",
        f"| CPU s above a start: median, worst | {median(above.values()):.2f}, {above[worst]:.2f} (of {size[worst] / 1e6:.1f} MB) |",
        f"| not read: exit status 2 | {sum(log.runs[TWO].failed for log in logs)} |",
    ]


def written(page: str, lines: Iterable[str]) -> str:
    """The page with these lines between the marks."""
    head, _, rest = page.partition(BEGIN)
    _, found, tail = rest.partition(END)
    if not found:
        raise SystemExit(f"the page has no {BEGIN} ... {END}")
    return "\n".join([head + BEGIN, *lines, END + tail])


def write(page: Path, lines: Iterable[str]) -> None:
    page.write_text(written(page.read_text(encoding="utf-8"), lines), encoding="utf-8")
