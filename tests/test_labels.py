"""Who wrote a line: every label proves its samples, what is not a rank is not taken for one, and mixed writers are taken apart."""

import random
import re
from itertools import zip_longest
from pathlib import Path

import pytest

from builders import raised
from rule_files import SITE_LABEL
from slurmdoctor import diagnose
from slurmdoctor.knowledge import builtin, load
from slurmdoctor.model import ASSUMED_YEAR, Origin, SourceFormat, format_time
from slurmdoctor.ranks.labels import LabelReader, learn, parse_time
from slurmdoctor.search.writer_key import WriterKey
from tables import table

KNOWLEDGE = load([builtin()])
FORMATS = KNOWLEDGE.formats
LABELS = LabelReader(FORMATS)
LINES = table("label_lines")


def test_reading_remembers_lines_for_no_label_asks_for_a_certain_digit() -> None:
    assert LABELS.remembers


@pytest.mark.parametrize(("line", "rank"), LINES["two-labels"].items())
def test_ranks_are_read_through_two_labels(line: str, rank: int) -> None:
    assert LABELS.strip_labels(line, SourceFormat(locked=frozenset({"srun-label"})))[0].rank == rank


@pytest.mark.parametrize("line", LINES["no-rank"])
def test_what_is_not_a_global_rank_is_not_taken_for_one(line: str) -> None:
    assert LABELS.strip_labels(line, SourceFormat())[0].rank is None


def test_an_outer_rank_label_of_torchrun_tee_is_a_local_rank() -> None:
    lines = ["[rank4]:[rank12]:[E321 02:07:08.41 ProcessGroupNCCL.cpp:607] x"] * 3
    traits = learn(lines, LABELS)
    origin, _ = LABELS.strip_labels("[rank4]:step 5", traits)
    assert (origin.rank, origin.local_rank) == (None, 4)
    assert LABELS.strip_labels(lines[0], traits)[0].rank == 12
    assert LABELS.strip_labels("srun: error: n1: task 3: Killed", traits)[0] == Origin()


def test_colour_and_nul_bytes_are_taken_off() -> None:
    assert LABELS.strip_labels("\x1b[31mFATAL:  \x1b[0m boom\x00\r", SourceFormat())[1] == "FATAL:   boom"


@pytest.mark.parametrize(("stamp", "shown"), LINES["stamps"].items())
def test_stamps_of_every_style_are_read(stamp: str, shown: str) -> None:
    seconds, dated = parse_time(stamp) or (0.0, None)
    assert (format_time(seconds) or "").endswith(shown)
    assert dated is shown.startswith("20")


def test_what_is_no_stamp_is_none_and_a_missing_year_is_taken_from_the_log() -> None:
    assert not any(map(parse_time, ("2026-13-41 09:24:45", "9921 99:99:99.1", "Foo 14 21:02:39", "yesterday", "")))
    traits = learn(["2025-03-21 02:00:00 hello", "[E321 02:07:08.41 a.cpp:1] x"], LABELS)
    assert traits.year == 2025
    assert learn(["[E321 02:07:08.41 a.cpp:1] x"], LABELS).year == ASSUMED_YEAR


@pytest.mark.parametrize("label", ["1: ", "", "[rank3]: ", "2026-13-41 09:24:45 ", "[2026-11-21 09:24:45] 7: "])
def test_lines_alike_but_for_digits_are_read_as_if_none_were_known(label: str) -> None:
    """What is remembered of one line must not decide over another: an impossible date is no time, -0 is a rank."""
    dice = random.Random(1)
    forgetful = LabelReader(FORMATS)
    forgetful.remembers = False
    lines = [label + str(sample["line"]) for form in FORMATS for sample in form.samples]
    for source in (None, SourceFormat(), SourceFormat(frozenset({"srun-label"}), stamped=True), learn(lines, LABELS)):
        for line in lines:
            for _ in range(4):
                assert LABELS.strip_labels(line, source) == forgetful.strip_labels(line, source)
                line = re.sub(r"\d", lambda _: str(dice.randrange(10)), line)


def labelled(label: str) -> str:
    made = ((0, "loading the data"), (1, "loading the data"), (0, "step 1/100 loss 3.21 12 ms/step"))
    log = "".join(f"{label.format(r=rank)}{text}\n" for rank, text in made)
    return log + raised("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", label.format(r=3))


