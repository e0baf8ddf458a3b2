"""docs/causes.md, made from the rules (`python -m slurmdoctor.knowledge.workshop.docs > docs/causes.md`), and a page per cause."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import groupby

from slurmdoctor.knowledge.load import load
from slurmdoctor.knowledge.paths import builtin
from slurmdoctor.model import Cause, Knowledge
from slurmdoctor.report.explain import Section, heading, sections

_INTRODUCTION = """\
# The causes

All that slurmdoctor can name as the cause of a failure, and what it knows of each.
Made from `rules/` by `make docs`: change a cause there.
`slurmdoctor explain CAUSE` shows the same in the terminal.
What is filled in from a log is in `<angle brackets>`.
"""


_LONGEST = 160


def markdown(known: Knowledge) -> str:
    return "\n".join(_lines(known)).rstrip() + "\n"


def index(known: Knowledge) -> str:
    """The table of all causes, whose names lead to a page each."""
    return "\n".join((_INTRODUCTION, *_table(known, "{}.md"))) + "\n"


def page(cause: Cause, known: Knowledge) -> str:
    """One cause as a page of its own."""
    first, *rest = _cause(cause, known)
    text = "\n".join((first.strip().replace("### ", "# "), *rest)).rstrip() + "\n"
    text = re.sub(r"^\*\*(.*)\*\*$", r"## \1", text, flags=re.M)
    return re.sub(
        r"^(- (?:Causes|May be caused by): )(.*)$", lambda line: line[1] + _linked(line[2], known), text, flags=re.M
    )


def sorted_causes(known: Knowledge) -> list[Cause]:
    return sorted(known.causes.values(), key=lambda cause: (cause.family, cause.id))


def _lines(known: Knowledge) -> Iterator[str]:
    yield _INTRODUCTION
    yield from _table(known, "#{}")
    for family, members in groupby(sorted_causes(known), key=lambda cause: cause.family):
        yield f"\n## {family.capitalize()}"
        for cause in members:
            yield from _cause(cause, known)


def _table(known: Knowledge, address: str) -> Iterator[str]:
    yield "| family | cause | a rank ... | rules |"
    yield "|---|---|---|---|"
    for cause in sorted_causes(known):
        link = f"[{cause.id}]({address.format(cause.id)})"
        yield f"| {cause.family} | {link} | {_cell(cause.title)} | {len(cause.rules)} |"


def _linked(names: str, known: Knowledge) -> str:
    return ", ".join(f"[{name}]({name}.md)" if name in known.causes else name for name in names.split(", "))


def _cause(cause: Cause, known: Knowledge) -> Iterator[str]:
    yield f"\n### {cause.id}\n"
    ends = ", ".join(f"`{one}`" for one in cause.exit_classes) or "`unknown`"
    yield f"**{_plain(heading(cause))}.** Role: {cause.role}. Usually ends as {ends}."
    if cause.also:
        yield f"\nAlso called {_plain(', '.join(cause.also))}."
    for section in sections(cause, known):
        yield from _section(section)


def _section(section: Section) -> Iterator[str]:
    yield f"\n**{section.title}**\n"
    prose = section.title == "What happens" or (len(section.entries) == 1 and not section.numbered)
    for number, entry in enumerate(section.entries, 1):
        mark = f"{number}. " if section.numbered else "" if prose else "- "
        name, _, source = entry.text.partition(": ")
        if entry.line is None:
            yield mark + _plain(entry.text)
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


if __name__ == "__main__":
    sys.stdout.write(markdown(load((builtin(),), cache=False)))
