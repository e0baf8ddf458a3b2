"""The workshop of rule authors: drafts, checks and proves rule files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmdoctor.doors import door

if TYPE_CHECKING:
    from slurmdoctor.knowledge.workshop.check import check_paths as check_paths, render as render
    from slurmdoctor.knowledge.workshop.scaffold import draft as draft, file_name as file_name
    from slurmdoctor.knowledge.workshop.trial import Trial as Trial, cases as cases, run as run
else:
    __getattr__, __dir__, __all__ = door(
        __name__,
        check="check_paths render",
        scaffold="draft file_name",
        trial="Trial cases run",
    )
