"""The workshop of rule authors: drafts, checks and proves rule files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmdoctor.doors import door

if TYPE_CHECKING:
    from slurmdoctor.knowledge.workshop.check import (
        Tried,
        cases,
        check_paths,
        precision,
        recall,
        render,
        run,
    )
    from slurmdoctor.knowledge.workshop.scaffold import draft, file_name
else:
    __getattr__, __dir__, __all__ = door(
        __name__,
        check="Tried cases check_paths precision recall render run",
        scaffold="draft file_name",
    )
