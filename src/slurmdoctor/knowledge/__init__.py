"""What slurmdoctor knows of failures: YAML files → causes, rules, labels and signals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmdoctor.doors import door

if TYPE_CHECKING:
    from slurmdoctor.knowledge.expressions import (
        Facts as Facts,
        fill as fill,
        holds as holds,
        layouts as layouts,
        value as value,
    )
    from slurmdoctor.knowledge.loading import (
        announce as announce,
        current as current,
        literals as literals,
        load as load,
        secret_kinds as secret_kinds,
        text as text,
    )
    from slurmdoctor.knowledge.paths import (
        LINT as LINT,
        builtin as builtin,
        data_of as data_of,
        doubts as doubts,
        files as files,
        folders as folders,
        names as names,
    )
    from slurmdoctor.knowledge.problems import (
        READERS as READERS,
        RuleError as RuleError,
        nearest as nearest,
        shown as shown,
    )
    from slurmdoctor.knowledge.rule_reader import read as read
else:
    __getattr__, __dir__, __all__ = door(
        __name__,
        expressions="Facts fill holds layouts value",
        loading="load announce current literals secret_kinds text",
        paths="LINT builtin data_of doubts files folders names",
        problems="RuleError READERS nearest shown",
        rule_reader="read",
    )
