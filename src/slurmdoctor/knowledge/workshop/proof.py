"""Proves a rule or an entry of a table by its own examples: speed, literals, regex, groups.

A pattern that takes more than linear time is found by timing: it is tried on lines that its own loops are made for. It is parsed
only as much as that needs; what is not known counts as a plain character.
"""

from __future__ import annotations

import base64
import random
import re
import string
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import regex
from msgspec import Struct, field

from slurmdoctor.knowledge.document import Node, at, child, pairs, place
from slurmdoctor.knowledge.problems import Problem, Problems
from slurmdoctor.knowledge.schema import PATTERNS, TABLES, Fragment, alternatives
from slurmdoctor.matching import bounded, captures
from slurmdoctor.model import ExitFormat, LineFormat, RankLine, Rule, SecretKind, Signal, SourceFormat, Text, admits
from slurmdoctor.ranks import LabelReader, learn
from slurmdoctor.readers import captures_of, read_lines
from slurmdoctor.report import Redactor, redact

_SHOWN = 90
"""Characters of a text that a message shows."""
TIMEOUT = 0.25
"""Seconds that a pattern may take for one line."""
_LABEL_PARTS = ("rank", "local_rank", "node", "pid")

Matcher = Rule | Signal

# ── whether a rule matches a line ────────────────────────────────────────────────────────────


def search(pattern: str, text: str) -> regex.Match[str] | None:
    """The first match in the text; None also where the search takes too long, as in a diagnosis."""
    try:
        return bounded(pattern).search(text, timeout=TIMEOUT)
    except TimeoutError:
        return None


def peeled(line: str, labels: LabelReader) -> tuple[str, ...]:
    """The line without its labels: as a log of its own, and as one among lines of another kind."""
    views = (labels.strip_labels(line, form)[1] for form in (learn([line], labels), SourceFormat()))
    return tuple(dict.fromkeys(views))


def takes(rule: Matcher, line: str, texts: Sequence[str]) -> bool:
    """`line` as printed, `texts` without its labels."""
    read = partial(captures_of, rule) if isinstance(rule, Rule) else partial(captures, rule.regex)
    return admits(rule, line) and any(read(text) is not None for text in texts)


# ── rules, signals, facts, fragments ─────────────────────────────────────────────────────────


_LABEL = "rank local_rank worker group_rank node node_rank maybe_node maybe_rank maybe_task task attempt time pid level writer text"
_EXIT = "rank local_rank node_rank node pid tasks code signal status words"
_GROUPS = {"formats": _LABEL, "paths": _LABEL, "exit_reports": _EXIT}
"""The groups that are read of the patterns of some tables."""
_ASKED = {("formats", "pattern"): "match", ("secrets", "unlike"): "fullmatch"}
"""How the patterns of some tables' keys are asked; others are searched."""


def prove_patterns(node: Node, problems: Problems, table: str) -> None:
    """No pattern of an entry takes more than linear time on any line, or has a group that nobody reads."""
    for key, _, value in pairs(node):
        for where, text in alternatives(value) if key in PATTERNS else ():
            compiled, known = bounded(text), _GROUPS.get(table, "")
            for name in sorted(compiled.groupindex.keys() - {*known.split()}) if known else ():
                problems.add(where, f"{TABLES[table].noun} has no group `{name}`", f"groups are {known}")
            way = _ASKED.get((table, key), "search")
            if line := slowest(text, getattr(compiled, way)):
                what = f"the {key} takes more than linear time on the line `{line}`"
                mend = "begin with ^ or (?<!\\w), repeat once in place of (x+)+, and bound what repeats: .{0,200} in place of .*"
                problems.add(where, what, mend)


def prove_matcher(matcher: Matcher, node: Node, labels: LabelReader, problems: Problems) -> None:
    before = len(problems)
    views = [peeled(line, labels) for line in matcher.match]
    for number, (line, texts) in enumerate(zip(matcher.match, views, strict=True)):
        if not takes(matcher, line, texts):
            _explain(matcher, node, number, texts, problems)
    _prove_untaken(matcher, node, lambda line: takes(matcher, line, peeled(line, labels)), problems)
    if len(problems) == before:
        _prove_literals(matcher, node, [text for texts in views for text in texts], problems)


