"""What a terminal can show: its width, colour and characters; and text fitted to it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import TextIO

from slurmdoctor.matching import lazy
from slurmdoctor.model import Frozen

Line = list[tuple[str, str]]
"""One line as (style, text) pieces; the styles are the keys of `STYLES`."""

STYLES = {
    "": "",
    "bad": "1;31",
    "good": "1;32",
    "doubt": "1;33",
    "head": "1;36",
    "bold": "1",
    "key": "36",
    "quote": "33",
    "dim": "2",
}
"""Bold, and the colors that the terminal's user chose as red, green, yellow and cyan: the parameters of SGR."""
COLOURS = {"✗": "bad", "✓": "good", "?": "doubt"}
"""A verdict's mark -> its style."""
_ASCII = str.maketrans("✗✓│·…━─", "x+|-~=-")
_NARROWEST, _PIPED = 40, 100
_TOKEN = lazy(r"(?:`[^`]*`|[^\s`]|`)+")


class Look(Frozen):
    """How a report should look on a stream."""

    width: int
    colour: bool
    encoding: str = "utf-8"


PLAIN = Look(_PIPED, False)
"""In a file, for any terminal."""


def look(stream: TextIO, environ: Mapping[str, str] = os.environ) -> Look:
    """Colour only on a terminal; NO_COLOR, FORCE_COLOR and COLUMNS decide where they are set."""
    terminal = stream.isatty()
    if environ.get("NO_COLOR"):
        colour = False
    elif environ.get("FORCE_COLOR"):
        colour = environ["FORCE_COLOR"] != "0"
    else:
        colour = terminal and environ.get("TERM") != "dumb"
    columns = environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        width = int(columns)
    elif terminal:
        import shutil  # slow to import, and needed here only

        width = shutil.get_terminal_size((_PIPED, 24)).columns
    else:
        width = _PIPED
    return Look(max(width, _NARROWEST), colour, stream.encoding or "utf-8")


def cells(text: str) -> int:
    """How many columns a text takes."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if unicodedata.combining(char) or char in "\u200b\u200c\u200d\ufe0f"
        else 2 if unicodedata.east_asian_width(char) in "WF"
        else 1
        for char in text
    )  # fmt: skip


def cut(text: str, width: int) -> str:
    """The text, shortened at its end to the width."""
    if cells(text) <= width:
        return text
    return _head(text, width - 1).rstrip() + "…" if width > 1 else "…"


def clip(line: Line, width: int) -> Line:
    """The line, shortened where even its pieces together are too long."""
    kept: Line = []
    for style, text in line:
        if width > 0:
            kept.append((style, cut(text, width)))
        width -= cells(text)
    return kept


def cut_path(path: str, width: int) -> str:
    """A path, shortened at its beginning by whole folders, and inside its last name only where that is too long."""
    if cells(path) <= width:
        return path
    tail = path[-max(width - 1, 1) :]
    return "…" + tail[max(tail.find("/"), 0) :]


def excerpt(text: str, width: int, most: int, telling: tuple[int, int] | None) -> str:
    """A text that is too long for so many lines from its telling part on; where none is known without its midst."""
    room = int(width * most * 0.85)  # lines end before a word that they cannot hold
    if cells(text) <= width * most * 0.95 or (telling and telling[0] <= room // 3):
        return text
    if telling is None:
        return f"{text[: room * 6 // 10].rstrip()} … {text[-(room * 3 // 10) :].lstrip()}"
    return f"… {text[telling[0] :]}"


def wrap(text: str, width: int, most: int | None = None) -> list[str]:
    """Lines of at most this width, broken at blanks, or inside a word that is longer than a line."""
    if most is not None:
        lines = wrap(text, width)
        return lines if len(lines) <= most else [*lines[: most - 1], cut(f"{lines[most - 1]} …", width)]
    lines = []
    while cells(text) > width:
        head = _head(text, width)
        blank = head.rfind(" ") if text[len(head) : len(head) + 1] != " " else len(head)
        at = blank if blank > len(head) * 0.6 else len(head)
        lines.append(text[:at].rstrip())
        text = text[at:].lstrip()
    return [*lines, text] if text or not lines else lines


def wrap_words(text: str, width: int, *, whole: bool = False) -> list[str]:
    """Lines of at most this width, broken between words: a command in backquotes is one, where a line can hold it.

    With `whole` a longer command has a line for itself.
    """
    lines = [""]
    for token in _TOKEN.findall(text):
        for word in _words(token, width, whole):
            joined = f"{lines[-1]} {word}" if lines[-1] else word
            if cells(joined) <= width:
                lines[-1] = joined
            else:
                lines += [word] if whole and word[0] == "`" else _parts(word, width)
    return [line for line in lines if line] or [""]


def _words(token: str, width: int, whole: bool) -> list[str]:
    """What of a token stays together: all of it, or a command in it without the marks around it, or each word."""
    if cells(token) <= width:
        return [token]
    pieces = [piece for piece in re.split(r"(`[^`]+`)", token) if piece]
    if any(piece[0] == "`" and (whole or cells(piece) <= width) for piece in pieces):
        return pieces[:-1] if pieces[-1] == "." or (whole and pieces[-1] in ",;:") else pieces
    return token.split()


def _parts(word: str, width: int) -> list[str]:
    """A word in lines; a path or a list that is too long for one is broken between its names."""
    parts = []
    while cells(word) > width:
        head = _head(word, width)
        at = max(head.rfind("/"), head.rfind(",")) + 1
        at = at if at > len(head) // 3 else len(head)
        parts.append(word[:at])
        word = word[at:]
    return [*parts, word]


def _head(text: str, width: int) -> str:
    """As much of a text as the width holds, at least one character."""
    if text.isascii():
        return text[: max(width, 1)]
    used = 0
    for at, char in enumerate(text):
        used += cells(char)
        if used > width and at:
            return text[:at]
    return text


def paint(lines: Sequence[Line], look: Look = PLAIN) -> str:
    """The lines as text."""
    if look.colour:
        shown = ["".join(_painted(style, text) for style, text in line) for line in lines]
    else:
        shown = ["".join(text for _, text in line).rstrip() for line in lines]
    return _encodable("\n".join(shown) + "\n", look.encoding)


def _painted(style: str, text: str) -> str:
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if text and STYLES[style] else text


def _encodable(text: str, encoding: str) -> str:
    """The text in characters that the stream can take; where it lacks one, our own signs by likeness, others as `?`."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, "replace").decode(encoding)
    except LookupError:
        return _encodable(text, "ascii")
    return text
