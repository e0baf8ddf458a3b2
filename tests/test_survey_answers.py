"""What a dataset answers: real DuckDB over rows whose answers are known. Every number says what it is of."""

import random
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from slurmdoctor.knowledge import builtin, load
from slurmdoctor.model import UserError
from slurmdoctor.survey.answers import Answers
from slurmdoctor.survey.questions import ask, unfinished
from slurmdoctor.survey.rows import ALL, Choice, Row
from surveyed import dataset, row

KNOWN = load((builtin(),), examples=False)


def answers(folder: Path, rows: list[Row], choice: Choice = ALL) -> Answers:
    return ask(dataset(folder, rows), KNOWN, choice)


def test_each_row_is_counted_once(tmp_path: Path) -> None:
    """Failed, healthy, undecided, an error, or not asked for: nothing is dropped without a word."""
    rows = [
        row("cuda-oom"), row("time-limit", read="no-log", state="TIMEOUT"), row("hang", state="COMPLETED"), row(), row(None, verdict="unknown"),
        row(None, verdict="unknown", read="no-log", gpus=None), row(None, verdict="unknown", read="error", state="FAILED"), row(None, read="not-asked"),
    ]  # fmt: skip
    found = answers(tmp_path, rows)
    assert (found.jobs, found.failed, found.healthy, found.undecided, found.errors, found.not_asked) == (8, 3, 1, 2, 1, 1)  # fmt: skip
    assert found.jobs == found.failed + found.healthy + found.undecided + found.errors + found.not_asked
    assert (found.read, found.no_log, found.completed_but_failed) == (4, 2, 1)


def test_hours_are_of_the_jobs_whose_hours_are_known(tmp_path: Path) -> None:
    failed = [row("hang", hours=2), row("hang", hours=3, user="bob"), row("hang", gpus=None)]
    found = answers(tmp_path, [*failed, row(hours=5), row(gpus=None)])
    assert (found.gpu_hours, found.with_hours, found.jobs) == (80.0, 3, 5)
    assert (found.gpu_hours_lost, found.failed_with_hours, found.failed) == (40.0, 2, 3)
    [cause] = found.causes
    assert (cause.what, cause.jobs, cause.of, cause.users, cause.gpu_hours_lost, cause.with_hours) == ("hang", 3, 3, 2, 40.0, 2)  # fmt: skip
    assert found.lost_counted == (("whole-run", 2),)


def test_partitions_and_users_are_of_all_their_jobs(tmp_path: Path) -> None:
    rows = [row("hang"), row(), row("nan", partition="debug", user="bob"), row(partition=None, user=None)]
    found = answers(tmp_path, rows)
    assert [(c.what, c.jobs, c.of) for c in found.partitions] == [("gpu", 1, 2), ("debug", 1, 1), ("unknown", 0, 1)]
    assert [(c.what, c.jobs, c.of) for c in found.users] == [("ada", 1, 2), ("bob", 1, 1), ("unknown", 0, 1)]


@pytest.mark.parametrize(
    ("days", "unit", "columns"), [(10, "day", 11), (60, "week", 9), (400, "month", 14), (5000, "month", 36)]
)
def test_time_goes_by_days_weeks_or_months(tmp_path: Path, days: int, unit: str, columns: int) -> None:
    rows = [row("hang" if day % 2 else None, after=24 * day) for day in range(0, days + 1, 5 if days > 100 else 1)]
    rows.append(row(started=None, ended=None))
    found = answers(tmp_path, rows)
    assert (found.period, len(found.periods), found.undated) == (unit, columns, 1)
    assert all(sum(c.jobs for c in p.causes) <= p.jobs for p in found.periods)
    if days < 1000:
        assert sum(p.jobs for p in found.periods) == found.jobs - found.undated


def test_a_day_without_a_job_is_a_day(tmp_path: Path) -> None:
    periods = answers(tmp_path, [row("hang"), row("nan", after=72)]).periods
    days = [(period.begins.day, [cause.what for cause in period.causes]) for period in periods]
    assert days == [(5, ["hang"]), (6, []), (7, []), (8, ["nan"])]


