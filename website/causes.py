"""The site's pages of the causes, made from the rules."""

from __future__ import annotations

from collections.abc import Iterator

from slurmdoctor.model import Cause, Knowledge
from slurmdoctor.report.explain import Section, heading, sections

_INTRODUCTION = """\
# The causes

All that slurmdoctor can name as the cause of a failure, and what it knows of each.
Made from `rules/`: change a cause there.
`slurmdoctor explain CAUSE` shows the same in the terminal.
What is filled in from a log is in `<angle brackets>`.

| family | cause | a rank ... | rules |
|---|---|---|---|
"""
_LONGEST = 160


def index(known: Knowledge) -> str:
    """The table of all causes, whose names lead to a page each."""
    rows = (
        f"| {cause.family} | [{cause.id}]({cause.id}.md) | {_cell(cause.title)} | {len(cause.rules)} |\n"
        for cause in sorted_causes(known)
    )
    return _INTRODUCTION + "".join(rows)


def page(cause: Cause, known: Knowledge) -> str:
    """One cause as a page of its own."""
    return "\n".join(_lines(cause, known)).rstrip() + "\n"


def sorted_causes(known: Knowledge) -> list[Cause]:
    return sorted(known.causes.values(), key=lambda cause: (cause.family, cause.id))


def _lines(cause: Cause, known: Knowledge) -> Iterator[str]:
    yield f"# {cause.id}\n"
    ends = ", ".join(f"`{one}`" for one in cause.exit_classes) or "`unknown`"
    yield f"**{_plain(heading(cause))}.** Role: {cause.role}. Usually ends as {ends}."
    if cause.also:
        yield f"\nAlso called {_plain(', '.join(cause.also))}."
    for section in sections(cause, known):
        yield from _section(section, known)


def _linked(text: str, known: Knowledge) -> str:
    head, colon, names = text.partition(": ")
    if head not in ("Causes", "May be caused by"):
        return text
    return head + colon + ", ".join(f"[{one}]({one}.md)" if one in known.causes else one for one in names.split(", "))


def _section(section: Section, known: Knowledge) -> Iterator[str]:
    yield f"\n## {section.title}\n"
    prose = section.title == "What happens" or (len(section.entries) == 1 and not section.numbered)
    for number, entry in enumerate(section.entries, 1):
        mark = f"{number}. " if section.numbered else "" if prose else "- "
        name, _, source = entry.text.partition(": ")
        if entry.line is None:
            yield mark + _linked(_plain(entry.text), known)
            yield from (f"{' ' * len(mark)}<br>{_plain(note)}" for note in entry.notes)
        else:
            yield f"- `{name}`: {_plain('. '.join((source, *entry.notes)))}"
        if prose and number < len(section.entries):
            yield ""
    lines = [entry.line.strip() for entry in section.entries if entry.line is not None]
    if lines:
        cut = (line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…" for line in lines)
        yield "\n```text\n" + "\n".join(cut) + "\n```"


def _plain(text: str) -> str:
    """Text whose angle brackets are not taken for HTML; what stands in backquotes is unchanged."""
    parts = " ".join(text.split()).split("`")
    return "`".join(part if at % 2 else part.replace("<", "&lt;").replace("*", r"\*") for at, part in enumerate(parts))


def _cell(text: str) -> str:
    return _plain(text).replace("|", r"\|")
