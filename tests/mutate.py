"""`make mutate`: how many mutants of inference, ranks and timeline the tests notice, by mutmut, on a random sample.

SAMPLE=300 mutants are tried (0: all), chosen by SEED=1. The survivors are written to mutants/survivors.diff.
"""

import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

from mutmut.__main__ import create_mutants
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.stats import status_by_exit_code
from mutmut.utils.file_utils import copy_also_copy_files, copy_src_dir

FOLDER = Path("mutants")
SURVIVORS = FOLDER / "survivors.diff"
NOTICED = {"killed", "timeout", "segfault"}
"""A mutant that no test reaches (`no tests`) counts as a survivor."""


def main() -> None:
    sample, seed = int(os.environ.get("SAMPLE") or 300), int(os.environ.get("SEED") or 1)
    workers = os.cpu_count() or 2
    shutil.rmtree(FOLDER, ignore_errors=True)
    names = generate(workers)
    chosen = sorted(random.Random(seed).sample(names, min(sample, len(names)) or len(names)))
    print(f"{len(chosen)} of {len(names)} mutants (SAMPLE={sample} SEED={seed}), {workers} at a time", flush=True)
    run(chosen, workers)
    results = {name: code for name, code in exit_codes().items() if name in set(chosen)}
    survivors = [name for name in chosen if status_by_exit_code[results[name]] not in NOTICED]
    SURVIVORS.write_text("\n".join(f"# {name}\n{get_diff_for_mutant(name)}\n" for name in survivors))
    print(summary(results, survivors))


def generate(workers: int) -> list[str]:
    """Write the mutated sources. `mutmut run` would do it too, but it takes no sample: it wants the names of the mutants."""
    FOLDER.mkdir()
    copy_src_dir()
    copy_also_copy_files()
    create_mutants(workers)
    return sorted(exit_codes())


def run(names: list[str], workers: int) -> None:
    """`mutmut run`; its progress is shown, its list of all results is not."""
    command = [sys.executable, "-c", "from mutmut.__main__ import cli; cli()", "run", "--max-children", str(workers)]
    with subprocess.Popen([*command, *names], stdout=subprocess.PIPE, text=True, errors="replace") as process:
        assert process.stdout is not None
        shown = True
        for line in process.stdout:
            shown = shown and not line.startswith("Mutant results")
            if shown and line.strip():
                print(line.rstrip()[:100].ljust(100), end="\r" if sys.stdout.isatty() else "\n", flush=True)
    if process.returncode:
        sys.exit(f"mutmut ended with status {process.returncode}")


def exit_codes() -> dict[str, int | None]:
    """Of each mutant, how its tests ended; None: not tried."""
    codes: dict[str, int | None] = {}
    for meta in FOLDER.rglob("*.meta"):
        codes |= json.loads(meta.read_text())["exit_code_by_key"]
    return codes


def summary(results: dict[str, int | None], survivors: list[str]) -> str:
    modules = Counter(name.rpartition(".")[0] for name in results)
    alive = Counter(name.rpartition(".")[0] for name in survivors)
    lines = [f"{'module':42} mutants  alive"]
    lines += [f"{module:42} {count:7} {alive[module]:6}" for module, count in sorted(modules.items())]
    states = Counter(status_by_exit_code[code] for code in results.values())
    lines.append(", ".join(f"{count} {state}" for state, count in states.most_common()))
    killed = len(results) - len(survivors)
    lines.append(f"killed {killed} of {len(results)}: {100 * killed / len(results):.1f} %")
    return "\n".join([*lines, f"survivors: {SURVIVORS}" if survivors else ""])


if __name__ == "__main__":
    main()