def test_a_node_with_a_faulty_gpu_is_named_with_its_exclude_line(tmp_path: Path) -> None:
    nodes = [f"node{n:02}" for n in range(1, 17)]
    fine = [row(nodes=(name,), hours=24, after=25 * n) for name in nodes for n in range(10)]
    bad = [row("gpu-fault", node="node07.lab.example", nodes=("node07", "node08"), after=24 * n, job_name="t") for n in range(5)]  # fmt: skip
    again = [row("gpu-fault", node="node07", nodes=("node07",), after=1, hours=0.1, job_name="t")]
    programs = [row("python-error", nodes=("node03",), after=n) for n in range(40)]
    nowhere = [row("hang", nodes=("node03", "node04")), row("hang", nodes=(), node="node09")]
    found = answers(tmp_path, [*fine, *bad, *again, *programs, *nowhere]).nodes
    [one] = found.suspects
    assert (one.node, one.failures, one.certain, one.users, one.causes) == ("node07", 5, 5, 1, (("gpu-fault", 5),))
    assert found.exclude == "#SBATCH --exclude=node07"
    assert (found.tested, found.failures, found.of_programs, found.without_node, found.counted_already) == (16, 5, 40, 2, 1)  # fmt: skip
    assert (found.jobs_left_out, found.failed_only, "16 nodes" in found.test) == (1, False, True)
    assert (one.expected < 1, one.chance < 0.001) == (True, True)


def test_mttf_counts_what_no_person_ended_and_beside_it_what_the_machine_did(tmp_path: Path) -> None:
    rows = [row("cuda-oom", hours=10), row("gpu-fault", hours=10), row("cancelled", hours=10), row(hours=70)]
    rows += [row("nan", gpus=600), row(gpus=None), row(gpus=0)]
    found = answers(tmp_path, rows)
    small, large = found.sizes
    assert (small.smallest, small.largest, small.jobs, small.failures, small.hours) == (2, 8, 4, 2, 100.0)
    assert (small.mttf, small.machine_failures, small.machine_mttf) == (50.0, 1, 100.0)
    assert (small.low, small.high) == pytest.approx((100 / 7.2247, 100 / 0.2422), rel=1e-3)
    assert (large.smallest, large.largest, large.machine_mttf, large.machine_high) == (513, None, None, None)
    assert found.sizes_left_out == 2


def test_the_delay_is_of_the_jobs_that_an_error_ended(tmp_path: Path) -> None:
    rows = [row("hang", ran_on_s=60.0 * n) for n in range(1, 11)]
    rows += [row("nan"), row("time-limit", ran_on_s=0.0), row("hang", ran_on_s=3600.0, gpus=None)]
    found = answers(tmp_path, rows).delays
    assert (found.jobs, found.of, found.with_gpus) == (11, 12, 10)
    assert (found.median_s, found.p90_s) == (360.0, 600.0)
    assert found.gpu_hours == pytest.approx(8 * 55 / 60)
    assert found.worst[0][1:] == pytest.approx((600.0, 8 / 6))


def run(cause: str | None, after: float, **more: Any) -> Row:
    return row(cause, after=after, job_name=more.pop("job_name", "train"), **more)


@pytest.mark.parametrize(
    ("rows", "times"),
    [
        ([run("nan", n) for n in range(4)], [4]),
        ([run("nan", 0), run("hang", 1), run("nan", 2)], []),
        ([run("nan", 0), run(None, 1), run("nan", 2), run("nan", 3)], [2]),
        ([run("nan", 0, job_id=f"9_{n}") for n in range(30)], []),  # an array, side by side
        ([run("nan", n / 10, job_id=f"9_{n}") for n in range(15)], []),  # nor one after the other
        ([run("nan", n / 10, job_id=str(n)) for n in range(15)], [6]),  # those that began after the first had died
        ([run("nan", at, job_id=f"{50 + at // 10}_{at}", hours=1 / 6) for at in (*range(6), *range(10, 16))], [2]),  # a later array is one run
        ([run("time-limit", n) for n in range(4)], []),  # each resumes
        ([run("nan", n, user=f"u{n}") for n in range(4)], []),
        ([run(None, 0, verdict="failed"), run(None, 1, verdict="failed")], []),  # unknown is not the same
        ([run("nan", n, job_name=None) for n in range(4)], []),
    ],
)  # fmt: skip
def test_a_job_that_dies_again_of_the_same_cause(tmp_path: Path, rows: list[Row], times: list[int]) -> None:
    found = answers(tmp_path, rows)
    assert [one.times for one in found.repeats] == times
    assert (found.repeats_in_all, found.repeated_jobs) == (len(times), sum(n - 1 for n in times))
    assert found.repeated_gpu_hours == pytest.approx(sum(8.0 * (n - 1) for n in times))


