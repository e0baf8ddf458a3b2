"""The man page, made from the texts of --help: `python -m website.manual > docs/man/slurmdoctor.1`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

import click

from slurmdoctor import __version__
from slurmdoctor.cli import cli
from slurmdoctor.cli.config import SITE, VARIABLES
from slurmdoctor.cli.output import say

DATE = "2026-11-22"
"""The day on which its own texts were last changed."""
STATUSES = {
    "0": "A verdict was reached, whatever it is. With --exit-code: no failure was found.",
    "1": "With --exit-code: a failure with its cause. Of lint: problems were found. Of rules check and test: something is left to do.",
    "2": "The call or the input was bad: one line on standard error says what to do.",
    "3": "With --exit-code: a failure whose cause the log does not show.",
    "4": "With --exit-code: it is not known whether the job failed, as of an empty or cut log.",
    "130": "Interrupted.",
}
FILES = {
    SITE: "The site's settings.",
    "~/.config/slurmdoctor/slurmdoctor.toml": "The user's settings, which are stronger.",
    "/etc/slurmdoctor/rules.d": "The site's rules.",
    "~/.config/slurmdoctor/rules.d": "The user's rules.",
    "~/.cache/slurmdoctor": "Rules and patterns as they are kept between two runs; it may be removed at any time.",
}
EXAMPLES = {
    "slurmdoctor diagnose slurm-4711.out": "Say what broke a job.",
    "slurmdoctor diagnose 4711": "Find the job's logs and its record, and say what broke it.",
    "slurmdoctor diagnose job.log --ranks -o report.json": "Write the verdict for a script to read.",
    "slurmdoctor explain OOM": "Say what the word may mean, and what to do.",
    "slurmdoctor lint train.sbatch": "Check a batch script before it is submitted.",
    "slurmdoctor hook >> footer.sh": "Print what makes a job diagnose itself.",
    'eval "$(_SLURMDOCTOR_COMPLETE=bash_source slurmdoctor)"': "Complete commands, options and causes.",
}


def page() -> str:
    """The page in the macros of man(7)."""
    return "".join(f"{line}\n" for line in _lines())


def _lines() -> Iterator[str]:
    root = click.Context(cli, info_name="slurmdoctor")
    yield '.\\" Made from the texts of --help by `make docs`.'
    yield f'.TH SLURMDOCTOR 1 {DATE} "slurmdoctor {__version__}" "User Commands"'
    yield from (".SH NAME", "slurmdoctor \\- find the rank that broke a training job, and why")
    yield ".SH SYNOPSIS"
    for number, context in enumerate(_leaves(root)):
        yield from ([".br"] if number else [])
        pieces = " ".join(context.command.collect_usage_pieces(context))
        yield f"\\fB{_plain(context.command_path)}\\fR {_plain(pieces)}".rstrip()
    yield ".SH DESCRIPTION"
    yield from _prose(cli.help or "")
    yield ".SH COMMANDS"
    for context in _leaves(root):
        yield f'.SS "{_plain(context.command_path)}"'
        yield from _prose(context.command.help or "")
        for option in context.command.params:
            if isinstance(option, click.Option) and not option.hidden:
                yield from _item(_called(option), option.help or "")
    for head, rows in (("EXIT STATUS", STATUSES), ("ENVIRONMENT", VARIABLES), ("FILES", FILES), ("EXAMPLES", EXAMPLES)):
        yield f".SH {head}"
        for name, text in rows.items():
            yield from _item(name, text)
    yield ".SH SEE ALSO"
    yield ".BR sbatch (1),\n.BR sacct (1),\n.BR scontrol (1)"


def _leaves(context: click.Context) -> Iterator[click.Context]:
    """The commands that do something, in the order of the help."""
    command = context.command
    if not isinstance(command, click.Group):
        yield context
        return
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        if inner is not None and not inner.hidden:
            yield from _leaves(click.Context(inner, info_name=name, parent=context))


def _called(option: click.Option) -> str:
    """`-o, --output FILE`; by our own rules, for those of click's versions differ."""
    names = ", ".join(sorted(option.opts, key=len))
    if option.is_flag:
        return names
    kind = option.type
    values = "|".join(map(str, kind.choices)) if isinstance(kind, click.Choice) else option.metavar or kind.name.upper()
    return f"{names} {values}"


def _item(name: str, text: str) -> Iterator[str]:
    yield ".TP"
    yield f"\\fB{_plain(name)}\\fR"
    yield from _prose(text)


def _prose(text: str) -> Iterator[str]:
    """Paragraphs, a sentence a line; what stands in backquotes is bold."""
    for number, paragraph in enumerate(re.split(r"\n\s*\n", text.strip())):
        yield from ([".PP"] if number else [])
        parts = _plain(" ".join(paragraph.split())).split("`")
        bold = "".join(f"\\fB{part}\\fR" if at % 2 else part for at, part in enumerate(parts))
        for sentence in re.split(r"(?<=[a-z)][.:;]) (?=[A-Z`\\])", bold):
            for line in textwrap.wrap(sentence, 79, break_long_words=False, break_on_hyphens=False):
                yield f"\\&{line}" if line.startswith((".", "'")) else line


def _plain(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")


if __name__ == "__main__":
    say(page(), nl=False, mask=False)
