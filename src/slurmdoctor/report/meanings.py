"""What people call a failure → the causes that they may mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from slurmdoctor.knowledge.problems import READERS, nearest
from slurmdoctor.model import Cause, Knowledge, UserError
from slurmdoctor.report.terminal import Line, wrap
from slurmdoctor.search.compiled import captures

_FILLERS = frozenset({
    "a", "an", "the", "my", "i", "is", "was", "it", "of", "in", "on", "error", "errors", "exception", "failed", "failure",
    "fails", "got", "get", "getting", "what", "why", "does", "mean",
})  # fmt: skip
"""Words that tell no cause from another."""
_EXIT = re.compile(
    r"(?:exit|exited|exits|return|returned|exitcode|rc|code|status)(?: with)?(?: exit| return)?(?: code| status)? (\d+)"
)
_OF_SLURM = re.compile(r"0:(\d+)")
"""A signal as sacct shows it."""
_SHORTEST = 4
_MOST = 10
_ENOUGH = 0.5
"""So much of a name has to be words of a cause."""
_ORDER = ("root", "either", "confirmation", "cascade", "hint")


def meanings(name: str, known: Knowledge) -> list[Cause]:
    """The causes that a name means: an id, a rule's id, what people say, an exit code, a line of a log.

    Raises a UserError with the nearest name where it means none.
    """
    name = name.strip()
    if exact := _exact(name, known):
        return [exact]
    words = _plain(name)
    tests = (_is_called, _is_told_by_words, _prints, _is_printed_by, _summarizes) if words else ()
    for means in tests:
        found = [cause for cause in known.causes.values() if means(cause, words, name)]
        if found:
            return sorted(found, key=lambda cause: (_ORDER.index(cause.role), cause.id))
    names = {_plain(one): one for cause in known.causes.values() for one in (*cause.also, cause.id)}
    slip = nearest(words, names) or nearest(name, (rule.id for rule in known.rules))
    if slip is None or not _is_slip(words, slip):
        shares = {cause.id: _shared(cause, words) for cause in known.causes.values()}
        most = max(shares.values(), default=0.0)
        if most >= _ENOUGH:
            return [known.causes[one] for one, share in shares.items() if share == most]
    mend = f"did you mean `{names.get(slip, slip)}`?" if slip else "`slurmdoctor rules list` shows them all"
    raise UserError(f"there is no cause `{name}`", mend)


def _is_slip(typed: str, meant: str) -> bool:
    """Whether a letter or two make the difference, and not a word."""
    return len(typed.split()) == len(meant.split()) and abs(len(typed) - len(meant)) <= 2


def _shared(cause: Cause, words: str) -> float:
    """How many of the words tell this cause."""
    told = _told_words(cause)
    each = words.split()
    return sum(word in told for word in each) / max(len(each), 1)


def _exact(name: str, known: Knowledge) -> Cause | None:
    if name in known.causes:
        return known.causes[name]
    for rule in known.rules:
        if rule.id == name:
            return known.causes[rule.cause]
    cause, _, reader = name.rpartition("/")
    return known.causes.get(cause) if reader in READERS else None


def _plain(name: str) -> str:
    """A name in small words, without what tells nothing."""
    by_signal = _OF_SLURM.fullmatch(name)
    if by_signal:
        return f"signal {by_signal[1]}"
    words = re.sub(r"[\W_]+", " ", name.lower()).strip()
    words = re.sub(r"\btimed? out\b", "timeout", words)
    exit_code = _EXIT.fullmatch(words)
    if exit_code:
        return exit_code[1]
    return " ".join(word for word in words.split() if word not in _FILLERS) or words


Means = Callable[[Cause, str, str], bool]
"""Whether a cause is meant by a name, in plain words and as it was typed."""


def _is_called(cause: Cause, words: str, typed: str) -> bool:
    return words in map(_plain, (cause.id, *cause.also))


def _is_told_by_words(cause: Cause, words: str, typed: str) -> bool:
    return _told_words(cause).issuperset(words.split())


def _told_words(cause: Cause) -> set[str]:
    return {word for name in (cause.id, cause.title, *cause.also) for word in _plain(name).split()}


def _prints(cause: Cause, words: str, typed: str) -> bool:
    """Whether its lines hold the text."""
    if len(typed) < _SHORTEST:
        return False
    part = re.compile(rf"(?<!\w){re.escape(typed.lower())}(?!\w)")
    return any(part.search(text.lower()) for rule in cause.rules for text in (*rule.literals, *rule.match))


def _is_printed_by(cause: Cause, words: str, typed: str) -> bool:
    """Whether the text is a line of a log that one of its rules takes."""
    rules = (rule for rule in cause.rules if any(literal in typed for literal in rule.literals))
    return any(captures(rule.regex, typed) is not None for rule in rules)


def _summarizes(cause: Cause, words: str, typed: str) -> bool:
    return len(words) >= _SHORTEST and f" {words} " in f" {_plain(cause.summary)} "


def choices(name: str, causes: list[Cause], width: int) -> Iterator[Line]:
    """The causes that a name may mean, each with what tells it from the others."""
    yield [("", f"`{name}` may mean {len(causes)} causes. `slurmdoctor explain {causes[0].id}` shows the first.")]
    longest = max(len(cause.id) for cause in causes)
    for cause in causes[:_MOST]:
        yield []
        yield [("bold", cause.id.ljust(longest)), ("", f"  {cause.title}")]
        first = re.split(r"(?<=\.) ", " ".join(cause.summary.split()), maxsplit=1)[0]
        yield from ([("dim", f"  {line}")] for line in wrap(first, width - 2))
    if len(causes) > _MOST:
        yield []
        yield [("", f"And {len(causes) - _MOST} more: {', '.join(cause.id for cause in causes[_MOST:])}")]
