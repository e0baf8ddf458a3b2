"""Learns labels that no list knows by their regularity: `[Node 2/GPU 3] `, `<stderr:3> `, `trainer-5f2 pytorch `.

A label is proven where a traceback and its frames begin behind it; or, where it counts what processes are counted by (`gpu3`), by
the share of the lines that carry it. What its numbers count is told by the words before them (`rules/texts.yaml`, `label-...`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from slurmdoctor.input import Source
from slurmdoctor.knowledge import literals, text
from slurmdoctor.matching import bounded, compiled, lazy, unnamed
from slurmdoctor.model import ASSUMED_YEAR, LineFormat, SourceFormat, zone_of
from slurmdoctor.ranks.labels import LabelReader, clean
from slurmdoctor.search import shape_of, tag_pattern

_BEHIND = text("label-behind")
_SHAPE = text("label-shape")
_COUNTS = text("label-counts")
_COUNTER = text("label-counter")
_PER_NODE = text("ranks-per-node")
_LONGEST = 64
"""Characters of a label."""
_SHARE = 0.3
"""Share of the lines that carry an unproven label; of a handful of lines all."""
_HANDFUL = 2
_MOST = 4
"""Labels that one source is believed to use besides the known ones."""
_DIGITS = lazy(r"\d+")
_BLANKS = lazy(r"(?<![ \t])[ \t]++(?=\S)")
_NUMBERED = re.compile(r"(?<![A-Za-z])[A-Za-z]+[ =:#_-]{0,2}(?=0)")
"""Asked of each head: `re` is several times as fast as `regex`."""
_WORD = lazy(r"[^\W\d_]")
_ALIKE = str.maketrans("123456789", "000000000")
_MARK = "0"
"""A number in a label's shape."""
_HOST = lazy(r"(?<![\w.-])(?P<host>[A-Za-z][\w.-]*0)[\]):,>| ]{1,3}[\[(<]?0[\])>:| ]*$")
"""A name with a number, and a number of its own behind it: `[gpu0][0]`."""
_MOST_TUPLES = 4096


class _Candidate(Struct):
    """What is seen of labels that differ in their digits only."""

    lines: int = 0
    """Excerpts that look as if they carried it, but for"""
    proofs: int = 0
    """lines of tracebacks behind it, and"""
    frames: int = 0
    """how many of these are frames."""
    carried: int = 0
    """Excerpts that carry it, and"""
    inner: int = 0
    """how many of them have another label before it."""
    numbers: list[set[int]] = field(default_factory=list)
    """The values of each of its numbers."""
    together: set[tuple[int, ...]] = field(default_factory=set)
    """The values that stand together in one label."""
    padded: set[int] = field(default_factory=set)
    """Which of its numbers has zeros before it: that of a host's name."""

    @property
    def proven(self) -> bool:
        return self.proofs > 1 and self.frames > 0

    def see(self, line: str, shape: str, inside: bool) -> None:
        digits = _DIGITS.findall(line)[: shape.count(_MARK)]
        if len(digits) < shape.count(_MARK):  # the line itself holds the mark
            return
        values = [int(value[:9]) for value in digits]
        self.padded |= {n for n, value in enumerate(digits) if value[0] == "0" and len(value) > 1}
        if len(self.together) < _MOST_TUPLES:
            self.together.add(tuple(values))
        self.carried += 1
        self.inner += inside
        self.numbers = self.numbers or [set() for _ in values]
        for known, value in zip(self.numbers, values, strict=True):
            known.add(value)


def learn_labels(lines: Sequence[tuple[bool, str]], total: int, per_node: int | None) -> tuple[LineFormat, ...]:
    """The labels of a source, from those of its lines that may have one, without the labels that are known, each with whether it had one.

    `total` is the number of all lines, `per_node` the ranks of a node, where the log tells them.
    """
    seen: dict[str, _Candidate] = defaultdict(_Candidate)
    proofs = _proofs()
    for _, rest in lines:
        told = any(word in rest for word in proofs)
        behind = _BEHIND.search(rest, 0, 2 * _LONGEST) if told else None
        if behind is not None and re.search(r"\w", rest[: behind.start()]):
            candidate = seen[_shape(rest[: behind.start()])]
            candidate.proofs += 1
            candidate.frames += behind["head"] is None
        elif found := _SHAPE.match(rest):
            seen[_shape(found[0])].lines += 1
    least = max(_HANDFUL, _SHARE * total) if total > _HANDFUL else total
    usual = [s for s, one in seen.items() if one.proven or (one.lines + one.proofs >= least and _is_counted(s))]
    usual = [shape for shape in usual if len(shape) <= _LONGEST and not _COUNTER.search(shape)]
    for inside, rest in lines if usual else ():
        head = _shape(rest[:_LONGEST])
        for shape in usual:
            if head.startswith(shape.rstrip(" ")):
                seen[shape].see(rest, shape, inside)
    usual = sorted((shape for shape in usual if seen[shape].carried), key=lambda shape: -seen[shape].carried)
    longest = sorted(usual[:_MOST], key=lambda shape: -len(shape))  # `[gpu0][0]` before `[gpu0]`
    return tuple(_form(shape, seen[shape], per_node) for shape in longest)


