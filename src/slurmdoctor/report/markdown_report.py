"""The Markdown report for a chat: short, and harmless whatever the log holds.

Text of a log is quoted in a code block or escaped. GitHub, GitLab, Discord and Mattermost read Markdown in
different ways; what escapes cannot reach in one of them (mentions, bare links, a fence of more than three
backticks in Discord) is broken with a zero-width space.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from slurmdoctor.model import Diagnosis, Remedy
from slurmdoctor.report import words
from slurmdoctor.report.exits import ending
from slurmdoctor.report.frames import best_frames
from slurmdoctor.report.redactor import disarm, one_line
from slurmdoctor.report.terminal import cut_path

LIMIT = 1500
_LONGEST_FIX = 420
_GAP = "\u200b"


class Parts(Struct, frozen=True):
    """The parts of the report before any markup, each cut to its length."""

    head: str
    tag: str
    place: str
    quote: str
    parts: tuple[tuple[str, str], ...]
    """(label, text), the most important first. Without a label the text says more of the one before it."""
    asks: tuple[tuple[str, str], ...]
    """(command, what it shows)."""


def parts_of(diagnosis: Diagnosis, scale: float = 1.0, fixes: int = 3) -> Parts:
    """The parts, the same for every chat; `scale` shortens them, but for the fixes: each is whole or left out."""

    def fit(text: str, most: int) -> str:
        most = int(most * scale)
        return text if len(text) <= most else text[: most - 1].rstrip() + "…"

    first = diagnosis.first_failure
    file, line, text, time = words.shown_line(diagnosis)
    quote = fit(one_line(text or ""), 360)
    for frame in best_frames(first.traceback, 1) if quote else []:
        quote += "\n" + fit(f"  {frame.place} in {frame.function or '?'}", 110)
    number = "" if line is None else f":{line}"
    place = f"{cut_path(one_line(file), int(70 * scale))}{number}" if file and text else ""
    rivals = ", ".join(f"{one_line(o.id)} ({o.confidence})" for o in diagnosis.others[:3])
    last = diagnosis.facts.get("last_step")
    parts = (
        *_fixes(diagnosis.fixes[:fixes], scale),
        ("Exit", fit(ending(diagnosis), 140) if diagnosis.verdict == "failed" else ""),
        ("Retry", fit(words.retry(diagnosis), 120)),
        ("Why", words.why(diagnosis, int(220 * scale))),
        ("Or", fit(rivals, 120)),
        ("Read", words.read(diagnosis) if diagnosis.verdict != "failed" else ""),
        ("Last step", fit(one_line(str(last)), 30) if last is not None and not text else ""),
    )
    asks = tuple((fit(command, 110), fit(shows, 60)) for command, shows in words.requests(diagnosis)[:3])
    return Parts(
        f"{words.mark(diagnosis)} {fit(words.headline(diagnosis), 160)}",
        fit(words.tag(diagnosis), 80),
        f"{place}  {fit(words.clock(time), 16)}" if place and time else place,
        quote,
        tuple((label, text) for label, text in parts if text),
        asks,
    )


def _fixes(fixes: tuple[Remedy, ...], scale: float) -> tuple[tuple[str, str], ...]:
    """What to do, the best first, each with its reason below it."""
    short = [fix for fix in fixes if 0 < len(one_line(fix.do)) <= _LONGEST_FIX * scale]
    parts = []
    for number, fix in enumerate(short, 1):
        why = one_line(fix.why or "")
        parts.append((f"Fix {number}" if len(short) > 1 else "Fix", one_line(fix.do)))
        parts.append(("", why if len(why) <= _LONGEST_FIX * scale / 2 else ""))
    return tuple(parts)


def render(diagnosis: Diagnosis) -> str:
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


def pieces(text: str) -> list[tuple[bool, str]]:
    """A sentence's commands, each in its backquotes, and what stands between them, with its blanks."""
    split = re.split(r"(`[^`\s][^`]*`)", one_line(text))
    return [(number % 2 == 1, piece) for number, piece in enumerate(split) if piece]


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
