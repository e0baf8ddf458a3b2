"""`make bench`: `slurmdoctor diagnose` beside grep, ripgrep and wc on generated and real logs, and its start-up.

SIZE=1GB (of the large logs), RUNS=5, KINDS=quiet,nccl and STYLES=srun,torch change what is run; REAL=FOLDER times the real logs in a
folder as well; KEEP=1 keeps the logs for the next run; ONLY=start prints the start-up alone (`make bench-start`, a minute). A run of all kinds writes its tables into docs/performance.md. All
else is written under .bench/ and deleted afterwards.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import tables
from benchmarks.logs import KINDS, write
from benchmarks.measure import interleaved, together
from benchmarks.tables import GREP, ONE, TWO, Log, StartUp

FOLDER = Path(".bench")
PAGE = Path("docs/performance.md")
RECIPE = r"""
grep -a 'Error\|OOM\|CUDA out of memory\|FAILED\|Killed' "$1" | grep -v 'UserWarning\|AllocatorConfig\|transformer_engine\|frame\|srun: error' | cat
grep -a 'Failures:' -A 20 "$1" | cat
grep -a 'ncclUniqueId\|timeout\|crash on rank 0' "$1" | cat
"""
"""The recipe that people paste: three passes. `cat`, because GNU grep stops at its first match when it writes to /dev/null."""
_SMALL = ("4MB", "50MB")
_UNITS = {"KB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}
_BARE = "import click, regex, yaml"


class Bench:
    """One run: what is installed, and how often each command is run."""

    def __init__(self) -> None:
        FOLDER.mkdir(exist_ok=True)
        self.times = int(os.environ.get("RUNS", "5"))
        self.env = _environment()
        self.home, self.told = _installed(self.env)
        self.start = self._start_up(max(self.times, 21))

    def logs(self, size: str, styles: Sequence[str], kinds: Sequence[str]) -> list[Log]:
        """All commands on the logs of this size."""
        found = []
        for style in styles:
            for kind in kinds:
                path = FOLDER / f"{kind}-{style}-{size}.log"
                if not path.exists():
                    write(path, kind, _bytes(size), style)
                name = kind if style == "srun" else f"{kind}, {style}"
                runs = interleaved(self._commands(path), self.times, self.env)
                found.append(Log(name, path.stat().st_size, runs))
                print(*tables.logs_table(found[-1:])[2:], sep="\n", flush=True)
                if not os.environ.get("KEEP"):
                    path.unlink()
        return found

    def real(self, folder: Path) -> list[Log]:
        """The logs of a folder, each as a user would read it."""
        found = []
        for path in sorted(file for file in folder.rglob("*") if file.is_file() and file.suffix != ".yaml"):
            commands = {name: command for name, command in self._commands(path).items() if name in (TWO, GREP)}
            commands[TWO] = [*self._program(), "diagnose", str(path)]
            found.append(
                Log(
                    str(path.relative_to(folder)),
                    path.stat().st_size,
                    interleaved(commands, min(self.times, 3), self.env, may_fail=True),
                )
            )
        return found

    def _program(self) -> list[str]:
        return [str(self.home / "slurmdoctor")]

    def _commands(self, log: Path) -> dict[str, Sequence[str]]:
        diagnose = [*self._program(), "diagnose", "--format", "json"]
        commands: dict[str, Sequence[str]] = {
            ONE: [*diagnose, "--jobs", "1", str(log)],
            TWO: [*diagnose, "--jobs", "2", str(log)],
            GREP: ["bash", "-c", RECIPE, "bash", str(log)],
        }
        if shutil.which("rg"):
            words = FOLDER / "literals.txt"
            if not words.exists():
                words.write_text("\n".join(_literals()) + "\n")
            commands["rg, our literals"] = ["rg", "-a", "-F", "-f", str(words), str(log)]
        commands["wc -l"] = ["wc", "-l", str(log)]
        return commands

    def _start_up(self, times: int) -> StartUp:
        whole, paste, few = FOLDER / "whole.log", FOLDER / "paste.log", FOLDER / "few.log"
        write(whole, "cascade", 200_000, ranks=64)
        text = whole.read_bytes()
        at = text.index(b"Traceback")
        paste.write_bytes(text[text.rindex(b"\n", 0, at) + 1 :][:20_000])
        few.write_bytes(b"".join(paste.read_bytes().splitlines(keepends=True)[:6]))
        commands: dict[str, Sequence[str]] = {
            "paste": [*self._program(), "diagnose", str(paste)],
            "few": [*self._program(), "diagnose", str(few)],
            "bare": [str(self.home / "python"), "-c", _BARE],
        }
        runs = interleaved(commands, times, self.env)
        firsts = []
        for number in range(5):
            cache = FOLDER / f"first{number}"
            env = {**self.env, "XDG_CACHE_HOME": str(cache.absolute())}
            firsts.append(interleaved({"first": commands["paste"]}, 1, env, warm=False)["first"])
        return StartUp(**runs, first=together(firsts))


def main() -> None:
    """Make the logs, run everything, print the tables, write them."""
    large = os.environ.get("SIZE", "100MB")
    styles = os.environ.get("STYLES", "srun").split(",")
    kinds = os.environ.get("KINDS", ",".join(KINDS)).split(",")
    machine = _machine()
    try:
        bench = Bench()
        if os.environ.get("ONLY") == "start":
            print(f"{machine}; {bench.told}.", *tables.start_table(bench.start), sep="\n")
            return
        small = {size: bench.logs(size, styles, kinds) for size in _SMALL}
        logs = bench.logs(large, styles, kinds)
        real = os.environ.get("REAL")
        lines = [
            f"{machine}; {bench.told}. `make bench SIZE={large} RUNS={bench.times}`, medians of interleaved runs.",
            f"\n### What was aimed at, and what is\n\nLogs of {large}.\n",
            *tables.goals_table(logs, bench.start),
            f"\n### {large}\n",
            *tables.logs_table(logs),
            f"\n### {' and '.join(_SMALL)}\n",
            *tables.small_table([log for some in small.values() for log in some], bench.start.few),
            "\n### A start\n",
            *tables.start_table(bench.start),
            "\n### Real logs\n",
            *(
                tables.real_table(bench.real(Path(real)), bench.start.few)
                if real
                else ["Not in this run: `REAL=FOLDER` names a folder of some."]
            ),
            "",
        ]
        print(*lines, sep="\n")
        if {*KINDS} <= {*kinds}:
            tables.write(PAGE, lines)
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


def _installed(env: Mapping[str, str]) -> tuple[Path, str]:
    """The programs of an installation as users have it, without what developers add; where none can be made, this one's."""
    folder = FOLDER.absolute() / "venv"
    made = subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=False).returncode == 0
    install = [str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", "."]
    if made and subprocess.run(install, env=env, check=False, stderr=subprocess.DEVNULL).returncode == 0:
        return folder / "bin", "installed as users do"
    return Path(sys.executable).parent, "the developers' installation, which starts more slowly"


def _machine() -> str:
    name = ""
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "")
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores {name}, Python {platform.python_version()}, "
        f"load {os.getloadavg()[0]:.1f} at the start"
    )


def _bytes(size: str) -> int:
    return int(float(size[:-2]) * _UNITS[size[-2:].upper()])


def _literals() -> list[str]:
    from slurmdoctor.knowledge import folders, load

    return sorted({literal for rule in load(folders()).rules for literal in rule.literals})


if __name__ == "__main__":
    main()
