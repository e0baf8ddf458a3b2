"""Proves a rule, a signal or a fragment by its own examples: literals, regex, speed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import ascii_letters

import regex

from slurmdoctor.knowledge.fragments import Fragment
from slurmdoctor.knowledge.problems import Problems
from slurmdoctor.knowledge.regexes import alternatives
from slurmdoctor.knowledge.tree import Table
from slurmdoctor.knowledge.workshop.matching import TIMEOUT, admits, is_kind, peeled, search, takes
from slurmdoctor.knowledge.workshop.patterns import Part, parse, slowest
from slurmdoctor.model import Rule, Signal
from slurmdoctor.ranks.labels import LabelReader
from slurmdoctor.report.redact import redact

Matcher = Rule | Signal
_WHOLE_WORD, _PART_OF_WORD = re.compile(r"[A-Za-z]+"), re.compile(r"[A-Z]?[a-z]+")


def check_matcher(matcher: Matcher, tree: Table, labels: LabelReader, problems: Problems) -> None:
    before = len(problems)
    _speed(matcher, tree, problems)
    if len(problems) > before:
        return  # its examples are not worth the wait
    views = [peeled(line, labels) for line in matcher.match]
    for at, (line, texts) in enumerate(zip(matcher.match, views, strict=True)):
        _must_match(matcher, tree, at, line, texts, problems)
    for at, line in enumerate(matcher.no_match):
        if takes(matcher, line, peeled(line, labels)):
            place = tree.at("examples", "no_match", at)
            mend = "narrow the regex, or move the line to `match`"
            problems.add(place, f"the regex takes `{_short(line)}`, but must not", mend)
    if len(problems) == before:
        _literals(matcher, tree, [text for texts in views for text in texts], problems)
    if isinstance(matcher, Rule):
        _has_a_twin(matcher, tree, problems)


def _has_a_twin(rule: Rule, tree: Table, problems: Problems) -> None:
    """Notes a rule none of whose `no_match` lines shares a literal or a word with what the rule matches."""
    known = set().union(*map(_words, rule.match))
    if any(admits(rule, line) or not known.isdisjoint(_words(line)) for line in rule.no_match):
        return
    what = (
        "no line of `no_match` looks like one that the rule matches" if rule.no_match else "the rule has no `no_match`"
    )
    mend = "add a line that almost matches: of a healthy job, of another failure, or with a quoted error"
    problems.note(tree.at("examples", "no_match"), what, mend)


def _words(line: str) -> set[str]:
    """The beginnings of a line's words, also of those in `CamelCase`, in small letters."""
    words = (*_WHOLE_WORD.findall(line), *_PART_OF_WORD.findall(line))
    return {word[:5].lower() for word in words if len(word) > 2}


def check_fragment(fragment: Fragment, tree: Table, labels: LabelReader, problems: Problems) -> None:
    """The whole fragment takes each text of `match`, and none of `no_match`."""
    compiled = regex.compile(fragment.regex)
    for at, text in enumerate(fragment.match):
        if not compiled.fullmatch(text):
            place = tree.at("examples", "match", at)
            problems.add(place, f"the fragment does not take the whole of `{_short(text)}`", "correct one of the two")
    for at, text in enumerate(fragment.no_match):
        if compiled.fullmatch(text):
            place = tree.at("examples", "no_match", at)
            problems.add(place, f"the fragment takes `{_short(text)}`, but must not", "narrow the regex")


def _must_match(matcher: Matcher, tree: Table, at: int, line: str, texts: Sequence[str], problems: Problems) -> None:
    if takes(matcher, line, texts):
        return
    place = tree.at("examples", "match", at)
    if not admits(matcher, line):
        mend = "correct the literals, or add one that this line holds"
        problems.add(place, f"no literal is in the example `{_short(line)}`", mend)
    kind = matcher.applies_to if isinstance(matcher, Rule) else "line"
    standing = [text for text in texts if is_kind(kind, text)]
    if not standing:
        looks = "SomeError: text" if kind == "exception" else 'File "x.py", line 3, in f'
        mend = f"remove `applies_to: {kind}`, or give the line as it is printed: `{looks}`"
        what = "an exception's own line" if kind == "exception" else "a traceback's frame"
        problems.add(place, f"without its labels, `{_short(texts[0])}` does not begin as {what} does", mend)
    elif all(search(matcher.regex, text) is None for text in standing):
        fits, wants = _how_far(matcher.regex, standing[0])
        told = f"it fits up to `{_short(fits, tail=True)}`, then wants `{wants}`" if fits else f"it wants `{wants}`"
        mend = f"{told}; the line without its labels is `{_short(standing[0])}`"
        problems.add(place, "the regex does not match this example", mend)


