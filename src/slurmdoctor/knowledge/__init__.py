"""What slurmdoctor knows of failures: YAML files → causes, rules, labels and signals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slurmdoctor.knowledge.load import load
from slurmdoctor.knowledge.paths import builtin, folders

if TYPE_CHECKING:
    from slurmdoctor.knowledge.problems import RuleError

__all__ = ["RuleError", "builtin", "folders", "load"]


def __getattr__(name: str) -> Any:
    """Import RuleError on first use: most runs find no mistake, and start faster without it."""
    if name == "RuleError":
        from slurmdoctor.knowledge.problems import RuleError

        return RuleError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
