"""Tells slurmdoctor's own reports from logs: people keep them in the folder of the logs."""

from __future__ import annotations

import os

from slurmdoctor.search.compiled import lazy

_HEAD = 2048
_REPORT = lazy(
    r"\A(?:\*\*)?[✗✓?x+] (?:[^\n]*\n){0,3}?[^\n]*"
    r"(?:[a-z0-9-]+ [·-] (?:high|medium|low) confidence|(?<=  )read [\d,]+ files?, )"
    r"|\A\S+  [✗✓?x+] [^\n]+\n(?:\S+  [✗✓?x+] |[\d,]+ jobs?: )"
)


def is_report(path: str) -> bool:
    """Whether a file begins as the terminal's report of one job does, or is the list of several."""
    if not os.path.isfile(path):  # noqa: PTH113 - a pipe must not be waited for
        return False
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - of ten thousand files
            head = file.read(_HEAD)
    except OSError:
        return False
    return _REPORT.search(head.decode("utf-8", "replace")) is not None
