"""The page's evidence: each line that proves the verdict among its neighbours, and the traceback."""

from __future__ import annotations

from slurmdoctor.model import Diagnosis, Evidence, FirstFailure, Surroundings
from slurmdoctor.report import words
from slurmdoctor.report.page.tags import Markup, escape, fold, place, tag
from slurmdoctor.report.quantities import plural
from slurmdoctor.report.redactor import disarm, one_line

_LONGEST = 1000
"""Characters of a line; of the quoted one more."""
_OPEN = 2
"""Lines of evidence that are shown before one asks for more."""
_ROLES = {
    "root": "the same cause",
    "confirmation": "confirms it",
    "hint": "points to it",
    "cascade": "came after it",
    "either": "a symptom",
}


def evidence(diagnosis: Diagnosis) -> list[Markup]:
    """The lines of the evidence, the best first, then the whole traceback."""
    around = {(item.file, item.line): item for item in diagnosis.surroundings}
    first = diagnosis.first_failure
    proofs: list[Markup] = []
    later: list[Markup] = []
    read: set[tuple[str, int]] = set()
    for item in diagnosis.evidence:
        root = (item.file, item.line) == (first.file, first.line)
        near = around.get((item.file, item.line))
        if near is not None and item.line is not None and near.numbered:
            known = (item.file, item.line) in read  # its neighbors stand on the page already
            read |= {(item.file, n) for n in range(item.line - len(near.above), item.line + len(near.below) + 1)}
            near = None if known else near
        shown = _item(item, near, root=root)
        (later if proofs and not root and item.role == "cascade" else proofs).append(shown)
    if more := proofs[_OPEN:]:
        proofs = [*proofs[:_OPEN], fold(f"{plural(len(more), 'more line')} of evidence", *more)]
    if later:
        later = [fold(f"{plural(len(later), 'line')} of what came after it", *later)]
    return [*proofs, *_traceback(first), *later]


def _item(item: Evidence, around: Surroundings | None, *, root: bool) -> Markup:
    role = ("the root cause" if item.role == "root" else "the first sign of it") if root else _ROLES.get(item.role, "")
    rank = None if item.rank is None else f"rank {item.rank}"
    node = None if item.node is None else one_line(item.node)
    about = [
        words.clock(time) if (time := item.clock or item.time) else "",
        " on ".join(filter(None, (rank, node))),
        one_line(item.cause or ""),
    ]
    caption = tag(
        "figcaption",
        tag("b", place(item.file, item.line), class_="place"),
        tag("span", "  ".join(filter(None, about)), class_="about"),
        tag("span", role, class_="role root" if root else "role") if role else None,
    )
    return tag("figure", caption, lines(item, around))


def lines(item: Evidence, around: Surroundings | None) -> Markup:
    """The line, highlighted, with its neighbours and their numbers."""
    quoted = _line(item.line, item.text, told=True)
    if around is None:
        return tag("pre", quoted, class_="log")
    above, below = around.above, around.below
    number = item.line if around.numbered else None
    rows = [_line(number and number - len(above) + at, text) for at, text in enumerate(above)]
    rows += [quoted, *(_line(number and number + 1 + at, text) for at, text in enumerate(below))]
    return tag("pre", *rows, class_="log")


def _line(number: int | None, text: str, told: bool = False) -> Markup:
    shown = escape(disarm(text.expandtabs(4)).replace("\n", " ") or " ", _LONGEST * (4 if told else 1))
    body = tag("mark", shown) if told else shown
    numbered = tag("span", "" if number is None else str(number), class_="n")
    return tag("span", numbered, tag("span", body, class_="t"), class_="l told" if told else "l")


def _traceback(first: FirstFailure) -> list[Markup]:
    if not first.traceback:
        return []
    rows = [row.rstrip().expandtabs(4) for entry in first.traceback for row in disarm(entry).split("\n")]
    summary = f"Traceback, {plural(len(rows), 'line')}"
    return [fold(summary, tag("pre", escape("\n".join(rows), 60_000), class_="log plain"))]
