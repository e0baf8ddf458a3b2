"""Tells what a line holds itself from what it only shows of Slurm or a launcher: a script, a trace, a diff, a test's name, a chat.

They print at a line's beginning, or right behind what another writer left without a line end.
"""

from __future__ import annotations

from slurmdoctor.knowledge import text
from slurmdoctor.model import Line

_LAUNCHER = text("launcher-line")
_QUOTATION = text("quotation")
_LEFT_OPEN = text("left-open-line")
_WHOLE = text("launcher-ending")
_QUOTES = text("quotes-behind")
_RANK = text("rank-label")


def is_quotation(line: Line) -> bool:
    """Whether all of the line shows another one."""
    return _QUOTATION.match(line.text) is not None


def own_words(line: Line) -> str:
    """The line's text up to what it quotes of a launcher; all of it where it quotes nothing."""
    shown = line.text
    found = _LAUNCHER.search(shown)
    if found is None:
        return shown
    above = shown[: found.start()]
    if above:
        whole = _WHOLE.match(shown[found.start() :]) is not None
        own = _LEFT_OPEN.match(above) is not None or (whole and _QUOTES.search(above) is None)
    else:  # no launcher speaks through a rank
        own = _RANK.match(line.label.decode("utf-8", "replace")) is None
    return shown if own and not is_quotation(line) else above
