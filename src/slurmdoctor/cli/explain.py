"""`slurmdoctor explain`: a cause as a page to read."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurmdoctor.cli import rules_option
from slurmdoctor.cli.output import show

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def _causes(context: click.Context, param: click.Parameter, begun: str) -> list[CompletionItem[str]]:
    """Completes a cause, and behind its slash a rule."""
    from click.shell_completion import CompletionItem

    from slurmdoctor.knowledge import folders, load

    known = load(folders(), examples=False)
    titles = {cause.id: cause.title for cause in known.causes.values()}
    if begun.rpartition("/")[0] in titles:
        titles = {rule.id: known.causes[rule.cause].title for rule in known.rules}
    return [CompletionItem(name, help=title) for name, title in sorted(titles.items()) if name.startswith(begun)]


@click.command(short_help="Explain a cause: what happens, and what to do.")
@click.argument("cause", nargs=-1, required=True, metavar="CAUSE", shell_complete=_causes)
@rules_option
def explain(cause: tuple[str, ...], extra: tuple[Path, ...]) -> None:
    """Explain a cause: what happens, how it shows, how to make sure, what to do.

    CAUSE is a cause or a rule, as a verdict or `slurmdoctor rules list` names it, or what people say: OOM, nccl timeout,
    SIGKILL, exit code 137, ModuleNotFoundError, or a line of a log. Where that may be several causes, they are listed.
    """
    from slurmdoctor.knowledge import folders, load
    from slurmdoctor.report import Line, choices, look, meanings, paint, redact, rows

    name = " ".join(cause)
    known, seen = load(folders(extra)), look(sys.stdout)
    found = meanings(name, known)
    page: Iterable[Line] = choices(name, found, seen.width)
    if len(found) == 1:
        page = ([line] for line in rows(found[0], known, seen.width))
    shown = [[(style, redact(text)) for style, text in line] for line in page]
    show(paint(shown, colour=seen.colour, encoding=seen.encoding))
