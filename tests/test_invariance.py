"""What must not change the verdict: interleaving, label style, healthy ranks, more victims, one file or two."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from simulate import LABELS, ROOTS, VICTIMS, Job, Spoken, interleave, speak, written
from slurmdoctor import diagnose

FEW = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def verdict(log: str | Sequence[Path]) -> tuple[str | None, int | None]:
    found = diagnose(log)
    return found.cause.id, found.first_failure.rank


jobs = st.builds(
    lambda ranks, root, **more: Job(ranks=ranks, root=root % ranks, **more),
    ranks=st.integers(2, 24),
    root=st.integers(0, 23),
    cause=st.sampled_from(sorted(ROOTS)),
    victim=st.sampled_from(sorted(VICTIMS)),
    delay=st.floats(3, 600),
    seed=st.integers(0, 1000),
)


def first_error_printed(log: str) -> int | None:
    """What a person sees who greps for the first error."""
    found = re.search(r"^ *\d+: \[rank(\d+)\]: \w[\w.]*Error: ", log, re.MULTILINE)
    return int(found[1]) if found else None


def test_these_logs_mislead_whoever_takes_the_first_error() -> None:
    """The properties below can fail: in most of these logs another error stands first, and often one that could be a root."""
    job = Job(ranks=12, root=7, victim="program")
    logs = [written(interleave(speak(job), seed)) for seed in range(40)]
    assert sum(first_error_printed(log) != job.root for log in logs) >= 20


@FEW
@given(jobs, st.integers(0, 10_000), st.integers(1, 8), st.sampled_from(sorted(LABELS)))
def test_other_interleaving_labels_and_more_victims_change_nothing(job: Job, seed: int, times: int, label: str) -> None:
    assert verdict(written(speak(job), label)) == (job.cause, job.root)
    assert verdict(written(interleave(speak(replace(job, repeats=times)), seed))) == (job.cause, job.root)


@FEW
@given(jobs, st.integers(1, 40))
def test_healthy_ranks_lines_change_nothing(job: Job, more: int) -> None:
    spoken = speak(job)
    steps = [s for s in spoken if s.rank == 0 and " INFO step" in s.text]
    healthy = [Spoken(s.time, job.ranks + k, s.text) for k in range(more) for s in steps]
    assert verdict(written(sorted(spoken + healthy, key=lambda s: s.time))) == (job.cause, job.root)


@pytest.mark.parametrize("ranks", [2, 256])
def test_multiplying_the_victims_changes_nothing(ranks: int) -> None:
    job = Job(ranks=ranks, root=1, cause="file-not-found")
    assert verdict(written(interleave(speak(job), 7))) == ("file-not-found", 1)


@FEW
@given(jobs)
def test_stdout_and_stderr_as_two_files_change_nothing(tmp_path_factory: pytest.TempPathFactory, job: Job) -> None:
    folder = tmp_path_factory.mktemp("job")
    spoken = speak(job)
    (folder / "job.out").write_text(written([s for s in spoken if " INFO " in s.text]))
    (folder / "job.err").write_text(written([s for s in spoken if " INFO " not in s.text]))
    assert verdict([folder]) == (job.cause, job.root)


def test_of_two_dozen_ranks_that_raise_in_turns_the_traceback_of_the_one_that_differs_is_read() -> None:
    job = Job(ranks=24, root=12, cause="python-error", victim="gloo", delay=3.0, seed=0, repeats=4)
    assert verdict(written(interleave(speak(job), 443))) == ("python-error", 12)
