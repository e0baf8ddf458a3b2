"""A cause as a page for people: what happens, what to do, how to verify it, how it looks in a log; and which cause people mean."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence

from slurmdoctor.knowledge import READERS, nearest
from slurmdoctor.matching import captures
from slurmdoctor.model import Cause, Fix, Knowledge, UserError
from slurmdoctor.report.terminal import Line, cut, wrap
from slurmdoctor.report.wording import listed

ROLES = {
    "root": "May start a failure.",
    "cascade": "Follows another failure; the answer only if no other is found.",
    "either": "Starts a failure or follows one; the order of events decides.",
    "confirmation": "A system message that shows what killed a rank that printed nothing.",
    "hint": "Often harmless; counts only if nothing better explains the failure.",
}
RETRIES = {
    "as-is": "Resubmit as is: the same job may well succeed.",
    "elsewhere": "Resubmit on other nodes: exclude those that failed.",
    "after-fix": "Resubmit only after the fix.",
    "resume": "Resume from the last checkpoint: nothing was wrong with the program.",
    "unknown": "Unknown: it depends on why the job failed, which the log does not show.",
}


Row = tuple[str, str, str]
"""A line's style of `report.terminal`, the text before it, and its own text, which may be wrapped."""


def page(cause: Cause, known: Knowledge) -> Iterator[Row]:
    """The page, in the order of a reader's questions; a heading has the style `head`, a line of a log `quote`, a note `dim`."""
    yield "bold", "", cause.title if cause.title[:1].isupper() else f"A rank {cause.title}"
    yield "dim", "", f"{cause.id} · {cause.family} · usual exit: {', '.join(cause.exit_classes) or 'unknown'}"
    if cause.also:
        yield "dim", "", f"also called {', '.join(cause.also)}"
    yield from _section("What happens", [[part] for part in re.split(r"\n\s*\n", cause.summary) if part.strip()])
    always = [fix for fix in cause.fixes if not fix.when]
    yield from _section("What to do", map(_fix, always or cause.fixes), numbered=True)
    special = [fix for fix in cause.fixes if fix.when] if always else []
    yield from _section("More specific fixes (tried first)", map(_fix, special), numbered=True)
    yield from _section("Resubmit?", [[RETRIES[cause.retry]]])
    yield from _section("How to verify", [[_open(text)] for text in cause.verify], numbered=True)
    yield "", "", ""
    yield "head", "", "How it looks in a log"
    for rule in cause.rules:
        if rule.match:
            yield "", "  ", f"{rule.id}: {rule.source}"
            yield "quote", "    │ ", rule.match[0].strip()
            if rule.role != cause.role:
                yield "dim", "    ", ROLES[rule.role]
    yield from _section("False positives", [[_open(text)] for text in cause.falsepositives])
    before = sorted(other.id for other in known.causes.values() if cause.id in other.explains)
    after = [("Causes", sorted(cause.explains)), ("May be caused by", before)]
    chain = [[f"{what}: {', '.join(names)}"] for what, names in after if names]
    yield from _section("Causes and effects", [[ROLES[cause.role]], *chain])
    yield from _section("Read more", [[reference] for reference in cause.references])


def _section(title: str, points: Iterable[Sequence[str]], numbered: bool = False) -> Iterator[Row]:
    """A heading and its points, each with its notes; nothing where there is no point."""
    for number, (point, *notes) in enumerate(points, 1):
        if number == 1:
            yield "", "", ""
            yield "head", "", title
        before = f"  {number}. " if numbered else "  "
        yield "", before, point
        yield from (("dim", " " * max(len(before), 4), note) for note in notes)


def rows(cause: Cause, known: Knowledge, width: int = 100) -> Iterator[tuple[str, str]]:
    """The page's lines, each with its style."""
    width = max(40, min(width, 100))
    for style, before, text in page(cause, known):
        shown = " ".join(text.split())
        if style == "quote":
            yield style, before + cut(shown, width - len(before))
        else:
            behind = " " * len(before)
            wrapped = textwrap.wrap(
                shown,
                width,
                initial_indent=before,
                subsequent_indent=behind,
                break_long_words=False,
                break_on_hyphens=False,
            )
            yield from ((style, line) for line in wrapped or [""])