@pytest.mark.parametrize(
    ("label", "rank"), [*((label, 3) for label in LINES["ranks"]), *((label, None) for label in LINES["no-ranks"])]
)
def test_a_label_hides_neither_the_line_behind_it_nor_its_rank(label: str, rank: int | None) -> None:
    found = diagnose(labelled(label))
    assert (found.cause.id, found.first_failure.rank) == ("cuda-oom", rank)


def test_node_and_gpu_make_a_rank_where_the_log_tells_how_many_a_node_has() -> None:
    found = diagnose("launching on 4 nodes x 8 GPUs\n" + labelled("[Node 2/GPU {r}] "))
    assert found.first_failure.rank == 2 * 8 + 3


@pytest.mark.parametrize(("behind", "believed"), [("HFE", True), ("HE", False), ("FE", False), ("FF", True)])
def test_of_few_lines_a_label_is_believed_where_a_traceback_and_its_frames_stand_behind_it(
    behind: str, believed: bool
) -> None:
    shown = {"H": "Traceback (most recent call last):", "F": '  File "/x/a.py", line 1, in f', "E": "ValueError: x"}
    lines = [*(f"+ export VAR{n}=x" for n in range(60)), *(f" 3: {shown[kind]}" for kind in behind)]
    assert ("srun-label" in learn(lines, LABELS).locked) is believed


@pytest.mark.parametrize("line", LINES["look-alikes"])
def test_what_only_looks_like_a_label_stays_in_its_line(line: str) -> None:
    lines = [line.format(n=n) for n in range(9)]
    assert LABELS.strip_labels(lines[-1], learn(lines, LABELS)) == (Origin(), lines[-1])


JOB = [
    *(f"{rank}: step {step} loss 2.{step} lr 1e-4" for step in range(3) for rank in range(4)),
    *raised("KeyError: 'labels'", "3: ").splitlines(),
    "1: [rank1]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.4]:4242",
]


@pytest.mark.usefixtures("golden_verdicts")
@pytest.mark.parametrize("stamp", LINES["log-stamps"].values(), ids=LINES["log-stamps"])
def test_the_rank_is_read_behind_the_stamp(stamp: str) -> None:
    found = diagnose("".join(f"{stamp.format(n)}{line}\n" for n, line in enumerate(JOB)))
    assert (found.cause.id, found.first_failure.rank) == ("python-error", 3)


@pytest.mark.usefixtures("golden_verdicts")
def test_a_number_behind_a_programs_own_stamp_is_no_label() -> None:
    log = "".join(f"2026-05-04 10:00:{n:02d} {n}: sample done\n" if n % 3 else f"sample {n}\n" for n in range(30))
    assert diagnose(log + "2026-05-04 10:01:00 7: bad\nKeyError: 'x'\n").first_failure.rank is None


def test_two_writers_behind_stamps_are_told_apart() -> None:
    key = WriterKey(FORMATS, SourceFormat(frozenset({"srun-label"}), stamped=True))
    assert key(b"2026-05-04T10:00:01Z  3: KeyError") == key(b"2026-05-04T10:00:02Z  3: x") == b"3:"
    assert key(b"2026-05-04T10:00:02Z [1,12]<stderr>:KeyError") == key(b"[1,12]<stdout>:x") == b"[1,12]"


SITE = (
    SITE_LABEL
    + r"""  - id: site-pod
    source: the log collector of a site
    pattern: '\{(?P<writer>[a-z0-9-]+)\} '
    samples: [{line: '{pod-7f} hello', text: hello}]
"""
)


def mixed(first: str, second: str) -> str:
    """A job of two writers that print a few steps, then their tracebacks, in turns."""
    steps = [f"{label}step {n}" for n in range(1, 7) for label in (first, second)]
    failures = zip((first, second), LINES["failures"], strict=True)
    parts = ([label + line for line in failure.splitlines()] for label, failure in failures)
    return "\n".join([*steps, *(line for pair in zip_longest(*parts) for line in pair if line)]) + "\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rules")
    (folder / "labels.yaml").write_text(SITE)
    return folder


@pytest.mark.parametrize("labels", LINES["pairs"].values(), ids=LINES["pairs"])
@pytest.mark.parametrize("turned", [False, True])
def test_mixed_tracebacks_are_taken_apart(labels: list[str], turned: bool, site: Path) -> None:
    first, second = reversed(labels) if turned else labels
    shown = "\n".join(diagnose(mixed(first, second), rules=[str(site)]).first_failure.traceback)
    assert ("train.py" in shown, "other.py" in shown) == ("FileNotFound" in shown, "FileNotFound" not in shown)
