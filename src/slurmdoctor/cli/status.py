"""The exit statuses of `diagnose --exit-code`."""

from __future__ import annotations

from collections.abc import Iterable

from slurmdoctor.model import EXIT_CODE, Diagnosis

NO_FAILURE, CAUSE_KNOWN, CAUSE_UNKNOWN, NOT_KNOWN = 0, 1, 3, 4
_WORST = (CAUSE_KNOWN, CAUSE_UNKNOWN, NOT_KNOWN, NO_FAILURE)


def status_of(found: Diagnosis) -> int:
    """What a verdict tells a script."""
    if found.verdict == "failed":
        return CAUSE_KNOWN if found.cause.id not in (None, EXIT_CODE) else CAUSE_UNKNOWN
    return NO_FAILURE if found.verdict == "no-failure" else NOT_KNOWN


def worst(statuses: Iterable[int]) -> int:
    """The status of several jobs: any that failed counts before one that is not known to, and that before none."""
    return min(statuses, key=_WORST.index, default=NOT_KNOWN)
