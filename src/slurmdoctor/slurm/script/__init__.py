"""A batch script → its directives and commands, its plan (steps, sizes), and the findings of `lint`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmdoctor.doors import door

if TYPE_CHECKING:
    from slurmdoctor.slurm.script.linter import evidence_of, lint, wrong
    from slurmdoctor.slurm.script.model import Directive, Script
    from slurmdoctor.slurm.script.parser import (
        is_batch_script,
        is_no_text,
        options,
        parse,
        parse_beside,
        read,
        signal_request,
        submitted,
    )
    from slurmdoctor.slurm.script.plan import step_outputs
else:
    __getattr__, __dir__, __all__ = door(
        __name__,
        linter="evidence_of lint wrong",
        model="Directive Script",
        parser="is_batch_script is_no_text options parse parse_beside read signal_request submitted",
        plan="step_outputs",
    )
