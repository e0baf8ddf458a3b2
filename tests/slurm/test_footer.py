"""The footer in real jobs: what it says, and that it changes nothing."""

import os
import shutil
import time

import pytest

from slurmdoctor.cli import hook

from .cluster import Cluster
from .endings import ENDINGS, MARK, TOOL, Run, diagnose

NAMES = [pytest.param(e.name, marks=[pytest.mark.slow] * e.slow) for e in sorted(ENDINGS, key=lambda e: e.slow)]


@pytest.mark.parametrize("name", NAMES)
def test_footer(name: str, runs: dict[str, Run]) -> None:
    run = runs[name]
    job, plain, output = run.ended()
    assert job.state == plain.state, output
    if run.ending.slow:
        # at the limit Slurm signals srun and the shell at once, and books whichever it sees first: 143 or signal 15
        assert job.exit is not None
        assert plain.exit is not None
        assert job.exit.signal == plain.exit.signal
    else:
        assert (job.exit, job.derived) == (plain.exit, plain.derived), output
    own = output[output.find(MARK) :] if MARK in output else output
    for words in run.ending.says:
        assert words in output, output
    if not run.ending.says:
        assert MARK not in output
        assert output == run.cluster.output(run.without)
    assert len(own) < 17_000


@pytest.mark.parametrize("name", ["tool-hangs", "tool-floods", "tool-kills"])
def test_a_bad_slurmdoctor_costs_no_more_than_its_time(name: str, runs: dict[str, Run]) -> None:
    job, _, _ = runs[name].ended()
    assert job.elapsed is not None
    assert job.elapsed <= runs[name].ending.seconds + 6


def test_the_verdict_is_short(runs: dict[str, Run]) -> None:
    output = runs["python-error"].ended()[2]
    verdict = output[output.index(MARK) : output.index("--- end of slurmdoctor")]
    assert len(verdict.splitlines()) <= 18
    assert output.count(MARK) == 1


def test_every_task_of_an_array_speaks_for_itself(cluster: Cluster) -> None:
    body = "srun -n1 python3 -c \"import os; assert os.environ['SLURM_ARRAY_TASK_ID'] != '1', 'task one'\"\n"
    job = cluster.submit(
        "#!/bin/bash\n" + hook.script("footer", command=TOOL) + body, "--array=0-2", "--output=array-%A_%a.out"
    )
    tasks = [cluster.wait(f"{job}_{k}") for k in range(3)]
    assert [t.state for t in tasks] == ["COMPLETED", "FAILED", "COMPLETED"]
    outputs = [cluster.output(f"{job}_{k}") for k in range(3)]
    assert [MARK in o for o in outputs] == [False, True, False]
    assert "AssertionError: task one" in outputs[1]


OOM = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
RERUNS = {
    "fine": ("bash", "echo bye"),
    "fails": ("bash", "python3 -c \"raise KeyError('lr')\""),
    "zsh": ("zsh", "python3 -c \"raise KeyError('lr')\""),
}


def requeued(cluster: Cluster, name: str, shell: str, body: str, footer: bool) -> str:
    """A job that runs out of memory, is requeued, and appends another run to its log."""
    first = f'if [ -z "${{SLURM_RESTART_COUNT:-}}" ]; then echo "{OOM}"; srun -n1 sleep 100; exit 1; fi'
    text = hook.script("footer", command=TOOL) if footer else ""
    path = f'PATH="{os.environ.get("PATH", "")}:/usr/sbin"'
    options = ("--requeue", "--open-mode=append", f"--output=again {name} {footer}.out")
    return cluster.submit(f"#!/bin/{shell}\n{path}\n{text}{first}\n{body}\n", *options)


def reaches(cluster: Cluster, job: str, state: str, text: str = "") -> None:
    end = time.monotonic() + 60
    while cluster.record(job).state != state or text not in cluster.output(job):
        assert time.monotonic() < end, f"job {job} is {cluster.record(job).state}, not {state}: {cluster.output(job)}"
        time.sleep(0.3)


def test_a_requeued_job_speaks_of_its_own_run_only(cluster: Cluster) -> None:
    wanted = {name: rerun for name, rerun in RERUNS.items() if shutil.which(rerun[0])}
    jobs = {(n, f): requeued(cluster, n, *rerun, f) for n, rerun in wanted.items() for f in (True, False)}
    for job in jobs.values():
        reaches(cluster, job, "RUNNING", OOM)
    time.sleep(1.5)  # the step has begun
    earlier: dict[tuple[str, bool], str] = {}
    for key, job in jobs.items():
        cluster.run("scontrol", "requeue", job)
        reaches(cluster, job, "PENDING")
        earlier[key] = cluster.output(job)
        cluster.run("scontrol", "update", f"JobId={job}", "StartTime=now")  # else it waits for two minutes
    for (name, footer), job in jobs.items():
        record = cluster.wait(job)
        assert record.restarts == 1
        assert record.state == ("COMPLETED" if name == "fine" else "FAILED")
        said = cluster.output(job).removeprefix(earlier[name, footer])
        if footer:
            assert (MARK in said) == (name != "fine"), said
            assert ("KeyError: 'lr'" in said, "out of memory" in said) == (name != "fine", False), said
        found = diagnose(cluster, "--job", job)
        if name == "fine":
            assert found["verdict"] == "no-failure", found
        else:
            assert "KeyError" in found["first_failure"]["text"]
        assert found["coverage"]["notes"][0].startswith("skipped the output of an earlier run: lines 1-")
