"""The report for a chat, as Markdown or for Slack: short, and harmless with any log.

Text of a log is quoted in a code block or escaped. GitHub, GitLab, Discord and Mattermost read Markdown in different ways; what
escapes cannot reach in one of them (mentions, bare links, a fence of more than three backticks in Discord) is broken with a
zero-width space. To Slack text goes out as `rich_text`, whose text elements it shows as they are: there is no markup to break out of,
and only elements of their own kind can mention, link or ping. The notification's `text` is mrkdwn, so there it is escaped.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Sequence

from slurmdoctor.model import Diagnosis, Frozen
from slurmdoctor.report import wording
from slurmdoctor.report.redaction import disarm, one_line
from slurmdoctor.report.terminal import cut
from slurmdoctor.report.wording import Row, Rows, best_frames, counted, ended, grouped, named

LIMIT = 1500
"""Characters of Markdown."""
_LONGEST_FIX = 420
_GAP = "\u200b"


class Parts(Frozen):
    """The parts of the report before any markup, each cut to its length."""

    head: str
    tag: str
    place: str
    quote: str
    parts: tuple[tuple[str, str], ...]
    """(label, text), the most important first. Without a label the text says more of the one before it."""
    asks: tuple[tuple[str, str], ...]
    """(command, what it shows)."""


def shortened(text: str, most: int) -> str:
    """The text in so many characters: combining ones have no width, by which a terminal cuts."""
    short = cut(text, most)
    return short if len(short) <= most else f"{text[: most - 1]}…"


def parts_of(diagnosis: Diagnosis, scale: float = 1.0, fixes: int = 3) -> Parts:
    """The parts, the same for every chat; `scale` shortens them, but for the fixes: each is whole or left out."""

    def fit(text: str, most: int) -> str:
        return shortened(text, int(most * scale))

    first = diagnosis.first_failure
    file, line, text, time = wording.shown_line(diagnosis)
    quote = fit(one_line(text or ""), 360)
    for frame in best_frames(first.traceback, 1) if quote else []:
        quote += "\n" + fit(f"  {frame.place} in {frame.function or '?'}", 110)
    place = wording.place(file, line, int(78 * scale)) if text else ""
    rivals = ", ".join(f"{one_line(o.id)} ({o.confidence})" for o in diagnosis.others[:3])
    last = diagnosis.facts.get("last_step")
    failed = diagnosis.verdict == "failed"
    parts = (
        *_fixes(diagnosis, fixes, scale),
        ("Exit", fit(wording.ending(diagnosis), 140) if failed else ""),
        ("Retry", fit(wording.retry(diagnosis), 120)),
        ("Why", fit(wording.as_many(wording.reasons(diagnosis), lambda text: len(text) <= 220 * scale), 440)),
        ("Or", fit(rivals, 120)),
        ("Read", wording.read(diagnosis) if not failed else ""),
        ("Last step", fit(one_line(str(last)), 30) if last is not None and not text else ""),
    )
    return Parts(
        f"{wording.mark(diagnosis)} {fit(wording.headline(diagnosis), 160)}",
        fit(wording.tag(diagnosis), 80),
        f"{place}  {fit(wording.clock(time), 16)}" if place and time else place,
        quote,
        tuple((label, text) for label, text in parts if text),
        tuple((fit(command, 110), fit(shows, 60)) for command, shows in wording.requests(diagnosis)[:3]),
    )


def _fixes(diagnosis: Diagnosis, count: int, scale: float) -> list[tuple[str, str]]:
    """What to do, the best first, each with its reason below it."""
    most = _LONGEST_FIX * scale
    short = [fix for fix in diagnosis.fixes[:count] if 0 < len(one_line(fix.do)) <= most]
    parts = []
    for number, fix in enumerate(short, 1):
        why, label = one_line(fix.why or ""), f"Fix {number}" if len(short) > 1 else "Fix"
        parts += [(label, one_line(fix.do)), ("", why if len(why) <= most / 2 else "")]
    return parts


def pieces(text: str) -> list[tuple[bool, str]]:
    """A sentence's commands, each in its backquotes, and the text between them, with its blanks."""
    split = re.split(r"(`[^`\s][^`]*`)", one_line(text))
    return [(number % 2 == 1, piece) for number, piece in enumerate(split) if piece]


# ── Markdown ─────────────────────────────────────────────────────────────────────────────────


def render_markdown(diagnosis: Diagnosis) -> str:
    """At most 1,500 characters of Markdown."""
    for scale in (1.0, 0.7, 0.5, 0.35):
        for fixes in (3, 2, 1):
            whole = parts_of(diagnosis, scale, fixes)
            for dropped in range(len(whole.parts) if fixes == 1 else 1):
                text = _markdown(whole, len(whole.parts) - dropped)
                if len(text) <= LIMIT:
                    return text
    return _markdown(parts_of(diagnosis, 0.25, 1), 1)


def _markdown(whole: Parts, count: int) -> str:
    lines = [f"**{prose(whole.head)}**" + (f" ({prose(whole.tag)})" if whole.tag else ""), ""]
    if whole.place:
        lines.append(code(whole.place))
    if whole.quote:
        lines += [fence(whole.quote), ""]
    lines += [
        f"**{label}:** {marked(text)}  " if label else f"{_item(marked(text))}  " for label, text in whole.parts[:count]
    ]
    if whole.asks:
        lines += ["", "Not enough? Send also:"]
        for command, shows in whole.asks:
            lines.append(f"- {_item(prose(shows))}" + (f": {code(command)}" if command else ""))
    return "\n".join(lines).replace("\n\n\n", "\n\n").rstrip() + "\n"


