"""`slurmdoctor rules`: the workshop of the rule files."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurmdoctor.cli import PATH, rules_option
from slurmdoctor.cli.output import format_option, in_line, say, show
from slurmdoctor.cli.usage import Group
from slurmdoctor.knowledge import current
from slurmdoctor.model import EXIT_CODE, Knowledge, UserError
from slurmdoctor.report import plural

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from slurmdoctor.knowledge.workshop import Tried


@click.group(cls=Group)
def rules() -> None:
    """List, check, write and try rule files."""


@rules.command("list")
@format_option("them", ("text", "json"))
@rules_option
def list_(form: str, extra: tuple[str, ...]) -> None:
    """All causes that the rules in use know, with their rules."""
    known = current(extra)
    if form == "json":
        say(json.dumps([_row(known, name) for name in known.causes], indent=1))
        return
    causes = sorted(known.causes.values(), key=lambda cause: (cause.family, cause.id))
    for family, members in groupby(causes, key=lambda cause: cause.family):
        say(family)
        for cause in members:
            say(f"  {cause.id:<22} {cause.role:<12} {plural(len(cause.rules), 'rule'):>8}  {cause.title}")
    say(f"\n{plural(len(causes), 'cause')}, {plural(len(known.rules), 'rule')}")


@rules.command()
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path), metavar="[PATH]...")
def check(paths: tuple[Path, ...]) -> None:
    """Prove rule files: schema, examples, literals, speed, cross-talk.

    PATH is a file or a folder; without any, all rules in use are checked.
    Exit status: 0 all is well, 1 there are problems, 2 the call was bad.
    """
    from slurmdoctor.knowledge import folders
    from slurmdoctor.knowledge.workshop import check_paths, render

    start = time.monotonic()
    in_use = folders()
    files, problems, notes = check_paths(paths or [*map(Path, in_use)], in_use)
    if not files and not problems:
        raise UserError(f"no rule file in {', '.join(map(str, paths))}", "name a .yaml file, or their folder")
    for problem in problems:
        say(render(problem) + "\n")
    for note in notes:
        say(render(note, "note: ") + "\n")
    if problems:
        wrong = len({problem.place.file for problem in problems})
        say(f"{plural(len(problems), 'problem')} in {plural(wrong, 'file')}")
        raise click.exceptions.Exit(1)
    entries = [entry for file in files for entry in file.entries()]
    lines = sum(len(getattr(one, "samples", getattr(one, "match", ()))) + len(one.no_match) for one in entries)
    counts = f"{plural(len(files), 'file')}, {plural(len(entries), 'pattern')}, {plural(lines, 'example')}"
    say(f"{counts}: all proven in {time.monotonic() - start:.1f} s")


@rules.command()
@click.argument("cause")
@click.option("--line", help="A line of a log that shows the failure; the draft's pattern is made from it.")
@click.option("--log", type=PATH, help="A log of such a failure, instead: the line is the one that diagnose finds.")
@click.option("--rule", default="first", show_default=True, help="The rule's short name, such as the program's.")
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), default=Path(), help="Where to write it.")
def new(cause: str, line: str | None, log: str | None, rule: str, folder: Path) -> None:
    """Write the first draft of a rule file.

    CAUSE is a name of your own, `site/my-cause`, or one of slurmdoctor's, to which the file then adds a rule.
    """
    from slurmdoctor.knowledge import RuleError, builtin, folders, load, read
    from slurmdoctor.knowledge.workshop import check_paths, draft, file_name
    from slurmdoctor.report import redact

    if log is not None:
        line = _found_in(log)
    try:
        known = load(folders(), examples=False)
    except RuleError:  # a mistake in another file must not stop this one
        known = read(folders()).knowledge
    name = file_name(cause, rule, known.causes, ours=folder.resolve().is_relative_to(builtin()))
    file = folder / f"{name.removeprefix('site/')}.yaml"
    text = draft(name, rule, line and redact(line), known)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        raise UserError(f"{file} already exists", "edit it, or choose another name or --folder") from None
    except OSError as error:
        raise UserError(f"{file} cannot be written: {error.strerror}", "choose another --folder") from None
    left = check_paths([file], folders()).problems
    say(f"{in_line(file)} is written. {plural(len(left), 'field')} to fill in:")
    for problem in left:
        say("  " + in_line(f"line {problem.place.line}: {problem.what}; {problem.mend}"))
    say(f"Then: slurmdoctor rules check {in_line(file)}")


def _found_in(log: str) -> str:
    """The line of a failed job's log that tells most."""
    from slurmdoctor.pipeline import diagnose

    found = diagnose(log, failed=True, rank_timelines=False)
    line = found.last_words if found.cause.id == EXIT_CODE else found.first_failure.text
    if line is None:
        raise UserError(f"{in_line(log)} has no line that tells why", "give one with --line")
    return line


