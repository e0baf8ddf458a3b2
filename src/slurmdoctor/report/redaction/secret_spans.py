"""Finds the secrets of a text, read in several ways: as it is, unescaped, joined where it was wrapped, as a command."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from slurmdoctor.matching import compiled, lazy
from slurmdoctor.model import SecretKind
from slurmdoctor.report.redaction.assigned import WORDS_APART, assigned, has_digit, is_none, is_random

if TYPE_CHECKING:
    import regex


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


Span = tuple[int, int, SecretKind]
"""Begin and end of a secret, and its kind."""
_BEFORE = 240
"""So many characters of a line are searched for what must stand before a secret."""
_CUT_AT = 40
"""A line of so many characters may have been cut where its terminal ended."""
_LAST_WORD = lazy(r"[\w.+/-]{8,200}$")
_LEAST_OF_CUT = 5
_MARK = lazy(r"\[redacted [a-z0-9 -]{1,40}\]")


class Wanted(Struct, frozen=True):
    """The kinds whose literals occur at all in some texts: for ordinary ones few, and the rest need not be compiled."""

    kinds: tuple[SecretKind, ...]
    literals: Mapping[str, tuple[int, ...]]
    """Literal -> the kinds that it admits, by their numbers."""

    @classmethod
    def of(cls, texts: Sequence[str], kinds: Sequence[SecretKind]) -> Wanted:
        seen = ("\n\n".join(texts), *(text for text in texts if "\n" in text))
        lines = {line for text in seen for view in views(text) for line in view.text.split("\n")}
        whole = "\n".join(lines).lower()
        # nearly all literals are ASCII, and such text is searched several times as fast
        plain = whole.encode("ascii", "ignore").decode("ascii")
        found: dict[str, list[int]] = {}
        for number, kind in enumerate(kinds):
            for literal in kind.literals:
                if literal in found or literal in (plain if literal.isascii() else whole):
                    found.setdefault(literal, []).append(number)
        return cls(tuple(kinds), {literal: tuple(numbers) for literal, numbers in found.items()})

    def for_text(self, text: str) -> list[SecretKind]:
        """The kinds that may stand in this text, in their order."""
        lower = text.lower()
        numbers = {number for literal, admitted in self.literals.items() if literal in lower for number in admitted}
        return [self.kinds[number] for number in sorted(numbers)]


def spans(text: str, wanted: Wanted) -> list[Span]:
    """All secrets of these kinds, in order and apart; of those that overlap, the kind that stands first in the rules."""
    found: list[Span] = []
    # a mask's own words are no names of keys
    unmasked = _MARK.sub(lambda mark: f"[{'#' * (len(mark[0]) - 2)}]", text) if "[redacted " in text else text
    for view in views(unmasked):
        kinds = wanted.for_text(view.text)
        if not kinds:
            continue
        found += _mapped(view, _in_view(view.text, kinds))
        commands = [kind for kind in kinds if kind.command or kind.names]
        if commands and (words := command_view(view)) is not None:
            found += _mapped(words, _in_command(words.text, commands))
    return _apart(_around_marks(found, text), wanted.kinds) if found else []


def replaced(text: str, found: Sequence[Span], new: Callable[[int, int, SecretKind], str]) -> str:
    """The text with something else in the place of each of these."""
    pieces: list[str] = []
    at = 0
    for start, end, kind in found:
        pieces += [text[at:start], new(start, end, kind)]
        at = end
    return "".join([*pieces, text[at:]])


def _mapped(view: View, found: Iterator[Span]) -> Iterator[Span]:
    return ((*view.span(start, end), kind) for start, end, kind in found if end > start)


def _in_view(text: str, kinds: Sequence[SecretKind]) -> Iterator[Span]:
    shaped = [span for kind in kinds if kind.regex for span in _shaped(text, kind)]
    yield from shaped
    named = [kind for kind in kinds if kind.names]
    if named:
        yield from assigned(text, named)
    if len(text) >= _CUT_AT and (last := _LAST_WORD.search(text, max(0, len(text) - 200))):
        whole = any(end > last.start() for _, end, _ in shaped)
        yield from () if whole else _cut_off(last, kinds)


def _in_command(text: str, kinds: Sequence[SecretKind]) -> Iterator[Span]:
    for kind in kinds:
        if kind.command:
            yield from _shaped(text, kind)
    named = [kind for kind in kinds if kind.names]
    if named:
        yield from assigned(text, named, flags_only=True)


def _shaped(text: str, kind: SecretKind) -> Iterator[Span]:
    pattern = compiled(kind.regex)
    told = "secret" in pattern.groupindex
    for match in pattern.finditer(text):
        start, end = match.span("secret") if told and match["secret"] is not None else match.span()
        if _holds(kind, text, start, end):
            yield start, end, kind


def _holds(kind: SecretKind, text: str, start: int, end: int) -> bool:
    """What a pattern cannot say of a secret."""
    if kind.behind:
        before = text[max(0, start - _BEFORE) : start].rpartition("\n")[2]
        if compiled(kind.behind).search(before) is None:
            return False
    if is_none(text[start:end], kind):
        return False
    if kind.check == "digit":
        return has_digit(text[start:end])
    return kind.check != "pair" or _is_pair(text[start:end])


def _is_pair(value: str) -> bool:
    """Whether it is `user:password` in base64: `Basic` is a word of prose too."""
    import base64  # here: it is slow to import, and hardly ever needed
    import binascii

    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return False
    return ":" in decoded and decoded.isprintable()


def _cut_off(last: regex.Match[str], kinds: Sequence[SecretKind]) -> Iterator[Span]:
    """The beginning of a token at the end of a line that was cut there: too short for its kind's pattern."""
    word = last[0]
    lower = word.lower()
    for kind in kinds:
        for literal in kind.literals if kind.cut else ():
            at = lower.find(literal)
            if at >= 0 and not word[:at][-1:].isalnum() and is_random(word[at + len(literal) :], _LEAST_OF_CUT):
                yield last.start() + at, last.end(), kind


def _around_marks(found: list[Span], text: str) -> Iterator[Span]:
    """The secrets without what is masked already."""
    marked = "[redacted " in text
    for start, end, kind in found:
        for mark in _MARK.finditer(text, start, end) if marked else ():
            if any(char.isalnum() for char in text[start : mark.start()]):
                yield start, mark.start(), kind
            start = mark.end()
        if any(char.isalnum() for char in text[start:end]):
            yield start, end, kind


def _apart(found: Iterator[Span], kinds: Sequence[SecretKind]) -> list[Span]:
    order = {kind.id: at for at, kind in enumerate(kinds)}
    apart: list[Span] = []
    for start, end, kind in sorted(found, key=lambda span: (span[0], -span[1], order[span[2].id])):
        if apart and start < apart[-1][1]:
            before = apart[-1]
            told = min(before[2], kind, key=lambda one: order[one.id])
            apart[-1] = (before[0], max(end, before[1]), told)
        else:
            apart.append((start, end, kind))
    return apart
