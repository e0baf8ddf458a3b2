"""Masks secrets and removes control characters in everything that is printed.

Redaction works on the finished `Diagnosis`, not on the log: a few kilobytes for a log of any size.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, get_args

from msgspec import Struct
from msgspec.structs import replace

from slurmdoctor.knowledge import secret_kinds
from slurmdoctor.matching import Engine, compiled, engine_for, lazy
from slurmdoctor.model import Diagnosis, Evidence, Frozen, SecretKind, Surroundings, UserError
from slurmdoctor.report.secret_names import WORDS_APART, assigned, has_digit, is_none, is_random

if TYPE_CHECKING:
    import regex


Mode = Literal["off", "default", "strict"]

# Fields that hold ids and words of slurmdoctor, never a log's text.
_OWN = frozenset({
    "id", "family", "rule", "cause", "role", "confidence", "verdict", "exit_class", "advice", "standing", "order", "state", "kind",
})  # fmt: skip
_NO_TEXT = frozenset({"spans", "ticks"})
"""Fields with numbers, and times."""
_LABELS = 8
"""Labels before a line, at most: `3: [rank3]: ` are two."""
_ONE_TEXT = frozenset({"traceback"})
"""Fields with lines that follow one another in the log."""
# Colour, cursor and title sequences: removed.
_SEQUENCE = (
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)"  # OSC, DCS
    r"|\x1b[ -/]{0,4}[0-~]"
)
# C0 but tab and line feed, DEL, C1, bidi marks and overrides, line separators, interlinear and tag
# characters, the byte order mark, lone surrogates: each run becomes one replacement character.
_CONTROL = (
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff\U000e0000-\U000e007f]+"
)


def disarm(text: str) -> str:
    """The text without anything that could control a terminal, or reorder or hide what is read."""
    if text.replace("\n", "").replace("\t", "").isprintable():  # at the speed of C, and true of nearly every text
        return text
    text = compiled(_SEQUENCE).sub("", text.replace("\r\n", "\n"))
    return compiled(_CONTROL).sub("\ufffd", text)


def one_line(text: str) -> str:
    """A text of any origin as one harmless line."""
    return _GAP.sub(lambda gap: "\ufffd" if "\ufffd" in gap[0] else " ", disarm(text)).strip()


def redact(text: str, mode: Mode = "default") -> str:
    """One text, disarmed and (by default) with its secrets masked."""
    return Redactor(mode).values(text)


Value = TypeVar("Value")


class Redactor:
    """Masks a name in the same way wherever it appears in one diagnosis. `kinds` are those of the program and of a site.

    `own` is text of rule files: the address of a site's operators in it is no secret of a log. `names` gives the strict mode's
    pseudonyms, where they are to be others than `user-1`.
    """

    def __init__(
        self,
        mode: Mode = "default",
        kinds: Sequence[SecretKind] | None = None,
        own: str = "",
        names: Pseudonyms | None = None,
    ) -> None:
        if mode not in get_args(Mode):
            raise UserError(f"there is no way to redact that is called {mode!r}", f"take {', '.join(get_args(Mode))}")
        self.mode = mode
        self._kinds = kinds
        self._own = own
        self._names = names or Pseudonyms()

    def apply(self, diagnosis: Diagnosis) -> Diagnosis:
        """The same diagnosis, safe to print and to post. Nothing is rebuilt where nothing is to be masked."""
        if self.mode == "strict":
            self._names.know(_hosts_of(diagnosis))
        if self.mode == "off" or not diagnosis.surroundings:
            return self.values(diagnosis)
        evidence, around = self._neighbors(diagnosis)
        return self.values(replace(diagnosis, evidence=evidence, surroundings=around))

    def values(self, value: Value) -> Value:
        """A text, or anything that holds texts, with all of them masked."""
        strings: list[str] = []

        def collect(text: str) -> str:
            strings.append(text)
            return text

        _rebuilt(value, collect)
        masked = self._masked([disarm(text) for text in strings])
        changed = {text: new for text, new in zip(strings, masked, strict=True) if text != new}
        return cast(Value, _rebuilt(value, lambda text: changed.get(text, text))) if changed else value

    def _masked(self, texts: list[str]) -> list[str]:
        if self.mode == "off":
            return texts
        kinds = self._wanted(texts)
        masked = [_mask(text, kinds, self._own) for text in texts]
        if self.mode == "default":
            return masked
        kinds = self._wanted(masked, strict=True)
        found = [(text, spans(text, kinds)) for text in masked]
        for known in found:  # learn from all first, so that a name is masked also where nothing marks it as one
            self._names.learn(*known)
        return [self._names.mask(*known) for known in found]

    def _wanted(self, texts: Sequence[str], *, strict: bool = False) -> list[SecretKind]:
        """The kinds whose literals occur at all in these texts: for ordinary ones few, and the rest need not be compiled."""
        kinds = secret_kinds() if self._kinds is None else self._kinds
        seen = {"\n\n".join(texts), *(text for text in texts if "\n" in text)}
        lines = {line for text in seen for view in views(text) for line in view.text.split("\n")}
        return _in_all("\n".join(lines), [kind for kind in kinds if kind.strict == strict])

    def _neighbors(self, diagnosis: Diagnosis) -> tuple[tuple[Evidence, ...], tuple[Surroundings, ...]]:
        """The evidence with the lines around it, for a program may have broken a secret over two; they stay as many."""
        quoted = {(item.file, item.line): item.text for item in diagnosis.evidence}
        around = []
        for item in diagnosis.surroundings:
            lines, at = (*item.above, quoted.get((item.file, item.line), ""), *item.below), len(item.above)
            rows = [disarm(line).replace("\n", " ") for line in lines]
            label = _label_of(rows, at)
            rows = self._as_one(rows)
            if label:  # it parts what the program broke over two lines
                bare = self._as_one([row.removeprefix(label) for row in rows])
                rows = [label + one if row.startswith(label) else one for row, one in zip(rows, bare, strict=True)]
            quoted[item.file, item.line] = rows[at]
            around.append(replace(item, above=tuple(rows[:at]), below=tuple(rows[at + 1 :])))
        return tuple(replace(one, text=quoted[one.file, one.line]) for one in diagnosis.evidence), tuple(around)

    def _as_one(self, rows: Sequence[str]) -> list[str]:
        """Rows that follow one another, masked as one text."""
        text = "\n".join(rows)
        return _mask(text, self._wanted([text]), self._own, keep_lines=True).split("\n")


def _label_of(rows: Sequence[str], at: int) -> str:
    """What a line has in common with the one above or below it, up to a colon: `3: [rank3]: `."""
    line, near = rows[at], (*rows[max(0, at - 1) : at], *rows[at + 1 : at + 2])
    labels = [line[: found.end()] for found in islice(re.finditer(": ", line), _LABELS)]
    return next((label for label in reversed(labels) if any(row.startswith(label) for row in near)), "")


def _mask(text: str, kinds: Sequence[SecretKind], own: str, *, keep_lines: bool = False) -> str:
    found = spans(text, kinds)
    if found and own:
        public = {own[start:end] for start, end, _ in spans(own, kinds)}
        found = [span for span in found if text[span[0] : span[1]] not in public]

    def mark(start: int, end: int, kind: SecretKind) -> str:
        lines = "\n" * text.count("\n", start, end) if keep_lines else ""
        return f"[redacted {kind.shown or kind.id.replace('-', ' ')}]{lines}"

    return replaced(text, found, mark)


# ── every string of a diagnosis ───────────────────────────────────────────────────────────────────────


def _rebuilt(value: Any, change: Callable[[str], str]) -> Any:
    """The value with every string changed that holds a log's text."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Struct):
        new = {
            name: _lines(old, change) if name in _ONE_TEXT and old else _rebuilt(old, change)
            for name in value.__struct_fields__
            if name not in _NO_TEXT and not (isinstance(old := getattr(value, name), str) and name in _OWN)
        }
        return replace(value, **new)
    if isinstance(value, Mapping):
        return {_rebuilt(key, change): _rebuilt(item, change) for key, item in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        return type(value)(_rebuilt(item, change) for item in value)
    return value


def _lines(lines: tuple[str, ...], change: Callable[[str], str]) -> tuple[str, ...]:
    """Lines that follow one another are one text: a key of many lines is one secret."""
    return tuple(change("\n".join(lines)).split("\n"))


def _hosts_of(diagnosis: Diagnosis) -> Iterator[str]:
    if diagnosis.first_failure.node:
        yield diagnosis.first_failure.node
    yield from (item.node for item in diagnosis.evidence if item.node)
    yield from diagnosis.extent.nodes
    yield from (node for one in diagnosis.rank_timelines.timelines for node in one.nodes)
    if diagnosis.retry:
        yield from diagnosis.retry.exclude_nodes
    for name in ("node", "master_addr", "host"):
        if isinstance(value := diagnosis.facts.get(name), str):
            yield value


_EVERYWHERE = ("user", "host")
"""Names that are replaced wherever they stand, once they are known."""
_SHORT = 4
"""A name of fewer letters is one only where nothing is joined to it."""
_V4 = r"(?<![\w.=-])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])"
_V6 = r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?![\w:.])"
_NO_HOST = frozenset(
    {"localhost", "none", "null", "unknown", "error", "auto", "gpu", "node", "host", "master", "worker"}
)


