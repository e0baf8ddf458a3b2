"""`diagnose 4711` on a real Slurm without accounting: jobs, arrays, het jobs, logs of any name, and jobs that it forgot."""

import subprocess
from pathlib import Path

import pytest

from .cluster import Cluster
from .endings import TOOL, diagnose

pytestmark = pytest.mark.slow
KEY = "python3 -c \"raise KeyError('lr')\""


def shown(cluster: Cluster, *words: str, cwd: Path | str = "/") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [TOOL, "diagnose", *words], env=cluster.env, cwd=cwd, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("name", ["slurm-%j.out", "logs/%x_%j.txt", "%u-of-%N-%4j.log", "fixed.log"])
def test_a_log_of_any_name(cluster: Cluster, name: str) -> None:
    (cluster.folder / "jobs" / "logs").mkdir(exist_ok=True)
    job = cluster.submit(f"#!/bin/bash\nsrun -n1 {KEY}\n", f"--output={name}", "--open-mode=truncate")
    cluster.wait(job)
    found = diagnose(cluster, job)
    assert (found["cause"]["id"], found["facts"]["state"]) == ("python-error", "FAILED")
    assert found["coverage"]["notes"] == []


def test_an_array_is_its_tasks(cluster: Cluster) -> None:
    job = cluster.submit(
        f"#!/bin/bash\n[ $SLURM_ARRAY_TASK_ID = 1 ] || exit 0\nsrun -n1 {KEY}\n", "--array=0-2", "--output=%A-%a.txt"
    )
    for task in range(3):
        cluster.wait(f"{job}_{task}")
    said = shown(cluster, "--exit-code", job)
    assert (said.returncode, said.stdout.count("✗"), said.stdout.count("✓")) == (1, 1, 2)
    alone = diagnose(cluster, f"{job}_1")
    assert alone["first_failure"]["file"].endswith(f"{job}-1.txt")
    assert alone["job"]["id"] == f"{job}_1"
    assert diagnose(cluster, "--job", job)["job"]["id"] == f"{job}_1", "--job is one report: that of the worst task"


def test_a_part_of_a_het_job(cluster: Cluster) -> None:
    head = "#!/bin/bash\n#SBATCH -N1 -n1 -o het-%j.txt\n#SBATCH hetjob\n#SBATCH -N1 -n2\n"
    job = cluster.submit(f"{head}srun --het-group=1 -n1 {KEY}\n")
    cluster.wait(job)
    for ident in (job, f"{job}+0", f"{job}+1"):
        found = diagnose(cluster, ident)
        assert found["cause"]["id"] == "python-error", ident
        assert found["first_failure"]["file"].endswith(f"het-{job}.txt"), ident


def test_a_job_that_waits_and_one_that_runs(cluster: Cluster) -> None:
    waits = cluster.submit("#!/bin/bash\ntrue\n", "--hold")
    runs = cluster.submit("#!/bin/bash\nsleep 120\n")
    try:
        while cluster.record(runs).state == "PENDING":
            pass
        assert shown(cluster, waits).stdout.startswith("? the job has not started\n")
        assert shown(cluster, runs).stdout.startswith("? the job is still running, and its log is empty\n")
        assert shown(cluster, "--exit-code", waits).returncode == 4
    finally:
        cluster.run("scancel", waits, runs)


def test_a_job_that_slurm_forgot(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "slurm-999998.out").write_text("[rank1]: KeyError: 'lr'\n")
    said = shown(cluster, "999998", cwd=tmp_path)
    assert "Slurm no longer knows job 999998: read ./slurm-999998.out, found by its name" in " ".join(
        said.stdout.split()
    )
    nothing = shown(cluster, "999999", cwd=tmp_path)
    assert (nothing.returncode, nothing.stderr.count("\n")) == (2, 1)
    assert "Slurm no longer knows this job" in nothing.stderr
