"""What `diagnose` reads where nobody names anything."""

from __future__ import annotations

import sys

from slurmdoctor.cli.say import in_line, say


def or_newest(paths: tuple[str, ...], otherwise: object) -> tuple[str, ...]:
    """The paths; without any, and where a terminal would be read, the newest job's logs here."""
    if paths or otherwise or sys.stdin is None or not sys.stdin.isatty():
        return paths
    from slurmdoctor.report import ago, listed
    from slurmdoctor.slurm import newest

    found = newest()
    others = [in_line(file) for file in found.files if file != found.log]
    more = [f"{len(others):,} more files"] if len(others) > 1 else others
    log = listed([in_line(found.log), *more])
    say(f"reading {log}, the newest job's log here ({ago(found.age)}); name another to read that", err=True)
    return found.files
