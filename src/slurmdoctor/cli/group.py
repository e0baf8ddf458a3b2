"""Groups of commands that suggest one where they have none of that name, and alone print their help."""

from __future__ import annotations

import click

COMPLETE = "_SLURMDOCTOR_COMPLETE"
"""The variable by which a shell asks for completions."""


class Group(click.Group):
    """A group of commands."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            from slurmdoctor.cli.say import say

            say(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            from slurmdoctor.cli.usage import unknown_command

            raise unknown_command(
                args[0], [name for name in self.list_commands(ctx) if self._shown(ctx, name)], ctx.command_path
            )
        return super().resolve_command(ctx, args)

    def _shown(self, ctx: click.Context, name: str) -> bool:
        command = self.get_command(ctx, name)
        return command is not None and not command.hidden
