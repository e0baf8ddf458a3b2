"""Learns labels that no list knows by their regularity: `[Node 2/GPU 3] `, `<stderr:3> `, `trainer-5f2 pytorch `.

A label is proven where a traceback and its frames begin behind it; or, where it counts what processes are counted by (`gpu3`), by
the share of the lines that carry it. What its numbers count is told by the words before them (`rules/texts.yaml`, `label-...`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, field

from slurmdoctor.knowledge.texts import literals, text
from slurmdoctor.model import LineFormat
from slurmdoctor.search.compiled import lazy

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
_BLANKS = lazy(r"[ \t]+(?=\S)")
_NUMBERED = lazy(r"(?<![A-Za-z])[A-Za-z]++[ =:#_-]{0,2}(?=0)")
_WORD = lazy(r"[^\W\d_]")
_ALIKE = str.maketrans("123456789", "000000000")
_MARK = "0"
"""A number in a label's shape."""


class _Candidate(Struct):
    """What is seen of labels that differ in their digits only."""

    lines: int = 0
    """Lines that look as if they carried it, but for"""
    proofs: int = 0
    """lines of tracebacks behind it, and"""
    frames: int = 0
    """how many of these are frames."""
    carried: int = 0
    """Lines that carry it, and"""
    inner: int = 0
    """how many of them have another label before it."""
    numbers: list[set[int]] = field(default_factory=list)
    """The values of each of its numbers."""

    @property
    def proven(self) -> bool:
        return self.proofs > 1 and self.frames > 0

    def see(self, line: str, shape: str, inside: bool) -> None:
        values = [int(value[:9]) for value in _DIGITS.findall(line)[: shape.count(_MARK)]]
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
    for _, rest in lines:
        behind = _BEHIND.search(rest, 0, 2 * _LONGEST)
        if behind is not None and re.search(r"\w", rest[: behind.start()]):
            candidate = seen[_shape(rest[: behind.start()])]
            candidate.proofs += 1
            candidate.frames += behind["head"] is None
        elif found := _SHAPE.match(rest):
            seen[_shape(found[0])].lines += 1
    least = max(_HANDFUL, _SHARE * total) if total > _HANDFUL else total
    usual = [s for s, one in seen.items() if one.proven or (one.lines + one.proofs >= least and _is_counted(s))]
    usual = [shape for shape in usual if len(shape) <= _LONGEST and not _COUNTER.search(shape)]
    for inside, rest in lines:
        head = _shape(rest[:_LONGEST])
        for shape in usual:
            if head.startswith(shape.rstrip(" ")):
                seen[shape].see(rest, shape, inside)
    usual.sort(key=lambda shape: -seen[shape].carried)
    return tuple(_form(shape, seen[shape], per_node) for shape in usual[:_MOST])


def _shape(label: str) -> str:
    """The label with one mark for each number, and one blank for several."""
    return _BLANKS.sub(" ", _DIGITS.sub(_MARK, label.lstrip(" ")))


def _is_counted(shape: str) -> bool:
    return _COUNTS.search(shape) is not None


def _form(shape: str, seen: _Candidate, per_node: int | None) -> LineFormat:
    bare = shape.rstrip(" ")
    parts = bare.split(_MARK)
    names = _names(bare, seen, per_node)
    made = [" *"]
    for number, part in enumerate(parts):
        if number:
            name = names[number - 1]
            made.append(rf"(?P<{name}>\d+)" if name else r"\d+")
        made.append(r"[ \t]+".join(map(re.escape, part.split(" "))))
    label = "".join(made)
    pattern = (label if any(names) else f"(?P<writer>{label})") + f" {{0,{len(shape) - len(bare)}}}"
    tag = seen.inner > seen.carried / 2 and any(names)
    return LineFormat(id=f"learnt/{shape}", pattern=pattern, writer=label if tag else "")


def _names(shape: str, seen: _Candidate, per_node: int | None) -> list[str]:
    """What each number of a label counts, by the text before it; an empty word where that is not known."""
    counts = {one.end(): one.lastgroup or "" for one in _COUNTS.finditer(shape)}
    found: list[str] = []
    for at, values in zip((n for n, one in enumerate(shape) if one == _MARK), seen.numbers, strict=True):
        name = counts.get(at, "")
        if name == "replica":
            name = "rank" if 0 in values else ""  # who counts from one counts containers
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
    heads = [line[:_LONGEST].translate(_ALIKE) for line in sample]
    numbered = set(_NUMBERED.findall("\n".join(heads)))
    counts = [word for word in numbered if _COUNTS.search(word + _MARK)]
    proofs = [literal.decode() for literal in literals("label-behind")]
    for line, head in zip(sample, heads, strict=True):
        if any(word in head for word in counts) or any(word in line for word in proofs):
            yield line


def ranks_per_node(sample: Iterable[str]) -> int | None:
    """How many ranks a node has, where the log tells one number."""
    some = (line for line in sample if "node" in line)
    told = {int(value) for line in some for found in _PER_NODE.finditer(line) for value in found.groups() if value}
    return told.pop() if len(told) == 1 else None
