"""Commands of Slurm are advised where the job may be Slurm's: other batch systems have their own."""

import pytest

from slurmdoctor import diagnose
from slurmdoctor.report import text_report as text

DIED = "mpirun detected that one or more processes exited with non-zero status\nExit code: 17\nstep 3\nrun.sh: line 3: 4711 Aborted ./solver\n"


def said(log: str) -> str:
    return text.render_text(diagnose(log), width=100, colour=False)


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("PBS_JOBID=4242.pbs01", "qstat -fx 4242.pbs01"),
        ("/var/spool/pbs/mom_priv/jobs/4242.pbs01.SC: line 12: module: not loaded", "qstat -fx 4242.pbs01"),
        ("Begin PBS Prologue Fri Nov 20 12:01:03 UTC 2026", "qstat -fx JOBID"),
        ("Subject: Job 4242: <train> in cluster <demo> Exited", "bhist -l 4242"),
        ("LSB_JOBID=4242", "bhist -l 4242"),
        ("/opt/sge/default/spool/node07/job_scripts/4242: line 3: warning", "qacct -j 4242"),
        ("FLUX_JOB_ID=f2Ab9Xy", "flux job eventlog f2Ab9Xy"),
    ],
)
def test_what_to_ask_is_the_batch_systems_own(line: str, command: str) -> None:
    shown = said(f"{line}\n{DIED}")
    assert f"how the job ended: {command}\n" in shown
    assert "sacct" not in shown
    assert "scontrol" not in shown


@pytest.mark.parametrize("line", ["", "export PBS_JOBID=$SLURM_JOB_ID\n", "SLURM_JOB_ID=77\nPBS_JOBID=4242\n"])
def test_a_job_that_may_be_slurms_is_asked_of_slurm(line: str) -> None:
    assert "sacct -j" in said(line + DIED)


def test_a_healthy_job_of_another_system_misses_nothing_of_slurm() -> None:
    steps = "".join(
        f"iteration {n}/ 100, elapsed time per iteration (ms): 812.4, lm loss: 2.31\n" for n in range(1, 101)
    )
    assert "sacct" in said(steps)
    assert "sacct" not in said(f"PBS_JOBID=4242.pbs01\n{steps}")
