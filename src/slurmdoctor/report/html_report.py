"""The HTML page: one file that needs no script, no network and no other file. Its words and drawings are in `templates`."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from slurmdoctor import __version__
from slurmdoctor.model import Diagnosis, Evidence, Frozen, RankTimelines, Surroundings, fold_nodes, ranges
from slurmdoctor.report import wording
from slurmdoctor.report.chat import pieces
from slurmdoctor.report.redaction import disarm, one_line
from slurmdoctor.report.wording import Row, counted

_LONGEST = 4000
"""Characters of one text; the rest of a longer one is cut."""
_LARGEST = 450_000
"""Characters of the whole reports on a page of several jobs."""
_UNITS = {"gib": "GiB", "mib": "MiB", "gb": "GB", "seconds": "s", "minutes": "min", "hours": "h"}
_PLAIN_LINK = re.compile(r"https://[\w./#?=&%+~:-]+")
"""An address of the rules that is nothing but one."""


def render_html(diagnosis: Diagnosis) -> str:
    """The page of one job."""
    return render_page("job.html.j2", found=diagnosis, drawing=Drawing.of(diagnosis))


def render_jobs_html(found: Sequence[Diagnosis]) -> str:
    """One page of several jobs: a row each, and each job's own page folded below; of very many only those that failed first."""
    rows = [Row.of(one) for one in found]
    parts: Any = page_environment().get_template("job_parts.html.j2").module
    whole: dict[int, str] = {}
    room, drawn = _LARGEST, False
    for at in sorted(range(len(rows)), key=lambda at: rows[at].verdict == "no-failure"):
        drawing = Drawing.of(found[at])
        own = parts.verdict(found[at], 2) + parts.details(found[at], drawing, f"job-{at}-", 3)
        room -= len(own)
        if room < 0:
            break
        whole[at], drawn = own, drawn or drawing is not None
    failed = sum(row.verdict == "failed" for row in rows)
    return render_page("jobs.html.j2", rows=rows, whole=whole, drawn=drawn, failed=failed, counted=counted(rows))


def render_page(template: str, package: str = "slurmdoctor.report", **values: Any) -> str:
    """A page of a template, in ASCII: no server and no locale can misread it."""
    page = page_environment(package).get_template(template).render(**values)
    return page.encode("ascii", "xmlcharrefreplace").decode("ascii")


@cache
def page_environment(package: str = "slurmdoctor.report") -> Environment:
    """Jinja's environment for the templates in a package's folder `templates`, which may use and extend those of this one.

    Every value that a template shows is disarmed, cut and escaped: nothing of a log becomes markup.
    """
    packages = dict.fromkeys((package, "slurmdoctor.report"))
    made = Environment(
        loader=ChoiceLoader([PackageLoader(one) for one in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = {"version": __version__, "words": wording, "proofs_of": _proofs, "fold_nodes": fold_nodes, "ranges": ranges}
    made.globals |= names
    made.filters |= {"shown": shown, "one_line": one_line, "pieces": pieces, "advice": _advice, "fact_name": _fact_name}
    made.tests["plain_link"] = lambda text: bool(text and _PLAIN_LINK.fullmatch(text))
    return made


def shown(text: str, most: int = _LONGEST) -> Markup:
    """Text of any origin as what a browser shows, never as markup."""
    safe = disarm(text[: most + 1].replace("\r", "\ufffd"))
    return escape(safe if len(safe) <= most else safe[:most] + " …")


def _shown(value: Any) -> Any:
    """What a template shows of a value."""
    if value is None:
        return ""
    return shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _advice(text: str) -> tuple[str, list[str]]:
    """A sentence, and the commands of it that stand better by themselves: one in parentheses, or one that ends it."""
    apart: list[str] = []

    def lift(found: re.Match[str]) -> str:
        apart.append(found[1] or found[2])
        return ""

    plain = re.sub(r" \(`([^` ]* [^`]*)`\)|(?<=:) `([^` ]* [^`]*)`\.?$", lift, one_line(text))
    return plain, apart


def _fact_name(fact: str) -> str:
    """`timeout_ms` as `Timeout ms`, `requested_gib` as `Requested GiB`."""
    name = " ".join(_UNITS.get(word, word) for word in fact.split("_"))
    return name[:1].upper() + name[1:]


class _Proof(Frozen):
    """A line of the evidence, with its neighbors where they are not on the page already."""

    item: Evidence
    around: Surroundings | None
    root: bool
    """Whether it is the first failure's own line."""


def _proofs(found: Diagnosis) -> tuple[list[_Proof], list[_Proof]]:
    """The lines that prove the verdict, the best first, and those of what came after the first failure."""
    around = {(item.file, item.line): item for item in found.surroundings}
    first = found.first_failure
    read: set[tuple[str, int]] = set()
    proofs = []
    for item in found.evidence:
        near = around.get((item.file, item.line))
        if near is not None and item.line is not None and near.numbered:
            known = (item.file, item.line) in read
            read |= {(item.file, n) for n in range(item.line - len(near.above), item.line + len(near.below) + 1)}
            near = None if known else near
        proofs.append(_Proof(item, near, (item.file, item.line) == (first.file, first.line)))
    telling = [one for one in proofs if one.root or one.item.role != "cascade"] or proofs[:1]
    return telling, [one for one in proofs if one not in telling]


class Drawing:
    """The rank timelines of a page, and where on it a time is."""

    def __init__(self, shown: RankTimelines) -> None:
        self.shown = shown
        self.named = any(one.ranks for one in shown.timelines)
        self.states = {span.state for one in shown.timelines for span in one.spans}
        self.kinds = {mark.kind for one in shown.timelines for mark in one.marks}
        firsts = [mark.at for one in shown.timelines if one.first for mark in one.marks if mark.kind == "first"]
        self.root = min(firsts, default=None)

    @classmethod
    def of(cls, found: Diagnosis) -> Drawing | None:
        """What is drawn; None where the log tells of no rank over time."""
        return cls(found.rank_timelines) if found.rank_timelines.timelines else None

    def percent(self, at: float) -> float:
        """A time as a place in a strip, or a duration as a part of its width."""
        return round(at / (self.shown.end - self.shown.start) * 100, 2)

    def moment(self, at: float) -> str:
        """The time of day, as the log's clock shows it."""
        return time.strftime("%H:%M:%S", time.gmtime(self.shown.start + at))
