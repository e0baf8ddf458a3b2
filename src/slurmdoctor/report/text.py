"""The terminal report: the verdict, the lines that prove it, and the fixes, in at most 15 lines."""

from __future__ import annotations

from msgspec import Struct

from slurmdoctor.model import Cascade, Diagnosis, Evidence, FirstFailure
from slurmdoctor.model.ranges import ranges as folded
from slurmdoctor.report import words
from slurmdoctor.report.exits import ending
from slurmdoctor.report.frames import Frame, best_frames
from slurmdoctor.report.quantities import delay, plural
from slurmdoctor.report.redact import disarm, one_line
from slurmdoctor.report.terminal import Line, cells, clip, cut, cut_path, paint, wrap

LIMIT = 15
_INDENT, _LABEL = "  ", 7
_WIDEST = 140
"""Wider lines are hard to read, whatever the terminal's width."""
_COLOURS = {"✗": "bad", "✓": "good", "?": "doubt"}
_STANDING = {"first": "bad", "suspect": "doubt", "finished": "good"}


class _Block(Struct, frozen=True):
    """Lines that belong together. Each block gets `least` of them, then the rest of the room goes by `rank`."""

    lines: list[Line]
    least: int
    rank: int
    whole: bool = False
    """All of it or nothing."""


def render(
    diagnosis: Diagnosis,
    *,
    width: int,
    colour: bool,
    context: int = 0,
    ranks: bool = False,
    encoding: str = "utf-8",
) -> str:
    """The report; with `context`, that many lines of the traceback's end; with `ranks`, what happened to every rank."""
    lines = report(diagnosis, width=width, context=context, ranks=ranks)
    return paint(lines, colour=colour, encoding=encoding)


def report(diagnosis: Diagnosis, *, width: int, context: int = 0, ranks: bool = False) -> list[Line]:
    """The report as styled lines."""
    width = max(20, min(width, _WIDEST))
    failed = diagnosis.verdict == "failed"
    blocks = _failed(diagnosis, width, context) if failed else _not_failed(diagnosis, width)
    limit = LIMIT + sum(block.least for block in blocks if context and block.rank < 0)
    lines = _fit([_Block(_head(diagnosis, width), 3, 0), *blocks], limit, width)
    lines += _groups(diagnosis, width) if ranks and diagnosis.ranks else []
    return [clip(line, width) for line in lines]


# ── the parts ────────────────────────────────────────────────────────────────────────────────


def _head(diagnosis: Diagnosis, width: int) -> list[Line]:
    mark, tag = words.mark(diagnosis), words.tag(diagnosis)
    text = words.headline(diagnosis)
    if diagnosis.verdict == "no-failure":
        tag = "read " + words.read(diagnosis)
    gap = width - 2 - cells(text) - cells(tag)
    wrapped = [("bold", part) for part in wrap(text, width - 2, 2)]
    lines: list[Line] = [[(_COLOURS[mark], mark), ("", " "), wrapped[0]]]
    lines += [[("", _INDENT), part] for part in wrapped[1:]]
    if tag and gap >= 2:
        lines[0] += [("", " " * gap), ("dim", tag)]
    elif tag:
        lines.append([("", _INDENT), ("dim", cut(tag, width - 2))])
    return lines


def _failed(diagnosis: Diagnosis, width: int, context: int) -> list[_Block]:
    fixes = [words.remedy(fix.do, fix.why) for fix in diagnosis.fixes[:2]]
    sure = diagnosis.cause is not None and diagnosis.cause.confidence == "high"
    blocks = [
        *_quote(diagnosis, width, context),
        _Block(_labelled("exit", [ending(diagnosis)], width), 1, 2),
        _Block(_then(diagnosis.cascade, width), 1, 4),
        _Block(_labelled("fix", fixes[:1], width), 1, 2),
        _Block(_labelled("", fixes[1:], width), 0, 8, whole=True),
        _Block(_labelled("retry", [words.retry(diagnosis)], width), 1, 5),
        _Block(_labelled("why", [words.why(diagnosis)], width), 1, 3),
        _Block(_labelled("check", [] if sure else [one_line(v) for v in diagnosis.verify[:1]], width), 0, 9),
        _Block(_labelled("also", [_rivals(diagnosis)], width), 1, 7),
        *_asks(diagnosis, width),
        _Block(_labelled("note", [_notes(diagnosis)], width), 0, 7),
    ]
    return [block for block in blocks if block.lines]


