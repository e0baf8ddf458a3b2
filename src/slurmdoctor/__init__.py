"""slurmdoctor finds the rank that broke a training job, and why, from what the job left behind.

    from slurmdoctor import diagnose

    found = diagnose("slurm-4711.out")
    print(found)

`diagnose` takes paths or a log's text, `diagnose_text` text alone, and `diagnose_job` the number of a Slurm job. Each returns a
`Diagnosis`, and raises `UserError` for what cannot be read: `LogNotFoundError` for a file that is not there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmdoctor.doors import door

__version__ = "0.1.0"

if TYPE_CHECKING:
    from slurmdoctor.input import LogText as LogText
    from slurmdoctor.model import LogNotFoundError as LogNotFoundError, UserError as UserError
    from slurmdoctor.pipeline import (
        diagnose as diagnose,
        diagnose_job as diagnose_job,
        diagnose_jobs as diagnose_jobs,
        diagnose_text as diagnose_text,
    )
    from slurmdoctor.report import Diagnosis as Diagnosis
else:
    __getattr__, __dir__, __all__ = door(
        __name__,
        **{"report.result": "Diagnosis", "input.opening": "LogText"},
        model="LogNotFoundError UserError",
        pipeline="diagnose diagnose_job diagnose_jobs diagnose_text",
    )
    __all__.insert(4, "__version__")