def jobs_markdown(rows: Sequence[Row]) -> str:
    """Several jobs in at most 1,500 characters of Markdown: as many kinds and names as there is room for."""
    text, kinds = "", grouped(rows)
    for names, most in ((12, len(kinds)), (12, 8), (6, 6), (3, 4), (1, 2)):
        lines = [f"**{prose(counted(rows))}**", ""]
        lines += [
            f"- {kind.row.mark} {code(shortened(named(kind.labels, names), 160))}: {prose(ended(kind))}"
            for kind in kinds[:most]
        ]
        text = "\n".join(lines) + "\n"
        if len(text) <= LIMIT:
            break
    return text


def _item(text: str) -> str:
    """Prose at the beginning of a line, where it could make a heading, a rule or an item of its own."""
    return re.sub(r"^(\d*)([-#+=.)])", r"\1\\\2", text)


def marked(text: str) -> str:
    """A sentence of ours, in which commands stand between backquotes, with these as code."""
    shown = []
    for is_code, piece in pieces(text):
        inner = code(piece[1:-1]) if is_code else prose(piece)
        shown.append(" " * (piece[0] == " ") + inner + " " * (piece[-1] == " " != piece))
    return "".join(shown)


def prose(text: str) -> str:
    """Text of any origin as plain words: no markup, no mention, no link, no reference."""
    text = _unreachable(one_line(text))
    text = re.sub(r"[\\`*\[\]<>|~&$]", r"\\\g<0>", text)
    return re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", text)  # inside a word an underscore is no markup


def code(text: str) -> str:
    """Text of any origin as code in a line."""
    text = re.sub(r"`{2,}", lambda run: _GAP.join(run[0]), _unreachable(one_line(text)))
    ticks, pad = ("``", " ") if "`" in text else ("`", "")
    return f"{ticks}{pad}{text}{pad}{ticks}"


def fence(text: str) -> str:
    """Text of any origin as a block that it cannot leave."""
    text = _unreachable(disarm(text).replace("\r", "\ufffd"))
    text = re.sub(r"`{3,}", lambda run: _GAP.join(run[0]), text)
    ticks = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{ticks}text\n{text}\n{ticks}"


_BROKEN: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"@(?=\w)", "@" + _GAP),  # @everyone, @channel, @somebody
    (r"<(?=[@#!:/a-zA-Z])", "<" + _GAP),  # <@U..>, <!here>, <#C..>, <https://..>, tags
    (r"(?i)(?<=\w):(?=//)", ":" + _GAP),
    (r"(?i)(?<=www)\.", _GAP + "."),
    (r"(?i)(?<=mailto):|(?<=xmpp):", ":" + _GAP),
    (r"[#!](?=\d)", lambda found: found[0] + _GAP),  # references to issues and merge requests
    (r"(?i)(?<=GH)-(?=\d)", "-" + _GAP),
)


def _unreachable(text: str) -> str:
    for pattern, broken in _BROKEN:
        text = re.sub(pattern, broken, text)
    return text


# ── Slack ────────────────────────────────────────────────────────────────────────────────────

Element = dict[str, object]
"""A piece of a message, as Slack's API names its keys."""


def slack_message(diagnosis: Diagnosis) -> Element:
    """What `chat.postMessage` or an incoming webhook takes, but for the channel."""
    parts = parts_of(diagnosis)
    head = [_text(parts.head, bold=True)]
    if parts.tag:
        head.append(_text(f"  {parts.tag}"))
    if parts.place:
        head += [_text("\n"), _text(parts.place, code=True)]
    elements: list[Element] = [_section(*head)]
    if parts.quote:
        elements.append({"type": "rich_text_preformatted", "elements": [_text(parts.quote)]})
    section: list[Element] = []
    for label, text in parts.parts:
        new = "\n" if section else ""
        section.append(_text(f"{new}{label}: ", bold=True) if label else _text(new))
        section += [_text(piece[1:-1], code=True) if is_code else _text(piece) for is_code, piece in pieces(text)]
    elements += [_section(*section)] if section else []
    if parts.asks:
        rows = [
            _section(_text(f"{shows}: "), _text(command, code=True)) if command else _section(_text(shows))
            for command, shows in parts.asks
        ]
        elements += [_section(_text("Not enough? Send also:")), *_bullets(rows)]
    return _message(f"{parts.head} ({parts.tag})" if parts.tag else parts.head, elements)


def jobs_slack(rows: Sequence[Row]) -> str:
    """Several jobs for Slack's `chat.postMessage`, as JSON: an item for each kind of them."""
    head = counted(rows)
    items = [_kind(kind) for kind in grouped(rows)[:8]]
    return json.dumps(_message(head, [_section(_text(head, bold=True)), *_bullets(items)]), indent=2) + "\n"


def _kind(kind: Rows) -> Element:
    return _section(
        _text(f"{kind.row.mark} "), _text(shortened(named(kind.labels), 160), code=True), _text(f": {ended(kind)}")
    )


def escape(text: str) -> str:
    """Text of any origin as mrkdwn without any markup of its own."""
    # Slack knows no escape for these; look-alikes cannot open bold, code or struck text
    lookalikes = str.maketrans("*`~", "∗ˋ∼")
    return _unreachable(html.escape(one_line(text), quote=False).translate(lookalikes))


def _message(text: str, elements: list[Element]) -> Element:
    blocks = [{"type": "rich_text", "elements": elements}]
    return {"text": escape(text), "blocks": blocks, "unfurl_links": False, "unfurl_media": False}


def _bullets(items: list[Element]) -> list[Element]:
    return [{"type": "rich_text_list", "style": "bullet", "elements": items}]


def _section(*elements: Element) -> Element:
    return {"type": "rich_text_section", "elements": elements}


def _text(text: str, **style: bool) -> Element:
    element: Element = {"type": "text", "text": text or " "}
    return {**element, "style": style} if style else element
