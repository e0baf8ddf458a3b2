"""A cause as a page for people: what happens, what to do, how to verify it, how it looks in a log."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from msgspec import Struct

from slurmdoctor.knowledge.expressions import COMPARISON, placeholders
from slurmdoctor.model import Cause, Fix, Knowledge, Rule
from slurmdoctor.report.quantities import listed

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


class Entry(Struct, frozen=True):
    """One point of a section."""

    text: str
    notes: tuple[str, ...] = ()
    line: str | None = None
    """A line of a log, shown as it is."""


class Section(Struct, frozen=True):
    """One heading with its points."""

    title: str
    entries: tuple[Entry, ...]
    numbered: bool = False


def heading(cause: Cause) -> str:
    """The cause's title as a sentence of its own."""
    return cause.title if cause.title[:1].isupper() else f"A rank {cause.title}"


def sections(cause: Cause, known: Knowledge) -> Iterator[Section]:
    """The page's sections, in the order of a reader's questions."""
    yield Section("What happens", tuple(Entry(part) for part in _paragraphs(cause.summary)))
    if cause.fixes:
        always = [fix for fix in cause.fixes if not fix.when]
        yield Section("What to do", tuple(map(_fix, always or cause.fixes)), numbered=True)
        if always and len(always) < len(cause.fixes):
            special = tuple(_fix(fix) for fix in cause.fixes if fix.when)
            yield Section("More specific fixes (tried first)", special, numbered=True)
    yield Section("Resubmit?", (Entry(RETRIES[cause.retry]),))
    if cause.verify:
        yield Section("How to verify", tuple(Entry(_open(text)) for text in cause.verify), numbered=True)
    yield Section(
        "How it looks in a log",
        tuple(
            Entry(f"{rule.id}: {rule.source}", _rule_notes(rule, cause), rule.match[0])
            for rule in cause.rules
            if rule.match
        ),
    )
    if cause.falsepositives:
        yield Section("False positives", tuple(Entry(_open(text)) for text in cause.falsepositives))
    after = sorted(cause.explains)
    before = sorted(other.id for other in known.causes.values() if cause.id in other.explains)
    chain = [Entry(ROLES[cause.role])]
    chain += [Entry(f"Causes: {', '.join(after)}")] if after else []
    chain += [Entry(f"May be caused by: {', '.join(before)}")] if before else []
    yield Section("Causes and effects", tuple(chain))
    if cause.references:
        yield Section("Read more", tuple(Entry(reference) for reference in cause.references))


def rows(cause: Cause, known: Knowledge, width: int = 100) -> Iterator[tuple[str, str]]:
    """The page's lines, each with its style of `report.terminal`."""
    width = max(40, min(width, 100))
    yield "bold", heading(cause)
    about = f"{cause.id} · {cause.family} · usual exit: {', '.join(cause.exit_classes) or 'unknown'}"
    yield from (("dim", line) for line in _wrapped(about, width, ""))
    if cause.also:
        yield from (("dim", line) for line in _wrapped(f"also called {', '.join(cause.also)}", width, ""))
    for section in sections(cause, known):
        yield "", ""
        yield "head", section.title
        for number, entry in enumerate(section.entries, 1):
            mark = f"{number}. " if section.numbered else ""
            yield from (("", line) for line in _wrapped(entry.text, width, "  " + mark))
            if entry.line is not None:
                yield "quote", "    │ " + _cut(entry.line, width - 6)
            for note in entry.notes:
                yield from (("dim", line) for line in _wrapped(note, width, "  " + " " * (len(mark) or 2)))


def text(cause: Cause, known: Knowledge, width: int = 100) -> str:
    """The page as plain text."""
    return "".join(f"{line}\n" for _, line in rows(cause, known, width))


def _rule_notes(rule: Rule, cause: Cause) -> tuple[str, ...]:
    """In what a rule is unlike its cause."""
    return (ROLES[rule.role],) if rule.role != cause.role else ()


def _fix(fix: Fix) -> Entry:
    notes = [_open(fix.why)] if fix.why else []
    conditions = _conditions(fix.when, placeholders(fix.do))
    notes += [f"{conditions}."] if conditions else []
    notes += [f"Then: {RETRIES[fix.retry][0].lower()}{RETRIES[fix.retry][1:]}"] if fix.retry else []
    notes += [fix.reference] if fix.reference else []
    return Entry(_open(fix.do), tuple(notes))


