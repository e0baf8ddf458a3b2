"""`slurmdoctor rules`: the workshop of the rule files."""

from __future__ import annotations

import time
from pathlib import Path

import click


@click.group()
def rules() -> None:
    """List, check, write and try rule files."""


@rules.command()
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
def check(paths: tuple[Path, ...]) -> None:
    """Prove rule files: schema, examples, literals, speed, cross-talk.

    PATHS are files and folders; without any, all rules in use are checked.
    Exit status: 0 all is well, 1 there are problems.
    """
    from slurmdoctor.knowledge.check import check_paths
    from slurmdoctor.knowledge.paths import folders
    from slurmdoctor.knowledge.snippet import render

    start = time.monotonic()
    in_use = folders()
    files, problems = check_paths(paths or in_use, in_use)
    if not files and not problems:
        raise click.UsageError(f"no rule file (*.yaml) lies in {', '.join(map(str, paths))}")
    for problem in problems:
        click.echo(render(problem) + "\n")
    if problems:
        wrong = len({problem.place.file for problem in problems})
        click.echo(f"{_count(len(problems), 'problem')} in {_count(wrong, 'file')}")
        raise SystemExit(1)
    entries = [entry for file in files for entry in file.entries()]
    lines = sum(
        len(getattr(entry, "samples", getattr(entry, "match", ()))) + len(entry.no_match) for entry in entries
    )
    counts = f"{_count(len(files), 'file')}, {_count(len(entries), 'pattern')}, {_count(lines, 'example')}"
    click.echo(f"{counts}: all proven in {time.monotonic() - start:.1f} s")


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
