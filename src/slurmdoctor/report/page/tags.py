"""HTML elements from plain values: the only door from text to markup, so that nothing a log says can become any."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape as _escape

from slurmdoctor.report.redactor import disarm, one_line

LONGEST = 4000
"""Characters of one text; the rest of a longer one is cut."""
_SHORT = 28
"""Characters of code that no line breaks, however narrow the page is."""
_VOID = frozenset({"meta", "br"})
_TEXTLESS = frozenset({"rect", "line", "use", "path", "circle"})
"""Elements of SVG that hold no text: they may close themselves."""


class Markup(str):
    """Text that is HTML already; any other string is escaped before it becomes a part of the page."""

    __slots__ = ()


Content = str | None


def escape(text: str, most: int = LONGEST) -> Markup:
    """Text of any origin as what a browser shows, never as markup."""
    if isinstance(text, Markup):
        return text
    safe = disarm(text[: most + 1].replace("\r", "\ufffd"))
    return Markup(_escape(safe if len(safe) <= most else safe[:most] + " …", quote=True))


def tag(name: str, /, *children: Content, **attributes: str | float | bool | None) -> Markup:
    """One element. `class_` and `aria_label` stand for `class` and `aria-label`; None and False leave an attribute out."""
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    if name in _TEXTLESS and not children:
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{join(children)}</{name}>")


def join(children: Iterable[Content], between: str = "") -> Markup:
    """Elements and texts, one after the other; None is nothing."""
    return Markup(between.join(escape(child) for child in children if child is not None))


def sentence(text: str) -> Markup:
    """A sentence of ours: what stands between backquotes is code, which one click selects."""
    pieces = re.split(r"`([^`\s][^`]*)`", one_line(text[:LONGEST]))
    return join(_code(piece) if number % 2 else escape(piece) for number, piece in enumerate(pieces))


def _code(text: str) -> Markup:
    return tag("code", text, class_="short" if len(text) <= _SHORT else None)


def advice(text: str) -> tuple[Markup, list[str]]:
    """A sentence, and the commands of it that stand better by themselves: one in parentheses, or one that ends it."""
    plain = one_line(text)
    apart: list[str] = []

    def lift(found: re.Match[str]) -> str:
        apart.append(found[1])
        return found[2] or ""

    plain = re.sub(r" \(`([^` ]* [^`]*)`\)()", lift, plain)
    plain = re.sub(r"(?<=:) `([^` ]* [^`]*)`\.?()$", lift, plain)
    return sentence(plain), apart


def command(text: str) -> Markup:
    """A command as a block to copy."""
    return tag("pre", tag("code", one_line(text)), class_="command")


def section(anchor: str, title: str, *children: Content, prefix: str = "", level: int = 2, **attributes: str) -> Markup:
    """A part of the page under its heading; nothing where it has no content."""
    if not any(children):
        return Markup("")
    anchor = prefix + anchor
    heading = tag(f"h{level}", title, id=f"{anchor}-title")
    return tag("section", heading, *children, id=anchor, aria_labelledby=f"{anchor}-title", **attributes)


def fold(summary: Content, *children: Content, open_: bool = False, class_: str | None = None) -> Markup:
    """What opens on a click, without a script."""
    return tag("details", tag("summary", summary), *children, open=open_, class_=class_)


def place(file: str | None, line: int | None) -> str:
    """`job.log:48211`, or nothing."""
    return "" if file is None else one_line(file) + ("" if line is None else f":{line}")
