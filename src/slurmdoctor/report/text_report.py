"""The terminal report: the verdict, the lines that prove it, and the fixes, in at most 15 lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from slurmdoctor.model import SHORT, Diagnosis, Evidence, Frozen, Remedy, ranges
from slurmdoctor.report import wording
from slurmdoctor.report.redaction import one_line
from slurmdoctor.report.terminal import (
    COLOURS,
    Line,
    Look,
    cells,
    clip,
    cut,
    cut_path,
    excerpt,
    paint,
    wrap,
    wrap_words,
)
from slurmdoctor.report.wording import Frame, best_frames, delay, ending, place, plural, rows_of

LIMIT = 15
_MOST_FIXES, _QUOTED = 3, 3
_WIDEST = 140
"""Wider lines are hard to read on any terminal."""
_STANDING = {"first": "bad", "suspect": "doubt", "finished": "good"}


def render_text(
    diagnosis: Diagnosis,
    *,
    width: int,
    colour: bool,
    context: int = 0,
    ranks: bool = False,
    encoding: str = "utf-8",
) -> str:
    """The report; with `context`, that many lines of the traceback's end; with `ranks`, what happened to every rank."""
    width = max(20, min(width, _WIDEST))
    blocks = _blocks(diagnosis, width, context)
    limit = LIMIT + sum(block.least for block in blocks if block.rank < 0)
    head = _head(diagnosis, width)
    lines = fit([Block(head, 0, len(head)), *blocks], limit, width)
    lines += _groups(diagnosis, width) if ranks and diagnosis.ranks else []
    return paint([clip(line, width) for line in lines], Look(width, colour, encoding))


# ── the parts ────────────────────────────────────────────────────────────────────────────────


def _head(diagnosis: Diagnosis, width: int) -> list[Line]:
    mark, tag = wording.mark(diagnosis), wording.tag(diagnosis)
    text = wording.headline(diagnosis)
    if diagnosis.verdict == "no-failure":
        tag = "read " + wording.read(diagnosis)
    gap = width - 2 - cells(text) - cells(tag)
    wrapped = [("bold", part) for part in wrap(text, width - 2, 2)]
    lines: list[Line] = [[(COLOURS[mark], mark), ("", " "), wrapped[0]]]
    lines += [[("", INDENT), part] for part in wrapped[1:]]
    if tag and gap >= 2:
        lines[0] += [("", " " * gap), ("dim", tag)]
    elif tag:
        lines.append([("", INDENT), ("dim", cut(tag, width - 2))])
    return lines


def _blocks(diagnosis: Diagnosis, width: int, context: int) -> list[Block]:
    """All blocks below the headline, in their order; a block without content is empty."""
    failed, sure = diagnosis.verdict == "failed", diagnosis.cause.confidence == "high"
    exit = ending(diagnosis) if failed else ""
    why = wording.reasons(diagnosis)
    return [
        *(_quote(diagnosis, width, context) if failed else _state(diagnosis, width)),
        _ends(diagnosis, width),
        _clauses("exit", exit.split("; "), width, 5),
        Block(_then(diagnosis, width), 10, 1, "then", "rows"),
        *_fixes(diagnosis.fixes, width),
        _clauses("retry", wording.retry(diagnosis).split("; "), width, 6),
        _clauses("why", why, width, 7, len(_wrapped(why[0], width)) if why else 0),  # the first one is never cut
        Block([] if sure else _wrapped(_check(diagnosis), width), 13, label="check"),
        _clauses("also", [f"{one.id} ({one.confidence}): {one.why}" for one in diagnosis.others[:3]], width, 8),
        *_asks(diagnosis, width),
        _clauses("note", wording.notes(diagnosis), width, 9, 0),
    ]


def _state(diagnosis: Diagnosis, width: int) -> list[Block]:
    """How far the job came, where it did not fail or that is not known."""
    read, step = wording.read(diagnosis), diagnosis.facts.get("last_step")
    return [
        _clauses("read", [read] if diagnosis.verdict == "unknown" else [], width, 1),
        _clauses("last", [] if step is None else [f"step {step}"], width, 1),
    ]


def _check(diagnosis: Diagnosis) -> str:
    """How to make sure; empty where a fix that is shown already asks for the same command."""
    check = next(iter(diagnosis.verify), "")
    asked = [set(command.split()) for command in re.findall(r"`([^`]+)`", check.replace('"', " "))]
    shown = [
        set(command.split()) for fix in diagnosis.fixes[:_MOST_FIXES] for command in re.findall(r"`([^`]+)`", fix.do)
    ]
    return "" if any(len(mine) > 1 and mine <= theirs for mine in shown for theirs in asked) else check


def _ends(diagnosis: Diagnosis, width: int) -> Block:
    """The last lines of the log, and the one that looks most like an end, where no line proves why it ended."""
    hints = [item for item in diagnosis.evidence if item.cause is None]
    rows: list[Line] = []
    before = None
    for item in sorted(hints, key=lambda item: item.line or 0):
        if before is None:
            rows.append([("", INDENT), ("key", place(item.file, item.line, width - len(INDENT)))])
        elif item.line is not None and item.line > before + 1:
            rows += _quoted(["…"], "dim")
        rows += _quoted([cut(one_line(item.text), width - 4)], "bold" if item is hints[0] else "")
        before = item.line or 0
    return Block(rows, 2, len(rows))