def _not_failed(diagnosis: Diagnosis, width: int) -> list[_Block]:
    facts, blocks = diagnosis.facts, []
    if diagnosis.verdict == "unknown":
        blocks.append(_Block(_labelled("read", [words.read(diagnosis)], width), 1, 1))
    if facts.get("last_step") is not None:
        blocks.append(_Block(_labelled("last", [f"step {one_line(str(facts['last_step']))}"], width), 1, 1))
    if diagnosis.verdict == "unknown":
        blocks += _quote(diagnosis, width, 0)
    blocks += [
        _Block(_labelled("why", [words.why(diagnosis)], width), 1, 2),
        _Block(_labelled("also", [_rivals(diagnosis)], width), 1, 3),
        *_asks(diagnosis, width),
        _Block(_labelled("note", [_notes(diagnosis)], width), 1, 5),
    ]
    return [block for block in blocks if block.lines]


def _quote(diagnosis: Diagnosis, width: int, context: int) -> list[_Block]:
    """The line that proves the verdict, its place, and the frames that lead to it."""
    first = diagnosis.first_failure or FirstFailure()
    file, line, text, time = words.shown_line(diagnosis)
    if text is None:
        return []
    where: Line = [("", _INDENT), ("key", _place(file, line, width - 16))]
    where += [("dim", "  " + words.clock(time))] if time else []
    if len(words.reached(diagnosis).ranks) > 1 and first.rank is not None:
        where.append(
            ("dim", f"  first seen on rank {first.rank}" if len(first.ranks) > 1 else f"  rank {first.rank}, the first")
        )
    blocks = [_Block([where], 1, 0), _Block(_quoted(wrap(one_line(text), width - 4, 3), "bold"), 1, 1)]
    if context:
        lines = [row.rstrip().expandtabs(4) for entry in first.traceback for row in disarm(entry).split("\n")]
        kept = [part for row in lines[-context:] for part in wrap(row, width - 4)]
        blocks.append(_Block(_quoted(kept, "dim"), len(kept), -1))
    else:
        frames = [_frame(frame, width - 6) for frame in best_frames(first.traceback)]
        blocks.append(_Block(_quoted([f"  {frame}" for frame in frames], "dim"), 1, 6))
    if second := _second_line(diagnosis, file, line):
        place = _place(second.file, second.line, width // 3)
        quoted = cut(one_line(second.text), width - 6 - cells(place))
        blocks.append(
            _Block([[("", _INDENT), ("key", place)], [("dim", _INDENT + "│ "), ("", quoted)]], 0, 4, whole=True)
        )
    return blocks


def _second_line(diagnosis: Diagnosis, file: str | None, line: int | None) -> Evidence | None:
    """A second line that proves the verdict: a confirmation by another program, or the same cause elsewhere."""
    others = [item for item in diagnosis.evidence if (item.file, item.line) != (file, line)]
    return next((item for item in others if item.role == "confirmation"), others[0] if others else None)


def _frame(frame: Frame, width: int) -> str:
    function = f" in {frame.function}" if frame.function and frame.function != "<module>" else ""
    text = cut_path(frame.place, max(width - cells(function), 12)) + function
    room = width - cells(text) - 2
    return f"{text}: {cut(frame.code, room)}" if frame.code and room >= 16 else cut(text, width)


def _then(cascade: tuple[Cascade, ...], width: int) -> list[Line]:
    items = []
    for item in cascade:
        when = delay(item.delay) + "  " if item.delay is not None else ""
        what = words.agreeing(item.title or item.cause, item.ranks or 2)
        who = plural(item.ranks, "rank") if item.ranks else "others"
        items.append(f"{when}{who}  {what}")
    room, rows = width - _LABEL - 2, [""]
    for number, entry in enumerate(items):
        joined = f"{rows[-1]}      {entry}" if rows[-1] else entry
        if cells(joined) <= room or not rows[-1]:
            rows[-1] = joined
        elif len(rows) < 2:
            rows.append(entry)
        else:
            more = f"  and {len(items) - number} more"
            rows[-1] = cut(rows[-1], room - len(more)) + more
            break
    return _rows("then", [cut(row, room) for row in rows if row])


def _rivals(diagnosis: Diagnosis) -> str:
    return "; ".join(
        f"{one_line(o.id)} ({o.confidence})" + (f": {one_line(o.why)}" if o.why else "") for o in diagnosis.others[:3]
    )


def _asks(diagnosis: Diagnosis, width: int) -> list[_Block]:
    rows = [f"{shows}: {command}" if command else shows for command, shows in words.requests(diagnosis)]
    label = "next" if rows else ""
    return [_Block(_labelled(label, rows[:3], width), 1, 6)] if rows else []


def _notes(diagnosis: Diagnosis) -> str:
    seen = diagnosis.coverage
    notes = [one_line(note).rstrip(".") for note in seen.notes]
    if seen.silent_ranks:
        notes.append(f"ranks {folded(seen.silent_ranks)} said nothing" if len(seen.silent_ranks) > 1
                     else f"rank {seen.silent_ranks[0]} said nothing")  # fmt: skip
    # to a verdict that is sure, Slurm's records would add nothing
    sure = diagnosis.verdict == "failed"
    missing = [item for item in seen.missing if not (sure and item in ("sacct", "scontrol"))]
    if missing and not words.requests(diagnosis):
        notes.append("not seen: " + ", ".join(map(one_line, missing)))
    return "; ".join(notes)


def _groups(diagnosis: Diagnosis, width: int) -> list[Line]:
    """What happened to every rank, one line a group."""
    rows: list[Line] = [[]]
    listed = [cut(folded(group.ranks), 24) for group in diagnosis.ranks]
    column = max(map(len, listed))
    for group, numbers in zip(diagnosis.ranks, listed, strict=True):
        place = _place(group.file, group.line, width // 3) if group.file else ""
        room = width - 2 - 12 - column - 2 - (cells(place) + 2 if place else 0)
        why = cut(one_line(group.why), max(room, 8))
        row: Line = [("", _INDENT), (_STANDING.get(group.standing, ""), f"{group.standing:12}")]
        row += [("", f"{numbers:{column}}  {why}")]
        row += [("", " " * (max(room, 8) - cells(why) + 2)), ("key", place)] if place else []
        rows.append(row)
    return rows


# ── lines ────────────────────────────────────────────────────────────────────────────────────


def _place(file: str | None, line: int | None, width: int) -> str:
    number = f":{line}" if line is not None else ""
    return cut_path(one_line(file or "the log"), max(width - len(number), 12)) + number


def _quoted(rows: list[str], style: str) -> list[Line]:
    return [[("dim", _INDENT + "│ "), (style, row)] for row in rows]


def _labelled(label: str, texts: list[str], width: int) -> list[Line]:
    return _rows(label, [row for text in texts if text for row in wrap(text, width - _LABEL - 2)])


def _rows(label: str, rows: list[str]) -> list[Line]:
    labels = [label, *[""] * len(rows)]
    return [[("", _INDENT), ("key", f"{name:{_LABEL}}"), ("", row)] for name, row in zip(labels, rows, strict=False)]


def _fit(blocks: list[_Block], limit: int, width: int) -> list[Line]:
    """At most `limit` lines: first what each block needs, then more for the most important ones."""
    granted = [min(block.least, len(block.lines)) for block in blocks]
    order = sorted(range(len(blocks)), key=lambda number: blocks[number].rank)
    for number in reversed(order):
        if sum(granted) > limit:
            granted[number] = 0
    for number in order:
        block, room = blocks[number], limit - sum(granted)
        wanted = len(block.lines) - granted[number]
        if not block.whole or wanted <= room:
            granted[number] += min(wanted, room)
    lines: list[Line] = []
    for block, count in zip(blocks, granted, strict=True):
        kept = block.lines[:count]
        if 0 < count < len(block.lines) and block.rank not in (0, 6):
            style, text = kept[-1][-1]
            before = sum(cells(piece) for _, piece in kept[-1][:-1])
            kept = [*kept[:-1], [*kept[-1][:-1], (style, cut(f"{text} …", width - before))]]
        lines += kept
    return lines
