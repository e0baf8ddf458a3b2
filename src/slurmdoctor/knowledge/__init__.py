"""What slurmdoctor knows of failures: YAML files → causes, rules, labels and signals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slurmdoctor.knowledge.load import load
from slurmdoctor.knowledge.paths import builtin, folders

if TYPE_CHECKING:
    from slurmdoctor.knowledge.problems import RuleError

__all__ = ["RuleError", "builtin", "folders", "load"]


def __getattr__(name: str) -> Any:
    """Import what tells of mistakes in rule files on first use: mostly there are none."""
    if name == "RuleError":
        from slurmdoctor.knowledge.problems import RuleError

        return RuleError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
