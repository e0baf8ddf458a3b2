"""The benchmark's logs and tables are what docs/performance.md says of them."""

import re
from itertools import islice
from pathlib import Path

import pytest
from benchmarks import jobs, logs, tables
from benchmarks.logs import KINDS, pieces
from benchmarks.measure import Runs

from slurmdoctor import diagnose, diagnose_jobs


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bars", "cascade"])
def test_a_seed_gives_the_same_bytes_whoever_makes_them(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = b"".join(pieces(kind, 300_000, seed=7))
    assert alone != b"".join(pieces(kind, 300_000, seed=8))
    monkeypatch.setattr(logs, "_LARGE", 0)
    assert b"".join(pieces(kind, 300_000, seed=7)) == alone
    assert 290_000 < len(alone) < 420_000


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_surrounds_it_the_rank_that_ran_out_of_memory_is_found(kind: str, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_bytes(b"".join(pieces(kind, 300_000, ranks=60)))
    found = diagnose(log)
    assert (found.cause.id, found.first_failure.rank) == ("cuda-oom", 20)


@pytest.mark.parametrize(("kind", "share"), [("quiet", 0.3), ("nccl", 0.3), ("varied", 0.7), ("bars", 0.2)])
def test_what_is_new_in_a_log_stays_new_to_its_end(kind: str, share: float) -> None:
    """Lines that differ from all before in more than digits."""
    seen: set[bytes] = set()
    fresh = lines = 0
    for number, piece in enumerate(islice(pieces(kind, 40_000_000), 50)):
        shapes = re.sub(rb"\d+", b"0", piece.replace(b"\r", b"\n")).split(b"\n")
        if number >= 40:
            fresh += len(set(shapes) - seen)
            lines += len(shapes)
        seen.update(shapes)
    assert fresh / lines > share


def _took(seconds: float) -> Runs:
    return Runs([seconds], [seconds], [1.0])


def test_a_goal_that_is_missed_is_told_as_missed() -> None:
    runs = {tables.ONE: _took(0.5), tables.TWO: _took(0.36), tables.GREP: _took(1.0)}
    start = tables.StartUp(paste=_took(0.2), few=_took(0.1), bare=_took(0.1), first=_took(0.7))
    rows = tables.goals_table([tables.Log("quiet", 1, runs)], start)
    assert ["missed" in row for row in rows[2:]] == [False, True, True, False]
    small = tables.small_table([tables.Log("bars", 4_000_000, runs)], start.few)
    assert "missed" in small[-1]


def test_a_run_writes_between_its_marks_and_nowhere_else() -> None:
    page = Path(__file__).parents[1].joinpath("docs", "performance.md").read_text(encoding="utf-8")
    again = tables.written(page, ["a table"])
    head, _, tail = again.partition(f"{tables.BEGIN}\na table\n{tables.END}")
    assert head
    assert tail
    assert page.startswith(head)
    assert page.endswith(tail)
    assert tables.written(again, ["a table"]) == again


def test_jobs_are_as_large_and_as_varied_as_those_of_a_cluster() -> None:
    made = list(jobs.plans(4000, seed=1))
    assert made == list(jobs.plans(4000, seed=1))
    sizes = sorted(plan.size for plan in made)
    assert (sizes[0], sizes[-1]) == (2_000, 200_000_000)
    assert 80_000 < sizes[2000] < 120_000
    assert 0.7e6 < sum(sizes) / 4000 < 1.4e6
    assert {plan.kind for plan in made} == set(KINDS)
    assert {plan.files for plan in made} >= {1, 2, 4, 8}


def test_each_job_that_was_made_is_found_and_failed_where_it_did(tmp_path: Path) -> None:
    made = list(jobs.plans(24, seed=3, size=6_000))
    assert jobs.write(tmp_path, iter(made)) == sum(file.stat().st_size for file in tmp_path.rglob("*.*"))
    found = {found.job.id: found for found in diagnose_jobs(tmp_path)}
    assert found.keys() == {str(plan.id) for plan in made}
    assert sum(found[str(plan.id)].failed == plan.failed for plan in made) >= 20