class Pseudonyms:
    """Gives every name its number in order of appearance."""

    given = r"(?:bucket|folder|group|host|ip|mac|uid|user)-\d+"
    """What a pseudonym looks like: it gets no other one."""

    def __init__(self) -> None:
        self._given: dict[str, dict[str, str]] = defaultdict(dict)

    def new(self, kind: str, name: str) -> str:
        """The pseudonym of a name that has none."""
        return f"{kind}-{len(self._given[kind]) + 1}"

    def know(self, hosts: Iterable[str]) -> None:
        """Names that are hosts for certain."""
        for host in hosts:
            self._name("host", host)

    def learn(self, text: str, found: Sequence[Span]) -> None:
        """Note the users and hosts that were found in this text."""
        for start, end, kind in found:
            if kind.shown in _EVERYWHERE:
                self._name(kind.shown, text[start:end])

    def mask(self, text: str, found: Sequence[Span]) -> str:
        """The text with every name at its place, every learnt name and every address replaced."""
        text = replaced(text, found, lambda start, end, kind: self._name(kind.shown, text[start:end]))
        text = compiled(
            rf"(?<![\w:/])(?:/[\w.+-]{{1,64}}){{1,4}}?(?=/(?:home|[Uu]sers|scratch)/{self.given}(?!\w))"
        ).sub("", text)
        text = compiled(_V4).sub(self._address, text)
        text = compiled(_V6).sub(self._address, text)
        for kind in _EVERYWHERE:
            for name in sorted(self._given[kind], key=len, reverse=True):
                if name in text:
                    joined = r"[\w-]" if kind == "host" or len(name) < _SHORT else "[A-Za-z0-9]"
                    alone = rf"(?:(?<!{joined})|(?<=slurmstepd-)){re.escape(name)}(?!{joined})"
                    text = re.sub(alone, self._given[kind][name], text)
        return text

    def _address(self, match: regex.Match[str]) -> str:
        import ipaddress  # slow to import, and of the strict mode alone

        try:
            address = ipaddress.ip_address(match[0])
        except ValueError:
            return match[0]
        if address.is_loopback or address.is_unspecified or (address.version == 6 and match[0].count(":") < 3):
            return match[0]
        return self._name("ip", match[0])

    def _name(self, kind: str, name: str) -> str:
        if len(name) < 2 or name.lower() in _NO_HOST or compiled(self.given).fullmatch(name):
            return name
        for known in self._given.values():
            if name in known:
                return known[name]
        new = self.new(kind, name)
        self._given[kind][name] = new
        return new


