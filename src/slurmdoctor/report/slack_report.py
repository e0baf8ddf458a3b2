"""The Slack report in Block Kit: the same parts as the Markdown report.

Text of a log goes out as `rich_text`, whose text elements Slack shows as they are: there is
no markup to break out of, and only elements of their own kind can mention, link or ping. The notification's
`text` is mrkdwn, so there it is escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from slurmdoctor.model import Diagnosis
from slurmdoctor.report.markdown_report import Parts, parts_of, pieces
from slurmdoctor.report.redactor import one_line

_GAP = "\u200b"
Element = dict[str, object]
"""A piece of a message, as Slack's API names its keys."""


def to_dict(diagnosis: Diagnosis) -> Element:
    """What `chat.postMessage` or an incoming webhook takes, but for the channel."""
    parts = parts_of(diagnosis)
    return {
        "text": escape(f"{parts.head} ({parts.tag})" if parts.tag else parts.head),
        "blocks": [{"type": "rich_text", "elements": _elements(parts)}],
        "unfurl_links": False,
        "unfurl_media": False,
    }


def render(diagnosis: Diagnosis) -> str:
    """The message as JSON, in ASCII."""
    return json.dumps(to_dict(diagnosis), indent=2, ensure_ascii=True) + "\n"


def message(head: str, items: Sequence[tuple[str, str, str]]) -> str:
    """A list as JSON: each item is what stands before a name, the name, and what is said of it."""
    rows = [_section([_text(before), _text(name, code=True), _text(said)]) for before, name, said in items]
    listed: Element = {"type": "rich_text_list", "style": "bullet", "elements": rows}
    elements = [_section([_text(head, bold=True)]), *([listed] if rows else [])]
    blocks = [{"type": "rich_text", "elements": elements}]
    told = {"text": escape(head), "blocks": blocks, "unfurl_links": False, "unfurl_media": False}
    return json.dumps(told, indent=2, ensure_ascii=True) + "\n"


def escape(text: str) -> str:
    """Text of any origin as mrkdwn without any markup of its own."""
    text = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # Slack knows no escape for these; look-alikes cannot open bold, code or struck text
    text = text.translate({ord("*"): "∗", ord("`"): "ˋ", ord("~"): "∼"})
    text = re.sub(r"@(?=\w)", "@" + _GAP, text)
    return re.sub(r"(?<=\w):(?=//)", ":" + _GAP, text)


def _elements(parts: Parts) -> list[Element]:
    head = [_text(parts.head, bold=True)]
    if parts.tag:
        head.append(_text(f"  {parts.tag}"))
    if parts.place:
        head += [_text("\n"), _text(parts.place, code=True)]
    elements: list[Element] = [_section(head)]
    if parts.quote:
        elements.append({"type": "rich_text_preformatted", "elements": [_text(parts.quote)]})
    said: list[Element] = []
    for label, text in parts.parts:
        new = "\n" if said else ""
        said.append(_text(f"{new}{label}: ", bold=True) if label else _text(new))
        said += [_text(piece[1:-1], code=True) if is_code else _text(piece) for is_code, piece in pieces(text)]
    if said:
        elements.append(_section(said))
    if parts.asks:
        elements.append(_section([_text("Not enough? Send also:")]))
        rows = [
            _section([_text(f"{shows}: "), _text(command, code=True)] if command else [_text(shows)])
            for command, shows in parts.asks
        ]
        elements.append({"type": "rich_text_list", "style": "bullet", "elements": rows})
    return elements


def _section(elements: list[Element]) -> Element:
    return {"type": "rich_text_section", "elements": elements}


def _text(text: str, **style: bool) -> Element:
    element: Element = {"type": "text", "text": text or " "}
    return {**element, "style": style} if style else element
