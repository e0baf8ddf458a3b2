"""slurmdoctor finds the rank that broke a training job, and why, from what the job left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from slurmdoctor.model import UserError
    from slurmdoctor.pipeline import diagnose
    from slurmdoctor.report.result import Diagnosis

__all__ = ["Diagnosis", "UserError", "__version__", "diagnose"]


def __getattr__(name: str) -> Any:
    """Import the library on first use: `slurmdoctor --version` must not wait for it."""
    if name == "diagnose":
        from slurmdoctor.pipeline import diagnose

        return diagnose
    if name == "Diagnosis":
        from slurmdoctor.report.result import Diagnosis

        return Diagnosis
    if name == "UserError":
        from slurmdoctor.model import UserError

        return UserError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
