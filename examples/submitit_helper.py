"""submitit: what a failed job's `result()` raises also says why the job failed.

from submitit_helper import result

job = executor.submit(train)
result(job)          # instead of job.result()
"""

from __future__ import annotations

import sys
from typing import Any

from submitit import Job, SlurmJob
from submitit.core.utils import UncompletedJobError

from slurmdoctor import diagnose, diagnose_job


def result(job: Job[Any]) -> Any:
    """`job.result()`, or `job.results()` of a job with several tasks; its error carries the verdict."""
    try:
        return job.results() if job.num_tasks > 1 else job.result()
    except UncompletedJobError as error:
        explain(error, job)
        raise


def explain(error: Exception, job: Job[Any]) -> None:
    """Put the verdict on a job into its error."""
    try:
        said = verdict(job)
    except Exception as trouble:  # what failed first must not be hidden
        said = f"slurmdoctor: {trouble}"
    if sys.version_info >= (3, 11):
        error.add_note(said)
    else:
        error.args = (f"{error}\n{said}",)


def verdict(job: Job[Any]) -> str:
    """What broke a job, from the logs of its tasks (`FOLDER/%j_%t_log.out`) and from what Slurm knows of it."""
    paths = [job.task(task).paths for task in range(job.num_tasks)]
    logs = [log for task in paths for log in (task.stdout, task.stderr) if log.exists()]
    return str(diagnose_job(job.job_id, *logs) if isinstance(job, SlurmJob) else diagnose(logs))
