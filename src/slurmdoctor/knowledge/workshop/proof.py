"""Proves one rule or signal by its own examples."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters

import regex

from slurmdoctor.knowledge.tree import Table
from slurmdoctor.knowledge.workshop.matching import TIMEOUT, admits, peeled, search, stands, takes
from slurmdoctor.knowledge.workshop.patterns import LIMIT, parse, slowest
from slurmdoctor.knowledge.workshop.problems import Problems
from slurmdoctor.model import LineFormat, Rule, Signal

Watch = Rule | Signal


def check_watch(watch: Watch, tree: Table, formats: Sequence[LineFormat], problems: Problems) -> None:
    before = len(problems)
    _speed(watch, tree, problems)
    if len(problems) > before:
        return  # its examples are not worth the wait
    views = [peeled(line, formats) for line in watch.match]
    for at, (line, texts) in enumerate(zip(watch.match, views, strict=True)):
        _must_match(watch, tree, at, line, texts, problems)
    for at, line in enumerate(watch.no_match):
        if takes(watch, line, peeled(line, formats)):
            place = tree.at("examples", "no_match", at)
            mend = "narrow the regex, or move the line to `match`"
            problems.add(place, f"the regex takes `{_short(line)}`, which it must not", mend)
    if len(problems) == before:
        _literals(watch, tree, [text for texts in views for text in texts], problems)


def _must_match(watch: Watch, tree: Table, at: int, line: str, texts: Sequence[str], problems: Problems) -> None:
    if takes(watch, line, texts):
        return
    place = tree.at("examples", "match", at)
    if not admits(watch, line):
        mend = "correct the literals, or add one that this line holds"
        problems.add(place, f"no literal stands in the example `{_short(line)}`", mend)
    on = watch.on if isinstance(watch, Rule) else "line"
    standing = [text for text in texts if stands(on, text)]
    if not standing:
        looks = "SomeError: text" if on == "exception" else 'File "x.py", line 3, in f'
        mend = f"remove `on: {on}`, or give the line as it is printed: `{looks}`"
        problems.add(place, f"without its labels, `{_short(texts[0])}` does not begin as {_kind(on)} does", mend)
    elif all(search(watch.regex, text) is None for text in standing):
        fits, wants = _how_far(watch.regex, standing[0])
        told = f"it fits up to `{_short(fits, tail=True)}`, then wants `{wants}`" if fits else f"it wants `{wants}`"
        mend = f"{told}; the line without its labels is `{_short(standing[0])}`"
        problems.add(place, "the regex does not match this example", mend)


def _kind(on: str) -> str:
    return "an exception's own line" if on == "exception" else "a traceback's frame"


def _how_far(pattern: str, text: str) -> tuple[str, str]:
    """The text that the pattern's beginning takes, and the first piece that stops it."""
    inside = parse(pattern)
    if len(inside.branches) != 1:
        return "", _short(pattern)
    pieces = inside.branches[0]
    taken = ""
    for piece in pieces:
        try:
            found = search(pattern[: piece.end], text)
        except regex.error:
            break
        if found is None:
            # a run of plain characters is one piece to a person
            return taken, _short(pattern[piece.start : max(piece.end, piece.start + 30)])
        taken = found[0]
    return taken, _short(pattern)


def _literals(watch: Watch, tree: Table, texts: Sequence[str], problems: Problems) -> None:
    """Each literal is proven by an example, and the regex takes no line without one."""
    for at, literal in enumerate(watch.literals):
        place = tree.at("literals", at)
        if literal in watch.literals[:at]:
            problems.add(place, f"the literal `{literal}` stands here twice", "remove one")
        elif not any(literal in line for line in watch.match) and not _possible(watch, literal, texts):
            mend = "correct it, or add a line that holds it to `match`"
            problems.add(place, f"no example proves the literal `{literal}`", mend)
            continue
        for text in texts:
            changed = _without(watch, literal, text)
            if changed is not None:
                mend = "shorten the literal to what the regex requires, or make the regex require it"
                problems.add(place, f"the regex also takes `{changed}`, which no literal admits", mend)
                break


def _possible(watch: Watch, literal: str, texts: Sequence[str]) -> bool:
    """Whether the regex can take a line with this literal: if not, it might be a slip of the pen."""
    compiled = regex.compile(watch.regex)
    tries = [(literal, 0)]
    for text in texts:
        found = search(watch.regex, text)
        at = min((text.find(other) for other in watch.literals if other in text), default=0)
        if found:
            tries.append((text[:at] + literal, min(found.start(), at)))
    tries += [(letter + literal, 0) for letter in ascii_letters]  # `inished`, for `finished` and `Finished`
    return any(_begins(compiled, text, start) for text, start in tries)


def _begins(compiled: regex.Pattern[str], text: str, start: int) -> bool:
    """Whether a line that the pattern takes from `start` on may begin like this text."""
    try:
        part = compiled.match(text, start, partial=True, timeout=TIMEOUT)
    except TimeoutError:
        return False
    return part is not None and part.end() == len(text)


def _without(watch: Watch, literal: str, text: str) -> str | None:
    """The part of a line that the regex still takes where this literal is spoilt at an end."""
    if literal not in text:
        return None
    for spoilt in ("\x7f" + literal[1:], literal[:-1] + "\x7f"):
        changed = text.replace(literal, spoilt)
        if not admits(watch, changed) and search(watch.regex, changed):
            at = changed.index("\x7f")
            cut = changed[max(0, at - 40) : at + 50].replace("\x7f", "?")
            return f"{'...' if at > 40 else ''}{cut}{'...' if len(changed) > at + 50 else ''}"
    return None


def _speed(watch: Watch, tree: Table, problems: Problems) -> None:
    place = tree.at("regex")
    inside = parse(watch.regex)
    for part, char in inside.shared_loops():
        what = f"`{part.source}` repeats within a repeated group, and `{char}` may belong to either"
        problems.add(place, f"{what}: on a line that nearly matches, the search takes forever", _unloop(part.source))
        return
    if line := slowest(watch.regex):
        what = f"the regex takes more than {LIMIT:g} s on the line `{line}`"
        problems.add(place, what, "begin with ^ or fixed text, and use [^x]* in place of .* where you can")


def _unloop(source: str) -> str:
    return f"repeat once, `{source}+`, or separate the repeats by a sign that `{source}` is not"


def _short(text: str, most: int = 90, *, tail: bool = False) -> str:
    text = text.strip()
    if len(text) <= most:
        return text
    return "..." + text[-most:] if tail else text[:most] + "..."