# Cf: soft hyphen, zero width, joiners; and what is left of backspaces and other controls, which `disarm` replaced.
_IGNORED = lazy(r"[\p{Cf}\p{Mn}\ufffd\u115f\u1160\u3164\uff01-\uff5e\u3000\u02d0\ua789\ufe55\u2236]")
_COLONS = frozenset("\u02d0\ua789\ufe55\u2236")
_ESCAPED = lazy(
    r"\\[ \t]{0,8}\n(?:>[ ])?[ \t]{0,64}"  # a shell's line goes on
    r"|\\{1,32}(?:[\"'`/=&:]|[nrt]|u00[2-7][0-9A-Fa-f]|x[2-7][0-9A-Fa-f])"
    r"|%[2-7][0-9A-Fa-f]|&(?:quot|apos|amp|lt|gt|#\d{2,3}|#x[0-9A-Fa-f]{2});"
)
_MEANS = {"n": "\n", "r": "\n", "t": "\t"}
_BETWEEN_WORDS = lazy(r"\\{0,32}[\"'],?\s{1,64}(?:[bru]{0,2}\\{0,32}[\"'])|\\{0,32}[\"'],(?:[bru]{0,2}\\{0,32}[\"'])")
# A program that wraps its output does so at the terminal's width; what goes on may stand behind a frame or blanks.
_NEXT_LINE = lazy(r"\n(?:[|│┃>] ?)?[ \t]{0,60}(?=[\w+/=.~%-])")
_NARROWEST = 40
_FRAME = " \t|│┃"


