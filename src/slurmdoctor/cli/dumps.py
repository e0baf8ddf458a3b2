"""`slurmdoctor dumps`: who waits for whom, by PyTorch's flight recorder dumps alone."""

from __future__ import annotations

import click

from slurmdoctor.cli import PATH
from slurmdoctor.cli.output import in_line, keep_inputs, output_option, put


@click.command(short_help="Say which ranks wait for which, by flight recorder dumps.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=PATH)
@output_option
def dumps(paths: tuple[str, ...], output: str | None) -> None:
    """Say which ranks wait in which collective of which group, and for whom; the last line names those that all wait for.

    PATH is a dump of PyTorch's flight recorder, a folder of them, or a glob. Torch is not needed.
    """
    from slurmdoctor import pipeline
    from slurmdoctor.search import usual_jobs

    keep_inputs(output, paths)
    put("".join(f"{in_line(line)}\n" for line in pipeline.waits_of(paths, usual_jobs())), output)
