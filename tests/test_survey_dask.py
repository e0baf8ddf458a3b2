"""A survey on Dask: the same rows as on this machine, whatever dies."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from slurmdoctor.model import UserError
from slurmdoctor.survey import dask_pool
from slurmdoctor.survey.dataset import open_dataset
from slurmdoctor.survey.listing import find_in_folders
from slurmdoctor.survey.pool import Chunk, Pool, Work
from slurmdoctor.survey.rows import How, Item, Log, Row, fingerprint
from slurmdoctor.survey.runs import Tally, run
from slurmdoctor.survey.work import diagnose_one, version
from surveyed import Here, rows_of, survey as command

FIXTURES = Path(__file__).parent / "fixtures"
CASES = [str(folder) for folder in sorted(FIXTURES.glob("*cascade*")) + sorted(FIXTURES.glob("*oom*"))][:4]
HOW = How(rules_version=version(()))


@pytest.fixture(scope="module")
def scheduler() -> Iterator[Any]:
    import dask.config
    from distributed import LocalCluster

    with pytest.MonkeyPatch.context() as patch, dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))  # for the jobs below that kill their readers
        with LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None, host="127.0.0.1") as cluster:  # type: ignore[no-untyped-call]
            yield cluster


def survey(
    out: Path, hire: Callable[[], Pool], how: How = HOW, report: Callable[[Tally], None] = lambda _: None
) -> Tally:
    tally = Tally()
    with open_dataset(out) as data:
        run(data, find_in_folders(CASES), how, hire, tally=tally, report=report)
    return tally


def on(scheduler: Any, work: Work = diagnose_one, how: How = HOW) -> Callable[[], Pool]:
    return lambda: dask_pool.connect(scheduler.scheduler_address, work, how)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Any, ...]]:
    """The rows as this process writes them."""
    out = tmp_path_factory.mktemp("local")
    assert survey(out, lambda: Here(how=HOW)).read["error"] == 0
    found = rows_of(out, "*")
    assert len(found) >= len(CASES) > 3
    return found


def test_the_rows_are_those_of_this_machine(tmp_path: Path, scheduler: Any, local: list[tuple[Any, ...]]) -> None:
    assert survey(tmp_path, on(scheduler)).read["error"] == 0
    assert rows_of(tmp_path, "*") == local


@pytest.mark.slow
def test_a_worker_that_is_killed_in_the_middle_costs_nothing(
    tmp_path: Path, scheduler: Any, local: list[tuple[Any, ...]]
) -> None:
    killed: list[int] = []

    def kill(tally: Tally) -> None:
        if tally.done and not killed:
            killed.append(scheduler.workers[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    assert survey(tmp_path, on(scheduler), report=kill).read["error"] == 0
    assert killed
    assert rows_of(tmp_path, "*") == local


def deadly(item: Item, how: How) -> Row:
    if item.key == "job3":
        os._exit(1)
    return Row(key=item.key, fingerprint=fingerprint(item, how))


@pytest.mark.slow
def test_a_job_that_kills_its_readers_is_a_row(tmp_path: Path, scheduler: Any) -> None:
    tally = Tally()
    with open_dataset(tmp_path) as data:
        run(data, (Item(f"job{n}") for n in range(8)), HOW, on(scheduler, deadly), tally=tally)
    assert (tally.done, tally.read["error"]) == (8, 1)
    assert [(row[0], row[-6]) for row in rows_of(tmp_path, "*") if row[-6]] == [
        ("job3", "its reader was killed, on each of the Dask workers that tried")
    ]


def test_a_worker_with_other_rules_stops_the_run(tmp_path: Path, scheduler: Any) -> None:
    other = replace(HOW, rules_version="another")
    with pytest.raises(UserError, match=r"the worker on \S+ has another slurmdoctor, or other rules"):
        survey(tmp_path, on(scheduler, how=other), other)
    assert not (tmp_path / "jobs").exists()


@pytest.mark.parametrize("address", ["nonsense", "gone.json", "empty.json", "tcp://127.0.0.1:1"])
def test_what_is_no_scheduler_is_one_line_at_once(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty.json").write_text("{}")
    monkeypatch.setattr(dask_pool, "_ANSWERS", 1)
    monkeypatch.chdir(tmp_path)
    done = command(FIXTURES / "demo-cascade", "--out", "found", "--dask", address)
    assert (done.code, done.stderr.count("\n"), "give the address" in done.stderr) == (2, 1, True)
    assert f"no Dask scheduler answers at {address}" in done.stderr


def test_a_reader_that_hangs_is_left_behind() -> None:
    def hangs(item: Item, how: How) -> Row:
        time.sleep(2)
        return diagnose_one(item, how)

    row = dask_pool.within(0.1, hangs, Item("k", logs=(Log("/scratch/demo/1.out"),)), HOW)
    assert (row.key, row.read, row.error) == ("k", "error", "its reader did not answer within 0 s")


def program(place: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that is found before all others of its name."""
    place.write_text(f"#!/bin/sh\n{text}\n")
    place.chmod(0o755)
    monkeypatch.setenv("PATH", str(place.parent), prepend=os.pathsep)