Edit = tuple[int, int, str]
"""From where to where a text is replaced, and by what."""


class View(Frozen):
    """A text, and the edits that made it from another one."""

    text: str
    origin: View | None = None
    edits: Sequence[Edit] = ()
    begins: Sequence[int] = ()
    """Where what each edit put there begins in the text."""

    def whence(self, at: int) -> tuple[int, int]:
        """From where to where its character at a place is in the first text."""
        if self.origin is None:
            return at, at + 1
        before = bisect_right(self.begins, at) - 1
        if before >= 0:
            start, end, new = self.edits[before]
            beyond = at - self.begins[before] - len(new)
            if beyond < 0:
                return self.origin.whence(start)[0], self.origin.whence(end - 1)[1]
            at = end + beyond
        return self.origin.whence(at)


def _edited(view: View, edits: Sequence[Edit]) -> View | None:
    """The view with some stretches replaced; None where there are none."""
    pieces: list[str] = []
    begins: list[int] = []
    at = length = 0
    for start, end, new in edits:
        pieces += [view.text[at:start], new]
        begins.append(length + start - at)
        length, at = begins[-1] + len(new), end
    return View("".join([*pieces, view.text[at:]]), view, edits, begins) if edits else None


def views(text: str) -> Iterator[View]:
    """The text as it is, and in each other way in which it reads differently."""
    plain = View(text)
    yield plain
    if not text.isascii() and (folded := _rewritten(plain, _IGNORED, _fold)):
        plain = folded
        yield plain
    if "\n" in text and (joined := _unwrapped(plain)):
        yield joined
    if any(sign in text for sign in "\\%&") and (bare := _rewritten(plain, _ESCAPED, _unescape)):
        yield bare
        if "\n" in bare.text and (joined := _unwrapped(bare)):
            yield joined


def command_view(view: View) -> View | None:
    """The view with the quoted words of lists joined, as a shell would show them: `['docker', 'login']`."""
    if "'" not in view.text and '"' not in view.text:
        return None
    return _rewritten(view, _BETWEEN_WORDS, lambda _: WORDS_APART)


def _unwrapped(view: View) -> View | None:
    text = view.text
    edits = []
    for match in _NEXT_LINE.finditer(text):
        line = text[max(0, match.start() - 128) : match.start()].rpartition("\n")[2]
        written = line.rstrip(_FRAME)
        if len(written) >= _NARROWEST and (written[-1].isalnum() or written[-1] in "_+/=.~%-"):
            edits.append((match.start() - len(line) + len(written), match.end(), ""))
    return _edited(view, edits)


def _rewritten(view: View, pattern: regex.Pattern[str], new: Callable[[regex.Match[str]], str]) -> View | None:
    return _edited(view, [(*match.span(), new(match)) for match in pattern.finditer(view.text)])


def _fold(match: regex.Match[str]) -> str:
    char = match[0]
    if char in _COLONS:
        return ":"
    import unicodedata  # here: most texts are plain

    return unicodedata.normalize("NFKC", char) if "\uff01" <= char <= "\uff5e" or char == "\u3000" else ""


def _unescape(match: regex.Match[str]) -> str:
    spelling = match[0].lstrip("\\")
    if "\n" in spelling:
        return " "
    if spelling in _MEANS:
        return _MEANS[spelling]
    if spelling.endswith(";"):
        import html  # here: few texts hold what a page escapes

        return html.unescape(spelling)
    return spelling if len(spelling) == 1 else chr(int(spelling[1:], 16))