def without_lookalike(rule: Rule, node: Node) -> Problem | None:
    """Notes a rule without a line that it must not match."""
    if rule.no_match:
        return None
    mend = "add a line that almost matches: of a healthy job, of another failure, or with a quoted error"
    return Problem(at(node, "examples"), "the rule has no `no_match`", mend)


def prove_fragment(fragment: Fragment, node: Node, labels: LabelReader, problems: Problems) -> None:
    """The whole fragment takes each text of `match`, and none of `no_match`."""
    compiled = bounded(fragment.regex)
    for number, text in enumerate(fragment.match):
        if not compiled.fullmatch(text):
            what = f"the fragment does not take the whole of `{_short(text)}`"
            problems.add(at(node, "examples", "match", number), what, "correct one of the two")
    _prove_untaken(fragment, node, compiled.fullmatch, problems)


def _prove_untaken(entry: Any, node: Node, takes: Callable[[str], object], problems: Problems) -> None:
    """Nothing is taken of the lines of `no_match`."""
    of_examples = ("examples",) * hasattr(entry, "match")
    for number, line in enumerate(entry.no_match):
        if takes(line):
            mend = "narrow the pattern, or move the line to those that match"
            where = at(node, *of_examples, "no_match", number)
            problems.add(where, f"`{_short(line)}` is taken, but must not be", mend)


def _explain(matcher: Matcher, node: Node, number: int, texts: Sequence[str], problems: Problems) -> None:
    """Say why this example is not taken."""
    line, where = matcher.match[number], at(node, "examples", "match", number)
    if not admits(matcher, line):
        mend = "correct the literals, or add one that this line holds"
        problems.add(where, f"no literal is in the example `{_short(line)}`", mend)
    elif any(search(matcher.regex, text) for text in texts) and isinstance(matcher, Rule):
        looks = "SomeError: text" if matcher.applies_to == "exception" else 'File "x.py", line 3, in f'
        mend = f"remove `applies_to: {matcher.applies_to}`, or give the line as it is printed: `{looks}`"
        what = f"without its labels, `{_short(texts[0])}` does not begin as `applies_to: {matcher.applies_to}` wants"
        problems.add(where, what, mend)
    else:
        ways = [_how_far(text, texts[0]) for _, text in alternatives(child(node, "regex"))]
        fits, wants = max(ways, key=lambda way: len(way[0]))
        up_to = f"it fits up to `{_short(fits, tail=True)}`, then wants `{wants}`" if fits else f"it wants `{wants}`"
        mend = f"{up_to}; the line without its labels is `{_short(texts[0])}`"
        problems.add(where, "the regex does not match this example", mend)


def _how_far(pattern: str, text: str) -> tuple[str, str]:
    """The most text that a beginning of the pattern takes, and what of the pattern comes next."""
    best, end = "", 0
    for size in range(1, len(pattern)):
        try:
            found = search(pattern[:size], text)
        except regex.error:  # it ends within a group, say
            continue
        if found and len(found[0]) > len(best):
            best, end = found[0], size
    return best, _short(pattern[end : end + 30] if end else pattern)


def _prove_literals(matcher: Matcher, node: Node, texts: Sequence[str], problems: Problems) -> None:
    """Checks that some example needs each literal, and that the regex matches no line without any of them."""
    for number, literal in enumerate(matcher.literals):
        where = at(node, "literals", number)
        if literal in matcher.literals[:number]:
            problems.add(where, f"the literal `{literal}` appears here twice", "remove one")
        elif not any(literal in line for line in matcher.match) and not _possible(matcher, literal, texts):
            mend = "correct it, or add a line that holds it to `match`"
            problems.add(where, f"no example proves the literal `{literal}`", mend)
        elif changed := next((one for text in texts if (one := _without(matcher, literal, text))), None):
            mend = "shorten the literal to what the regex requires, or make the regex require it"
            problems.add(where, f"the regex also takes `{changed}`, which no literal admits", mend)


def _possible(matcher: Matcher, literal: str, texts: Sequence[str]) -> bool:
    """Whether the regex can take a line with this literal: if not, the literal may be misspelt."""
    compiled = bounded(matcher.regex)
    tries = [(literal, 0)]
    for text in texts:
        found = search(matcher.regex, text)
        start = min((text.find(other) for other in matcher.literals if other in text), default=0)
        if found:
            tries.append((text[:start] + literal, min(found.start(), start)))
    tries += [(letter + literal, 0) for letter in string.ascii_letters]  # `inished`, for `finished` and `Finished`
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
            spot = changed.index("\x7f")
            cut = changed[max(0, spot - 40) : spot + 50].replace("\x7f", "?")
            return f"{'...' if spot > 40 else ''}{cut}{'...' if len(changed) > spot + 50 else ''}"
    return None


