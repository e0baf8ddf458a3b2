"""What slurmdoctor knows of failures: YAML files → causes, rules, labels and signals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmdoctor.doors import door

if TYPE_CHECKING:
    from slurmdoctor.knowledge.expressions import Facts as Facts
    from slurmdoctor.knowledge.expressions import fill as fill
    from slurmdoctor.knowledge.expressions import holds as holds
    from slurmdoctor.knowledge.expressions import layouts as layouts
    from slurmdoctor.knowledge.expressions import value as value
    from slurmdoctor.knowledge.loading import announce as announce
    from slurmdoctor.knowledge.loading import current as current
    from slurmdoctor.knowledge.loading import load as load
    from slurmdoctor.knowledge.paths import LINT as LINT
    from slurmdoctor.knowledge.paths import builtin as builtin
    from slurmdoctor.knowledge.paths import data_of as data_of
    from slurmdoctor.knowledge.paths import doubts as doubts
    from slurmdoctor.knowledge.paths import files as files
    from slurmdoctor.knowledge.paths import folders as folders
    from slurmdoctor.knowledge.paths import names as names
    from slurmdoctor.knowledge.problems import READERS as READERS
    from slurmdoctor.knowledge.problems import RuleError as RuleError
    from slurmdoctor.knowledge.problems import nearest as nearest
    from slurmdoctor.knowledge.problems import shown as shown
    from slurmdoctor.knowledge.rule_reader import read as read
    from slurmdoctor.knowledge.secrets import secret_kinds as secret_kinds
    from slurmdoctor.knowledge.texts import literals as literals
    from slurmdoctor.knowledge.texts import text as text
else:
    __getattr__, __dir__, __all__ = door(
        __name__,
        expressions="Facts fill holds layouts value",
        loading="load announce current",
        paths="LINT builtin data_of doubts files folders names",
        problems="RuleError READERS nearest shown",
        rule_reader="read",
        secrets="secret_kinds",
        texts="literals text",
    )
