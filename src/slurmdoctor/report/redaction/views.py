"""Other ways to read a text, each with the way back to its places: unescaped, joined where it was wrapped, as a command."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from slurmdoctor.matching import lazy

if TYPE_CHECKING:
    import regex

WORDS_APART = "\x1f"
"""Stands between the words of a command in its view: no text holds it once it is disarmed."""

# Cf: soft hyphen, zero width, joiners; and what is left of backspaces and other controls, which `disarm` replaced.
_IGNORED = lazy(r"[\p{Cf}\p{Mn}\ufffd\u115f\u1160\u3164\uff01-\uff5e\u3000\u02d0\ua789\ufe55\u2236]")
_COLONS = frozenset("\u02d0\ua789\ufe55\u2236")
_ESCAPED = lazy(
    r"\\[ \t]{0,8}\n(?:>[ ])?[ \t]{0,64}"  # a shell's line goes on
    r"|\\{1,32}(?:[\"'`/=&:]|[nrt]|u00[2-7][0-9A-Fa-f]|x[2-7][0-9A-Fa-f])"
    r"|%[2-7][0-9A-Fa-f]|&(?:quot|apos|amp|lt|gt|#\d{2,3}|#x[0-9A-Fa-f]{2});"
)
_STANDS_FOR = {"n": "\n", "r": "\n", "t": "\t", "quot": '"', "apos": "'", "amp": "&", "lt": "<", "gt": ">"}
_BETWEEN_WORDS = lazy(r"\\{0,32}[\"'],?\s{1,64}(?:[bru]{0,2}\\{0,32}[\"'])|\\{0,32}[\"'],(?:[bru]{0,2}\\{0,32}[\"'])")
# A program that wraps its output does so at the terminal's width; what goes on may stand behind a frame or blanks.
_NEXT_LINE = lazy(r"\n(?:[|│┃>] ?)?[ \t]{0,60}(?=[\w+/=.~%-])")
_NARROWEST = 40
_FRAME = " \t|│┃"


class View:
    """A text as it is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The places in the first text of what stands between these in this one."""
        return start, end


class _Edited(View):
    """A text made from another one: some stretches are replaced, the rest is as it was."""

    def __init__(self, parent: View, edits: list[tuple[int, int, str]]) -> None:
        text = parent.text
        self._parent = parent
        self._starts: list[int] = [0]
        self._places: list[tuple[int, int, bool]] = []
        pieces: list[str] = []
        at = size = 0
        for start, end, new in edits:
            pieces += [text[at:start], new]
            self._places += [(at, start, True), (start, end, False)]
            self._starts += [size + start - at, size + start - at + len(new)]
            size = self._starts[-1]
            at = end
        super().__init__("".join([*pieces, text[at:]]))
        self._places.append((at, len(text), True))

    def span(self, start: int, end: int) -> tuple[int, int]:
        return self._parent.span(self._place(start)[0], self._place(end - 1)[1])

    def _place(self, at: int) -> tuple[int, int]:
        which = bisect_right(self._starts, at) - 1
        start, end, kept = self._places[which]
        if not kept:
            return start, end
        at += start - self._starts[which]
        return at, at + 1


def views(text: str) -> Iterator[View]:
    """The text as it is, and in each other way in which it reads differently."""
    plain = View(text)
    yield plain
    if not text.isascii() and (folded := _edited(plain, _IGNORED, _fold)):
        plain = folded
        yield plain
    if "\n" in text and (joined := _unwrapped(plain)):
        yield joined
    if any(sign in text for sign in "\\%&") and (bare := _edited(plain, _ESCAPED, _unescape)):
        yield bare
        if "\n" in bare.text and (joined := _unwrapped(bare)):
            yield joined


def command_view(view: View) -> View | None:
    """The view with the quoted words of lists joined, as a shell would show them: `['docker', 'login']`."""
    if "'" not in view.text and '"' not in view.text:
        return None
    return _edited(view, _BETWEEN_WORDS, lambda _: WORDS_APART)


def _unwrapped(view: View) -> View | None:
    text = view.text
    edits = []
    for match in _NEXT_LINE.finditer(text):
        line = text[max(0, match.start() - 128) : match.start()].rpartition("\n")[2]
        written = line.rstrip(_FRAME)
        if len(written) >= _NARROWEST and (written[-1].isalnum() or written[-1] in "_+/=.~%-"):
            edits.append((match.start() - len(line) + len(written), match.end(), ""))
    return _Edited(view, edits) if edits else None


def _edited(view: View, pattern: regex.Pattern[str], new: Callable[[regex.Match[str]], str]) -> View | None:
    edits = [(*match.span(), new(match)) for match in pattern.finditer(view.text)]
    return _Edited(view, edits) if edits else None


def _fold(match: regex.Match[str]) -> str:
    char = match[0]
    if char in _COLONS:
        return ":"
    return unicodedata.normalize("NFKC", char) if "\uff01" <= char <= "\uff5e" or char == "\u3000" else ""


def _unescape(match: regex.Match[str]) -> str:
    said = match[0].lstrip("\\").strip("&;")
    if "\n" in said:
        return " "
    if said in _STANDS_FOR:
        return _STANDS_FOR[said]
    if len(said) == 1:
        return said
    number, base = (said[1:], 16 if said[1] == "x" else 10) if said[0] == "#" else (said[1:], 16)
    return chr(int(number.lstrip("x"), base))
