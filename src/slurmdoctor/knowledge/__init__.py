"""What slurmdoctor knows of failures: YAML files → causes, rules, labels and signals."""

from slurmdoctor.knowledge.load import load
from slurmdoctor.knowledge.paths import builtin, folders
from slurmdoctor.knowledge.problems import RuleError

__all__ = ["RuleError", "builtin", "folders", "load"]
