"""Tells slurmdoctor's own reports from logs: people keep them in the folder of the logs."""

from __future__ import annotations

import os

from slurmdoctor.input.trusted import open_regular
from slurmdoctor.input.unread import UnreadError
from slurmdoctor.matching import lazy

_HEAD = 2048
_REPORT = lazy(
    r"\A(?:\*\*)?[✗✓?x+] (?:[^\n]*\n){0,3}?[^\n]*"
    r"(?:[a-z0-9-] [·-] (?:high|medium|low) confidence|(?<=  )read [\d,]+ files?, )"
    r"|\A\S+  [✗✓?x+] [^\n]+\n(?:\S+  [✗✓?x+] |[\d,]+ jobs?: )"
)


def is_report(path: str) -> bool:
    """Whether a file begins as the terminal's report of one job does, or is the list of several."""
    if not os.path.isfile(path):  # noqa: PTH113 - what a pipe's writer has sent would be lost
        return False
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            head = file.read(_HEAD)
    except (OSError, UnreadError):
        return False
    return _REPORT.search(head.decode("utf-8", "replace")) is not None
