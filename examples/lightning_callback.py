"""Lightning: the exception that ends a training also says which rank of the job failed first, and why.

trainer = Trainer(callbacks=[Verdict()])                  # in a Slurm job: Slurm knows its logs
trainer = Trainer(callbacks=[Verdict("logs/job.out")])
"""

from __future__ import annotations

import os
import sys
import traceback

from lightning.pytorch import Callback, LightningModule, Trainer

from slurmdoctor import Diagnosis, LogText, UserError, diagnose, diagnose_job


class Verdict(Callback):
    """Reads the job's logs when the training raises, and puts the verdict into the exception."""

    def __init__(self, *logs: str) -> None:
        self.logs = logs

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        try:
            said = str(self.verdict(own_text(exception, trainer.global_rank)))
        except Exception as trouble:  # what failed first must not be hidden
            said = f"slurmdoctor: {trouble}"
        if sys.version_info >= (3, 11):
            exception.add_note(said)
        else:
            exception.args = (f"{exception}\n{said}",)

    def verdict(self, own: LogText) -> Diagnosis:
        job = os.environ.get("SLURM_JOB_ID")
        if job:
            try:
                return diagnose_job(job, *self.logs, own)
            except UserError:  # Slurm cannot be asked here, and no log was named
                pass
        return diagnose([*self.logs, own])


def own_text(exception: BaseException, rank: int) -> LogText:
    """This rank's traceback as torchrun prints it: it is not in the log yet."""
    lines = "".join(traceback.format_exception(type(exception), exception, exception.__traceback__)).splitlines()
    return LogText("".join(f"[rank{rank}]: {line}\n" for line in lines), f"rank {rank}")
