"""The top of the page: the verdict, the line that proves it, and what to do."""

from __future__ import annotations

import re

from slurmdoctor.model import Diagnosis, Evidence, Remedy
from slurmdoctor.report import words
from slurmdoctor.report.exits import ending
from slurmdoctor.report.frames import best_frames
from slurmdoctor.report.page.quotes import lines
from slurmdoctor.report.page.tags import Markup, advice, command, fold, place, sentence, tag
from slurmdoctor.report.redactor import one_line

_KINDS = {"failed": "bad", "no-failure": "good", "unknown": "doubt"}
_SPOKEN = {"failed": "Failed: ", "no-failure": "Healthy: ", "unknown": "Unknown: "}
_PLAIN_LINK = re.compile(r"https://[\w./#?=&%+~:-]+")
"""An address of the rules that is nothing but one."""


def head(diagnosis: Diagnosis, level: int = 1) -> Markup:
    """The verdict in one sentence, the cause with its confidence, and the line that proves it."""
    sign = tag("span", words.mark(diagnosis), class_="sign", aria_hidden="true")
    spoken = tag("span", _SPOKEN[diagnosis.verdict], class_="unseen")
    text = words.headline(diagnosis)
    title = tag(f"h{level}", sign, spoken, tag("span", text[:1].upper() + text[1:]))
    return tag("header", title, _chips(diagnosis), *_proof(diagnosis), class_=f"verdict {_KINDS[diagnosis.verdict]}")


def _chips(diagnosis: Diagnosis) -> Markup:
    cause, chips = diagnosis.cause, []
    if cause.id and cause.confidence:
        dots = {"high": 3, "medium": 2, "low": 1}[cause.confidence]
        meter = tag("span", "●" * dots + "○" * (3 - dots), class_="dots", aria_hidden="true")
        chips += [tag("li", tag("code", one_line(cause.id))), tag("li", meter, f" {cause.confidence} confidence")]
    if (job := diagnosis.facts.get("job_id")) is not None:
        chips.append(tag("li", f"job {one_line(str(job))}"))
    chips.append(tag("li", f"read {words.read(diagnosis)}"))
    return tag("ul", *chips, class_="chips", aria_label="In short")


def _proof(diagnosis: Diagnosis) -> list[Markup]:
    file, line, text, time = words.shown_line(diagnosis)
    first = diagnosis.first_failure
    if text is None or diagnosis.verdict == "no-failure":
        return []
    where = tag("p", tag("span", place(file, line), class_="place"), tag("span", words.clock(time)) if time else None,
                tag("span", f"first seen on rank {first.rank}") if len(first.ranks) > 1 and first.rank is not None else None,
                class_="where")  # fmt: skip
    quote = Evidence(file or "", None, text, first.rank, first.node, time, "", "", "root")
    frames = [
        tag("li", tag("span", frame.place, class_="place"), f" in {frame.function}" if frame.function else None)
        for frame in best_frames(first.traceback)
    ]
    return [where, lines(quote, None), *([tag("ul", *frames, class_="frames")] if frames else [])]


def to_do(diagnosis: Diagnosis) -> list[Markup]:
    """The fixes with their commands, what to do with the job, how to make sure, and what else to look at."""
    parts: list[Markup] = []
    if diagnosis.fixes:
        parts.append(tag("ol", *map(_fix, diagnosis.fixes), class_="fixes"))
    if retry := words.retry(diagnosis):
        parts.append(tag("p", tag("b", "Then: ", class_="label"), sentence(retry), class_="retry"))
    sure = diagnosis.cause.confidence == "high"
    checks = [tag("li", *_with_commands(check)) for check in diagnosis.verify]
    if checks:
        parts.append(fold("Make sure first" if not sure else "How to make sure", tag("ul", *checks), open_=not sure))
    asks = [
        tag("li", *((shows[:1].upper() + shows[1:] + ":", command(run)) if run else (sentence(shows),)))
        for run, shows in words.requests(diagnosis)
    ]
    if asks:
        parts.append(fold("What would tell more", tag("ul", *asks), open_=diagnosis.verdict == "unknown"))
    return parts


def _fix(fix: Remedy) -> Markup:
    reason = tag("p", sentence(fix.why), class_="reason") if fix.why else None
    source = None
    if fix.reference and (link := _PLAIN_LINK.fullmatch(fix.reference)):
        source = tag("p", tag("a", link[0], href=link[0], rel="noreferrer noopener"), class_="source")
    return tag("li", *_with_commands(fix.do), reason, source)


def _with_commands(text: str) -> list[Markup]:
    said, commands = advice(text)
    return [tag("p", said), *map(command, commands)]


def end(diagnosis: Diagnosis) -> Markup | None:
    """How the first failing process ended, and what that means."""
    text = ending(diagnosis)
    if not text:
        return None
    meaning = one_line(diagnosis.exit.meaning or "")
    text, meaning = (one_line(part)[:1].upper() + one_line(part)[1:] for part in (text, meaning))
    return tag("div", tag("p", f"{text}."), tag("p", f"{meaning}.", class_="reason") if meaning else None)
