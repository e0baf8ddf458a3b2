"""The HTML page: one file that needs no script, no network and no other file; `page` holds its parts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from slurmdoctor.model import Diagnosis
from slurmdoctor.report import words
from slurmdoctor.report.jobs import Row, counted
from slurmdoctor.report.page import aside, quotes, ranks, several, strips, verdict
from slurmdoctor.report.page.skeleton import document
from slurmdoctor.report.page.tags import Markup, fold, tag
from slurmdoctor.report.page.tags import section as part

_LARGEST = 450_000
"""Characters of the whole reports on a page of several jobs."""


def render(diagnosis: Diagnosis) -> str:
    """The page, in ASCII: no server and no locale can misread it."""
    title = f"{words.mark(diagnosis)} {words.headline(diagnosis)}"
    return _page(title, verdict.head(diagnosis), tag("div", *parts(diagnosis), id="details"))


def render_jobs(found: Sequence[Diagnosis]) -> str:
    """One page of several jobs: a row each, and each job's own page folded below; of very many only those that failed first."""
    rows = [Row.of(one) for one in found]
    whole: dict[int, Markup] = {}
    room = _LARGEST
    for at in sorted(range(len(rows)), key=lambda at: rows[at].verdict == "no-failure"):
        own = (verdict.head(found[at], level=2), *parts(found[at], f"job-{at}-", level=3))
        room -= sum(map(len, own))
        if room < 0:
            break
        whole[at] = several.job(at, rows[at], *own)
    folded = (whole[at] for at in sorted(whole))
    return _page(counted(rows), several.head(rows), tag("div", several.table(rows, whole), *folded, id="details"))


def parts(diagnosis: Diagnosis, prefix: str = "", level: int = 2) -> list[Markup]:
    """The page's parts below the verdict, each under its heading; `prefix` begins their names where a page holds several jobs."""
    drawn, told = ranks.lanes_of(diagnosis), ranks.table(diagnosis.ranks)
    if drawn and told:
        told = fold("The same as a table", told)
    section = partial(part, prefix=prefix, level=level)
    found = [
        section("fix", "What to do", *verdict.to_do(diagnosis), class_="card"),
        section("ranks", ranks.heading(diagnosis), drawn, told),
        section("spread", "How it spread", aside.spread(diagnosis)),
        section("evidence", "Evidence", *quotes.evidence(diagnosis)),
        section("end", "How the process ended", verdict.end(diagnosis)),
        section("why", "Why this verdict", aside.why(diagnosis)),
        section("also", "Also considered", *aside.also(diagnosis)),
        section("job", "The job", aside.facts(diagnosis)),
    ]
    return [shown for shown in found if shown]


def _page(title: str, *body: Markup) -> str:
    drawn = any('class="strip"' in shown for shown in body)
    return document(title, *body, drawings=strips.definitions() if drawn else None)
