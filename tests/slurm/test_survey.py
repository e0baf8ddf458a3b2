"""A survey on Dask workers that Slurm starts: the same rows as on one machine, and a worker that dies costs none."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest

from slurmdoctor.model import UserError
from slurmdoctor.survey.dask_pool import send_to_slurm
from slurmdoctor.survey.dataset import open_dataset
from slurmdoctor.survey.listing import find_in_folders
from slurmdoctor.survey.pool import LocalPool, Pool
from slurmdoctor.survey.rows import How
from slurmdoctor.survey.runs import Tally, run
from slurmdoctor.survey.work import diagnose_one, version
from test_foreign_code import planted

from .cluster import Cluster

pytestmark = pytest.mark.slow
FIXTURES = Path(__file__).parents[1] / "fixtures"
HOW = How(rules_version=version(()))
LOOPBACK = {"scheduler_options": {"host": "127.0.0.1"}, "memory": "1GB"}


@pytest.fixture
def slurm(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    for name in os.environ:
        if name not in cluster.env:
            monkeypatch.delenv(name)
    for name, value in cluster.env.items():
        monkeypatch.setenv(name, value)
    return cluster


def table(out: Path) -> list[tuple[Any, ...]]:
    found = duckdb.sql(f"SELECT * FROM '{out}/jobs/*/*.parquet' ORDER BY key")
    assert found is not None
    return found.fetchall()


def test_four_nodes_give_the_rows_of_one_machine_though_a_worker_is_cancelled(slurm: Cluster, tmp_path: Path) -> None:
    cancelled: list[str] = []

    def cancel(tally: Tally) -> None:
        if tally.done and not cancelled:
            cancelled.extend(slurm.run("squeue", "-h", "-n", "slurmdoctor-survey", "-t", "R", "-o", "%A").split()[:1])
            slurm.run("scancel", *cancelled)

    def there(out: Path) -> Pool:
        return send_to_slurm(4, LOOPBACK, out / ".run" / "workers", diagnose_one, HOW)

    tallies = []
    for name, hire in (("there", lambda: there(tmp_path / "there")), ("here", lambda: LocalPool(2, diagnose_one, HOW))):
        tally = Tally()
        with open_dataset(tmp_path / name) as data:
            report = cancel if name == "there" else lambda _: None
            run(data, find_in_folders([str(FIXTURES)]), HOW, hire, tally=tally, report=report)
        tallies.append((tally.found, tally.done, tally.read["error"]))
    assert cancelled
    assert tallies[0] == tallies[1]
    assert tallies[0][0] > 100
    assert table(tmp_path / "there") == table(tmp_path / "here")
    assert not list(Path.cwd().glob("slurmdoctor-survey-*"))
    left = slurm.run("squeue", "-h", "-n", "slurmdoctor-survey", "-t", "PENDING,RUNNING", "-o", "%A").split()
    assert left == [], "the workers' jobs end with the run"


def test_no_worker_imports_from_the_folder_that_it_works_in(
    slurm: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(planted(tmp_path / "planted"))
    tally = Tally()
    with open_dataset(tmp_path / "found") as data:
        hire = partial(send_to_slurm, 1, LOOPBACK, tmp_path / "workers", diagnose_one, HOW)
        run(data, find_in_folders(["."]), HOW, hire, tally=tally)
    assert (tally.failed, tally.read["yes"]) == (3, 3)
    assert not (tmp_path / "imported").exists()


def test_what_slurm_refuses_is_one_line(slurm: Cluster, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"Dask cannot send its jobs to Slurm: .*[Ii]nvalid partition"):
        send_to_slurm(1, {**LOOPBACK, "queue": "nosuch"}, tmp_path, diagnose_one, HOW)
