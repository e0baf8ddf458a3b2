"""What Slurm knows of a job: its record, its logs, and what both say of a verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmdoctor.doors import door

if TYPE_CHECKING:
    from slurmdoctor.slurm.job_evidence import (
        LARGEST as LARGEST,
        Job as Job,
        described as described,
        gather as gather,
        gather_all as gather_all,
        read_text as read_text,
        saved as saved,
        warned as warned,
    )
    from slurmdoctor.slurm.jobinfo import by_name as by_name, whole as whole, worst as worst
    from slurmdoctor.slurm.logs import LogIndex as LogIndex, find as find, logs_of as logs_of, newest as newest
    from slurmdoctor.slurm.own_text import (
        begins as begins,
        end as end,
        epoch as epoch,
        is_named_after as is_named_after,
        note as note,
        noted as noted,
    )
    from slurmdoctor.slurm.query import job as job
    from slurmdoctor.slurm.windows import (
        COMPLETED as COMPLETED,
        Asked as Asked,
        counts_gpus as counts_gpus,
        days as days,
        ended as ended,
        fields as fields,
        moment as moment,
    )
else:
    __getattr__, __dir__, __all__ = door(
        __name__,
        job_evidence="Job LARGEST described gather gather_all read_text saved warned",
        jobinfo="by_name whole worst",
        logs="LogIndex find logs_of newest",
        own_text="begins end epoch is_named_after note noted",
        query="job",
        windows="Asked COMPLETED counts_gpus days ended fields moment",
    )
