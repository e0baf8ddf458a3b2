"""Restores a pasted log: takes off what a chat, a mail or a viewer put before its lines, and mends lines that were cut or joined.

Each step looks for one thing (`> ` before each line, line numbers, Markdown fences) and does nothing where the text does not
clearly show it: an ordinary log must stay as it is. The steps run until none applies, for a paste may be quoted, fenced and
numbered at once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise

from slurmdoctor.input.sources import Source, Text
from slurmdoctor.matching import compiled, lazy, unnamed
from slurmdoctor.model import Frozen, Knowledge, LineFormat

LIMIT = 1024 * 1024
"""Characters; nobody pastes more, and what is longer is taken for a log."""
_MOST_LINES = 20_000
_ROUNDS = 4
_NEARLY_ALL = 0.8
"""Share of the lines that must carry a mark of quotation,"""
_RISING = 0.97
"""and share of line numbers that must be higher than the one before."""


class Undone(Frozen):
    """The log behind a paste."""

    text: str
    done: tuple[str, ...] = ()
    """What was undone, in words; empty where nothing was."""
    numbers: tuple[int, ...] = ()
    """For each line of `text`, its number in what was pasted."""


def unwrap(sources: Sequence[Source], knowledge: Knowledge) -> tuple[list[Source], str]:
    """The sources as they are; or, where there is but one and it is a paste, the log behind it, and a note about it."""
    if len(sources) != 1 or sources[0].gap or (sources[0].size or 0) > LIMIT:  # a large log is not read twice
        return list(sources), ""
    source = sources[0]
    data = source.peek(LIMIT + 1)
    undone = undo(data.decode("utf-8", "replace"), knowledge) if len(data) <= LIMIT else Undone("")
    if not undone.done:
        return [source], ""
    source.close()
    unwrapped = Text.source(undone.text, source.name)
    unwrapped.path, unwrapped.numbers, unwrapped.lines_above = source.path, undone.numbers, source.lines_above
    unwrapped.fault = source.fault
    return [unwrapped], f"read as a paste: {', '.join(undone.done)}"


def undo(text: str, knowledge: Knowledge) -> Undone:
    """The log behind a paste. Text that shows no sign of pasting comes back as it is."""
    if text.count("\n") > _MOST_LINES:
        return Undone(text)
    rows: list[Row] = list(enumerate(text.replace("\r\n", "\n").split("\n"), 1))
    starts = knowledge.once(LineStarts)
    done: list[str] = []
    for _ in range(_ROUNDS):
        before = list(rows)
        for words, step in _MARKS:
            if (change := step([line for _, line in rows])) is not None:
                changed = [(number, change(line)) for number, line in rows]
                done += [words] if changed != rows else []
                rows = changed
        for words, mend in _MENDS:
            if (mended := mend(rows, starts)) is not None and mended != rows:
                rows = mended
                done.append(words)
        if rows == before:
            break
    if not done:
        return Undone(text)
    return Undone("\n".join(line for _, line in rows), tuple(dict.fromkeys(done)), tuple(n for n, _ in rows))


# ── what stands before each line ─────────────────────────────────────────────────────────────

Change = Callable[[str], str]
_BLANKS = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff")) | dict.fromkeys(map(ord, "\u00a0\u2007\u202f"), " ")
"""Characters of no width, and blanks that do not break."""
_QUOTED = lazy(r"^\s{0,3}>(?: |$|(?=>))")
_FENCE = lazy(r"^\s{0,3}`{3,}(?:[\w+.-]{0,20}\s*$)?|(?<!`)`{3,}\s*$|^~{3,}\w*\s*$")
_ENTITY = lazy(r"(?i)&(?:lt|gt|amp|quot|apos|nbsp|#0?39|#x27|#34|#x2F);")
_NUMBER = lazy(r"^ {0,8}(?P<number>\d{1,8})(?P<mark>\t| ?[│|] ?|[:-]|[.)] |  ?|$)")


def _spaced(lines: Sequence[str]) -> Change | None:
    """Blanks as a web page has them."""
    return None if all(map(str.isascii, lines)) else lambda line: line.translate(_BLANKS)


def _quoted(lines: Sequence[str]) -> Change | None:
    """`> ` before each line. Megatron prints lines of its own so: a few of them in a log are no quotation."""
    filled = [line for line in lines if line.strip()]
    quoted = sum(_QUOTED.match(line) is not None for line in filled)
    return (lambda line: _QUOTED.sub("", line)) if quoted >= _NEARLY_ALL * len(filled) else None


def _fenced(lines: Sequence[str]) -> Change | None:
    """Lines of three backticks or tildes, closed or not, and those that stick to the first and the last line."""
    fenced = any("```" in line or line.startswith("~~~") for line in lines)
    return (lambda line: _FENCE.sub("", line)) if fenced else None


def _escaped(lines: Sequence[str]) -> Change | None:
    """`&gt;` and other entities, where there are hardly any bare brackets."""
    whole = "\n".join(lines)
    if len(_ENTITY.findall(whole)) <= 2 * (whole.count("<") + whole.count(">")):
        return None
    from html import unescape  # here: most pastes hold none, and it is slow to import

    return lambda line: unescape(line).replace("\u00a0", " ")


def _numbered(lines: Sequence[str]) -> Change | None:
    """Line numbers, as cat -n, less -N, vim, bat and grep -n print them: they count up, mostly by one."""
    filled = [line for line in lines if line.strip()]
    found = [match for line in filled if (match := _NUMBER.match(line))]
    if len(found) < max(2, 0.9 * len(filled)):
        return None
    mark = Counter(match["mark"] for match in found).most_common(1)[0][0]
    steps = [int(b["number"]) - int(a["number"]) for a, b in pairwise(found)]
    if mark == ":":  # of grep -n all lines or those that matched; a blank comes first behind srun's labels
        bare = sum(not match.string[match.end() : match.end() + 1].isspace() for match in found)
        believed = bare >= 0.2 * len(found) and sum(step > 0 for step in steps) >= _RISING * len(steps)
    else:
        # few lines are believed with marks that no log begins its only lines with
        believed = steps.count(1) >= 0.9 * len(steps) and (len(found) > 2 or "\t" in mark or "│" in mark)
    return (lambda line: _NUMBER.sub("", line, count=1)) if believed else None


def _indented(lines: Sequence[str]) -> Change | None:
    """The four blanks that make a block of code, before every line."""
    depths = [len(line) - len(line.lstrip(" ")) for line in lines if line.strip()]
    deep = min(depths, default=0)
    return (lambda line: line[deep:]) if deep >= 4 and (len(depths) >= 3 or deep == 4) else None


_MARKS: tuple[tuple[str, Callable[[Sequence[str]], Change | None]], ...] = (
    ("odd blanks made plain", _spaced),
    ("quotation marks taken off", _quoted),
    ("Markdown fences taken off", _fenced),
    ("HTML entities decoded", _escaped),
    ("line numbers taken off", _numbered),  # before the indentation, which may be theirs
    ("indentation taken off", _indented),
)
"""What was done to a paste, and what finds the change that undoes it; the outermost first."""


Row = tuple[int, str]
"""A line, and its number in what was pasted."""


# ── where lines begin ────────────────────────────────────────────────────────────────────────

_NAMED = r"(?:Error|Exception|Interrupt|Exit|Failure|Timeout|Unavailable|StopIteration)"
_EXCEPTION = rf"(?:[A-Za-z_]\w*\.)*[A-Z]\w*{_NAMED}|(?:[a-z_]\w*\.)+[A-Z]?\w*{_NAMED}|[A-Z]\w*{_NAMED}"
"""A Python exception's class, named like one."""
_UNLABELLED = lazy(rf'(?:{_EXCEPTION})(?:: |:?$)|File "|[=*#~_-]{{8}}')
"""Tracebacks and rules across a line begin so."""
_SHARE = 0.3
"""Share of the lines that carry an ambiguous label where it is believed."""


