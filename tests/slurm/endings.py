"""The ways in which a job ends: what its script does, and what the footer must say of it."""

import json
import os
import stat
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from slurmdoctor.cli import hook
from slurmdoctor.model import JobRecord

from .cluster import Cluster

TOOL = str(Path(sys.executable).with_name("slurmdoctor"))
MARK = "--- slurmdoctor"


@dataclass(frozen=True, slots=True)
class Ending:
    name: str
    body: str
    says: tuple[str, ...] = ()
    """What the footer's words must hold; nothing: it must be silent."""
    options: tuple[str, ...] = ()
    tool: str | None = None
    """A program in slurmdoctor's place."""
    seconds: int = 30
    cancels: str | None = None
    """What scancel ends once it runs: the `job`, its `step`, or the `script` alone."""
    slow: bool = False


@dataclass(slots=True)
class Run:
    ending: Ending
    cluster: Cluster
    with_footer: str
    without: str

    def ended(self) -> tuple[JobRecord, JobRecord, str]:
        """Both records, and the output of the job with the footer."""
        patience = 150.0 if self.ending.slow else 90.0
        first, second = self.cluster.wait(self.with_footer, patience), self.cluster.wait(self.without, patience)
        return first, second, self.cluster.output(self.with_footer)


STEPS = "srun bash -c 'for i in $(seq 1 900); do echo step $i/900 loss 1.5; sleep 0.5; done'"
OWN_TRAP = "set -eE\ntrap 'echo own trap saw $?' EXIT\ntrap 'echo ERR' ERR\n@HOOK@\nexit 4"
PYTHON_ERROR = """srun python3 -c "
import os
if os.environ['SLURM_PROCID'] == '5': raise ValueError('shard 5 holds no samples')
\""""

TOLD = ("rank 5", "ValueError: shard 5 holds no samples")
EIGHT = ("-N2", "--ntasks-per-node=4")
NONE, SIGNALLED = "/proc/none", "a signal ended the script"
ODD_PYTHON = "export PYTHONHOME=/none PYTHONPATH=/none PYTHONWARNINGS=error LD_LIBRARY_PATH=/none"
HARD: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("no-home", f"export HOME={NONE} XDG_CACHE_HOME={NONE} XDG_CONFIG_HOME={NONE} TMPDIR={NONE}", TOLD, EIGHT),
    ("odd-locale", "export LANG=xx_YY.KOI8-R LC_ALL=C PYTHONIOENCODING=ascii", TOLD, EIGHT),
    ("file-limit", "ulimit -f 8", TOLD, EIGHT),
    ("odd-shell", "set -u; set -o noclobber -o noglob; shopt -s extglob; IFS=,; umask 777", TOLD, EIGHT),
    ("odd-python", f"{ODD_PYTHON}\nexit 5", ("exited with 5",), ()),
    ("few-descriptors", "ulimit -n 12\nexit 5", ("exited with 5",), ()),
    ("no-slurm", "export SLURM_CONF=/none/slurm.conf\nexit 5", ("exited with 5",), ()),
    ("disk-full", "exec >/dev/full 2>&1", (), ()),
    ("no-output", "exec >&- 2>&- <&-\nexit 5", ("exited with 5",), ()),
    ("no-errors", "exec 2>&-\nexit 5", ("exited with 5",), ()),
)
"""Jobs that leave slurmdoctor little to live on: (name, what the script does first, what must be said, options)."""

