"""Which jobs a survey reads: those of folders, or those that Slurm's accounts tell of; as options and as items."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import wraps
from typing import Any, Protocol

import click

from slurmdoctor.cli import files
from slurmdoctor.model import UserError
from slurmdoctor.survey import Item

_DEFAULT_DAYS = 7
_OPTIONS = (
    click.option(
        "--since",
        metavar="DATE",
        help="Jobs that ended since then, as sacct takes it (2026-11-01, 11/01, today, now-2days), or 7d. Without PATHs and"
        f" this option the last {_DEFAULT_DAYS} days.",
    ),
    click.option("--until", metavar="DATE", help="Jobs that ended before this time (default: now)."),
    click.option("--user", "users", multiple=True, metavar="U", help="Jobs of this user; may be given again."),
    click.option("--partition", "partitions", multiple=True, metavar="P", help="Jobs of this partition; may be given again."),
    click.option("--all-states", is_flag=True, help="Read the logs of jobs that Slurm calls COMPLETED, too: some have failed."),
    click.option(
        "--slurm-info",
        multiple=True,
        metavar="FILE",
        shell_complete=files,
        help="With PATHs: saved text of `scontrol show job` or `sacct`; may be given again.",
    ),
)  # fmt: skip


class Jobs(Protocol):
    """The jobs, each once; when all were told, the notes say what is not among them."""

    @property
    def notes(self) -> Sequence[str]: ...

    @property
    def no_logs(self) -> str | None:
        """What was left out because of its name."""

    @property
    def incomplete(self) -> bool:
        """Whether Slurm did not tell all that was asked for."""

    @property
    def nothing(self) -> str:
        """What is said where there are none."""

    def __iter__(self) -> Iterator[Item]: ...


def which_jobs(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that choose jobs; the command gets a call that looks for those that they and the PATHs name."""

    @wraps(command)  # with the options that stand below this one
    def chosen(
        paths: Sequence[str],
        since: str | None,
        until: str | None,
        users: Sequence[str],
        partitions: Sequence[str],
        all_states: bool,
        slurm_info: Sequence[str],
        **rest: Any,
    ) -> Any:
        # a worker of Dask may work in another folder
        elsewhere = rest.get("dask") or rest.get("dask_slurm")
        named = [os.path.abspath(path) for path in paths] if elsewhere else paths  # noqa: PTH100 - resolves no links

        def look() -> Jobs:
            begin, end = _times(since, until, bool(paths))
            if named:
                return _of_folders(named, slurm_info, begin, end, users, partitions)
            if slurm_info:
                raise UserError("--slurm-info is for the logs of PATHs", "name their folders, or leave it out")
            return _of_accounts(begin, end, users, partitions, all_states)

        return command(look=look, **rest)

    wrapped: Callable[..., Any] = chosen
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def _times(since: str | None, until: str | None, folders: bool) -> tuple[datetime | None, datetime | None]:
    from slurmdoctor.slurm import moment

    now = datetime.now().replace(microsecond=0)
    begin = None if since is None else moment(since, "--since", now)
    end = None if until is None else moment(until, "--until", now)
    if begin is None and not folders:
        begin = (end or now) - timedelta(days=_DEFAULT_DAYS)
    if end is None and not folders:
        end = now
    if begin is not None and end is not None and begin >= end:
        raise UserError(
            f"--until ({end:%Y-%m-%d %H:%M}) is not after --since ({begin:%Y-%m-%d %H:%M})",
            "jobs count from --since to before --until, so name the day after the last one",
        )
    return begin, end


def _of_folders(
    paths: Sequence[str],
    slurm_info: Sequence[str],
    since: datetime | None,
    until: datetime | None,
    users: Sequence[str],
    partitions: Sequence[str],
) -> Jobs:
    from slurmdoctor.survey import find_in_folders

    if partitions and not slurm_info:
        raise UserError(
            "logs do not tell their partition", "add --slurm-info with saved text of sacct, or leave it out"
        )
    return find_in_folders(paths, slurm_info, since, until, frozenset(users), frozenset(partitions))


def _of_accounts(
    since: datetime | None, until: datetime | None, users: Sequence[str], partitions: Sequence[str], all_states: bool
) -> Jobs:
    from slurmdoctor.slurm import Asked
    from slurmdoctor.survey import find_accounted

    assert since is not None
    assert until is not None
    return find_accounted(since, until, Asked(",".join(users) or None, ",".join(partitions) or None, all_states))
