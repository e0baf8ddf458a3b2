"""A short answer for a chat: readable on a phone, and nothing in it that a log could use.

What a log says is quoted in a code block or escaped. GitHub, GitLab, Discord and Mattermost read Markdown in
different ways; what escapes cannot reach in one of them (mentions, bare links, a fence of more than three
backticks in Discord) is broken with a zero-width space.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from slurmdoctor.model import Diagnosis, FirstFailure
from slurmdoctor.report import words
from slurmdoctor.report.frames import telling
from slurmdoctor.report.redact import disarm

LIMIT = 1500
_GAP = "\u200b"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a chat is told, before any markup: short texts, each cut to its measure."""

    head: str
    tag: str
    place: str
    quote: str
    parts: tuple[tuple[str, str], ...]
    """(label, text), the most important first."""
    asks: tuple[tuple[str, str], ...]
    """(command, what it shows)."""


def answer(diagnosis: Diagnosis, scale: float = 1.0) -> Answer:
    """The same short answer for every chat."""

    def fit(text: str, most: int) -> str:
        most = int(most * scale)
        return text if len(text) <= most else text[: most - 1].rstrip() + "…"

    first = diagnosis.first_failure or FirstFailure()
    shown = diagnosis.evidence[0] if diagnosis.evidence else None
    file, line, text, time = first.file, first.line, first.text, first.time
    if text is None and shown:
        file, line, text, time = shown.file, shown.line, shown.text, shown.time
    quote = fit(words.one_line(text or ""), 360)
    for frame in telling(first.traceback, 1) if quote else []:
        quote += "\n" + fit(f"  {frame.place} in {frame.function or '?'}", 110)
    place = f"{words.one_line(file)[-int(70 * scale) :]}:{line}" if file and text else ""
    fix = diagnosis.fixes[0] if diagnosis.fixes else None
    rivals = ", ".join(f"{words.one_line(o.id)} ({o.confidence})" for o in diagnosis.others[:3])
    last = diagnosis.facts.get("last_step")
    parts = (
        ("Fix", fit(words.remedy(fix.do, fix.why), 300) if fix else ""),
        ("Exit", fit(words.ending(diagnosis), 140) if diagnosis.verdict == "failed" else ""),
        ("Retry", fit(words.retry(diagnosis), 120)),
        ("Why", fit(words.why(diagnosis), 220)),
        ("Or", fit(rivals, 120)),
        ("Read", words.read(diagnosis) if diagnosis.verdict != "failed" else ""),
        ("Last step", fit(words.one_line(str(last)), 30) if last is not None and not text else ""),
    )
    asks = tuple((fit(command, 110), fit(shows, 60)) for command, shows in words.requests(diagnosis)[:3])
    return Answer(
        f"{words.mark(diagnosis)} {fit(words.headline(diagnosis), 160)}",
        fit(words.tag(diagnosis), 80),
        f"{place}  {fit(words.clock(time), 16)}" if place and time else place,
        quote,
        tuple((label, text) for label, text in parts if text),
        asks,
    )


def render(diagnosis: Diagnosis) -> str:
    """At most 1,500 characters of Markdown."""
    for scale in (1.0, 0.7, 0.5, 0.35):
        whole = answer(diagnosis, scale)
        for dropped in range(len(whole.parts)):
            text = _markdown(whole, len(whole.parts) - dropped)
            if len(text) <= LIMIT:
                return text
    return _markdown(answer(diagnosis, 0.25), 1)


def _markdown(told: Answer, parts: int) -> str:
    lines = [f"**{prose(told.head)}**" + (f" ({prose(told.tag)})" if told.tag else ""), ""]
    if told.place:
        lines.append(code(told.place))
    if told.quote:
        lines += [fence(told.quote), ""]
    lines += [f"**{label}:** {prose(text)}  " for label, text in told.parts[:parts]]
    if told.asks:
        lines += ["", "Not enough? Send also:"]
        for command, shows in told.asks:
            lines.append(f"- {_item(prose(shows))}" + (f": {code(command)}" if command else ""))
    return "\n".join(lines).replace("\n\n\n", "\n\n").rstrip() + "\n"


def _item(text: str) -> str:
    """Prose at the beginning of a line, where it could make a heading, a rule or an item of its own."""
    return re.sub(r"^(\d*)([-#+=.)])", r"\1\\\2", text)


def prose(text: str) -> str:
    """Text of any origin as plain words: no markup, no mention, no link, no reference."""
    text = _unreachable(words.one_line(text))
    text = re.sub(r"[\\`*\[\]<>|~&$]", r"\\\g<0>", text)
    return re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", text)  # inside a word an underscore is no markup


def code(text: str) -> str:
    """Text of any origin as code in a line."""
    text = re.sub(r"`{2,}", lambda run: _GAP.join(run[0]), _unreachable(words.one_line(text)))
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