ENDINGS = (
    Ending("python-error", PYTHON_ERROR, (*TOLD, "python-error"), EIGHT),
    Ending("tee-hides-it", f"{PYTHON_ERROR} 2>&1 | tee train.log", ("exit status is 0", "rank 5"), EIGHT),
    Ending("pipefail", f"set -euo pipefail\n{PYTHON_ERROR} 2>&1 | tee train2.log", ("rank 5",), EIGHT),
    Ending("well", "srun -n2 echo fine\nexit 0", options=("-n2",)),
    Ending("well-but-asked", "export SLURMDOCTOR_WHEN=always\nsrun -n2 echo fine", ("no failure",), ("-n2",)),
    Ending("scancel", "srun sleep 300", ("cancelled",), cancels="job"),
    Ending("not-found", "train_model --now", ("command-not-found",)),
    Ending("step-not-found", "srun -n2 no_such_program", ("command-not-found",), ("-n2",)),
    Ending("step-refused", "srun -N9 -n9 hostname", ("slurm-step",)),
    Ending("exit-7", "exit 7", ("exited with 7",)),
    Ending("killed-itself", "kill -TERM $$\nsleep 9"),
    Ending("segfault", "srun -n4 bash -c '[ $SLURM_PROCID != 2 ] || kill -SEGV $$'", ("segfault", "rank 2"), ("-n4",)),
    Ending("tool-missing", "exit 3", tool="/nonexistent/slurmdoctor"),
    Ending("tool-hangs", "exit 3", tool="trap '' TERM\nsleep 600 & sleep 600", seconds=2),
    Ending("tool-floods", "exit 3", ("yyyy",), tool="yes yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy", seconds=3),
    Ending("tool-breaks", "exit 3", tool="echo 'Traceback (most recent call last)' >&2; exit 9"),
    Ending("tool-kills", "exit 3", tool="kill -KILL $$"),
    Ending("hook-off", "export SLURMDOCTOR_HOOK=off\nexit 3"),
    Ending("cancelled-step", "srun sleep 300", ("cancelled",), cancels="step", options=("-n2",)),
    Ending("signalled-by-hand", "srun sleep 300", (SIGNALLED,), cancels="script"),
    *(
        # a busy machine takes seconds for what a Slurm that does not answer leaves of the time
        Ending(
            f"hard-{name}", f"{setting}\n{PYTHON_ERROR}" if says else f"{setting}\nexit 5", says, options, seconds=75
        )
        for name, setting, says, options in HARD
    ),
    Ending("own-trap", OWN_TRAP, ("own trap saw 4", "exited with 4")),
    Ending("time-limit", STEPS, ("time-limit",), ("--time=1",), slow=True),
    Ending("signalled", "srun sleep 300", ("time-limit", SIGNALLED), ("--time=1", "--signal=B:USR1@50"), slow=True),
)


def diagnose(cluster: Cluster, *arguments: str) -> dict[str, Any]:
    said = cluster.run(TOOL, "diagnose", "--format", "json", *arguments, timeout=60, cwd=Path("/"))
    return cast("dict[str, Any]", json.loads(said))


def script(ending: Ending, tools: Path, footer: bool) -> str:
    tool = TOOL
    if ending.tool is not None:
        tool = ending.tool
        if not tool.startswith("/"):
            file = tools / f"{ending.name}.sh"
            file.write_text(f"#!/bin/bash\n{ending.tool}\n")
            file.chmod(file.stat().st_mode | stat.S_IXUSR)
            tool = str(file)
    text = hook.script("footer", seconds=ending.seconds, command=tool) if footer else ""
    # the one slurmdoctor that may answer is the one given
    head = "#!/bin/bash\n#SBATCH --job-name=train\n" + "".join(f"#SBATCH {o}\n" for o in ending.options)
    head += f'PATH="{os.environ.get("PATH", "")}:/usr/sbin"\n' if ending.tool is None else "PATH=/usr/bin:/bin\n"
    if "@HOOK@" in ending.body:
        return head + ending.body.replace("@HOOK@", text) + "\n"
    return head + text + ending.body + "\n"


def submit_all(cluster: Cluster, tools: Path, wanted: Iterable[Ending]) -> dict[str, Run]:
    runs: dict[str, Run] = {}
    for ending in sorted(wanted, key=lambda e: not e.slow):
        ids = [cluster.submit(script(ending, tools, footer)) for footer in (True, False)]
        runs[ending.name] = Run(ending, cluster, *ids)
    for run in runs.values():
        if run.ending.cancels:
            for job in (run.with_footer, run.without):
                end = time.monotonic() + 60
                while cluster.record(job).state != "RUNNING" and time.monotonic() < end:
                    time.sleep(0.3)
                while f"StepId={job}.0 " not in cluster.run("scontrol", "show", "step", job) and time.monotonic() < end:
                    time.sleep(0.3)
                time.sleep(1.5)
                how = {"job": [job], "step": [f"{job}.0"], "script": ["--batch", "--signal=TERM", job]}
                cluster.run("scancel", *how[run.ending.cancels])
    return runs
