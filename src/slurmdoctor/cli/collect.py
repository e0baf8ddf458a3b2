"""`slurmdoctor collect`: what a job that hangs can tell, gathered while it runs, by commands that only read."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from slurmdoctor.cli import PATH
from slurmdoctor.cli.output import say
from slurmdoctor.model import UserError

_WITHIN = 600
"""Seconds that everything may take together; the step on the nodes ends itself."""
_STEP = (
    "srun --overlap --jobid={job} --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 --mem=0 --cpu-bind=none --mpi=none "
    "--input=none --immediate=60 --kill-on-bad-exit=0 --time={minutes} sh -c"
)


@click.command(short_help="Gather what a hung job can tell while it runs.")
@click.argument("job_id", metavar="JOBID")
@click.option(
    "-o",
    "--output",
    type=PATH,
    metavar="DIR",
    help="The folder to write, on a file system that the nodes share.  [default: collected-JOBID]",
)
@click.option("--dry-run", is_flag=True, help="Print the commands, and run none of them.")
def collect(job_id: str, output: str | None, dry_run: bool) -> None:
    """Gather what a job that hangs can tell while it runs: stacks, PyTorch's flight recorder, the kernel's log, Slurm's record.

    JOBID is a running job of your own. A step beside it (`srun --overlap`) reads each process with py-spy, else gdb, and asks for the
    flight recorder's dump where its pipe is there. Nothing is ended or changed. Then: `slurmdoctor diagnose JOB.log DIR`.
    """
    from slurmdoctor.slurm import ask, check_id

    wanted = check_id(job_id).partition(".")[0]
    own = f"squeue --states=RUNNING --user={os.getuid()} --jobs={wanted} --format=%A|%D|%N"
    found = ask({"squeue": own.split()}, _WITHIN / 20)
    rows = [line.split("|") for _, text in found.texts for line in text.split()[1:]]
    if len(rows) != 1:
        why = ", ".join(found.missing) or ("it has several jobs" if rows else "it is not running, or not yours")
        raise UserError(f"job {wanted} is not gathered from: {why}", "name one running job of your own: squeue --me")
    job, nodes, names = rows[0]
    folder = Path(output or f"collected-{job}").absolute()
    script = (Path(__file__).parent / "templates" / "collect.sh").read_text(encoding="utf-8")
    step = _STEP.format(job=job, nodes=nodes, minutes=_WITHIN // 60).split()
    commands: dict[str, Sequence[str]] = {
        "scontrol.txt": ["scontrol", "show", "job", "-d", job],
        "nodes.scontrol": ["scontrol", "show", "node", names],
        "collect.log": [*step, script, "collect", job, str(folder)],
    }
    if dry_run:
        say("\n".join(map(shlex.join, commands.values())))
        return
    try:
        folder.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise UserError(f"{folder} cannot be made: {error.strerror}", "name a new folder with -o") from None
    answers = ask(commands, _WITHIN)
    for name, text in answers.texts:
        (folder / name).write_text(text, encoding="utf-8")
    for why in answers.missing:
        say(f"slurmdoctor: not gathered: {why}", err=True)
    say(f"{dict(answers.texts).get('collect.log', '')}next: slurmdoctor diagnose JOB.log {shlex.quote(str(folder))}")
