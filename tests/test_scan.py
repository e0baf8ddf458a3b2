"""The fast scan says what a slow one says, that tries every rule on every line: however a log is cut, and by however many."""

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest
import regex
from _pytest.mark import ParameterSet
from benchmarks.logs import KINDS, STYLES, pieces

from slurmdoctor.input import files as log_files
from slurmdoctor.input.opening import open_sources
from slurmdoctor.input.sources import Block, Source
from slurmdoctor.knowledge import folders, load
from slurmdoctor.matching import engine
from slurmdoctor.model import Knowledge, Matcher, SearchResult, SourceFormat
from slurmdoctor.ranks.excerpts import Excerpts
from slurmdoctor.ranks.labels import LabelReader, learn_formats
from slurmdoctor.readers import targets
from slurmdoctor.readers.assembly import assemble
from slurmdoctor.search import reader, scanner as scan
from slurmdoctor.search.shapes import digits_matter, relaxed
from slurmdoctor.search.tally import LineGroup, Tally, group_by_matcher
from tables import parsed

FIXTURES = sorted(path for path in (Path(__file__).parent / "fixtures").iterdir() if (path / "truth.yaml").is_file())
RULES = Path(__file__).parents[1] / "rules"
_EXAMPLES = {
    rule["id"]: rule["examples"]["match"]
    for file in RULES.glob("*/*.yaml")
    for rule in (parsed(file.read_text()) or {}).get("rules", [])
    if "match" in rule.get("examples", {})
}
ENGINES = (engine.native, None)
"""The search in C, and its twin in Python."""


def confirm_line(matcher: Matcher, line: bytes, text: str) -> str | None:
    return targets.confirm_line(matcher, line, text, set())


@dataclass
class Job:
    """What the scan is asked, for one job's logs."""

    knowledge: Knowledge
    labels: LabelReader
    formats: list[SourceFormat]
    matchers: list[Matcher]

    def strip_labels(self, source: int, line: bytes) -> str:
        return self.labels.strip_labels(line.decode("utf-8", "replace"), self.formats[source])[1]

    def scan(
        self, logs: Sequence[Source], block: int | None = None, native: object = engine.native, jobs: int = 1
    ) -> SearchResult:
        writer_keys = [self.labels.writer_key(form) for form in self.formats]
        with mock.patch.object(engine, "native", native):
            return scan.scan(
                logs, self.matchers, self.strip_labels, confirm_line, targets.could_match, writer_keys, block, jobs,
            )  # fmt: skip

    def slow_scan(self, logs: Sequence[Path]) -> SearchResult:
        """Every matcher on every line, in the plainest way."""
        groups: list[tuple[int, LineGroup]] = []
        for number, path in enumerate(logs):
            label = self.labels.writer_key(self.formats[number])
            here: dict[tuple[tuple[int, str], ...], Tally] = {}
            for place, line in _lines(path.read_bytes()):
                wanted = self.wanted(line + b"\n")
                text = self.strip_labels(number, line)
                kinds = ((n, confirm_line(self.matchers[n], line, text)) for n in wanted)
                if key := tuple((n, kind) for n, kind in kinds if kind is not None):
                    keep = max(self.matchers[n].keep for n, _ in key)
                    here.setdefault(key, Tally(keep)).add(label(line), place)
            groups += [(number, LineGroup(key, tally.keep, *tally.packed())) for key, tally in here.items()]
        merged = group_by_matcher(groups, self.matchers)
        return SearchResult(merged, (), lambda line: [self.matchers[n] for n in self.wanted(line)])

    def wanted(self, line: bytes) -> list[int]:
        return [n for n, matcher in enumerate(self.matchers) if any(literal in line for literal in matcher.literals)]


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(offset, line); a carriage return ends one too, for a terminal shows what follows in its place."""
    at = 0
    for line in data.split(b"\n"):
        begin = at
        for shown in line.split(b"\r"):
            yield begin, shown
            begin += len(shown) + 1
        at += len(line) + 1


def _job(logs: Sequence[Path]) -> tuple[Job, list[Source]]:
    knowledge = load(folders())
    opened = open_sources([str(log) for log in logs]).sources
    labels = LabelReader(knowledge.formats)
    return Job(knowledge, labels, learn_formats(opened, labels), targets.matchers(knowledge)), opened


def _told(found: SearchResult) -> list[object]:
    """All that a scan's user may ask."""
    return [
        (group.matcher.id, group.kind, group.count, [group.sample(writer) for writer in group.by_first()],
         group.by_first(5), group.by_last_burst(5))
        for group in found.groups
    ]  # fmt: skip


def _events(job: Job, opened: Sequence[Source], found: SearchResult) -> object:
    lines = Excerpts(opened, found, job.labels, job.formats)
    result = assemble(found, lines, job.knowledge)
    return [(e.cause, e.rule, e.role, e.origin, e.order, e.count, e.captures, e.others) for e in result.events]


def _plain(path: Path) -> bool:
    """Text whose lines are not so long that only their words' surroundings are read."""
    data = path.read_bytes()
    return b"\0" not in data[:4096] and max(map(len, data.split(b"\n"))) < reader.LONG_LINE


