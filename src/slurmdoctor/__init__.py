"""slurmdoctor finds the rank that broke a training job, and why, from what the job left behind.

    from slurmdoctor import diagnose

    found = diagnose("slurm-4711.out")
    print(found)

`diagnose` takes paths or a log's text, `diagnose_text` text alone, and `diagnose_job` the number of a Slurm job. Each returns a
`Diagnosis`, and raises `UserError` for what cannot be read: `LogNotFoundError` for a file that is not there.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from slurmdoctor.input.given import LogText
    from slurmdoctor.model import LogNotFoundError, UserError
    from slurmdoctor.pipeline import diagnose, diagnose_job, diagnose_jobs, diagnose_text
    from slurmdoctor.report.result import Diagnosis

__all__ = [
    "Diagnosis",
    "LogNotFoundError",
    "LogText",
    "UserError",
    "__version__",
    "diagnose",
    "diagnose_job",
    "diagnose_jobs",
    "diagnose_text",
]

_HOMES = {
    "Diagnosis": "report.result",
    "LogNotFoundError": "model",
    "LogText": "input.given",
    "UserError": "model",
    "diagnose": "pipeline",
    "diagnose_job": "pipeline",
    "diagnose_jobs": "pipeline",
    "diagnose_text": "pipeline",
}


def __getattr__(name: str) -> Any:
    """Import the library on first use: `slurmdoctor --version` must not wait for it."""
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
