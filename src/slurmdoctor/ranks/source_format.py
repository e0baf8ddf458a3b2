"""Learns from a sample of a source's lines which ambiguous labels it uses, and what they count.

Labels that ordinary text can look like (`6: `, `host: `) are believed only in sources where most lines carry them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from slurmdoctor.input import Source
from slurmdoctor.knowledge import text
from slurmdoctor.matching import bounded, compiled, lazy, unnamed
from slurmdoctor.model import ASSUMED_YEAR, LineFormat, SourceFormat, zone_of
from slurmdoctor.ranks.labels import LabelReader, clean
from slurmdoctor.ranks.learnt_labels import learn_labels, may_be_labelled, ranks_per_node
from slurmdoctor.search import shape_of, tag_pattern

if TYPE_CHECKING:
    pass

_SAMPLE = 96 * 1024
"""Bytes at a log's head, and as many spread over it, from which its labels are learnt;"""
_ALL_SAMPLES = 8 * 1024 * 1024
"""of all logs' heads no more than this, yet"""
_LEAST_SAMPLE = 4 * 1024
"""of each one so much, and then"""
_LINES = 40
"""so many lines, from all over the sample."""
_UNLABELLED = text("unlabelled-line")
_YEAR = lazy(r"(?<!\d)(20[12]\d)[-/][01]\d[-/][0-3]\d[T _]\d\d:\d\d")
_ZONE = lazy(
    r"(?<!\d)20[12]\d[-/][01]\d[-/][0-3]\d[T _]\d\d:\d\d:\d\d(?:[.,]\d+)?(Z|[+-](?:0\d|1[0-4]):?[0-5]\d)(?!\d)"
)
_STAMPED = 0.9
"""Share of the lines that carry a stamp where a collector prints it."""


