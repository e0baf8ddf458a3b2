"""A survey of a real Slurm whose jobs a real slurmdbd keeps: every run of every job is one row, with its own log."""

import os
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import pytest

from slurmdoctor.model import UserError
from slurmdoctor.slurm import windows
from slurmdoctor.survey import listing
from slurmdoctor.survey.rows import How, Item, Row
from slurmdoctor.survey.work import diagnose_one

from .accounts import Accounts
from .cluster import Cluster

pytestmark = pytest.mark.slow

CUDA = "echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.'"
ODD = "od\nd|na\x1fme caf\udce9"
WAIT = "srun -n1 bash -c 'echo up; exec sleep 600'"
AGAIN = f'if [ -z "$SLURM_RESTART_COUNT" ]; then {WAIT}; fi; {CUDA}; exit 1'
HET = "#SBATCH -N1 -n1\n#SBATCH hetjob\n#SBATCH -N1 -n2\nsrun --het-group=1 bash -c 'exit 5'"
NODE = ("-N1",)
JOBS: dict[str, tuple[str, tuple[str, ...]]] = {
    "plain": (f"{CUDA}; exit 1", ("-N1", "--gres=gpu:2")),
    "odd": (f"{CUDA}; exit 1", (*NODE, "-J", ODD, "--comment", "a\n4711\x1fb")),
    "elsewhere": (f"#SBATCH -o deep/%x.%j.txt\n{CUDA}; exit 1", (*NODE, "-J", "deep")),
    "completed": (f"{CUDA}; exit 0", NODE),
    "array": (f"test $SLURM_ARRAY_TASK_ID != 1 || {{ {CUDA}; exit 1; }}", (*NODE, "--array=0-2")),
    "het": (HET, ()),
    "cancelled": (WAIT, NODE),
    "time limit": (WAIT, (*NODE, "-t1")),
    "appended": (AGAIN, (*NODE, "--requeue", "--open-mode=append")),
    "emptied": (AGAIN, (*NODE, "--requeue")),
    "waiting": ("exit 1", (*NODE, "--begin=now+1hour")),
    "running": (WAIT, NODE),
}
ROWS = {
    "plain": [("FAILED", "cuda-oom", 2)],
    "odd": [("FAILED", "cuda-oom", 0)],
    "elsewhere": [("FAILED", "cuda-oom", 0)],
    "completed": [("COMPLETED", "cuda-oom", 0)],
    "array": [("COMPLETED", None, 0), ("FAILED", "cuda-oom", 0), ("COMPLETED", None, 0)],
    "het": [("FAILED", "exit-code", 0)],
    "cancelled": [("CANCELLED", "cancelled", 0)],
    "time limit": [("TIMEOUT", "time-limit", 0)],
    "appended": [("REQUEUED", "preempted", 0), ("FAILED", "cuda-oom", 0)],
    "emptied": [("REQUEUED", "preempted", 0), ("FAILED", "cuda-oom", 0)],
    "waiting": [],
    "running": [],
}


@pytest.fixture(scope="module")
def ids(accounted: tuple[Cluster, Accounts]) -> Iterator[dict[str, str]]:
    """Each job's id, once all but the last have ended and slurmdbd knows it."""
    cluster = accounted[0]
    (cluster.folder / "jobs" / "deep").mkdir()
    found = {name: cluster.submit(f"#!/bin/bash\n{body}\n", *options) for name, (body, options) in JOBS.items()}
    waiting = ("appended", "emptied", "cancelled")
    _until(cluster, lambda: all("up" in cluster.output(found[name]) for name in waiting))
    cluster.run("scancel", found["cancelled"], found["waiting"])
    again = ("appended", "emptied")
    for name in again:
        cluster.run("scontrol", "requeue", found[name])
    _until(cluster, lambda: all("DUE TO JOB REQUEUE" in cluster.output(found[name]) for name in again))
    time.sleep(2)  # the first run's step ends, while the job waits already
    for name in again:
        cluster.run("scontrol", "update", f"JobId={found[name]}", "StartTime=now")  # Slurm waits two minutes by itself
    _until(cluster, lambda: cluster.run("squeue", "-h", "-o", "%A").split() == [found["running"]], 180)
    time.sleep(3)  # slurmctld tells slurmdbd of ends a little later
    yield found
    cluster.run("scancel", found["running"])


