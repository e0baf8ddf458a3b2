"""The site's page of all commands and options, made from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator

import click

from slurmdoctor.cli import cli

_INTRODUCTION = """\
# All commands and options

`slurmdoctor COMMAND --help` shows the same in the terminal;
every command has `--help`.
"""


def markdown(root: click.Group = cli) -> str:
    context = click.Context(root, info_name="slurmdoctor")
    return "\n".join([_INTRODUCTION, *_index(context), *_chapters(root, context)]).rstrip() + "\n"


def commands(group: click.Group, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """Every command that people may call, those of groups below their group."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        inner = click.Context(command, parent=context, info_name=name)
        yield command, inner
        if isinstance(command, click.Group):
            yield from commands(command, inner)


def _index(context: click.Context) -> Iterator[str]:
    yield "| command | what it does |"
    yield "|---|---|"
    assert isinstance(context.command, click.Group)
    for command, inner in commands(context.command, context):
        path = inner.command_path
        yield f"| [`{path}`](#{path.replace(' ', '-')}) | {_cell(command.get_short_help_str(200))} |"


def _chapters(root: click.Group, context: click.Context) -> Iterator[str]:
    yield from _options(root, context, "\n## Options of `slurmdoctor` itself\n")
    for command, inner in commands(root, context):
        yield f"\n## {inner.command_path}\n"
        yield f"```text\n{command.get_usage(inner).removeprefix('Usage: ')}\n```\n"
        yield _prose(command.help or "")
        yield from _options(command, inner, "")


def _options(command: click.Command, context: click.Context, head: str) -> Iterator[str]:
    own = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    rows = [row for option in own if (row := option.get_help_record(context))]
    if rows:
        yield head
        yield "| option | what it does |"
        yield "|---|---|"
        yield from (f"| `{_pipes(names)}` | {_cell(told)} |" for names, told in rows)


def _prose(told: str) -> str:
    """A help text as Markdown: a paragraph that click must not wrap (its mark is a \\b) becomes a block of code."""
    parts = told.split("\n\n")
    return "\n\n".join(
        "```text\n" + part.strip("\n")[1:].strip("\n") + "\n```"
        if part.strip("\n").startswith("\b")
        else _escaped(" ".join(part.split()))
        for part in parts
    )


def _cell(text: str) -> str:
    return _pipes(_escaped(" ".join(text.split())))


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", r"\*")


def _pipes(text: str) -> str:
    return text.replace("|", r"\|")
