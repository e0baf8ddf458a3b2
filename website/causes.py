"""The site's pages of the causes, made from the rules."""

from __future__ import annotations

from collections.abc import Iterator

from slurmdoctor.model import Cause, Knowledge
from slurmdoctor.report import explain

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
_PROSE = ("What happens", "Resubmit?", "How it looks in a log")


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
    """The program's page as Markdown: lines of logs in a block below what takes them."""
    yield f"# {cause.id}\n"
    title = ""
    for style, before, text in list(explain.page(cause, known)):
        if style == "head":
            title = text
            yield f"\n## {text}\n"
        elif style == "quote":
            yield f"\n```text\n{text if len(text) <= _LONGEST else text[: _LONGEST - 1] + '…'}\n```\n"
        elif style == "bold":
            yield f"**{_plain(text)}.**\n"
        elif style == "dim":
            yield f"{before[2:]}<br>{_plain(text)}"
        elif text:
            mark = before.strip() or ("" if title in _PROSE else "-")
            yield f"{mark} {_linked(_plain(text), known)}".lstrip() + "\n" * (title in _PROSE)


def _linked(text: str, known: Knowledge) -> str:
    head, colon, names = text.partition(": ")
    if head not in ("Causes", "May be caused by"):
        return text
    return head + colon + ", ".join(f"[{one}]({one}.md)" if one in known.causes else one for one in names.split(", "))


def _plain(text: str) -> str:
    """Text whose angle brackets are not taken for HTML; what stands in backquotes is unchanged."""
    parts = " ".join(text.split()).split("`")
    return "`".join(part if at % 2 else part.replace("<", "&lt;").replace("*", r"\*") for at, part in enumerate(parts))


def _cell(text: str) -> str:
    return _plain(text).replace("|", r"\|")
