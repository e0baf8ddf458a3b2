"""Puts back the line ends that a paste lost, and takes out those that a narrow terminal put in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache

from slurmdoctor.input.line_starts import EXCEPTION, LineStarts
from slurmdoctor.input.rows import Row
from slurmdoctor.matching import lazy

# ── lost line ends ───────────────────────────────────────────────────────────────────────────

_SRUN = lazy(
    r"(?<!\bline )(?<!\brank )(?<!\bstep )(?<!\bepoch )(?<!\btask )(?<!\btasks )(?<!\bnode )(?<!\bGPU )(?<!\bdevice )"
    r"(?<!: )(?<![\d.:/,-])"
    r"(\d{1,4}): (?!tasks?\b|error:)(?=\S| {2,})"
)
_FRAME = lazy(r'(?<![ \t])[ \t]*+File "[^"\n]{1,300}", line \d+(?:,? in (?:<\w+>|[\w.<>]++))?')
_RAISED = lazy(rf"(?<![\w.'\"(:,=])(?:{EXCEPTION})(?=: |:$|\s*$)")
_FIELD = lazy(r"(?<!\s)\s+(?=(?:host|rank|exitcode|error_file|traceback)\s{0,8}: )")
_RULE = lazy(r"([=-]{20,})(?![=-])\s*(?=\S)")
_IN_CODE = lazy(r"\b(?:raise|except|from)\s+$")
_IN_PROSE = lazy(r"(?:[,:(=]|\b(?:raise|except|by|to|Caught|an?|the|from|of|with|got|and|or))\s+$")
_LITERAL = lazy(r"\\r\\n|\\n")
_LONG = 120
_DIGITS = str.maketrans("3456789", "1111111")
"""Lines that differ in these digits only are split alike: our patterns know a 2 and a 0 (`20\\d\\d`, `0x`)."""


def opened(rows: Sequence[Row], starts: LineStarts) -> list[Row] | None:
    """Everything on one line: line ends put back where lines of such logs begin."""
    told = [line for _, line in rows if line.strip()]
    size = sum(map(len, told))
    if not told or len(told) + sum(line.count("\r") for line in told) > 200 or size < 120:
        return None  # what ends its lines with carriage returns, as progress bars do, has not lost their ends
    shapes: Counter[str] = Counter()
    for line in told:
        if len(line) >= _LONG:
            shapes[line.translate(_DIGITS)] += len(line)
    whole: set[str] = set()
    mended = shapes.total()
    for shape, length in shapes.most_common():
        # one long line in a log of many is the program's own
        if mended < 0.6 * size:
            return None
        pieces = list(_split(shape, starts))
        if pieces == [shape]:
            whole.add(shape)
        if len(pieces) < 2:
            mended -= length
    if mended < 0.6 * size:
        return None
    return [
        (number, piece)
        for number, line in rows
        for piece in ([line] if len(line) < _LONG or line.translate(_DIGITS) in whole else _split(line, starts))
    ]


def _split(line: str, starts: LineStarts) -> Iterator[str]:
    if len(_LITERAL.findall(line)) >= 3:
        inner = _LITERAL.sub("\n", line).replace("\\t", "\t").replace('\\"', '"')
        yield from inner.split("\n")
        return
    begins = sorted({0, *starts.within(line), *_numbered(line)})
    frames = len(_FRAME.findall(line))
    words = len(begins) > 1 and starts.text("line-start").match(line, begins[1]) is not None
    if len(begins) + frames < 3 - words:
        yield line
        return
    pieces = [line[begin:end].rstrip() for begin, end in zip(begins, [*begins[1:], len(line)], strict=True)]
    yield from _indented([part for piece in pieces if piece for part in _parts(piece, starts)], starts)


def _indented(pieces: Sequence[str], starts: LineStarts) -> Iterator[str]:
    """A traceback's frames and code behind labels, as deep as they were before blanks were collapsed."""
    framed: set[str] = set()
    for piece in pieces:
        label = piece[: starts.label_end(piece)].rstrip()
        text = piece[len(label) :]
        bare = text.strip()
        if not label or not bare or text.startswith("   "):
            framed.discard(label)
            yield piece
        elif bare.startswith('File "'):
            framed.add(label)
            yield f"{label}   {bare}"
        elif label in framed and not _RAISED.match(bare):
            yield f"{label}     {bare}"
        else:
            framed.discard(label)
            yield piece


def _numbered(line: str) -> list[int]:
    """Where srun's labels stand in a text that begins with one."""
    if not re.match(r" *\d{1,4}: ", line):
        return []
    found = [f.start() for f in _SRUN.finditer(line)]
    apart = [at for at in found if at == 0 or line[at - 1].isspace()]
    found = apart if len(apart) >= 3 else found  # glued to the line before only where all are
    return found if len(found) >= 3 else []


def _parts(piece: str, starts: LineStarts) -> Iterator[str]:
    """A traceback's frames, its error, and a table's fields, each on its own line."""
    if rule := _RULE.match(piece):
        yield rule[1]
        piece = piece[rule.end() :]
    frames = list(_FRAME.finditer(piece))
    if not frames:
        yield from _fields(piece, starts)
        return
    head = piece[: frames[0].start()].rstrip()
    labelled = bool(head) and starts.label_end(head) == len(head)
    if head and not labelled:
        yield head
    for number, frame in enumerate(frames):
        stop = frames[number + 1].start() if number + 1 < len(frames) else len(piece)
        rest = piece[frame.end() : stop].strip()
        yield (head + frame[0] if labelled and not number else "  " + frame[0].strip())
        last = number + 1 == len(frames)
        error = next((e for e in _RAISED.finditer(rest) if not _IN_CODE.search(rest[: e.start()])), None)
        if error is None or not last:
            if rest:
                yield "    " + rest
            continue
        if code := rest[: error.start()].strip():
            yield "    " + code
        yield from _fields(rest[error.start() :], starts)


def _fields(piece: str, starts: LineStarts) -> Iterator[str]:
    if re.match(r"\s*\[\d+\]:\s+time\s+:", piece) or starts.text("torchelastic-rank").search(piece):
        head, *fields = _FIELD.split(piece)
        found = re.match(r"(\s*\[\d+\]:)\s+(time\s.*)$", head)
        yield from (found[1], "  " + found[2]) if found else (head,)
        yield from ("  " + field for field in fields)
        return
    raised = [e.start() for e in _RAISED.finditer(piece) if e.start() and piece[e.start() - 1].isspace()]
    raised = [at for at in raised if not _IN_PROSE.search(piece[:at])]
    for begin, end in zip([0, *raised], [*raised, len(piece)], strict=True):
        if part := piece[begin:end].rstrip():
            yield part


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