def _fixes(fixes: tuple[Remedy, ...], width: int) -> list[Block]:
    """What to do, the best first, each with its reason below it; the first one goes before nearly all else."""
    blocks = []
    for number, fix in enumerate(fixes[:_MOST_FIXES]):
        do = _wrapped(fix.do, width)
        why: list[Line] = [[("dim", INDENT + row)] for [(_, row)] in _wrapped(fix.why or "", width - len(INDENT))]
        first = number == 0
        blocks.append(Block(do, 1 if first else 10 + number, first * len(do), "fix"))
        blocks.append(Block(why, 4 if first else 13 + number, first * len(why), "", follows=True))
    return blocks


def _quote(diagnosis: Diagnosis, width: int, context: int) -> list[Block]:
    """The line that proves the verdict, its place, and the frames that lead to it."""
    first = diagnosis.first_failure
    file, line, text, time = wording.shown_line(diagnosis)
    if text is None:
        return []
    about = "  " + wording.clock(time) if time else ""
    if len(diagnosis.extent.ranks) > 1 and first.rank is not None:
        several, timed = len(first.ranks) > 1, diagnosis.coverage.order == "timestamps"
        about += "  all alike" if several else f"  rank {first.rank}{', the first' * timed}"
    where: Line = [("", INDENT), ("key", place(file, line, width - len(INDENT) - cells(about))), ("dim", about)]
    plain = one_line(text)
    telling = first.telling if text == first.text else (0, 0)  # of a line of the evidence it is not known
    quote = _quoted(wrap(excerpt(plain, width - 4, _QUOTED, telling), width - 4, _QUOTED), "bold")
    blocks = [Block([where], 2, 1), Block(quote, 3, 1, kind="prose")]
    if context:
        kept = [part for row in rows_of(first.traceback)[-context:] for part in wrap(row, width - 4)]
        blocks.append(Block(_quoted(kept, "dim"), -1, len(kept)))
    else:
        frames = [_frame(frame, width - 6) for frame in best_frames(first.traceback)]
        blocks.append(Block(_quoted([f"  {frame}" for frame in frames], "dim"), 18, kind="rows"))
    if second := _second_line(diagnosis, file, line, text):
        # what a message goes on with tells more than the next steps do
        of_the_message = second.role == "hint" and second.rule in (diagnosis.cause.rule, f"{second.cause}/message")
        blocks.append(Block(_second(second, file, width), 4 if of_the_message else 17))
    return blocks


def _second(item: Evidence, file: str | None, width: int) -> list[Line]:
    """A second line's place and quote, in one row where they fit; of a file that was just named, the number alone."""
    short = item.file == file and item.line is not None
    at = f":{item.line}" if short else place(item.file, item.line, width - 2)
    quote = one_line(item.text)
    where: Line = [("", INDENT), ("key", at)]
    if cells(at) + cells(quote) + 5 <= width:
        return [[*where, ("dim", " │ "), ("", quote)]]
    return [where, *_quoted(wrap(quote, width - 4, 2), "")]


def _second_line(diagnosis: Diagnosis, file: str | None, line: int | None, text: str) -> Evidence | None:
    """A second line that proves the verdict: a confirmation by another program, or the same cause in other words."""
    others = [item for item in diagnosis.evidence if (item.file, item.line) != (file, line) and item.cause]
    words = (item for item in others if not item.text.endswith(text))
    return next((item for item in others if item.role == "confirmation"), next(words, None))


def _frame(frame: Frame, width: int) -> str:
    function = f" in {frame.function}" if frame.function and frame.function != "<module>" else ""
    text = cut_path(frame.place, max(width - cells(function), 12)) + function
    room = width - cells(text) - 2
    return f"{text}: {cut(frame.code, room)}" if frame.code and room >= 16 else cut(text, width)


def _then(diagnosis: Diagnosis, width: int) -> list[Line]:
    items = []
    for item in diagnosis.cascade:
        when = delay(item.delay) + "  " if item.delay is not None else ""
        what = wording.agreeing(item.title or item.cause, item.ranks or 2)
        who = plural(item.ranks, "rank") if item.ranks else wording.others(diagnosis)
        items.append(f"{when}{who}  {what}")
    room, rows = width - LABEL - 2, [""]
    for number, entry in enumerate(items):
        joined = f"{rows[-1]}      {entry}" if rows[-1] else entry
        if cells(joined) <= room or not rows[-1]:
            rows[-1] = joined
        elif len(rows) < 2:
            rows.append(entry)
        else:
            more = f"  and {plural(len(items) - number, 'other symptom')}"
            rows[-1] = cut(rows[-1], room - len(more)) + more
            break
    return [[("", part)] for row in rows if row for part in ([row] if cells(row) <= room else wrap_words(row, room))]


