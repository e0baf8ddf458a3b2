"""`make bench`: `slurmdoctor diagnose` beside grep, ripgrep and wc on generated logs, and its start-up on a paste.

SIZE=1GB, RUNS=5, KINDS=quiet and STYLES=srun,torch change what is run. Everything is written under .bench/ and deleted afterwards;
KEEP=1 keeps the logs for the next run.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.logs import KINDS, write
from benchmarks.measure import Runs, interleaved

FOLDER = Path(".bench")
GREP = r"""
grep -a 'Error\|OOM\|CUDA out of memory\|FAILED\|Killed' "$1" | grep -v 'UserWarning\|AllocatorConfig\|transformer_engine\|frame\|srun: error' | cat
grep -a 'Failures:' -A 20 "$1" | cat
grep -a 'ncclUniqueId\|timeout\|crash on rank 0' "$1" | cat
"""
"""The recipe that people paste: three passes. `cat`, because GNU grep stops at its first match when it writes to /dev/null."""
_UNITS = {"KB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}
_BARE = "import click, regex, yaml"


def main() -> None:
    """Make the logs, run everything, print the tables."""
    sizes = os.environ.get("SIZE", "100MB").split(",")
    styles = os.environ.get("STYLES", "srun").split(",")
    times = int(os.environ.get("RUNS", "5"))
    FOLDER.mkdir(exist_ok=True)
    env = _environment()
    print(_machine(), flush=True)
    try:
        for size in sizes:
            for style in styles:
                _table(size, style, times, env)
        _start_up(max(times, 15), env)
    finally:
        if not os.environ.get("KEEP"):
            shutil.rmtree(FOLDER)


def _environment() -> dict[str, str]:
    """Ours, with caches of the benchmark's own: they are warm after the first run, and nobody else's count."""
    env = dict(os.environ)
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    env["XDG_CACHE_HOME"] = str((FOLDER / "cache").absolute())
    env["LC_ALL"] = "C"
    return env


def _machine() -> str:
    cores = os.cpu_count()
    name = ""
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "")
    load = os.getloadavg()[0]
    return (
        f"{platform.system()} {platform.machine()}, {cores} cores {name}, Python {platform.python_version()}, "
        f"load {load:.1f} at the start"
    )


def _bytes(size: str) -> int:
    return int(float(size[:-2]) * _UNITS[size[-2:].upper()])


def _log(kind: str, size: str, style: str) -> Path:
    path = FOLDER / f"{kind}-{style}-{size}.log"
    if not path.exists():
        write(path, kind, _bytes(size), style)
    return path


def _program() -> list[str]:
    """The command as installed beside this Python: what a user starts."""
    installed = Path(sys.executable).with_name("slurmdoctor")
    return [str(installed)] if installed.exists() else [sys.executable, "-m", "slurmdoctor"]


def _table(size: str, style: str, times: int, env: Mapping[str, str]) -> None:
    print(f"\n### {size}, labels of {style}, medians of {times} interleaved runs\n")
    print("| log | command | wall s | CPU s | MB/s | to grep | CPU to grep | peak MB |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for kind in os.environ.get("KINDS", ",".join(KINDS)).split(","):
        log = _log(kind, size, style)
        results = interleaved(_commands(log), times, env)
        grep = results["grep, three passes"]
        for name, runs in results.items():
            print(_row(kind, name, runs, grep, log.stat().st_size), flush=True)
        if not os.environ.get("KEEP"):
            log.unlink()


def _commands(log: Path) -> dict[str, Sequence[str]]:
    diagnose = [*_program(), "diagnose", "--format", "json"]
    commands: dict[str, Sequence[str]] = {
        "slurmdoctor, one process": [*diagnose, "--jobs", "1", str(log)],
        "slurmdoctor, two": [*diagnose, "--jobs", "2", str(log)],
        "grep, three passes": ["bash", "-c", GREP, "bash", str(log)],
    }
    if shutil.which("rg"):
        words = FOLDER / "literals.txt"
        if not words.exists():
            words.write_text("\n".join(_literals()) + "\n")
        commands["rg, our literals"] = ["rg", "-a", "-F", "-f", str(words), str(log)]
    commands["wc -l"] = ["wc", "-l", str(log)]
    return commands


def _literals() -> list[str]:
    from slurmdoctor.knowledge import folders, load

    return sorted({literal for rule in load(folders()).rules for literal in rule.literals})


def _row(kind: str, name: str, runs: Runs, grep: Runs, size: int) -> str:
    return (
        f"| {kind} | {name} | {runs.seconds:.2f} | {runs.cpu_seconds:.2f} | {size / 1e6 / runs.seconds:.0f} | "
        f"{runs.seconds / grep.seconds:.2f} | {runs.cpu_seconds / grep.cpu_seconds:.2f} | {runs.peak:.0f} |"
    )


def _start_up(times: int, env: Mapping[str, str]) -> None:
    whole = FOLDER / "start.log"
    write(whole, "cascade", 200_000, ranks=64)
    text = whole.read_bytes()
    at = text.index(b"Traceback")
    paste = FOLDER / "paste.log"
    paste.write_bytes(text[text.rindex(b"\n", 0, at) + 1 :][:20_000])
    results = interleaved(
        {
            "slurmdoctor diagnose, 20 KB": [*_program(), "diagnose", str(paste)],
            f"python -c '{_BARE}'": [sys.executable, "-c", _BARE],
            "python -c pass": [sys.executable, "-c", "pass"],
        },
        times,
        env,
    )
    bare = results[f"python -c '{_BARE}'"]
    print(f"\n### Start-up, caches warm, medians of {times} interleaved runs\n")
    print("| command | wall ms | CPU ms | to bare | CPU to bare |")
    print("|---|---|---|---|---|")
    for name, runs in results.items():
        print(
            f"| `{name}` | {runs.seconds * 1e3:.0f} | {runs.cpu_seconds * 1e3:.0f} | {runs.seconds / bare.seconds:.2f} | "
            f"{runs.cpu_seconds / bare.cpu_seconds:.2f} |"
        )


if __name__ == "__main__":
    main()