def _mostly_slow(values: Iterable[object], every: int) -> list[ParameterSet]:
    """Every so-manieth is always tried, the others by `make test-all`."""
    return [pytest.param(value, marks=[pytest.mark.slow] * bool(n % every)) for n, value in enumerate(values)]


@pytest.mark.parametrize("case", _mostly_slow(FIXTURES, 48), ids=lambda path: path.name)
def test_it_finds_in_a_fixture_what_the_slow_scan_finds(case: Path) -> None:
    logs = [Path(name) for name in log_files.files_of(str(case))]
    logs = [log for log in logs if log.suffix not in (".gz", ".xz", ".zst", ".bz2") and _plain(log)]
    if not logs:
        pytest.skip("compressed, or of long lines")
    job, opened = _job(logs)
    slow = job.slow_scan(logs)
    known = None
    for block in (64, 65536):
        fast = job.scan(opened, block, random.Random(f"{case.name} {block}").choice(ENGINES))
        assert _told(fast) == _told(slow)
        indexed = SearchResult(slow.groups, fast.line_index, slow.matchers_for)
        assert _events(job, opened, fast) == (known := known or _events(job, opened, indexed))


def _mixed(path: Path, size: int, style: str = "srun", ranks: int = 20, end: bytes = b"\n") -> Path:
    """A log of so many bytes of each kind: of its training and of its end."""
    made = b""
    for kind in KINDS:
        whole = b"".join(pieces(kind, size, style, ranks))
        made += whole[: size // 2] + whole[-size // 2 :]
    path.write_bytes(made.replace(b"\n", end))
    return path


@pytest.mark.parametrize("style", _mostly_slow(STYLES, len(STYLES)))
def test_it_finds_in_generated_logs_what_the_slow_scan_finds(style: str, tmp_path: Path) -> None:
    log = _mixed(tmp_path / "job.log", 8_000, style)
    job, opened = _job([log])
    slow = _told(job.slow_scan([log]))
    for block in (1, 20_001):
        assert _told(job.scan(opened, block)) == slow


def _hexed(line: str, dice: random.Random) -> list[str]:
    """The line several times, with other hexadecimal words in the place of some of its words."""
    words = re.split(r"(\w+)", line)
    chosen = dice.sample(range(1, len(words), 2), min(len(words) // 2, dice.randrange(1, 4)))
    lengths = {at: (dice.choice(["", "", "0x"]), dice.randrange(5, 17)) for at in chosen}

    def other(at: int) -> str:
        if at not in lengths:
            return words[at]
        prefix, length = lengths[at]
        return prefix + "".join(dice.choice("0123456789abcdef") for _ in range(length))

    return ["".join(map(other, range(len(words)))) for _ in range(6)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", _mostly_slow(range(12), 12))
def test_it_counts_lines_of_hexadecimal_words_as_the_slow_scan_does(seed: int, tmp_path: Path) -> None:
    """Addresses, ids and hashes are taken as alike, where no rule and no label minds them."""
    dice = random.Random(seed)
    examples = [line for lines in _EXAMPLES.values() for line in lines if "\n" not in line]
    lines = [line for example in dice.sample(examples, 60) for line in _hexed(example, dice)]
    lines += [f"{dice.choice(['3: ', '[rank4]: ', 'n1:7:8 [2] '])}{line}" for line in lines[:200]]
    log = tmp_path / "job.log"
    log.write_text("\n".join(lines) + "\n")
    job, opened = _job([log])
    slow = _told(job.slow_scan([log]))
    for native in ENGINES:
        assert _told(job.scan(opened, 100_000, native)) == slow


def test_what_hexadecimal_words_mean_is_not_asked_in_vain_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where they matter each of these lines is of a new shape: to ask made them three times as slow."""
    dice = random.Random(1)
    (tmp_path / "job.log").write_text("".join(f"{dice.getrandbits(63) | 1 << 62:x}Error: x\n" for _ in range(2000)))
    job, opened = _job([tmp_path / "job.log"])
    asked: list[bytes] = []
    monkeypatch.setattr(reader, "with_other_words", lambda line: asked.append(line) or [line + b"?"])  # type: ignore[func-returns-value]
    monkeypatch.setattr(reader.Reader, "_digit_sensitive", lambda *_: [1])
    job.scan(opened)
    assert len(asked) <= 500


def test_what_differs_in_hexadecimal_words_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of NCCL's lines was a new shape, and cost a hundred times as much as one that is known."""
    dice = random.Random(1)
    line = "n1:{}:8 [2] NCCL INFO comm 0x{:x} rank {} nranks 16 cudaDev 2 busId 1b000 commId 0x{:x} - Init COMPLETE\n"
    words = ((n, dice.getrandbits(47) | 1 << 46, n % 10, dice.getrandbits(63) | 1 << 62) for n in range(3_000))
    (tmp_path / "job.log").write_text("".join(line.format(*given) for given in words))
    job, opened = _job([tmp_path / "job.log"])
    read: list[bytes] = []
    right = Job.strip_labels
    monkeypatch.setattr(Job, "strip_labels", lambda self, source, line: right(self, source, read.append(line) or line))  # type: ignore[func-returns-value]
    found = job.scan(opened)
    assert [group.count for group in found.groups if group.matcher.id == "map"] == [3_000]
    assert len(read) < 200  # an address of digits alone has a shape of its own


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "WORTH", 1000)


@pytest.mark.usefixtures("small")
def test_many_processes_find_what_one_finds(tmp_path: Path) -> None:
    log = _mixed(tmp_path / "job.log", 100_000, ranks=300)
    job, opened = _job([log])
    one = job.scan(opened, 50_000)
    told, lines = _told(one), opened[0].lines
    for jobs in (2, 7):
        several = job.scan(opened, 50_000, jobs=jobs)
        assert _told(several) == told
        assert opened[0].lines == lines
        at = several.line_index[0][0][-1]
        assert several.lines_before(0, at)[1] == log.read_bytes()[:at].count(b"\n")


@pytest.mark.usefixtures("small")
def test_many_processes_share_many_files(tmp_path: Path) -> None:
    logs = []
    for rank in range(6):
        logs.append(tmp_path / f"rank{rank}.log")
        logs[-1].write_bytes(b"" if rank == 4 else b"".join(pieces("noisy", 10_000 * (rank + 1), ranks=3, seed=rank)))
    job, opened = _job(logs)
    one = _told(job.scan(opened))
    assert all(_told(job.scan(opened, jobs=jobs)) == one for jobs in (2, 16))


@pytest.mark.usefixtures("small")
def test_a_helper_that_dies_is_made_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "job.log"
    log.write_bytes(b"".join(pieces("noisy", 50_000)))
    job, opened = _job([log])
    one = _told(job.scan(opened))
    monkeypatch.setattr(scan, "_read_share", lambda *_: None)
    assert _told(job.scan(opened, jobs=3)) == one


@pytest.mark.slow
@pytest.mark.parametrize("end", [b"\r", b"\r\n", b"\r\r\n"])
def test_a_carriage_return_ends_a_line_wherever_a_block_is_cut(
    end: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slurmdoctor.input.sources.LONGEST_LINE", 64 * 1024)
    log = _mixed(tmp_path / "job.log", 8_000, "torch", end=end)
    job, opened = _job([log])
    slow = _told(job.slow_scan([log]))
    for block in (20_001, 70_000):
        assert _told(job.scan(opened, block)) == slow


@pytest.mark.parametrize("tail", [b"", b"\n"], ids=["open", "closed"])
def test_lines_between_carriage_returns_are_not_sought_one_by_one(
    tail: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "job.log"
    log.write_bytes(b"[rank3]: Killed\r" * 50_000 + tail)
    sought: list[int] = []
    plain = reader.piece

    def piece(block: Block, at: int) -> tuple[int, int, bool]:
        sought.append(at)
        return plain(block, at)

    monkeypatch.setattr(reader, "piece", piece)
    job, opened = _job([log])
    found = job.scan(opened)
    assert max(group.count for group in found.groups) == 50_000
    assert len(sought) < 10_000


def test_long_lines_are_read_around_their_words_however_they_are_cut(tmp_path: Path) -> None:
    word = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    filler = b"0.123456, " * 200_000
    log = tmp_path / "job.log"
    log.write_bytes(b"start\n" + filler + b"\r" + word + b"\r" + filler[:1_000_000] + b"\nend\n" + word + b"\n")
    job, opened = _job([log])
    told = None
    for block in (10_000, 300_001, 4_000_000):
        found = job.scan(opened, block)
        oom = [s for s in found.groups if s.matcher.id == "cuda-oom/torch"]
        assert [s.count for s in oom] == [2]
        assert _told(found) == (told := told or _told(found))


def test_a_relaxed_rule_takes_what_the_rule_takes_with_other_digits() -> None:
    digits = random.Random(1)
    for rule in load(folders()).rules:
        more = relaxed(rule.regex)
        if more is None or not digits_matter(rule.regex):
            continue
        taken = regex.compile(rule.regex)
        for line in _EXAMPLES.get(rule.id, []):
            if taken.search(line):
                assert regex.search(more, line)
                assert regex.search(more, re.sub(r"\d", lambda _: str(digits.randrange(10)), line))


def test_no_format_minds_digits() -> None:
    """One that did would make every line its own shape, and a scan of gigabytes many times as slow."""
    knowledge = load(folders())
    assert [form.id for form in knowledge.formats if digits_matter(form.pattern)] == []


def test_it_knows_whether_digits_matter() -> None:
    without = (r"rank (?P<rank>\d+) failed", r"exit code [0-9]{1,3}\b", r"((?:[A-Z][a-z]+)+Error)\1")
    mattering = (r"exit code 137", r"error [1-9]", r"(?P<a>\d+) = (?P=a)", r"(\w+) = \1", r"(a)?(?(1)b|c)")
    assert [one for one in (*without, *mattering) if digits_matter(one)] == list(mattering)
