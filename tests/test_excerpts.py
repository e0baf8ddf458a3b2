"""A line's neighbors are found among thousands of other ranks' lines, no farther than it is worth, and each is read once."""

from collections import Counter
from pathlib import Path

import pytest

from builders import KNOWLEDGE, event
from slurmdoctor import diagnose
from slurmdoctor.input.sources import Source, Text
from slurmdoctor.model import Line, Origin, SearchResult, SourceFormat
from slurmdoctor.ranks.excerpts import Excerpts
from slurmdoctor.ranks.labels import LabelReader, learn_formats, may_be_stamped
from slurmdoctor.readers.last_words import collect_last_words

READER = LabelReader(KNOWLEDGE.formats)
LABELLED = SourceFormat(frozenset({"srun-label"}))
CHATTER = "the loader has read one more shard of its part of the corpus"


def _last(text: str, traits: SourceFormat) -> tuple[Excerpts, Line]:
    """The lines of a text, and the last one of them."""
    source = Text.source(text)
    for _ in source.blocks():
        pass
    lines = Excerpts([source], SearchResult((), (), lambda line: []), READER, [traits])
    return lines, lines.at(0, text.encode().rfind(b"\n", 0, -1) + 1)


def _time_of_last(text: str, traits: SourceFormat = LABELLED) -> str | None:
    lines, last = _last(text, traits)
    above = lines.stamped_before(last, last.label)
    return None if above is None else above.raw


STAMP, END = "2026-11-21 09:00:00 step 7", "1: KeyError: 'x'\n"
AMONG_RANKS = "".join(f"{10 * k + 1}: 2026-11-21 10:00:00 {CHATTER}\n" for k in range(1, 5000))
FAR = "".join(f"{k}: {CHATTER}\n" for k in range(2, 20_000))
OWN = f"1: {CHATTER}\n"
TIMES = {
    "among ranks whose labels end alike": (f"1: {STAMP}\n{AMONG_RANKS}{END}", f"1: {STAMP}"),
    "not without end": (f"1: {STAMP}\n{FAR}{END}", None),
    "not above sixty lines of its own": (f"1: {STAMP}\n{OWN * 60}{END}", None),
    "above fewer": (f"1: {STAMP}\n{OWN * 59}{END}", f"1: {STAMP}"),
    "another rank's": (f"2: {STAMP}\n{END}", None),
    "another rank's, which names the writer": (f"2: {STAMP} seen by 1: yes\n{END}", None),
    "nothing above": (END, None),
}


@pytest.mark.parametrize("case", TIMES)
def test_a_writers_time_is_found_where_it_is_near_and_its_own(case: str) -> None:
    text, stamped = TIMES[case]
    assert _time_of_last(text) == stamped


def test_a_log_without_labels_has_one_writer() -> None:
    assert _time_of_last(f"{STAMP}\n{CHATTER}\nKeyError: 'x'\n", SourceFormat()) == STAMP


def _below(text: str, limit: int) -> tuple[list[str], int]:
    """The lines of its writer below the first line, and the work of finding them."""
    lines, _ = _last(text, LABELLED)
    first = lines.at(0, 0)
    before = lines.meter.done
    return [line.raw for line in lines.after(first, limit)], lines.meter.done - before


def test_lines_of_others_are_passed_over_downwards_in_one_go() -> None:
    crowd = "".join(f"{k}: {CHATTER} of 1: too\n" for k in range(2, 3000))
    own = ["1:   File 'train.py', line 3", "1: KeyError: 'x'"]
    found, work = _below(f"1: Traceback\n{own[0]}\n{crowd}{own[1]}\n", 400)
    assert found == own
    assert work < 500


@pytest.mark.parametrize("between", [15, 16])
def test_lines_that_are_passed_over_count_as_lines_that_were_looked_at(between: int) -> None:
    crowd = "".join(f"{k}: {CHATTER}\n" for k in range(2, 2 + between))
    assert _below(f"1: Traceback\n{crowd}1: KeyError: 'x'\n", 2)[0] == ["1: KeyError: 'x'"] * (between < 16)


def test_the_next_line_is_found_below_long_lines_and_pages() -> None:
    long = f"2: {'w ' * 200_000}1: no\n"
    found = _below(f"1: Traceback\n{long}1: one\n3: 1: no\n{long}1: two\n11: no\n1: three", 40)[0]
    assert found == ["1: one", "1: two", "1: three"]


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_the_lines_above_come_nearest_first_and_whole(ends: str) -> None:
    text = "".join(f"{k % 20}: line {k} {CHATTER}{ends}" for k in range(3000))
    lines, last = _last(text, LABELLED)
    assert [int(line.text.split()[1]) for line in lines.before(last, 5)] == [2979, 2959, 2939, 2919, 2899]
    assert [int(line.text.split()[1]) for line in lines.above(last, 3)] == [2998, 2997, 2996]
    assert all(line.raw.endswith(CHATTER) for line in lines.before(last, 5))
    assert list(lines.before(lines.at(0, 0))) == []


