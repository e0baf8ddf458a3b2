"""The HTML page: one file that needs no script, no network and no other file. Its words and drawings are in `templates`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from msgspec import Struct

from slurmdoctor import __version__
from slurmdoctor.model import Diagnosis, Evidence, Surroundings, ranges
from slurmdoctor.report import words
from slurmdoctor.report.exits import ending
from slurmdoctor.report.frames import best_frames
from slurmdoctor.report.jobs import Row, counted
from slurmdoctor.report.markdown_report import pieces
from slurmdoctor.report.page_drawing import Drawing
from slurmdoctor.report.quantities import delay, listed, plural
from slurmdoctor.report.redactor import disarm, one_line

_LONGEST = 4000
"""Characters of one text; the rest of a longer one is cut."""
_LARGEST = 450_000
"""Characters of the whole reports on a page of several jobs."""
_UNITS = {"gib": "GiB", "mib": "MiB", "gb": "GB", "seconds": "s", "minutes": "min", "hours": "h"}
_PLAIN_LINK = re.compile(r"https://[\w./#?=&%+~:-]+")
"""An address of the rules that is nothing but one."""


def render(diagnosis: Diagnosis) -> str:
    """The page of one job."""
    return render_page("job.html.j2", found=diagnosis, drawing=Drawing.of(diagnosis.lanes))


def render_jobs(found: Sequence[Diagnosis]) -> str:
    """One page of several jobs: a row each, and each job's own page folded below; of very many only those that failed first."""
    rows = [Row.of(one) for one in found]
    parts: Any = page_environment().get_template("job_parts.html.j2").module
    whole: dict[int, str] = {}
    room, drawn = _LARGEST, False
    for at in sorted(range(len(rows)), key=lambda at: rows[at].verdict == "no-failure"):
        drawing = Drawing.of(found[at].lanes)
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
    for function in (best_frames, delay, ending, plural, ranges):
        made.globals[function.__name__] = function
    made.globals |= {
        "version": __version__, "words": words, "place": _place, "rows_of": _rows_of,
        "proofs_of": _proofs, "later_of": _later, "notes_of": _notes,
    }  # fmt: skip
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


def _place(file: str | None, line: int | None) -> str:
    """`job.log:48211`, or nothing."""
    return "" if file is None else one_line(file) + ("" if line is None else f":{line}")


def _rows_of(traceback: Sequence[str]) -> list[str]:
    return [row.rstrip().expandtabs(4) for entry in traceback for row in disarm(entry).split("\n")]


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
    name = " ".join(_UNITS.get(word, word) for word in str(fact).split("_"))
    return name[:1].upper() + name[1:]


def _notes(found: Diagnosis) -> list[str]:
    """What is to be known of the reading."""
    seen = found.coverage
    notes = list(seen.notes)
    if seen.silent_ranks:
        notes.append(
            f"{'ranks' if len(seen.silent_ranks) > 1 else 'rank'} {ranges(seen.silent_ranks, 60)} printed nothing"
        )
    if seen.missing and words.other_record(found) is None:
        notes.append(f"not checked: {listed(seen.missing)}")
    return notes


class _Proof(Struct, frozen=True):
    """A line of the evidence, with its neighbors where they are not on the page already."""

    item: Evidence
    around: Surroundings | None
    root: bool
    """Whether it is the first failure's own line."""


def _proofs(found: Diagnosis) -> list[_Proof]:
    """The lines that prove the verdict, the best first."""
    return [one for one in _all_proofs(found) if one.root or one.item.role != "cascade"] or _all_proofs(found)[:1]


def _later(found: Diagnosis) -> list[_Proof]:
    """The lines of what came after the first failure."""
    proofs = _proofs(found)
    return [one for one in _all_proofs(found) if one not in proofs]


def _all_proofs(found: Diagnosis) -> list[_Proof]:
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
    return proofs
