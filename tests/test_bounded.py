"""Whatever a log holds, what is read again of it is bounded, what matters is read first, and the report says what was not."""

import cProfile
from random import Random
from typing import cast

import pytest
from msgspec import Struct

from builders import KNOWLEDGE
from hostile import word
from slurmdoctor import diagnose
from slurmdoctor.input.sources import Text
from slurmdoctor.model import Entry, Matcher, MatchGroup, Observations, UserError, Writer
from slurmdoctor.ranks.excerpts import MOST, Excerpts
from slurmdoctor.ranks.labels import LabelReader, learn_formats
from slurmdoctor.readers import targets
from slurmdoctor.readers.assembly import assemble
from slurmdoctor.readers.targets import find_lines
from tables import table

# ── logs of any shape, and the work of a diagnosis of one, counted in calls: the same on every machine ──

SHAPES = table("log_shapes")
LABELS, STAMPS = SHAPES["labels"], SHAPES["stamps"]
MESSAGES = [*SHAPES["messages"], "a" * 5000, "Error: " * 600]


class Shape(Struct, frozen=True):
    """Lines that come in turns, or one after another in stretches, and what ends each."""

    lines: tuple[str, ...]
    end: str = "\n"
    mixed: bool = True

    def log(self, size: int) -> str:
        """A log of this shape, of so many bytes."""
        parts: list[str] = []
        total = n = 0
        while total < size:
            at = n % len(self.lines) if self.mixed else min(len(self.lines) - 1, total * len(self.lines) // size)
            w = word(n * 7919 % 26**4)
            clock, address = f"{n // 60 % 60:02d}", f"{n * 2654435761 % 2**32:08x}"
            line = self.lines[at].format(n=n, m=n % 64, c=clock, h=address, w=w, x=word(n), W=w.capitalize())
            parts.append(line + self.end)
            total += len(parts[-1])
            n += 1
        return "".join(parts)


def shape(dice: Random) -> Shape:
    """A shape of some lines, each of a label, a stamp and a message."""
    lines = ("".join(map(dice.choice, (LABELS, STAMPS, MESSAGES))) for _ in range(dice.choice((1, 1, 2, 3, 4))))
    return Shape(tuple(lines), dice.choice(("\n", "\n", "\n", "\r", "\r\n")), dice.random() < 0.7)


def work(log: bytes) -> int:
    """The work of one diagnosis: functions of Python called, and patterns tried."""
    profile = cProfile.Profile()
    profile.enable()
    try:
        diagnose(log)
    except UserError:
        pass
    finally:
        profile.disable()
    counts = ((entry.callcount, entry.code) for entry in profile.getstats())
    return sum(count for count, code in counts if not isinstance(code, str) or "_regex.Pattern" in code)


SIZE = 32 * 1024
A_BYTE = 10
"""Functions called and patterns tried for each byte that a log is longer,"""
AT_MOST = 200_000
"""and for all that is bounded by itself: what is read again, and inference."""


@pytest.mark.parametrize("seed", range(3))
def test_the_work_grows_with_the_bytes_whatever_they_are(seed: int) -> None:
    one = shape(Random(seed))
    small, large = one.log(SIZE // 4).encode(), one.log(SIZE).encode()
    work(large)  # what is compiled once is not counted
    more = work(large) - work(small)
    assert more <= AT_MOST + A_BYTE * (len(large) - len(small))


# ── what is read again ──


def read_again(text: str) -> tuple[Observations, Excerpts]:
    """What the readers make of a log, and the lines that they read."""
    sources, labels = [Text.source(text)], LabelReader(KNOWLEDGE.formats)
    formats = learn_formats(sources, labels)
    found = find_lines(sources, KNOWLEDGE, labels, formats, 1, None)
    lines = Excerpts(sources, found, labels, formats)
    return assemble(found, lines, KNOWLEDGE), lines


KINDS = {
    "classes": "{W}Error: {w}",
    "messages": "RuntimeError: {w} {w}",
    "stamped": "2026-11-20 12:01:03,114 ERROR {w}: {w}Error: 3",
    "of-ranks": "[rank{n}]: {W}Error: {w}",
}
"""Lines that are all kinds of their own."""


@pytest.mark.slow
@pytest.mark.parametrize("line", KINDS.values(), ids=KINDS)
def test_one_known_failure_among_thousands_of_kinds_is_the_root_and_what_was_not_told_apart_is_told(line: str) -> None:
    lines = [line.format(n=n, w=word(n), W=word(n).capitalize()) for n in range(4000)]
    lines.insert(2000, "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    found = diagnose("\n".join(lines) + "\n")
    assert (found.cause.id, found.first_failure.rank, found.first_failure.line) == ("cuda-oom", 3, 2001)
    assert any("more lines were grouped by exception class only" in note for note in found.coverage.notes)


def test_a_tracebacks_end_is_not_looked_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cast("dict[str, int]", MOST), "tracebacks", 5_000)
    between = "[rank77]: the loader has read one more shard\n" * 40
    text = "".join(f"[rank{n % 64}]: Traceback (most recent call last):\n{between}" for n in range(768))
    lines = read_again(text)[1]
    assert lines.meter.done < 2 * 5_000
    assert any("not all text around" in note for note in diagnose(text).coverage.notes)


def test_exit_reports_name_no_more_tasks_than_a_few_jobs_have() -> None:
    text = "".join(f"srun: error: node{n}: tasks 0-{n + 60_000}: Killed\n" for n in range(40))
    observed = read_again(text)[0]
    assert sum(len(report.tasks) for report in observed.reports) <= 2 * 65_536
    assert any("38 exit reports were skipped" in note for note in diagnose(text).coverage.notes)


def group_of(target: object, writers: int, lines: int) -> MatchGroup:
    """Of so many writers so many lines each, all kept, in turns."""

    def entry(at: int) -> Entry:
        places = [at + number * writers for number in range(lines)]
        return [lines, 0, at, places, places, places]

    entries: dict[Writer, list[Entry]] = {(0, b"%d" % at): [entry(at)] for at in range(writers)}
    return MatchGroup(Matcher(target, "made", (), keep=lines), "", entries)  # type: ignore[arg-type]


@pytest.mark.parametrize(("writers", "lines"), [(64, 6000), (30_000, 1)])
def test_of_too_many_exit_reports_the_first_and_the_last_are_read(writers: int, lines: int) -> None:
    plan = targets.plan_reading([group_of(KNOWLEDGE.exit_reports[0], writers, lines)])
    read = [place.offset for place in plan.places]
    assert len(read) <= targets.MOST["reports"]
    assert {0, writers * lines - 1} <= set(read)
    (note,) = plan.notes
    assert (note.values["count"], note.values["total"]) == (writers * lines - len(read), writers * lines)


def test_every_rule_is_read_before_a_second_line_of_another() -> None:
    rules = KNOWLEDGE.rules[:300]
    plan = targets.plan_reading([group_of(rule, 60, 12) for rule in rules])
    assert len(plan.places) <= targets.MOST["rules"]
    assert {id(place.target) for place in plan.places} == set(map(id, rules))
    assert plan.notes