def _until(cluster: Cluster, done: Callable[[], bool], patience: float = 60.0) -> None:
    end = time.monotonic() + patience
    while not done():
        assert time.monotonic() < end, cluster.run("squeue")
        time.sleep(0.5)


@pytest.fixture
def slurm(accounted: tuple[Cluster, Accounts], monkeypatch: pytest.MonkeyPatch) -> Accounts:
    for name, value in accounted[0].env.items():
        monkeypatch.setenv(name, value)
    return accounted[1]


def _items(since: datetime, until: datetime) -> list[Item]:
    return list(listing.find_accounted(since, until, windows.Asked(completed=True)))


def _rows() -> list[Row]:
    now = datetime.now()
    items = _items(now - timedelta(hours=1), now + timedelta(minutes=1))
    return sorted(
        (diagnose_one(item, How()) for item in items), key=lambda row: (row.submitted or now, row.job_id or "")
    )


@pytest.mark.parametrize("name", JOBS)
def test_every_run_is_one_row_with_its_own_log(slurm: Accounts, ids: dict[str, str], name: str) -> None:
    rows = _rows()
    assert len({row.key for row in rows}) == len(rows)
    own = [row for row in rows if (row.job_id or "").partition("_")[0] == ids[name]]
    assert [(row.state, row.cause, row.gpus) for row in own] == ROWS[name]
    lost = name == "emptied"  # the second run has emptied the first one's log
    assert [row.read for row in own] == ["no-log" if lost and row.state == "REQUEUED" else "yes" for row in own]


def test_it_knows_whose_a_job_was_and_where_it_ran(slurm: Accounts, ids: dict[str, str]) -> None:
    by_id = {row.job_id: row for row in _rows()}
    odd, het = by_id[ids["odd"]], by_id[ids["het"]]
    assert (odd.cluster, odd.partition, odd.num_nodes) == ("tests", "all", 1)
    assert odd.user == "root" or os.geteuid()
    assert (len(het.nodes), het.num_nodes) == (2, 2)


def test_an_unknown_user_is_one_line(slurm: Accounts) -> None:
    with pytest.raises(UserError, match="sacct told nothing of that day: sacct failed: Invalid user"):
        list(listing.find_accounted(datetime(2026, 11, 1), datetime(2026, 11, 2), windows.Asked(user="nobody-here")))


EDGES = [
    ("UTC", "2026-03-02T00:00:00", 1772409600),
    ("UTC", "2026-03-02T23:59:59", 1772495999),
    ("America/Havana", "2026-03-08T01:00:00", 1772946000),  # there is no midnight on this day
    ("America/Havana", "2026-03-07T23:59:59", 1772945999),
    ("America/Havana", "2026-11-01T00:30:00", 1793507400),  # this hour comes twice
    ("America/Havana", "2026-11-01T00:30:00", 1793511000),
]


@pytest.mark.parametrize(("zone", "shown", "end"), EDGES)
def test_at_the_edges_of_days_no_job_and_no_step_is_lost_or_doubled(
    slurm: Accounts, ids: dict[str, str], zone: str, shown: str, end: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is told that a job ended at another time, after its step by half an hour."""
    monkeypatch.setenv("TZ", zone)
    where = f"id_job = {ids['plain']}"
    began = "time_submit = {0}, time_eligible = {0}, time_start = {0}".format(end - 90_000)
    slurm.sql(f"USE accounts; UPDATE tests_job_table SET {began}, time_end = {end} WHERE {where}")
    step = f"time_start = {end - 90_000}, time_end = {end - 1800}"
    slurm.sql(
        f"USE accounts; UPDATE tests_step_table SET {step} WHERE job_db_inx IN (SELECT job_db_inx FROM tests_job_table WHERE {where})"
    )
    day = datetime.fromisoformat(shown[:10])
    found = [_items(day + timedelta(days=k), day + timedelta(days=k + 1)) for k in (-1, 0, 1)]
    assert [[item.id for item in items] for items in found] == [[], [ids["plain"]], []]
    record = found[1][0].record
    assert record is not None
    assert [step.id for step in record.steps] == ["batch"]
