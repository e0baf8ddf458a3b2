"""A batch script → its directives and commands, its plan (steps, sizes), and the findings of `lint`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmdoctor.doors import door

if TYPE_CHECKING:
    from slurmdoctor.slurm.script.linter import evidence_of as evidence_of, lint as lint, wrong as wrong
    from slurmdoctor.slurm.script.model import Directive as Directive, Script as Script
    from slurmdoctor.slurm.script.parser import (
        is_batch_script as is_batch_script,
        is_no_text as is_no_text,
        options as options,
        parse as parse,
        parse_beside as parse_beside,
        read as read,
        signal_request as signal_request,
    )
    from slurmdoctor.slurm.script.plan import step_outputs as step_outputs
else:
    __getattr__, __dir__, __all__ = door(
        __name__,
        linter="evidence_of lint wrong",
        model="Directive Script",
        parser="is_batch_script is_no_text options parse parse_beside read signal_request",
        plan="step_outputs",
    )