def learn_formats(sources: Sequence[Source], labels: LabelReader, year: int | None = None) -> list[SourceFormat]:
    """What each source's lines have in common; one zone holds for all. The year may come from any of them, else it is the job's."""
    size = max(_LEAST_SAMPLE, min(_SAMPLE, _ALL_SAMPLES // max(1, len(sources))))
    most = None if size == _SAMPLE else _LINES * size // _LEAST_SAMPLE
    formats = [learn(source.sample(size, most), labels) for source in sources]
    zone = max((form.zone for form in formats if form.zone is not None), key=abs, default=None)
    formats = formats if zone is None else [replace(form, zone=zone) for form in formats]
    years = [form.year for form in formats if form.year != ASSUMED_YEAR] or ([year] if year else [])
    return [form if form.year in years else replace(form, year=years[0]) for form in formats] if years else formats


def learn(lines: Iterable[str], labels: LabelReader) -> SourceFormat:
    """What the lines of a sample have in common."""
    lines = [cleaned for line in lines if (cleaned := clean(line))]
    whole, sample = "\n".join(lines), [line for line in lines if not _UNLABELLED.match(line)]
    year = _YEAR.search(whole)
    stamped, locked = False, []
    if any(_begins_with(form, line) for line in sample for form in labels.formats if form.lock or form.stamp):
        stamps = [form for form in labels.formats if form.stamp]
        behind = [_behind(stamps, line) for line in sample]
        stamped = sum(rest is not None for rest in behind) >= max(3, _STAMPED * len(sample))
        if stamped:
            sample = [rest for rest in behind if rest and not _UNLABELLED.match(rest)]
        locked = _used(sample, labels)
    known = SourceFormat(locked=frozenset(form.id for form in locked), stamped=stamped)
    per_node = ranks_per_node(sample)
    return SourceFormat(
        locked=known.locked,
        outer_rank_is_local=any(_differs_in_twos(form, sample) for form in labels.formats if form.outer_is_local),
        label_is_node=any(_counts_launchers(form, sample, labels.formats) for form in locked if form.launcher),
        year=int(year[1]) if year else ASSUMED_YEAR,
        zone=_zone(whole),
        stamped=stamped,
        learnt=learn_labels(list(_without_known(sample, labels, known)), len(sample), per_node),
        per_node=per_node,
    )


def _zone(sample: str) -> int | None:
    """The zone that stamps name: any but UTC; UTC where most name it, since beside a local clock it is only some library's."""
    named = _ZONE.findall(sample)
    farthest = max(map(zone_of, set(named)), key=abs, default=None)
    return farthest if farthest or 2 * len(named) >= len(_YEAR.findall(sample)) else None


def _without_known(sample: Sequence[str], labels: LabelReader, known: SourceFormat) -> Iterator[tuple[bool, str]]:
    """The lines that may have an unknown label without the known ones, and whether they had any."""
    known_to: dict[bytes, int] = {}
    for line in may_be_labelled(sample):
        alike = shape_of(line)
        if alike not in known_to:
            known_to[alike] = labels.label_end(line, known)
        yield known_to[alike] > 0, line[known_to[alike] :]


def _begins_with(form: LineFormat, line: str) -> bool:
    """In a log that has no stamp and no ambiguous label at the head of any line there is little to learn."""
    return form.may_begin(line) and compiled(form.pattern).match(line) is not None


def _behind(stamps: Sequence[LineFormat], line: str) -> str | None:
    """What stands behind a collector's stamp; None where there is none."""
    found = (compiled(form.pattern).match(line) for form in stamps if form.may_begin(line))
    return next((line[one.end() :] for one in found if one), None)


def _used(sample: Sequence[str], labels: LabelReader) -> list[LineFormat]:
    """The ambiguous labels that enough lines carry."""
    begun: dict[str, list[str]] = {}
    for line in sample:
        begun.setdefault(line[:4], []).append(line)
    able: dict[str, list[str]] = {}
    for beginning, lines in begun.items():
        for form in labels.able(beginning):
            if form.lock:
                able.setdefault(form.id, []).extend(lines)
    return [form for form in labels.formats if form.lock and _is_used(form, able.get(form.id, ()), len(sample))]


def _is_used(form: LineFormat, lines: Sequence[str], total: int) -> bool:
    """Whether enough lines of a sample carry a label; `lines` are those that can."""
    match = compiled(form.pattern).match
    matched = [found for line in lines if (found := match(line))]
    few = total <= 2 and len(matched) == total
    if not matched or (len(matched) < max(2, form.lock * total) and not few):
        return False
    if form.groups != {"node"}:
        return True
    # `error: ` at the head of many lines is no host: hosts are few, and have numbers
    hosts = {found["node"] for found in matched}
    return len(hosts) <= max(2, total // 3) and all(any(c.isdigit() for c in host) for host in hosts)


def _differs_in_twos(form: LineFormat, sample: Sequence[str]) -> bool:
    """Whether a label stands twice on a line, with two ranks: `[rank4]:[rank12]:`."""
    twice = f"(?:{form.writer or form.pattern}:?){{2}}"
    if not compiled(unnamed(twice)).search(
        "\n".join(sample)
    ):  # true of nearly all logs, of which there may be thousands
        return False
    return any(len(set(found.captures("rank"))) > 1 for line in sample if (found := bounded(twice).search(line)))


def _counts_launchers(form: LineFormat, sample: Sequence[str], formats: Sequence[LineFormat]) -> bool:
    """Whether a label's number is no rank: the tags behind it name other ranks, or a launcher of several ranks prints."""
    label, tag = compiled(form.pattern), compiled(tag_pattern(formats))
    differs = agrees = 0
    for line in sample:
        if not (outer := label.match(line)) or not (inner := tag.match(line, outer.end())):
            continue
        groups = inner.groupdict()
        if groups["rank"] is not None:
            same = int(outer["rank"]) == int(groups["rank"])
            agrees, differs = agrees + same, differs + (not same)
        elif groups["local_rank"] is not None:
            return True
    if differs or agrees:
        return differs > agrees
    prints = compiled(form.launcher)
    return any(label.match(line) and prints.search(line) for line in sample)