@rules.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@rules_option
def test(folder: Path, extra: tuple[str, ...]) -> None:
    """Try the rules on labelled logs: precision and recall of each cause.

    FOLDER holds cases: folders with a job's logs and a truth.yaml (failed, cause, also, rank).
    Exit status: 0 every cause was right, 1 some were not, 2 the call was bad.
    """
    from slurmdoctor.knowledge.workshop import cases, run
    from slurmdoctor.pipeline import diagnose

    labelled = list(cases(folder))
    if not labelled:
        raise UserError(f"no truth.yaml below {folder}", "put one beside each log; docs/rules.md shows it")
    trial = run(labelled, lambda logs: diagnose(logs, rules=extra, rank_timelines=False))
    say("\n".join(_trial_lines(trial, folder)))
    if not all(one.right for one in trial):
        raise click.exceptions.Exit(1)


def _row(known: Knowledge, name: str) -> dict[str, Any]:
    cause = known.causes[name]
    patterns = [{key: getattr(rule, key) for key in ("id", "role", "source")} for rule in cause.rules]
    return {**{key: getattr(cause, key) for key in ("id", "family", "title", "role")}, "rules": patterns}


def _trial_lines(trial: Sequence[Tried], folder: Path) -> Iterable[str]:
    from slurmdoctor.knowledge.workshop import precision, recall

    misses = [one for one in trial if not one.right or one.right_rank is False]
    for case, cause, rank in misses:
        wrong = f"said {cause}, truth {case.cause}"
        if cause in {case.cause, *case.also}:
            wrong = f"said rank {'none' if rank is None else rank}, truth rank {case.rank}"
        yield f"  {in_line(case.folder.relative_to(folder))}: {wrong}"
    if misses:
        yield ""
    yield f"{'cause':<24}{'cases':>6}{'recall':>9}{'precision':>11}"
    wanted = [one.case.cause for one in trial]
    for name in sorted({*wanted, *(one.cause for one in trial if not one.right)}):
        shares = _per_cent(recall(trial, name)), _per_cent(precision(trial, name))
        yield f"{name:<24}{wanted.count(name):>6}{shares[0]:>9}{shares[1]:>11}"
    right = sum(one.right for one in trial)
    ranks = [one.right_rank for one in trial if one.right_rank is not None]
    yield f"\n{right} of {len(trial)} causes and {sum(ranks)} of {len(ranks)} ranks right"


def _per_cent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def _causes(context: click.Context, param: click.Parameter, begun: str) -> list[CompletionItem[str]]:
    """Completes a cause, and behind its slash a rule."""
    from click.shell_completion import CompletionItem

    known = current()
    titles = {cause.id: cause.title for cause in known.causes.values()}
    if begun.rpartition("/")[0] in titles:
        titles = {rule.id: known.causes[rule.cause].title for rule in known.rules}
    return [CompletionItem(name, help=title) for name, title in sorted(titles.items()) if name.startswith(begun)]


@click.command(short_help="Explain a cause: what happens, and what to do.")
@click.argument("cause", nargs=-1, required=True, metavar="CAUSE", shell_complete=_causes)
@rules_option
def explain(cause: tuple[str, ...], extra: tuple[str, ...]) -> None:
    """Explain a cause: what happens, how it shows, how to make sure, what to do.

    CAUSE is a cause or a rule, as a verdict or `slurmdoctor rules list` names it, or what people say: OOM, nccl timeout,
    SIGKILL, exit code 137, ModuleNotFoundError, or a line of a log. Where that may be several causes, they are listed.
    """
    from slurmdoctor.knowledge import folders, load
    from slurmdoctor.report import explained, look, paint, redact

    seen = look(sys.stdout)
    page = explained(" ".join(cause), load(folders(extra)), seen.width)
    shown = [[(style, redact(text)) for style, text in line] for line in page]
    show(paint(shown, seen))