def _how_far(pattern: str, text: str) -> tuple[str, str]:
    """The most text that the beginning of an alternative takes, and the first piece that stops it."""
    branches = parse(pattern).branches
    if len(branches) == 1:
        return _one_branch(pattern, branches[0], text)
    tries = [_one_branch(pattern, branch, text) for branch in branches if branch]
    fits, wants = max(tries, key=lambda found: len(found[0]))
    return (fits, wants) if fits else ("", _short(pattern))


def _one_branch(pattern: str, pieces: Sequence[Part], text: str) -> tuple[str, str]:
    taken = ""
    start, end = pieces[0].start, pieces[-1].end
    for piece in pieces:
        try:
            found = search(pattern[start : piece.end], text)
        except regex.error:
            break
        if found is None:
            # a run of plain characters is one piece to a person
            return taken, _short(pattern[piece.start : min(end, max(piece.end, piece.start + 30))])
        taken = found[0]
    return taken, _short(pattern[start:end])


def _literals(matcher: Matcher, tree: Table, texts: Sequence[str], problems: Problems) -> None:
    """Checks that some example needs each literal, and that the regex matches no line without any of them."""
    for at, literal in enumerate(matcher.literals):
        place = tree.at("literals", at)
        if literal in matcher.literals[:at]:
            problems.add(place, f"the literal `{literal}` appears here twice", "remove one")
        elif not any(literal in line for line in matcher.match) and not _possible(matcher, literal, texts):
            mend = "correct it, or add a line that holds it to `match`"
            problems.add(place, f"no example proves the literal `{literal}`", mend)
            continue
        for text in texts:
            changed = _without(matcher, literal, text)
            if changed is not None:
                mend = "shorten the literal to what the regex requires, or make the regex require it"
                problems.add(place, f"the regex also takes `{changed}`, which no literal admits", mend)
                break


def _possible(matcher: Matcher, literal: str, texts: Sequence[str]) -> bool:
    """Whether the regex can take a line with this literal: if not, the literal may be misspelt."""
    compiled = regex.compile(matcher.regex)
    tries = [(literal, 0)]
    for text in texts:
        found = search(matcher.regex, text)
        at = min((text.find(other) for other in matcher.literals if other in text), default=0)
        if found:
            tries.append((text[:at] + literal, min(found.start(), at)))
    tries += [(letter + literal, 0) for letter in ascii_letters]  # `inished`, for `finished` and `Finished`
    return any(_begins(compiled, text, start) for text, start in tries)


def _begins(compiled: regex.Pattern[str], text: str, start: int) -> bool:
    """Whether some line that the pattern matches from `start` on begins with this text."""
    try:
        part = compiled.match(text, start, partial=True, timeout=TIMEOUT)
    except TimeoutError:
        return False
    return part is not None and part.end() == len(text)


def _without(matcher: Matcher, literal: str, text: str) -> str | None:
    """The part of a line that the regex still matches after one end of this literal was changed; None where it does not."""
    if literal not in text:
        return None
    for spoilt in ("\x7f" + literal[1:], literal[:-1] + "\x7f"):
        changed = text.replace(literal, spoilt)
        if not admits(matcher, changed) and search(matcher.regex, changed):
            at = changed.index("\x7f")
            cut = changed[max(0, at - 40) : at + 50].replace("\x7f", "?")
            return f"{'...' if at > 40 else ''}{cut}{'...' if len(changed) > at + 50 else ''}"
    return None


def _speed(matcher: Matcher, tree: Table, problems: Problems) -> None:
    parts = alternatives(tree.items["regex"])
    for one in parts:
        for part, char in parse(one.text).shared_loops():
            what = f"`{part.source}` repeats within a repeated group, and `{char}` may belong to either"
            problems.add(
                one.place, f"{what}: on a line that nearly matches, the search takes forever", _unloop(part.source)
            )
            return
    if line := slowest(matcher.regex):
        place = next((one.place for one in parts if slowest(one.text)), tree.at("regex"))
        what = f"the regex takes more than linear time on the line `{line}`"
        problems.add(place, what, "begin with ^ or (?<!\\w), and bound what repeats: .{0,200} in place of .*")


def _unloop(source: str) -> str:
    return f"repeat once, `{source}+`, or separate the repeats by a sign that `{source}` is not"


def _short(text: str, most: int = 90, *, tail: bool = False) -> str:
    text = redact(text.strip())  # before it is cut: of half a secret nobody knows what it was
    if len(text) <= most:
        return text
    return "..." + text[-most:] if tail else text[:most] + "..."