def _shape(label: str) -> str:
    """The label with one mark for each number, and one blank for several."""
    return _BLANKS.sub(" ", _DIGITS.sub(_MARK, label.lstrip(" ")))


def _is_counted(shape: str) -> bool:
    return _COUNTS.search(shape) is not None


def _form(shape: str, seen: _Candidate, per_node: int | None) -> LineFormat:
    bare = shape.rstrip(" ")
    names, host = _names(bare, seen, per_node), None
    if told := _behind_a_host(bare, names, seen):
        names, host = told
    label = " *" + _written(bare, names, host)
    pattern = (label if any(names) else f"(?P<writer>{label})") + f" {{0,{len(shape) - len(bare)}}}"
    tag = seen.inner > seen.carried / 2 and any(names)
    return LineFormat(id=f"learnt/{shape}", pattern=pattern, writer=label if tag else "")


def _written(shape: str, names: Sequence[str], host: tuple[int, int] | None) -> str:
    """A pattern for the labels of a shape, in which the numbers, and the host, have their names."""
    made: list[str] = []
    left = iter(names)
    for at, char in enumerate(shape):
        if host is not None and at == host[0]:
            made.append("(?P<node>")
        if char == _MARK:
            name = next(left)
            made.append(rf"(?P<{name}>\d+)" if name else r"\d+")
        else:
            made.append(r"[ \t]+" if char == " " else re.escape(char))
        if host is not None and at == host[1] - 1:
            made.append(")")
    return "".join(made)


def _behind_a_host(shape: str, names: Sequence[str], seen: _Candidate) -> tuple[list[str], tuple[int, int]] | None:
    """The names of a label's numbers, and where its host stands: the last number is a rank where no two hosts share one."""
    found = _HOST.search(shape)
    first = shape.count(_MARK, 0, found.start("host")) if found else 0
    if found is None or names[-1] or not {*names[first:]} <= {"", "local_rank", "node_rank"}:
        return None
    hosts_of: dict[int, set[tuple[int, ...]]] = defaultdict(set)
    for values in seen.together:
        hosts_of[values[-1]].add(values[first:-1])
    hosts = set().union(*hosts_of.values())
    of_all = len(hosts) > 1 and 0 in hosts_of and all(len(one) == 1 for one in hosts_of.values())
    last = "rank" if of_all else ""
    return [*names[:first], *[""] * (len(names) - first - 1), last], found.span("host")


def _names(shape: str, seen: _Candidate, per_node: int | None) -> list[str]:
    """What each number of a label counts, by the text before it; an empty word where that is not known."""
    counts = {one.end(): one.lastgroup or "" for one in _COUNTS.finditer(shape)}
    found: list[str] = []
    for at, values in zip((n for n, one in enumerate(shape) if one == _MARK), seen.numbers, strict=True):
        name = counts.get(at, "")
        if name == "replica":
            name = "rank" if 0 in values else ""  # who counts from one counts containers
        if name in ("local_rank", "node_rank") and len(found) in seen.padded:
            name = ""
        found.append("" if name in found else name)
    if found and not counts and not _WORD.search(shape):
        of_all = len(found) == 1 or ("0/0" in shape and len(seen.numbers[1]) == 1)  # `[3] `, `[3/8] `
        return ["rank", *found[1:]] if of_all else found
    if "node_rank" in found and "local_rank" in found and per_node is None:
        one = seen.numbers[found.index("node_rank")] == {0}
        return found if one else ["" if name == "local_rank" else name for name in found]
    return found


def may_be_labelled(sample: Sequence[str]) -> Iterator[str]:
    """The lines in which an unknown label is worth looking for: few have what proves one, or a process's number."""
    # all at once, and each head once: of a thousand lines a few dozen heads differ in more than digits
    heads = "\n".join([line[:_LONGEST] for line in sample]).translate(_ALIKE).split("\n") if sample else []
    numbered = set(_NUMBERED.findall("\n".join(dict.fromkeys(heads))))
    counts = [word for word in numbered if _COUNTS.search(word + _MARK)]
    whole = "\n".join(sample)
    proofs = [word for word in _proofs() if word in whole]
    proven = [any(word in line for word in proofs) for line in sample] if proofs else [False] * len(sample)
    before = {head.partition(_MARK)[0] for head, proof in zip(heads, proven, strict=True) if proof and _MARK in head}
    begins = tuple(word for word in before if word.strip() and len(word) < _LONGEST)
    named: dict[str, bool] = {}
    for line, head, proof in zip(sample, heads, proven, strict=True):
        if head not in named:
            named[head] = head.startswith(begins) or any(word in head for word in counts)
        if proof or named[head]:
            yield line


def _proofs() -> list[str]:
    """Words that stand in each line that proves a label."""
    return [literal.decode() for literal in literals("label-behind")]


def ranks_per_node(sample: Iterable[str]) -> int | None:
    """How many ranks a node has, where the log tells one number."""
    some = (line for line in sample if "node" in line)
    told = {int(value) for line in some for found in _PER_NODE.finditer(line) for value in found.groups() if value}
    return told.pop() if len(told) == 1 else None


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
