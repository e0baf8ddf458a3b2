"""Puts back the line ends that a paste lost, and takes out those that a narrow terminal put in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

from slurmdoctor.matching import compiled, lazy, unnamed
from slurmdoctor.model import Knowledge, LineFormat

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
_LABEL = (
    r"\[(?:rank|default)\d+\]: ?|(?<!task )(?<!rank )(?<!line )\d{1,4}: |\[?20\d\d-\d\d-\d\d[ T_]\d\d:|\[[EWIF]\d{4} "
)


def parted(rows: Sequence[Row], starts: LineStarts) -> list[Row] | None:
    """Everything on one line: cut where labels, frames and programs' first words stand, or at `\\n` in letters."""
    (number, line), *more = [row for row in rows if row[1].strip()] or [(0, "")]
    if more or len(line) < _LONG or "\r" in line:
        return None
    if len(_LITERAL.findall(line)) >= _PIECES:
        pieces = _LITERAL.sub("\n", line).replace("\\t", "\t").replace('\\"', '"').split("\n")
    else:
        begin = rf"(?:{_LABEL})*(?:{_LABEL}|{unnamed(starts.words)}|(?<!\w )(?:{_EXCEPTION}): )"
        pieces = compiled(rf'(?<![\]\d]:)(?<!\s)\s+(?={begin}|File "[^"]+", line \d)').split(line)
    return (
        [(number, f"  {one}" if one.startswith('File "') else one) for one in pieces]
        if len(pieces) >= _PIECES
        else None
    )


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
    return found


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
    if sum(fresh(rows[n + 1][1]) for n in some) > 0.8 * len(some):
        return None  # lines of one length: below two of three the score of all is negative
    score = halves = torn = runs = 0
    above = -1
    shapes: set[str] = set()
    for n in full:
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
    few = width in _USUAL and halves + runs and torn + runs >= 1 and score >= len(full) + runs
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
