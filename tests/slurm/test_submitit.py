"""examples/submitit_helper.py with a real Slurm, without accounting."""

import subprocess
import sys
from pathlib import Path

import pytest

from .cluster import Cluster

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAM = """
import sys

import submitit

sys.path.insert(0, sys.argv[1])
from submitit_helper import result


def train():
    rank = submitit.JobEnvironment().global_rank
    return {0: rank}[rank]  # rank 1 finds nothing


executor = submitit.AutoExecutor(folder=sys.argv[2], cluster="slurm")
executor.update_parameters(nodes=2, tasks_per_node=1, timeout_min=2)
job = executor.submit(train)
try:
    result(job)
except submitit.core.utils.FailedJobError as error:
    print("said", job.job_id, *(error.__notes__ if sys.version_info >= (3, 11) else error.args), sep="\\n")
"""


@pytest.mark.slow
def test_the_error_of_a_job_says_which_task_failed_and_why(cluster: Cluster, tmp_path: Path) -> None:
    folder = cluster.folder / "jobs" / "submitit"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(EXAMPLES), str(folder)],
        cwd=tmp_path, env=cluster.env, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    job, said = done.stdout.partition("said\n")[2].split("\n", 1)
    assert said.startswith("✗ rank 1 "), done.stderr
    assert "KeyError: 1" in said
    assert f"{folder}/{job}_1_log." in said