def _asks(diagnosis: Diagnosis, width: int) -> list[Block]:
    """What else to look at; a command that no line can hold is not shown."""
    room = width - LABEL - len(INDENT)
    blocks: list[Block] = []
    for command, shows in wording.requests(diagnosis)[:3]:
        row = f"{shows}: {command}" if command and cells(shows) + 2 + cells(command) <= room else command
        if cells(row) <= room:
            rows: list[Line] = [[("", row)]] if row else _wrapped(shows, width)
            blocks.append(Block(rows, 12 if blocks else 9, 0 if blocks else len(rows), "next"))
    return blocks


def _groups(diagnosis: Diagnosis, width: int) -> list[Line]:
    """What happened to every rank, one line a group."""
    rows: list[Line] = [[]]
    listed = [cut(ranges(group.ranks, SHORT), max(16, width // 3)) for group in diagnosis.ranks]
    column = max(map(len, listed))
    for group, numbers in zip(diagnosis.ranks, listed, strict=True):
        at = place(group.file, group.line, width // 3)
        room = width - 2 - 12 - column - 2 - (cells(at) + 2 if at else 0)
        why = cut(one_line(group.why), max(room, 8))
        row: Line = [("", INDENT), (_STANDING.get(group.standing, ""), f"{group.standing:12}")]
        row += [("", f"{numbers:{column}}  {why}")]
        row += [("", " " * (max(room, 8) - cells(why) + 2)), ("key", at)] if at else []
        rows.append(row)
    return rows


# ── lines ────────────────────────────────────────────────────────────────────────────────────


def _quoted(rows: list[str], style: str) -> list[Line]:
    return [[("dim", INDENT + "│ "), (style, row)] for row in rows]


def _clauses(label: str, clauses: Sequence[str], width: int, rank: int, least: int = 1) -> Block:
    """A text under its label, of which the last clauses may be left out."""
    return Block(_wrapped("; ".join(clauses), width), rank, least, label, "prose", clauses=clauses)


def _wrapped(text: str, width: int) -> list[Line]:
    return [[("", row)] for row in wrap_words(one_line(text), width - LABEL - len(INDENT)) if row]


INDENT = "  "
LABEL = 7
"""Columns of a label."""
_NUMBERED = "fix"
"""The label whose blocks are counted."""


class Block(Frozen):
    """Lines that belong together. Each block gets `least` of them, then the rest of the room goes by `rank`, lowest first."""

    rows: list[Line]
    rank: int
    least: int = 0
    label: str | None = None
    """The text before the first row; None where the rows are whole lines of their own."""
    kind: Literal["whole", "rows", "prose"] = "whole"
    """All of it or nothing; rows that stand for themselves; or text, of which the end may be left out."""
    follows: bool = False
    """It says more of the block before it, and nothing without that."""
    clauses: Sequence[str] = ()
    """What a text consists of."""


def fit(blocks: Sequence[Block], limit: int, width: int) -> list[Line]:
    """At most `limit` lines: first what each block needs, then more for the most important ones."""
    granted = _granted(blocks, limit)
    shown = [(block, _kept(block, count, width)) for block, count in zip(blocks, granted, strict=True) if count]
    many = sum(block.label == _NUMBERED for block, _ in shown) > 1
    lines: list[Line] = []
    number, last = 0, None
    for block, rows in shown:
        label = block.label
        if label is None:
            lines += rows
        else:
            text = "" if label == last else label
            if label == _NUMBERED and many:
                number += 1
                text = f"{label if number == 1 else '':{len(label)}} {number}"
            labels = [text, *[""] * len(rows)]
            lines += [[("", INDENT), ("key", f"{name:{LABEL}}"), *row] for name, row in zip(labels, rows, strict=False)]
        last = label or last
    return lines


def _granted(blocks: Sequence[Block], limit: int) -> list[int]:
    """How many lines each block gets."""
    granted = [min(block.least, len(block.rows)) for block in blocks]
    order = sorted(range(len(blocks)), key=lambda number: blocks[number].rank)
    for number in reversed(order):
        if sum(granted) > limit:
            granted[number] = 0
    for number in order:
        block, room = blocks[number], limit - sum(granted)
        wanted = len(block.rows) - granted[number]
        if block.follows and not granted[number - 1]:
            granted[number] = 0
        elif block.kind != "whole" or wanted <= room:
            granted[number] += min(wanted, room)
    return granted


def _kept(block: Block, count: int, width: int) -> list[Line]:
    """The first rows of a block; of a text as many whole clauses as they hold, or all that they hold of its first one."""
    if block.kind != "prose" or count == len(block.rows):
        return block.rows[:count]
    whole = _wrapped(wording.as_many(block.clauses, lambda text: len(_wrapped(text, width)) <= count), width)
    if whole and len(whole) <= count:
        return whole
    *rows, last = block.rows[:count]
    room = width - sum(cells(piece) for _, piece in last[:-1]) - (0 if block.label is None else len(INDENT) + LABEL)
    return [*rows, [*last[:-1], (last[-1][0], cut(f"{last[-1][1]} …", room))]]
