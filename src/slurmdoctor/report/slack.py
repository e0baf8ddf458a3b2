"""A Slack message in Block Kit: as short as the Markdown answer, and as harmless.

All that a log had a part in goes out as `rich_text`, whose text elements Slack shows as they are: there is
no markup to break out of, and only elements of their own kind can mention, link or ping. The notification's
`text` is mrkdwn, so there it is escaped.
"""

from __future__ import annotations

import json
import re
from typing import Any

from slurmdoctor.model import Diagnosis
from slurmdoctor.report import words
from slurmdoctor.report.markdown import Answer, answer

_GAP = "\u200b"


def to_dict(diagnosis: Diagnosis) -> dict[str, Any]:
    """What `chat.postMessage` or an incoming webhook takes, but for the channel."""
    told = answer(diagnosis)
    return {
        "text": escape(f"{told.head} ({told.tag})" if told.tag else told.head),
        "blocks": [{"type": "rich_text", "elements": _elements(told)}],
        "unfurl_links": False,
        "unfurl_media": False,
    }


def render(diagnosis: Diagnosis) -> str:
    """The message as JSON, in ASCII."""
    return json.dumps(to_dict(diagnosis), indent=2, ensure_ascii=True) + "\n"


def escape(text: str) -> str:
    """Text of any origin as mrkdwn that says nothing but itself."""
    text = words.one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"@(?=\w)", "@" + _GAP, text)
    text = re.sub(r"(?<=\w):(?=//)", ":" + _GAP, text)
    # Slack knows no escape for these; look-alikes cannot open bold, code or struck text
    return text.translate({ord("*"): "∗", ord("`"): "ˋ", ord("~"): "∼"})


def _elements(told: Answer) -> list[dict[str, Any]]:
    head = [_text(told.head, bold=True)]
    if told.tag:
        head.append(_text(f"  {told.tag}"))
    if told.place:
        head += [_text("\n"), _text(told.place, code=True)]
    elements: list[dict[str, Any]] = [_section(head)]
    if told.quote:
        elements.append({"type": "rich_text_preformatted", "elements": [_text(told.quote)]})
    pieces: list[dict[str, Any]] = []
    for label, text in told.parts:
        pieces += [_text(("\n" if pieces else "") + f"{label}: ", bold=True), _text(text)]
    if pieces:
        elements.append(_section(pieces))
    if told.asks:
        elements.append(_section([_text("Not enough? Send also:")]))
        rows = [
            _section([_text(f"{shows}: "), _text(command, code=True)] if command else [_text(shows)])
            for command, shows in told.asks
        ]
        elements.append({"type": "rich_text_list", "style": "bullet", "elements": rows})
    return elements


def _section(elements: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "rich_text_section", "elements": elements}


def _text(text: str, **style: bool) -> dict[str, Any]:
    element: dict[str, Any] = {"type": "text", "text": text or " "}
    return {**element, "style": style} if style else element