def _short(text: str, *, tail: bool = False) -> str:
    text = redact(text.strip())  # before it is cut: of half a secret nobody knows what it was
    if len(text) <= _SHOWN:
        return text
    return "..." + text[-_SHOWN:] if tail else text[:_SHOWN] + "..."


# ── entries with samples: {line: '[rank3]: x', rank: 3, text: x} ─────────────────────────────

Entry = LineFormat | RankLine | ExitFormat | Text
Read = Callable[[str], Mapping[str, Any] | None]
"""What is read from a sample's line; None where nothing is."""


def prove_label(label: LineFormat, node: Node, labels: LabelReader, problems: Problems) -> None:
    """Each sample is read as a line of a log whose lines all carry this label."""
    compiled = bounded(label.pattern)
    source = SourceFormat(locked=frozenset({label.id}))
    writer_key = labels.writer_key(source)

    def read(line: str) -> dict[str, Any]:
        origin, text = labels.strip_labels(line, source)
        found = compiled.match(line)
        values = found.groupdict() if found else {}
        values |= {name: getattr(origin, name) for name in _LABEL_PARTS}
        return {"text": text, **values, "writer": writer_key(line.encode()).decode()}

    _run(label, node, read, compiled.match, problems)


def prove_samples(entry: Entry, node: Node, labels: LabelReader, problems: Problems) -> None:
    """The pattern, searched in each sample's `line`, has the groups that the sample names."""
    compiled = bounded(entry.pattern)

    def read(line: str) -> dict[str, Any] | None:
        found = compiled.search(line)
        return found.groupdict() if found else None

    _run(entry, node, read, read, problems)


def prove_exit_report(form: ExitFormat, node: Node, labels: LabelReader, problems: Problems) -> None:
    """Each sample, of one or several lines, is read as the reader would read it; each literal is in a sample."""

    def read(text: str) -> Mapping[str, Any] | None:
        return read_lines(form, text.split("\n"))

    _run(form, node, read, read, problems)
    for number, literal in enumerate(form.literals):
        if not any(literal in str(sample["line"]) for sample in form.samples):
            mend = "correct it, or add a sample that holds it"
            problems.add(at(node, "literals", number), f"no sample proves the literal `{literal}`", mend)


def _run(entry: Entry, node: Node, read: Read, takes: Callable[[str], object], problems: Problems) -> None:
    """What is read from each sample's `line` is what the sample says; nothing is taken of `no_match`."""
    for number, sample in enumerate(entry.samples):
        found = read(str(sample["line"]))
        if found is None:
            what = "the pattern does not match this sample"
            problems.add(at(node, "samples", number), what, "correct one of them")
            continue
        for name, want in sample.items():
            value = found.get(name)
            if name != "line" and _plain(value) != _plain(want):
                gives = f"`{value}`" if value is not None else "none"
                what = f"the sample says {name} `{want}`, and the line gives {gives}"
                problems.add(at(node, "samples", number), what, "correct the pattern, or the sample")
    _prove_untaken(entry, node, lambda line: takes(line) is not None, problems)


def _plain(value: object) -> str:
    """Numbers as numbers: a label's `03` is rank 3."""
    text = str(value)
    return str(int(text)) if text.isdecimal() else text


# ── kinds of secrets, whose examples hold made-up ones: `hf_<alnum 34>` ──────────────────────

_MADE_UP = re.compile(r"<(?P<chars>\w+)(?: (?P<count>\d+))?>")
_CHARS = {
    "alnum": string.ascii_letters + string.digits,
    "letters": string.ascii_letters,
    "lower": string.ascii_lowercase,
    "upper": string.ascii_uppercase + string.digits,
    "digits": string.digits,
    "hex": string.hexdigits[:16],
    "base64": string.ascii_letters + string.digits + "+/",
    "url": string.ascii_letters + string.digits + "-_",
}


