"""What slurmdoctor knows of failures: YAML files → causes, rules, labels and signals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmdoctor.doors import door

if TYPE_CHECKING:
    from slurmdoctor.knowledge.expressions import (
        Facts,
        fill,
        holds,
        layouts,
        value,
    )
    from slurmdoctor.knowledge.loading import (
        announce,
        current,
        literals,
        load,
        secret_kinds,
        text,
    )
    from slurmdoctor.knowledge.paths import (
        LINT,
        builtin,
        data_of,
        doubts,
        folders,
        names,
    )
    from slurmdoctor.knowledge.problems import (
        READERS,
        RuleError,
        nearest,
        shown,
    )
    from slurmdoctor.knowledge.rule_reader import read
else:
    __getattr__, __dir__, __all__ = door(
        __name__,
        expressions="Facts fill holds layouts value",
        loading="load announce current literals secret_kinds text",
        paths="LINT builtin data_of doubts folders names",
        problems="RuleError READERS nearest shown",
        rule_reader="read",
    )