_PLAIN = {
    "all_entered": "that all ranks entered the collective", "at": "the place in your own code", "busy": "what one rank was doing meanwhile",
    "checked": "a check of the program's own", "exclude": "which node is at fault", "far_ranks": "that only other nodes waited",
    "gained": "how many steps the restarts gained", "in_pieces": "enough memory in pieces", "is_moe": "a mixture-of-experts model",
    "too_many": "more experts per GPU than fit", "by_experts": "that the experts do not fit", "per_step": "that it died in a training step",
    "old_torch": "a PyTorch before 2.1", "others_gib": "memory of other processes", "mem_had": "how much memory the job had",
    "ep_fits": "an EP that fits the GPUs", "expert_gb": "the size of an expert", "experts_gb": "the size of the experts",
    "held_gib": "what the killed process held", "at_step": "the step", "no_steps": "that no step was made", "other": "another program than a training",
    "late_ranks": "which ranks are late", "layouts": "sizes that fit",
    "op": "the collective", "rank0_busy": "that rank 0 was still busy", "silent_ranks": "which ranks printed nothing",
    "stalled_since": "since when the job was stalled", "stands_in": "where the late rank hangs", "suspects": "which ranks held it up",
    "task_failed": "that Slurm stopped the step for a failed task", "what": "the program's own message",
    "by_owner": "that the job's own user cancelled it", "cancelled_by": "who cancelled the job", "checks": "a mistake in the script that explains it",
    "emergency_save": "an emergency save", "emergency_saved": "that the emergency save was complete", "ended": "how the job was doing when it was ended",
    "exception": "an exception", "gpu_vendor": "another vendor's GPU", "last_step": "a training step", "moved_to": "the folder to which the job changed",
    "no_step": "that no step was made", "on_all_nodes": "that it is missing on all nodes", "phase": "what the program was doing", "reach": "how many ranks failed",
    "record_command": "the command that the job was submitted with", "restarts": "restarts", "saves_in": "a save among the frames", "seen": "another failure",
    "trained": "that the training was complete", "world_size": "how many ranks there are",
}  # fmt: skip
"""Names of facts, as a person would say what the log shows; of the others, the name."""


_NUMBERS = {
    "failed": "the number of ranks that failed", "gained": "the number of steps that the restarts gained", "last_step": "the last step",
    "nodes": "the number of nodes", "num_experts": "the count of experts", "num_workers": "the number of data workers", "rank": "the rank",
    "world_size": "the number of ranks",
}  # fmt: skip
"""Names of facts that are compared, as a person would call them; of the others, the name."""
_STATES = {
    ("ended", "hung"): "the job made no progress before it was ended",
    ("ended", "finished"): "the program had finished before the job was ended",
    ("ended", "progressing"): "the job made progress until it was ended",
}
"""Facts with a value, as a person would say it."""
_SIGNS = {"==": "is", "!=": "is not", ">=": "is at least", "<=": "is at most", ">": "is more than", "<": "is less than"}
_HOLES = {
    "at": "file:line",
    "raised_at": "file:line",
    "code": "line of code",
    "of_none": "attribute",
    "none_used": "message",
}
"""Names in a fix's text, as a person would call them; of the others, the name."""
_REACHED = {
    "all": "all ranks failed the same way", "one": "only one of several ranks failed", "node": "only one node's ranks failed",
}  # fmt: skip


def _conditions(when: Mapping[str, Any], shown: Collection[str] = ()) -> str:
    """The conditions of a fix in words. Names in `shown` are left out: its text holds them."""
    rule = [f"For {_or(_all(want))}" for name, want in when.items() if name == "rule" and want is not True]
    held = [name for name, want in when.items() if want is True and name not in shown and name != "rule"]
    there = [_PLAIN.get(name, _spaced(name)) for name in held if name.isidentifier()]
    lacking = [_PLAIN.get(name, _spaced(name)) for name, want in when.items() if want is False]
    parts = [f"the log shows {listed(there)}"] if there else []
    parts += [_compared(name, want) for name, want in when.items() if not isinstance(want, bool) and name != "rule"]
    parts += [_spaced(name) for name in held if not name.isidentifier()]
    parts += [f"the log does not show {_or(tuple(lacking))}"] if lacking else []
    if not parts:
        return "".join(rule)
    return f"{rule[0]}, if {listed(parts)}" if rule else f"If {listed(parts)}"


def _compared(name: str, want: Any) -> str:
    """`tp is more than 1`, `a frame of the traceback is save_hf_weights`, `nan is also in the log`."""
    wanted = _or(tuple("unknown" if one is False else one for one in _all(want)))
    if name == "seen":
        return f"{wanted} is also in the log"
    if name == "reach":
        return _REACHED.get(wanted, wanted)
    if name == "frames":
        return f"a frame of the traceback is {wanted}"
    if COMPARISON.fullmatch(wanted):
        return _spaced(f"{name} {wanted}")
    return _STATES.get((name, wanted)) or f"{_NUMBERS.get(name, _spaced(name))} is {wanted}"


def _spaced(condition: str) -> str:
    """A condition without the signs of its language."""
    named = re.sub(r"^\w+(?= [<>=!])", lambda name: _NUMBERS.get(name[0], name[0]), condition)
    signs = re.sub(r"(?<= )(?:[<>=!]=|[<>])(?= )", lambda sign: _SIGNS[sign[0]], named)
    return re.sub(r"(?<=[a-z0-9])_(?=[a-z0-9])", " ", signs).replace("'", "")


def _all(want: Any) -> tuple[Any, ...]:
    return tuple(want) if isinstance(want, (tuple, list)) else (want,)


def _or(values: tuple[Any, ...]) -> str:
    return listed([str(value) for value in values], "or")


def _open(template: str) -> str:
    """A template as text: `{num_experts}` becomes `<num experts>`, arithmetic `<N>`."""
    filled = re.sub(
        r"(?<!\$)(?<!\{)\{([^{}]+)\}",
        lambda hole: f"<{_HOLES.get(hole[1], _spaced(hole[1]))}>" if hole[1].isidentifier() else "<N>",
        template,
    )
    return re.sub(r"\{\{|\}\}", lambda brace: brace[0][0], filled)


def _paragraphs(text: str) -> list[str]:
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()]


def _wrapped(text: str, width: int, first: str) -> list[str]:
    text = " ".join(text.split())
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _cut(line: str, width: int) -> str:
    line = line.strip().replace("\t", " ")
    return line if len(line) <= width else line[: width - 1] + "…"
