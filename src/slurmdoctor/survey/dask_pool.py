"""Where chunks are diagnosed on many machines: Dask workers, those of a running cluster or of jobs that Dask sends to Slurm."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shlex
import subprocess
import threading
import time
from collections.abc import Mapping
from concurrent.futures import CancelledError
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from slurmdoctor.model import UserError
from slurmdoctor.processes import python
from slurmdoctor.survey.pool import MARGIN, Chunk, Outcome, Pool, Work
from slurmdoctor.survey.rows import OWN_JOBS, How, Item, Row
from slurmdoctor.survey.work import not_read, version

_CONNECTS = 30
"""Seconds in which a scheduler must answer what it is asked,"""
_ANSWERS = 10
"""and in which it must be there at all."""
_ALONE = 60.0
"""Seconds without a worker after which Slurm is asked for the workers' jobs, each time."""
_LONGEST_ERROR = 300
"""Characters of an error of Slurm that are shown."""
_COUNTED = 2.0
"""Seconds for which the number of workers is taken as known."""
_LEAST: Mapping[str, Any] = {"cores": 1, "processes": 1, "memory": "4GB"}
"""What a worker's job asks Slurm for, where neither Dask's own configuration nor an option says."""
_SCHEDULER = {"dashboard_address": "127.0.0.1:0"}
"""Its pages are for this machine alone, at a port that is free."""
_one_at_a_time = threading.Lock()
"""A worker with several threads reads one chunk at a time: reading is Python's work, and threads would not make it faster."""


class DaskPool(Pool):
    """The workers of a Dask scheduler, as many as there are at any moment; what a dead one had, Dask gives to others."""

    def __init__(self, client: Any, work: Work, how: How, stack: ExitStack, cluster: Any = None) -> None:
        super().__init__()
        self._client, self._work, self._how, self._stack, self._cluster = client, work, how, stack, cluster
        self._seen = self._asked = time.monotonic()
        """When a worker was there last, and when Slurm was asked last."""
        self._counted = (-_COUNTED, 0)

    @property
    def workers(self) -> int:  # type: ignore[override]
        since, count = self._counted
        if time.monotonic() - since > _COUNTED:
            try:
                count = len(self._client.nthreads())
            except OSError as error:
                raise _gone() from error
            now = time.monotonic()
            self._counted = now, count
            if count:
                self._seen = self._asked = now
            elif self._cluster is not None and now - self._seen > _CONNECTS:
                self._look_for_jobs(now)
        return count

    def submit(self, chunk: Chunk) -> None:
        future = self._client.submit(diagnosed_there, self._work, chunk, self._how, pure=False)
        future.add_done_callback(lambda done: self.done.put(_outcome(chunk, done)))

    def close(self) -> None:
        with suppress(Exception):  # what never came up cannot be closed
            self._stack.close()

    def _look_for_jobs(self, now: float) -> None:
        """Dask does not tell where sbatch refuses its jobs (they then stay as they were made), or where they end and reached no scheduler."""
        jobs = list(self._cluster.workers.values())
        if jobs and all(job.status.name == "created" for job in jobs):
            raise UserError("Slurm took none of Dask's jobs", "SLURMDOCTOR_DEBUG=1 shows what sbatch says")
        if jobs and now - self._asked >= _ALONE:
            self._asked = now
            there = _in_queue()
            if there is not None and not any(job.job_id is None or job.job_id in there for job in jobs):
                raise UserError(
                    f"{len(jobs)} of Dask's {len(jobs)} jobs have ended without a worker: see {jobs[0].log_directory}/*.err",
                    "where they cannot reach this machine, add --dask-option interface=ib0, or another network that they share",
                )


def connect(address: str, work: Work, how: How) -> DaskPool:
    """The workers of the scheduler at an address, or of a scheduler file."""
    distributed = _quiet()
    where = {"scheduler_file": address} if address.endswith(".json") else {"address": address}
    stack = ExitStack()
    try:
        asyncio.run(_reach(distributed, address))
        client = stack.enter_context(distributed.Client(**where, timeout=_CONNECTS, set_as_default=False))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"no Dask scheduler answers at {address}: {error}", "give the address it printed: tcp://HOST:8786"
        ) from error
    return DaskPool(client, work, how, stack)


async def _reach(distributed: Any, address: str) -> None:
    """Raise what keeps a scheduler out of reach: a client that is made and reaches none holds the program up for a minute."""
    if address.endswith(".json"):
        address = str(json.loads(await asyncio.to_thread(Path(address).read_bytes))["address"])
    secured = distributed.Security().get_connection_args("client")
    there = await distributed.core.connect(address, timeout=_ANSWERS, **secured)
    await there.close()


