"""A batch script → its directives and commands, its plan (steps, sizes), and the findings of `lint`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmdoctor.doors import door

if TYPE_CHECKING:
    from slurmdoctor.slurm.script.linter import evidence_of as evidence_of
    from slurmdoctor.slurm.script.linter import lint as lint
    from slurmdoctor.slurm.script.linter import wrong as wrong
    from slurmdoctor.slurm.script.model import Directive as Directive
    from slurmdoctor.slurm.script.model import Script as Script
    from slurmdoctor.slurm.script.parser import is_batch_script as is_batch_script
    from slurmdoctor.slurm.script.parser import is_no_text as is_no_text
    from slurmdoctor.slurm.script.parser import options as options
    from slurmdoctor.slurm.script.parser import parse as parse
    from slurmdoctor.slurm.script.parser import parse_beside as parse_beside
    from slurmdoctor.slurm.script.parser import read as read
    from slurmdoctor.slurm.script.parser import signal_request as signal_request
    from slurmdoctor.slurm.script.plan import step_outputs as step_outputs
else:
    __getattr__, __dir__, __all__ = door(
        __name__,
        linter="evidence_of lint wrong",
        model="Directive Script",
        parser="is_batch_script is_no_text options parse parse_beside read signal_request",
        plan="step_outputs",
    )