def planted(line: str, rng: random.Random) -> tuple[str, list[str]]:
    """The line with random characters in its places, and those that must not be shown."""
    secrets: list[str] = []

    def fill(found: re.Match[str]) -> str:
        made = _made(found["chars"], int(found["count"] or 0), rng)
        if made is None:
            return found[0]
        secrets.append(made)
        return made

    return _MADE_UP.sub(fill, line), secrets


def _made(chars: str, count: int, rng: random.Random) -> str | None:
    if chars in _CHARS and count:
        # neither an end that might be a sign of prose nor, by chance, a word
        plain = _CHARS["alnum" if chars in ("base64", "url") else chars]
        made = [rng.choice(plain), *rng.choices(_CHARS[chars], k=count - 2), rng.choice(plain)][:count]
        if chars not in ("letters", "lower", "digits") and count > 2:
            made[rng.randrange(1, count - 1)] = rng.choice(string.digits)
        return "".join(made)
    if chars == "private_key":
        return "PRIVATE KEY"  # written out, a scanner takes the example for one
    if chars == "pair":
        return base64.b64encode(f"kim:{_made('alnum', 12, rng)}".encode()).decode()
    return None


def prove_secret(kind: SecretKind, node: Node, labels: LabelReader, problems: Problems) -> None:
    """Each example is masked by this kind alone; of the look-alikes nothing is."""
    if bool(kind.regex) == bool(kind.names):
        problems.add(place(node), "a kind of secret has either `regex` or `names`", "keep one of the two")
        return
    redactor = Redactor("strict" if kind.strict else "default", (kind,))
    for number, line in enumerate(kind.match):
        text, secrets = planted(line, random.Random(line))
        shown = redactor.values(text)
        if not secrets or shown == text or any(secret in shown for secret in secrets):
            mend = "correct the pattern, the literals or the example"
            problems.add(at(node, "examples", "match", number), f"the secret is not masked: `{shown}`", mend)
    _prove_untaken(kind, node, lambda line: redactor.values(line) != line, problems)


LONG = 2048
"""Length of the lines that a pattern is tried on, and of those that are four times as long."""
LIMIT = 0.05
"""Seconds of processor time for one such line: a good pattern needs a hundredth of it, and ten times as much on a busy machine."""
_MEASURABLE = 0.001
_GROWTH = 9
"""What the longer line costs: four times as much where a pattern is linear, sixteen times where it is quadratic."""
_REPEATS = 8
"""Tries of which each must be slow: on a busy machine three in a row were, of patterns that are fast."""
_MANY = 16
Ask = Callable[..., object]
"""(line, timeout=seconds) -> what a pattern finds in the line; TimeoutError where it takes longer."""
_ALPHABET = "\t" + "".join(map(chr, range(32, 127)))
_PICKS = "a0 .x_-/:,=A'\"[({"
_TOKEN = re.compile(
    r"(?P<flags>\(\?[aiLmsux]+\))"
    r"|(?P<nothing>\(\?#[^)]*\)|\^|\$|\\[bBAZzKmMG])"
    r"|(?P<look>\(\?<?[=!])"
    r"|(?P<one>\(\?P[=>]\w+\)|\(\?&\w+\)|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]"
    r"|\\(?:[xuUN](?:\{[^}]*\}|[0-9A-Fa-f]+)|[pP]\{[^}]*\}|g<\w+>|\d+|.))"
    r"|(?P<open>\((?:\?(?:P?<\w+>|[:>|]|\(\w+\)|[a-zA-Z01-]+:))?)|(?P<close>\))|(?P<bar>\|)"
    r"|(?P<loop>[*+?][?+]?|\{(?P<least>\d*)(?P<comma>,?)(?P<most>\d*)\}[?+]?)"
    r"|(?P<char>.)",
    re.DOTALL,
)


class Part(Struct):
    """One repeatable piece of a pattern: something that takes a character, or a group."""

    source: str = ""
    branches: list[list[Part]] = field(default_factory=list)
    least: int = 1
    most: float = 1
    looks: bool = False
    """A look-around: takes no text."""