def send_to_slurm(jobs: int, options: Mapping[str, Any], logs: Path, work: Work, how: How) -> DaskPool:
    """So many jobs of Dask workers, which Slurm starts; one that dies is sent again."""
    distributed = _quiet()
    import dask.config
    from dask_jobqueue.slurm import SLURMCluster

    configured = dask.config.get("jobqueue.slurm", {})
    usual = {name: value for name, value in _LEAST.items() if configured.get(name) is None}
    if not configured.get("log-directory"):
        usual["log_directory"] = os.path.abspath(logs)  # noqa: PTH100 - else they fall into the working folder, as logs of jobs
    if configured.get("name") in (None, "dask-worker"):
        usual["job_name"] = OWN_JOBS
    own = {"python": shlex.join(python(options.get("python") or configured.get("python")))}
    stack = ExitStack()
    try:
        scheduler = {
            **_SCHEDULER,
            **(configured.get("scheduler-options") or {}),
            **options.get("scheduler_options", {}),
        }
        cluster = stack.enter_context(SLURMCluster(**{**usual, **options, **own, "scheduler_options": scheduler}))
        _try(cluster.job_script())
        cluster.adapt(minimum_jobs=jobs, maximum_jobs=jobs)
        client = stack.enter_context(distributed.Client(cluster, timeout=_CONNECTS, set_as_default=False))
    except (OSError, ValueError, TypeError, RuntimeError, subprocess.SubprocessError) as error:
        stack.close()
        raise UserError(
            f"Dask cannot send its jobs to Slurm: {' '.join(str(error).split())[:_LONGEST_ERROR]}",
            "mend it with --dask-option, or in Dask's jobqueue.yaml",
        ) from error
    return DaskPool(client, work, how, stack, cluster)


def _try(script: str) -> None:
    """Let Slurm judge the worker's job before any is sent."""
    command = ["sbatch", "--test-only"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=_CONNECTS, check=False)
    if done.returncode:
        raise OSError(done.stderr.strip() or f"sbatch exited with status {done.returncode}")


def _in_queue() -> set[str] | None:
    """This user's jobs that wait or run, on every cluster that Slurm knows; None where it does not answer."""
    for clusters in (["--clusters=all"], []):  # without slurmdbd there is only this one
        command = ["squeue", "--me", "--noheader", "--format=%A", *clusters]
        with suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(command, capture_output=True, text=True, timeout=_CONNECTS, check=False)
            if not done.returncode:
                return set(done.stdout.split())
    return None


def diagnosed_there(work: Work, chunk: Chunk, how: How) -> list[Row]:
    """The rows of a chunk, on a worker of Dask."""
    if version(how.rules) != how.rules_version:
        raise UserError(
            f"the worker on {os.uname().nodename} has another slurmdoctor, or other rules, than this machine",
            "install the same version there, and give both the same rules",
        )
    with _one_at_a_time:
        return [within(how.time_limit + MARGIN, work, item, how) for item in chunk.items]


def within(patience: float, work: Work, item: Item, how: How) -> Row:
    """The row of a job. A reader that hangs, since its disk does not answer, is left behind."""
    rows: list[Row] = []
    reader = threading.Thread(target=lambda: rows.append(work(item, how)), daemon=True)
    reader.start()
    reader.join(patience)
    if rows:
        return rows[0]
    why = f"did not answer within {patience:.0f} s" if reader.is_alive() else "ended without a row"
    return not_read(item, how, f"its reader {why}")


def _outcome(chunk: Chunk, future: Any) -> Outcome | UserError:
    """What Dask has of a chunk that is done. Dask's own executor loses a chunk whose rows died with their worker before they were fetched."""
    from distributed import KilledWorker

    try:
        return Outcome(chunk, tuple(future.result()))
    except CancelledError:
        return _gone()
    except UserError as error:
        return error
    except ImportError as error:
        return UserError(f"a Dask worker has no slurmdoctor: {error}", "install the same version there")
    except KilledWorker:
        return Outcome(chunk, died="its reader was killed, on each of the Dask workers that tried")
    except BaseException as error:
        return Outcome(chunk, died=f"{type(error).__name__}: {error}")


def _gone() -> UserError:
    return UserError("the Dask scheduler is gone", "start it, and run the same command again: what is written is kept")


def _quiet() -> Any:
    """Dask, which does not tell the terminal of every worker that comes and goes."""
    import distributed

    if not os.environ.get("SLURMDOCTOR_DEBUG"):
        for name in list(logging.root.manager.loggerDict):
            if name.partition(".")[0] in ("distributed", "tornado", "asyncio"):
                logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    return distributed