class LineStarts:
    """How lines begin by what is known of labels and of programs' texts."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._formats = knowledge.formats
        self.words = next(entry.pattern for entry in knowledge.texts if entry.id == "line-start")
        """The words that lines begin with."""

    def believed_by(self, lines: Sequence[str]) -> Callable[[str], bool]:
        """Whether a line of this text is one of its own, and no rest of the line above it."""
        filled = sum(bool(line.strip()) for line in lines)

        def has(form: LineFormat, line: str) -> bool:
            return form.may_begin(line) and compiled(unnamed(form.pattern)).match(line) is not None

        ambiguous = [form for form in self._formats if form.lock and "rank" in form.groups]
        believed = [form for form in ambiguous if sum(has(form, line) for line in lines) >= _SHARE * filled]
        believed += [form for form in self._formats if not form.lock]
        words = compiled(self.words)

        def begins(line: str) -> bool:
            bare = line.lstrip()
            if not bare or len(line) - len(bare) > 1 or words.match(bare) or _UNLABELLED.match(bare):
                return True
            return any(has(form, line) for form in believed)

        return begins


# ── lost line ends ───────────────────────────────────────────────────────────────────────────

_LONG = 120
_PIECES = 3
_LITERAL = lazy(r"\\r\\n|\\n")


def parted(rows: Sequence[Row], starts: LineStarts) -> list[Row] | None:
    """Everything on one line, its line ends as `\\n` in letters."""
    (number, line), *more = [row for row in rows if row[1].strip()] or [(0, "")]
    if more or len(line) < _LONG or len(_LITERAL.findall(line)) < _PIECES:
        return None
    text = _LITERAL.sub("\n", line).replace("\\t", "\t").replace('\\"', '"')
    return [(number, one) for one in text.split("\n")]


def unpacked(rows: Sequence[Row], starts: LineStarts) -> list[Row] | None:
    """A record of JSON a line, as Docker and structlog keep logs: the text in it, its time and rank before it as loggers print them."""
    filled = [row for row in rows if row[1].strip()]
    if not filled or not all(line.lstrip().startswith('{"') for _, line in (filled[0], filled[-1])):
        return None
    from json import loads  # here: most pastes hold no records

    found: list[Row] = []
    for number, line in filled:
        try:
            record = loads(line)
        except (ValueError, RecursionError):
            record = None
        record = record if isinstance(record, dict) else {}
        text, time = (next((record[key] for key in keys if isinstance(record.get(key), str)), "") for keys in _KEYS)
        label = (f"{time} " if time else "") + (
            f"[rank{record['rank']}]: " if isinstance(record.get("rank"), int) else ""
        )
        found += [(number, label + part) for part in text.rstrip("\r\n").split("\n")] if text else [(number, line)]
    return None if found == filled else found


_KEYS = (("log", "message", "msg", "text", "line"), ("time", "timestamp", "@timestamp", "ts", "asctime"))
"""Where a record keeps its text, and its time."""


# ── hard wraps ───────────────────────────────────────────────────────────────────────────────

_NARROW, _WIDE = 60, 240
_USUAL = frozenset({72, 76, 78, 79, 80, 100, 110, 120, 128, 132, 140, 150, 160, 180, 200, 240})
"""Widths that terminals and mails have: believed on less evidence."""
_SAMPLE = 200
"""Lines below full ones that are looked at first; of fewer, all."""
_HALF = lazy(r" ?[a-z0-9_]| [A-Z]|[:.,/=_-]\w")
_PAIRS = (("(", ")"), ("[", "]"), ("<", ">"))
_TAIL = lazy(r"[/._:=-][^\s'\"()\[\]<>/._:=-]*+(?<=[A-Za-z0-9_])$")


def _torn(before: str, after: str) -> bool:
    """Whether something that was opened in the one line is closed in the next: a bracket, a quote, a path, a stamp."""
    if any(before.count(o) > before.count(c) and after.count(c) > after.count(o) for o, c in _PAIRS):
        return True
    if any(before.count(quote) % 2 and after.count(quote) % 2 for quote in "\"'"):
        return True
    # one blank and a word: no program begins a line so; or a path or a number that goes on
    return re.match(r" [A-Za-z]", after) is not None or (
        _TAIL.search(before) is not None and re.match(r"[\w.-]*[/._:=-]", after) is not None
    )


def joined(rows: Sequence[Row], starts: LineStarts) -> list[Row] | None:
    """Lines that a terminal cut at its width, inside words."""
    lengths = Counter(len(line) for _, line in rows if line)
    if not lengths:
        return None
    width = max(lengths)
    if not _NARROW <= width <= _WIDE:
        return None
    full = [n for n in range(len(rows) - 1) if len(rows[n][1]) == width and not rows[n][1].endswith("  ")]
    # few lines of the full width among many that are nearly as wide: the program's own, as bars are
    if not full or len(full) < sum(lengths[width - k] for k in range(2, 8)) / 3:
        return None
    fresh = cache(starts.believed_by([line for _, line in rows]))
    some = full[:: 1 + len(full) // _SAMPLE]
    score = halves = torn = runs = 0
    above = -1
    shapes: set[str] = set()
    for n in some:
        before, after = rows[n][1], rows[n + 1][1]
        follows, above = n - 1 == above, n
        if fresh(after):
            score -= 2
            continue
        shape = re.sub(r"\d", "0", before)
        runs += bool(shapes) and follows and shape not in shapes
        shapes.add(shape)
        # cut within a word, or behind its blank: a line of its own rarely begins with the second half of one
        half = _HALF.match(after) is not None and (before[-1].isalnum() or before[-1] in " _," or after[0] == " ")
        halves += half and fresh(before)
        torn += _torn(before, after)
        score += 2 if half else 1
    few = width in _USUAL and halves + runs and torn + runs and score >= len(some) + runs
    if not few and (score < 4 or (len(shapes) < 2 and halves < 2)):
        return None
    stripped = not any(line.endswith(" ") for _, line in rows)
    changed: list[Row] = []
    room, last = False, 0
    for number, line in rows:
        if room and not fresh(line) and changed:
            gap = " " * (width - last) if last < width else ""
            changed[-1] = (changed[-1][0], changed[-1][1] + gap + line)
        else:
            changed.append((number, line))
        last = len(line)
        room = (last == width and not line.endswith("  ")) or (stripped and last == width - 1)
    return [(number, line.rstrip()) for number, line in changed]


_MENDS = (
    ("records of JSON unpacked", unpacked),
    ("lost line ends put back", parted),
    ("hard-wrapped lines joined", joined),
)