class Pattern:
    """A pattern that compiles, as a tree of its pieces."""

    def __init__(self, pattern: str) -> None:
        self.flags = ""
        stack = [Part(branches=[[]])]
        for found in _TOKEN.finditer(pattern):
            kind, here = found.lastgroup, stack[-1].branches
            if kind in ("open", "look"):
                stack.append(Part(branches=[[]], looks=kind == "look"))
            elif kind == "close":
                group = stack.pop()
                stack[-1].branches[-1].append(group)
            elif kind == "bar":
                here.append([])
            elif kind == "loop":
                _repeat(here[-1][-1], found)
            elif kind == "flags":
                self.flags += found[0]
            elif kind != "nothing":
                here[-1].append(Part(found[0]))
        self.branches = stack[0].branches

    def hostile(self) -> Iterator[Callable[[int], str]]:
        """Makers of lines that nearly match: a loop's text, or all up to it, again and again, beside what the rest wants."""
        for branch in self.branches:
            whole = self._sample(branch)
            for before, once, rest in dict.fromkeys(self._pumps([branch], "")):
                for lead, pump in (before, once), ("", before + once), ("", once):
                    yield _maker(lead, pump, f"{rest[:-1]}\x01{whole}")
                    yield _maker(f"{rest}\x01{lead}", pump, "\x01")
                    if "m" in self.flags:
                        yield _maker(lead, pump, f"\x01\n{whole}")

    def _pumps(self, branches: Sequence[Sequence[Part]], before: str) -> Iterator[tuple[str, str, str]]:
        """(text that leads to a loop, text that the loop takes once, text for what follows), for each loop."""
        for branch in branches:
            text = before
            for number, part in enumerate(branch, 1):
                rest = branch[number:]
                if part.most >= _MANY:
                    # the text of a loop is worst where it could also be what follows, or the pattern's beginning
                    own = _chars(part.source, self.flags)
                    for wanted in ("", self._sample(rest, own)[:1], self._sample(branch, own)[:1]):
                        for inner in part.branches or [[Part(part.source)]]:
                            yield text, self._sample(inner, frozenset(wanted)), self._sample(rest)
                yield from self._pumps(part.branches, text)
                text += self._sample([part])

    def _sample(self, parts: Sequence[Part], wanted: frozenset[str] = frozenset()) -> str:
        """A text that the pieces take, of wanted characters where they may be (look-arounds are not minded)."""
        return "".join(self._once(part, wanted) * max(part.least, part.most > 1) for part in parts if not part.looks)

    def _once(self, part: Part, wanted: frozenset[str]) -> str:
        if part.branches:
            return self._sample(part.branches[0], wanted)
        chars = _chars(part.source, self.flags)
        return min(chars & wanted, default="") or next(
            (pick for pick in _PICKS if pick in chars), min(chars, default="")
        )


def _repeat(part: Part, found: re.Match[str]) -> None:
    sign = found[0][0]
    if sign == "{":
        part.least = int(found["least"] or 0)
        part.most = float(found["most"] or ("inf" if found["comma"] else part.least))
    else:
        part.least, part.most = int(sign == "+"), 1 if sign == "?" else float("inf")


@lru_cache(maxsize=4096)
def _chars(source: str, flags: str) -> frozenset[str]:
    """The ASCII characters that a piece which is no group can take."""
    try:
        one = regex.compile(flags + source)
    except regex.error:  # a back-reference, say: it could be anything
        return frozenset()
    return frozenset(char for char in _ALPHABET if one.fullmatch(char))


def _maker(head: str, pump: str, tail: str) -> Callable[[int], str]:
    return lambda length: head + pump * (length // max(1, len(pump))) + tail


def slowest(pattern: str, ask: Ask | None = None) -> str | None:
    """A line on which the pattern takes more than linear time, shortened for people; None where no such line was found."""
    asked = ask or bounded(pattern).search
    makers = {maker(LONG): maker for maker in Pattern(pattern).hostile()}
    for line, maker in makers.items():
        if all(_grows(asked, line, maker(4 * LONG)) for _ in range(_REPEATS)):
            return f"{line[:60]}... ({len(line)} characters)"
    return None


def _grows(ask: Ask, line: str, longer: str) -> bool:
    took = _seconds(ask, line, LIMIT)
    return took >= LIMIT or (took >= _MEASURABLE and _seconds(ask, longer, _GROWTH * took) >= _GROWTH * took)


def _seconds(ask: Ask, line: str, limit: float) -> float:
    """Seconds of processor time, at most about `limit`."""
    start = time.process_time()
    try:
        ask(line, timeout=limit)
    except TimeoutError:
        return limit
    return time.process_time() - start
