"""What Slurm knows of a job: its record, its logs, and what both say of a verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmdoctor.doors import door

if TYPE_CHECKING:
    from slurmdoctor.slurm.job_evidence import (
        LARGEST,
        Job,
        described,
        gather,
        gather_all,
        read_text,
        saved,
        warned,
    )
    from slurmdoctor.slurm.jobinfo import by_name, whole, worst
    from slurmdoctor.slurm.logs import LogIndex, find, logs_of, newest
    from slurmdoctor.slurm.own_text import (
        begins,
        end,
        epoch,
        is_named_after,
        note,
        noted,
    )
    from slurmdoctor.slurm.query import ask, check_id, job
    from slurmdoctor.slurm.windows import (
        COMPLETED,
        Asked,
        counts_gpus,
        days,
        ended,
        fields,
        moment,
    )
else:
    __getattr__, __dir__, __all__ = door(
        __name__,
        job_evidence="Job LARGEST described gather gather_all read_text saved warned",
        jobinfo="by_name whole worst",
        logs="LogIndex find logs_of newest",
        own_text="begins end epoch is_named_after note noted",
        query="ask check_id job",
        windows="Asked COMPLETED counts_gpus days ended fields moment",
    )
