"""`diagnose --job` on a real Slurm, without accounting: what is there is taken, what is not is named."""

import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from .cluster import Cluster
from .endings import TOOL, Run, diagnose


def test_by_its_id(cluster: Cluster, failed: dict[str, Run]) -> None:
    failed["python-error"].ended()
    found = diagnose(cluster, "--job", failed["python-error"].without)
    assert (found["cause"]["id"], found["first_failure"]["rank"]) == ("python-error", 5)
    assert (found["facts"]["state"], found["facts"]["nodes"]) == ("FAILED", 2)
    assert any(m.startswith("sacct (accounting is off") for m in found["coverage"]["missing"])
    assert "scontrol" not in found["coverage"]["missing"]


def test_hidden_by_a_pipe(cluster: Cluster, failed: dict[str, Run]) -> None:
    failed["tee-hides-it"].ended()
    found = diagnose(cluster, "--job", failed["tee-hides-it"].without)
    assert found["verdict"] == "failed"
    assert found["facts"]["state"] == "COMPLETED"
    assert any(re.match(r"\S+:\d+: ", reason) for reason in found["reasons"]), "the script is the one that Slurm keeps"


def test_array_task(cluster: Cluster) -> None:
    job = cluster.submit("#!/bin/bash\nsrun -n1 bash -c 'exit $((SLURM_ARRAY_TASK_ID == 2 ? 9 : 0))'\n", "--array=1-2")
    for k in (1, 2):
        cluster.wait(f"{job}_{k}")
    assert diagnose(cluster, "--job", f"{job}_1")["verdict"] == "no-failure"
    failed = diagnose(cluster, "--job", f"{job}_2")
    assert (failed["verdict"], failed["exit"]["code"]) == ("failed", 9)
    assert diagnose(cluster, "--job", job)["exit"]["code"] == 9


def test_het_job(cluster: Cluster) -> None:
    script = "#!/bin/bash\n#SBATCH -N1 -n1\n#SBATCH hetjob\n#SBATCH -N1 -n2\nsrun --het-group=1 bash -c 'exit 5'\n"
    job = cluster.submit(script)
    cluster.wait(job)
    assert diagnose(cluster, "--job", f"{job}+0")["exit"]["code"] == 5


def test_per_task_files(cluster: Cluster) -> None:
    python = "import os; assert os.environ['SLURM_PROCID'] != '1', 'bad shard'"
    body = f'srun -n3 --output=rank-%j-%t.log python3 -c "{python}"'
    job = cluster.submit(f"#!/bin/bash\n{body}\n", "-n3")
    cluster.wait(job)
    found = diagnose(cluster, "--job", job)
    assert found["cause"]["id"] == "python-error"
    assert found["first_failure"]["file"].endswith(f"rank-{job}-1.log")
    assert found["coverage"]["files"] == 4


def test_running(cluster: Cluster) -> None:
    job = cluster.submit("#!/bin/bash\nsrun -n1 bash -c 'echo step 1/9 loss 2.0; sleep 60'\n")
    while cluster.record(job).state == "PENDING":
        pass
    found = diagnose(cluster, "--job", job)
    assert (found["verdict"] != "failed", found["facts"]["state"]) == (True, "RUNNING")
    cluster.run("scancel", job)


def test_unknown(cluster: Cluster) -> None:
    done = subprocess.run(
        [TOOL, "diagnose", "--job", "999999"], env=cluster.env, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "Slurm no longer knows this job" in done.stderr


def test_dependent_job(cluster: Cluster) -> None:
    from slurmdoctor.cli import hook

    watcher = cluster.folder / "jobs" / "watched.sh"
    watcher.write_text(hook.script("dependency", command=TOOL))
    work = cluster.folder / "jobs" / "dies.batch"
    work.write_text('#!/bin/bash\nsrun -n1 python3 -c "raise KeyError(17)"\n')
    job = cluster.run("bash", str(watcher), str(work)).strip()
    assert job.isdigit()
    cluster.wait(job)
    second = str(int(job) + 1)
    watching = cluster.wait(second)
    assert (watching.state, watching.partition) == ("COMPLETED", cluster.record(job).partition)
    assert "KeyError: 17" in cluster.output(second)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can send a job as somebody else")
def test_epilog(cluster: Cluster, stub: Path) -> None:
    """slurmctld itself starts the epilog: with no PATH, and it kills what the epilog leaves in its process group."""
    folder = stub.parent
    script = cluster.folder / "jobs" / "epilog.batch"
    script.write_text("#!/bin/bash\nexit 3\n")
    command = ("sbatch", "--parsable", "--uid=nobody", f"--chdir={folder}", f"--output={folder}/%j.out", str(script))
    job = cluster.run(*command).strip()
    cluster.wait(job)
    end = time.monotonic() + 30
    while not (folder / "called").exists() and time.monotonic() < end:
        time.sleep(0.3)
    called = f"nobody diagnose --job {job} --if-failed --beside-log --time-limit 90 {cluster.env['SLURM_CONF']}"
    assert (folder / "called").read_text() == f"{called} {folder}/%j.out\n"


def test_memory(confined: Cluster) -> None:
    """The kernel kills a task for its memory; the verdict is host-oom, with the footer and by the job's id."""
    from slurmdoctor.cli import hook

    body = "srun -n1 python3 -c 'x = bytearray(400 << 20)'\n"
    job = confined.submit("#!/bin/bash\n#SBATCH --mem=200M\n" + hook.script("footer", command=TOOL) + body)
    plain = confined.submit("#!/bin/bash\n#SBATCH --mem=200M\n" + body)
    record, other = confined.wait(job), confined.wait(plain)
    assert (record.state, record.exit) == (other.state, other.exit)
    output = confined.output(job)
    assert "host-oom" in output, output
    assert diagnose(confined, "--job", plain)["cause"]["id"] == "host-oom"