Span = tuple[int, int, SecretKind]
"""Begin and end of a secret, and its kind."""
_GAP = lazy(r"[\s\ufffd]+")
_BEFORE = 240
"""So many characters of a line are searched for what must stand before a secret."""
_CUT_AT = 40
"""A line of so many characters may have been cut where its terminal ended."""
_LAST_WORD = lazy(r"[\w.+/-]{8,200}$")
_LEAST_OF_CUT = 5
_MARK = lazy(r"\[redacted [a-z0-9 -]{1,40}\]")


def _perhaps_in(text: str, kinds: Iterable[SecretKind]) -> list[SecretKind]:
    """The kinds of which a literal occurs in a text, in their order."""
    lower = text.lower()
    return [kind for kind in kinds if any(literal in lower for literal in kind.literals)]


def _in_all(text: str, kinds: Sequence[SecretKind]) -> list[SecretKind]:
    """The same of all kinds, whose literals are looked for at once; those that are too short for that one by one."""
    lower = text.lower()
    long, short, engine, meant = _engine(tuple(literal for kind in kinds for literal in kind.literals))
    maybe = {long[number] for word in set(engine.which(lower.encode())) for number in meant[word]}
    pairs = set(pairwise(lower))  # to gather them takes a third of the time in which all short ones are looked for
    there = {literal for literal in (*short, *maybe) if pairs.issuperset(pairwise(literal)) and literal in lower}
    return [kind for kind in kinds if not there.isdisjoint(kind.literals)]


@lru_cache(maxsize=4)
def _engine(literals: tuple[str, ...]) -> tuple[list[str], list[str], Engine, list[list[int]]]:
    """Those that the search takes, the shorter ones, the search, and for each of its words the numbers of the literals."""
    long = sorted({literal for literal in literals if len(literal) >= _LONG})
    engine, _, meant = engine_for([literal.encode() for literal in long])
    return long, sorted({literal for literal in literals if len(literal) < _LONG}), engine, meant


_LONG = 4
"""Characters of a literal that the search for many at once takes."""


def spans(text: str, among: Sequence[SecretKind]) -> list[Span]:
    """All secrets of these kinds, in order and apart; of those that overlap, the kind that is first in the rules."""
    found: list[Span] = []
    # a mask's own words are no names of keys
    unmasked = _MARK.sub(lambda mark: f"[{'#' * (len(mark[0]) - 2)}]", text) if "[redacted " in text else text
    for view in views(unmasked):
        kinds = _perhaps_in(view.text, among)
        if not kinds:
            continue
        found += _mapped(view, _in_view(view.text, kinds))
        if any(kind.command or kind.names for kind in kinds) and (words := command_view(view)) is not None:
            found += _mapped(words, _in_view(words.text, kinds, of_command=True))
    return _apart(_around_marks(found, text), among) if found else []


def replaced(text: str, found: Sequence[Span], new: Callable[[int, int, SecretKind], str]) -> str:
    """The text with something else in the place of each of these."""
    pieces: list[str] = []
    at = 0
    for start, end, kind in found:
        pieces += [text[at:start], new(start, end, kind)]
        at = end
    return "".join([*pieces, text[at:]])


def _mapped(view: View, found: Iterator[Span]) -> Iterator[Span]:
    """What was found in a view, at its places in the text that the view is made from."""
    return ((view.whence(start)[0], view.whence(end - 1)[1], kind) for start, end, kind in found if end > start)


def _in_view(text: str, kinds: Sequence[SecretKind], *, of_command: bool = False) -> Iterator[Span]:
    """The secrets of a view; of a command's words those alone that its arguments may be."""
    shapes = [kind for kind in kinds if kind.regex and (kind.command or not of_command)]
    shaped = [span for kind in shapes for span in _shaped(text, kind)]
    yield from shaped
    yield from assigned(text, kinds, flags_only=of_command)
    if not of_command and len(text) >= _CUT_AT and (last := _LAST_WORD.search(text, max(0, len(text) - 200))):
        whole = any(end > last.start() for _, end, _ in shaped)
        yield from () if whole else _cut_off(last, kinds)


def _shaped(text: str, kind: SecretKind) -> Iterator[Span]:
    pattern = compiled(kind.regex)
    grouped = "secret" in pattern.groupindex
    for match in pattern.finditer(text):
        start, end = match.span("secret") if grouped and match["secret"] is not None else match.span()
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
            first = min(before[2], kind, key=lambda one: order[one.id])
            apart[-1] = (before[0], max(end, before[1]), first)
        else:
            apart.append((start, end, kind))
    return apart
