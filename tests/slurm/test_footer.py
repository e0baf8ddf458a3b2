"""The footer in real jobs: what it says, and that it changes nothing."""

from __future__ import annotations

import pytest

from .cluster import Cluster
from .endings import ENDINGS, MARK, TOOL, Run

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
    from slurmdoctor.cli import footer as hook

    body = "srun -n1 python3 -c \"import os; assert os.environ['SLURM_ARRAY_TASK_ID'] != '1', 'task one'\"\n"
    job = cluster.submit(
        "#!/bin/bash\n" + hook.script("footer", command=TOOL) + body, "--array=0-2", "--output=array-%A_%a.out"
    )
    tasks = [cluster.wait(f"{job}_{k}") for k in range(3)]
    assert [t.state for t in tasks] == ["COMPLETED", "FAILED", "COMPLETED"]
    outputs = [cluster.output(f"{job}_{k}") for k in range(3)]
    assert [MARK in o for o in outputs] == [False, True, False]
    assert "AssertionError: task one" in outputs[1]