def test_what_may_hold_a_time_is_looked_at() -> None:
    stamps = ("2026-11-21 09:24:45,860", "[rank3]:[E321 02:07:08.41 ProcessGroupNCCL.cpp:607]", "Apr 14 21:02:39")
    for stamp in (*stamps, "\x1b[32m09:40:\x1b[1m43\x1b[0m", "09:40:\x0043"):
        assert may_be_stamped(f"{stamp} x".encode()), stamp
    assert not may_be_stamped(b"1: iteration 10:20 of 99 | loss 2.31")


LOGS = Path(__file__).parent / "fixtures"


def test_each_log_is_read_again_once_and_each_line_taken_apart_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over fixtures: bytes read again after the search, and labels stripped of each line that starts at a place."""
    work: Counter[object] = Counter()
    plain_read, plain_line, plain_strip = Source.read, Excerpts.line, LabelReader.strip_labels

    def read(source: Source, offset: int, size: int) -> bytes:
        data = plain_read(source, offset, size)
        work["bytes"] += len(data)
        return data

    def line(lines: Excerpts, source: int, offset: int, data: bytes) -> Line:
        monkeypatch.setattr(
            LabelReader, "strip_labels", lambda *given: work.update([(source, offset)]) or plain_strip(*given)
        )
        try:
            return plain_line(lines, source, offset, data)
        finally:
            monkeypatch.setattr(LabelReader, "strip_labels", plain_strip)

    monkeypatch.setattr(Source, "read", read)
    monkeypatch.setattr(Excerpts, "line", line)
    for truth in sorted(LOGS.rglob("truth.yaml"))[::6]:
        logs = [path for path in truth.parent.iterdir() if path.suffix in (".log", ".out", ".err")]
        work.clear()
        diagnose([str(path) for path in logs]) if logs else None
        assert work["bytes"] <= 1.1 * sum(path.stat().st_size for path in logs), truth
        del work["bytes"]
        often = [place for place, count in work.items() if count > 1]
        assert len(often) <= any(b"\r" in path.read_bytes() for path in logs), truth  # a bar is read by its pieces, too


def test_a_log_that_grows_is_read_on() -> None:
    source = Text.source("1: a\n1: b\n1: c\n")
    for _ in source.blocks():
        pass
    whole, source.length = source.length, 8
    lines = Excerpts([source], SearchResult((), (), lambda line: []), READER, [LABELLED])
    assert [line.raw for line in lines.after(lines.at(0, 0))] == ["1: "]
    source.length = whole
    assert [line.raw for line in lines.after(lines.at(0, 0))] == ["1: b", "1: c"]


# ── what each rank printed last before the others waited for it ──

WAIT = "[rank0]:[E1121 09:24:45.1 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)"


def told(log: str) -> dict[int, str]:
    """Each rank's last words around the wait that this log shows."""
    lines, _ = _last(log, learn_formats([Text.source(log)], READER)[0])
    wait = event("collective-timeout", at=log.index(WAIT), rank=0)
    return {rank: line.raw for rank, line in collect_last_words([wait], KNOWLEDGE, lines).items()}


@pytest.mark.parametrize("label", ["[rank{}]: ", "{}: ", "2026-11-21 09:00:00,123 [rank {}] ", "[1,{}]<stderr>:"])
def test_the_last_line_of_each_rank_counts(label: str) -> None:
    lines = [label.format(rank) + f"shard {n} read" for n in range(40) for rank in range(3)]
    lines.append(label.format(1) + "waiting for the archive")
    found = told("\n".join([*lines, WAIT, label.format(2) + "shard 40 read"]) + "\n")
    assert found[1] == label.format(1) + "waiting for the archive"
    assert found[2] == label.format(2) + "shard 40 read"


def test_what_a_rank_prints_of_its_end_tells_nothing() -> None:
    found = told(f"[rank1]: shard 3 read\n\n{WAIT}\n{WAIT.replace('ank0', 'ank1').replace('ank 0', 'ank 1')}\n")
    assert found == {1: "[rank1]: shard 3 read"}


def test_ranks_whose_last_words_are_known_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    plain = LabelReader.strip_labels

    def strip_labels(reader: LabelReader, line: str, source: SourceFormat | None = None) -> tuple[Origin, str]:
        read.append(line)
        return plain(reader, line, source)

    monkeypatch.setattr(LabelReader, "strip_labels", strip_labels)
    found = told("".join(f"[rank{n % 8}]: shard {n} read\n" for n in range(8000)) + WAIT + "\n")
    assert found.keys() == set(range(8))
    assert len(read) < 30