def _fix(fix: Fix) -> list[str]:
    """What to do, and its notes: not what of a log it depends on, which the report decides."""
    rules = fix.when.get("rule", ())
    named = listed([str(rule) for rule in (rules if isinstance(rules, tuple) else (rules,))], "or") if rules else ""
    of_rules = f"For {named}." if named else None
    then = f"Then: {RETRIES[fix.retry][0].lower()}{RETRIES[fix.retry][1:]}" if fix.retry else None
    why = _open(fix.why) if fix.why else None
    return [_open(fix.do), *filter(None, [why, of_rules, then, fix.reference])]


def _open(template: str) -> str:
    """A template as text: `{num_experts}` becomes `<num experts>`, arithmetic `<N>`."""
    filled = re.sub(
        r"(?<!\$)(?<!\{)\{([^{}]+)\}",
        lambda hole: f"<{hole[1].replace('_', ' ')}>" if hole[1].isidentifier() else "<N>",
        template,
    )
    return re.sub(r"\{\{|\}\}", lambda brace: brace[0][0], filled)


# ── what people call a failure → the causes that they may mean ────────────────────────────

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
_ROLES_IN_ORDER = ("root", "either", "confirmation", "cascade", "hint")


def meanings(name: str, known: Knowledge) -> list[Cause]:
    """The causes that a name means: an id, a rule's id, what people say, an exit code, a line of a log.

    Raises a UserError with the nearest name where it means none.
    """
    name = name.strip()
    if exact := _exact(name, known):
        return [exact]
    words = _plain_words(name)
    for found in _meant(name, words, known.causes.values()) if words else ():
        if found:
            return sorted(found, key=lambda cause: (_ROLES_IN_ORDER.index(cause.role), cause.id))
    names = {_plain_words(one): one for cause in known.causes.values() for one in (*cause.also, cause.id)}
    slip = nearest(words, names) or nearest(name, (rule.id for rule in known.rules))
    mend = f"did you mean `{names.get(slip, slip)}`?" if slip else "`slurmdoctor rules list` shows them all"
    raise UserError(f"there is no cause `{name}`", mend)


def _exact(name: str, known: Knowledge) -> Cause | None:
    if name in known.causes:
        return known.causes[name]
    cause, _, reader = name.rpartition("/")
    of_rule = reader in READERS or any(rule.id == name for rule in known.rules)
    return known.causes.get(cause) if of_rule else None


def _plain_words(name: str) -> str:
    """A name in small words, without what tells nothing."""
    if by_signal := _OF_SLURM.fullmatch(name):
        return f"signal {by_signal[1]}"
    words = re.sub(r"[\W_]+", " ", name.lower()).strip()
    words = re.sub(r"\btimed? out\b", "timeout", words)
    if exit_code := _EXIT.fullmatch(words):
        return exit_code[1]
    return " ".join(word for word in words.split() if word not in _FILLERS) or words


def _meant(name: str, words: str, causes: Collection[Cause]) -> Iterator[list[Cause]]:
    """The causes that are meant by a name, as it was typed and in plain words: what convinces most first."""
    called = {cause.id: list(map(_plain_words, (cause.id, *cause.also, cause.title))) for cause in causes}
    yield [cause for cause in causes if words in called[cause.id][:-1]]
    yield [cause for cause in causes if {*" ".join(called[cause.id]).split()}.issuperset(words.split())]
    if len(name) >= _SHORTEST:
        part = re.compile(rf"(?<!\w){re.escape(name.lower())}(?!\w)")
        shown = {
            cause.id: "\n".join(one for rule in cause.rules for one in (*rule.literals, *rule.match))
            for cause in causes
        }
        yield [cause for cause in causes if part.search(shown[cause.id].lower())]
    admitted = [rule for cause in causes for rule in cause.rules if any(literal in name for literal in rule.literals)]
    printed = {rule.cause for rule in admitted if captures(rule.regex, name, rule.of_site) is not None}
    yield [cause for cause in causes if cause.id in printed]
    if len(words) >= _SHORTEST:
        yield [cause for cause in causes if f" {words} " in f" {_plain_words(cause.summary)} "]


def explained(name: str, known: Knowledge, width: int) -> list[Line]:
    """The page of the cause that a name means, or a list of those that it may mean. Raises a UserError where it means none."""
    found = meanings(name, known)
    return list(choices(name, found, width)) if len(found) > 1 else [[row] for row in rows(found[0], known, width)]


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
