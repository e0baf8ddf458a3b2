"""What Slurm knows of a job: its record, its logs, and what both say of a verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmdoctor.doors import door

if TYPE_CHECKING:
    from slurmdoctor.slurm.job_evidence import LARGEST as LARGEST
    from slurmdoctor.slurm.job_evidence import Job as Job
    from slurmdoctor.slurm.job_evidence import gather as gather
    from slurmdoctor.slurm.job_evidence import gather_all as gather_all
    from slurmdoctor.slurm.job_evidence import read_text as read_text
    from slurmdoctor.slurm.job_evidence import saved as saved
    from slurmdoctor.slurm.job_evidence import warned as warned
    from slurmdoctor.slurm.jobinfo import by_name as by_name
    from slurmdoctor.slurm.jobinfo import whole as whole
    from slurmdoctor.slurm.jobinfo import worst as worst
    from slurmdoctor.slurm.logs import LogIndex as LogIndex
    from slurmdoctor.slurm.logs import find as find
    from slurmdoctor.slurm.logs import logs_of as logs_of
    from slurmdoctor.slurm.logs import newest as newest
    from slurmdoctor.slurm.own_text import begins as begins
    from slurmdoctor.slurm.own_text import end as end
    from slurmdoctor.slurm.own_text import epoch as epoch
    from slurmdoctor.slurm.own_text import is_named_after as is_named_after
    from slurmdoctor.slurm.own_text import note as note
    from slurmdoctor.slurm.own_text import noted as noted
    from slurmdoctor.slurm.query import job as job
    from slurmdoctor.slurm.windows import COMPLETED as COMPLETED
    from slurmdoctor.slurm.windows import Asked as Asked
    from slurmdoctor.slurm.windows import counts_gpus as counts_gpus
    from slurmdoctor.slurm.windows import days as days
    from slurmdoctor.slurm.windows import ended as ended
    from slurmdoctor.slurm.windows import fields as fields
    from slurmdoctor.slurm.windows import moment as moment
else:
    __getattr__, __dir__, __all__ = door(
        __name__,
        job_evidence="Job LARGEST gather gather_all read_text saved warned",
        jobinfo="by_name whole worst",
        logs="LogIndex find logs_of newest",
        own_text="begins end epoch is_named_after note noted",
        query="job",
        windows="Asked COMPLETED counts_gpus days ended fields moment",
    )