@pytest.mark.parametrize(("options", "name"), [({}, "slurmdoctor-survey"), ({"job_name": "mine"}, "mine")])
def test_the_jobs_that_are_sent_to_slurm_bear_a_name_that_no_survey_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], name: str
) -> None:
    program(tmp_path / "sbatch", f"cat > {tmp_path}/sent\nexit 1", monkeypatch)
    with pytest.raises(UserError, match="Dask cannot send its jobs to Slurm"):
        dask_pool.send_to_slurm(1, options, tmp_path / "logs", diagnose_one, How())
    assert f"#SBATCH -J {name}\n" in (tmp_path / "sent").read_text()


class Workerless:
    """Dask's client where no worker has come: what it is given stays undone, or is lost."""

    def __init__(self) -> None:
        self.given: list[Future[list[Row]]] = []

    def nthreads(self) -> dict[str, int]:
        return {}

    def submit(self, *_: Any, pure: bool) -> Any:
        self.given.append(Future())
        return self.given[-1]


def test_rows_that_die_with_their_worker_before_they_are_fetched_are_not_waited_for() -> None:
    client = Workerless()
    crew = dask_pool.DaskPool(client, diagnose_one, HOW, ExitStack())
    crew.submit(Chunk(()))
    client.given[0].set_exception(OSError("the worker is gone"))
    outcome: Any = crew.outcome(1.0)
    assert outcome.died == "OSError: the worker is gone"


@pytest.mark.slow
@pytest.mark.parametrize(("queue", "ends"), [("", True), ("7", True), ("12", False), (None, False)])
def test_jobs_that_end_without_a_worker_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, queue: str | None, ends: bool
) -> None:
    program(tmp_path / "squeue", "exit 1" if queue is None else f"echo {queue}", monkeypatch)
    clock = [100.0]
    monkeypatch.setattr("slurmdoctor.survey.dask_pool.time", SimpleNamespace(monotonic=lambda: clock[0]))
    known = {"status": SimpleNamespace(name="running"), "log_directory": "found/.run/workers"}
    jobs = {n: SimpleNamespace(job_id=str(11 + n), **known) for n in range(2)}
    crew = dask_pool.DaskPool(Workerless(), diagnose_one, HOW, ExitStack(), SimpleNamespace(workers=jobs))

    def later(tally: Tally) -> None:
        clock[0] += 20
        if clock[0] > 250:
            raise TimeoutError

    told = r"2 of Dask's 2 jobs have ended without a worker: see found/.run/workers/\*.err"
    with pytest.raises(UserError if ends else TimeoutError, match=told if ends else None):
        survey(tmp_path / "out", lambda: crew, report=later)
    assert clock[0] >= 160
