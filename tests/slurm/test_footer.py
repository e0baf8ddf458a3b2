"""The footer in real jobs: what it says, and that it changes nothing."""

from __future__ import annotations

import pytest

from .endings import ENDINGS, MARK, Run

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