def test_runs_of_the_same_second_count_alike_under_any_key(tmp_path: Path) -> None:
    causes = ["nan", "cuda-oom", "nan", "nan", "cuda-oom", "nan"]
    told = []
    for key in ("{}", "{:x}"):
        runs = [run(cause, 5 * (at // 3), job_id=str(100 + at)) for at, cause in enumerate(causes)]
        rows = [replace(one, key=key.format((at + 3) * 2654435761 % 2**32)) for at, one in enumerate(runs)]
        told.append([(one.cause, one.times) for one in answers(tmp_path / key, rows).repeats])
    assert told[0] == told[1]


def test_the_ids_of_a_job_that_dies_again_are_of_the_runs_that_are_counted(tmp_path: Path) -> None:
    side = run("nan", 0.1, job_id="2")  # began before the first one had died
    found = answers(tmp_path, [run("nan", 0, job_id="1"), side, run("nan", 5, job_id="3")])
    assert [(one.times, one.job_ids) for one in found.repeats] == [(2, ("1", "3"))]
    assert found.nodes.failed_only


@pytest.mark.parametrize(("gpus", "hours"), [(None, None), (0, 0.0)])
def test_hours_that_are_not_known_are_not_zero(tmp_path: Path, gpus: int | None, hours: float | None) -> None:
    found = answers(tmp_path, [run("python-error", n, gpus=gpus, last_line="x") for n in range(3)])
    assert (found.repeats[0].gpu_hours_lost, found.repeated_gpu_hours) == (hours, hours)
    assert found.unknown.kinds[0].gpu_hours_lost == hours


@pytest.mark.parametrize("amount", [float("nan"), float("inf")])
def test_hours_that_are_no_number_are_not_known(tmp_path: Path, amount: float) -> None:
    found = answers(tmp_path, [row("hang", gpu_hours_lost=amount, gpu_hours=amount, elapsed_s=amount, ran_on_s=amount), row("hang")])  # fmt: skip
    assert (found.gpu_hours_lost, found.failed_with_hours, found.with_hours) == (8.0, 1, 1)
    assert found.sizes[0].hours == 1.0


def test_the_exclude_line_has_names_of_nodes_only(tmp_path: Path) -> None:
    strange = "node07; rm -rf x"
    nodes = [*(f"node{n:02}" for n in range(1, 17)), strange]
    fine = [row(nodes=(name,), hours=24, after=25 * n) for name in nodes for n in range(10)]
    bad = [row("gpu-fault", node=name, nodes=(name,), after=24 * n, job_name="t") for name in ("node03", strange) for n in range(8)]  # fmt: skip
    found = answers(tmp_path, [*fine, *bad]).nodes
    assert {one.node for one in found.suspects} == {"node03", strange}
    assert (found.exclude, found.not_names) == ("#SBATCH --exclude=node03", 1)


def test_jobs_without_a_time_are_counted_within_the_filters(tmp_path: Path) -> None:
    rows = [row("nan"), *(row("nan", started=None, ended=None) for _ in range(3))]
    whole, dated = (answers(tmp_path, rows, choice) for choice in (ALL, Choice(since=datetime(2026, 10, 1))))
    assert [(a.jobs, a.undated, a.undated_left_out) for a in (whole, dated)] == [(4, 3, 0), (1, 0, 3)]


def test_unknown_is_what_no_rule_names(tmp_path: Path) -> None:
    general = [row("python-error", last_line="x"), row("exit-code"), row(None, verdict="failed", last_line="y")]
    found = answers(tmp_path, [*general, row("nan")]).unknown
    assert (found.jobs, found.of, found.with_line) == (3, 4, 2)
    assert found.generic == (("exit-code", 1), ("python-error", 1))


@pytest.mark.parametrize("seed", range(2))
def test_any_rows_give_answers_whose_parts_add_up(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)

    def some(*of: Any) -> Any:
        return chance.choice((None, *of))

    rows = [
        row(some("hang", "nan", "site/x", "gpu-fault"), after=some(1, 500) or 0, gpus=some(0, 1, 9, 4096), user=some("a", "b\x1b[31m"),
            partition=some("p", "q"), nodes=chance.choice(((), ("n1",), ("n1", "n2"))), node=some("n1", "zz"), elapsed_s=some(0.0, 60.0),
            started=some(datetime(2026, 1, 1)), ended=some(datetime(1970, 1, 1), datetime(2099, 1, 1)), ran_on_s=some(0.0, 5.0))
        for _ in range(300)
    ]  # fmt: skip
    found = answers(tmp_path, rows)
    assert found.failed == sum(c.jobs for c in found.causes) == sum(c.jobs for c in found.users)
    assert found.jobs == sum(c.of for c in found.partitions) == sum(s.jobs for s in found.sizes) + found.sizes_left_out
    assert sum(c.gpu_hours_lost for c in found.causes) == pytest.approx(found.gpu_hours_lost)


def test_a_column_that_an_older_survey_did_not_know_is_null(tmp_path: Path) -> None:
    folder = Path(dataset(tmp_path / "run[1]*", [row("hang", ran_on_s=5.0)]))  # also a name that is a pattern
    file = folder / "jobs/month=2026-10/jobs.parquet"
    pq.write_table(pq.read_table(file, partitioning=None).drop_columns(["ran_on_s", "cluster"]), file)
    assert ask(str(folder), KNOWN).delays.jobs == 0


def test_all_shards_are_one_dataset_and_a_missing_one_is_named(tmp_path: Path) -> None:
    for shard in (1, 3):
        dataset(tmp_path / f"shard-{shard}-of-3", [row("hang")])
    assert ask(str(tmp_path), KNOWN).jobs == 2
    assert unfinished(str(tmp_path)) == ["2 of 3 shards are there; run those that are missing: 2/3"]
    assert unfinished(str(tmp_path / "shard-3-of-3")) == ["this is shard 3 of 3 alone; name the folder above it for all"]  # fmt: skip


def _written(folder: Path, write: Callable[[Path], object]) -> None:
    """A dataset whose only file is written anew."""
    write(Path(dataset(folder, [row("hang")])) / "jobs/month=2026-10/jobs.parquet")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda folder: None, "is not there"),
        (lambda folder: folder.write_text("x"), "is no folder"),
        (lambda folder: folder.mkdir(), "is no dataset of a survey"),
        (lambda folder: (folder / ".run").mkdir(parents=True), "has no rows yet"),
        (lambda folder: dataset(folder, []), "has no rows"),
        (lambda folder: dataset(folder, [row("hang", schema_version=99)]), "newer slurmdoctor"),
        (
            lambda folder: _written(folder, lambda file: pq.write_table(pa.table({"a": [1]}), file)),
            "that no survey wrote",
        ),
        (
            lambda folder: _written(folder, lambda file: file.write_bytes(file.read_bytes()[:-40])),
            "jobs.parquet cannot be read",
        ),
        (lambda folder: [dataset(folder / f"shard-1-of-{n}", [row()]) for n in (2, 3)], "shards of 2 and 3"),
    ],
)
def test_what_is_no_dataset_is_one_line_that_says_what_to_do(tmp_path: Path, make: Any, said: str) -> None:
    make(tmp_path / "out")
    with pytest.raises(UserError, match=said) as wrong:
        ask(str(tmp_path / "out"), KNOWN)
    assert len(wrong.value.lines) == 1
