"""Labels and stamps: every format proves its samples; what is not a rank is not taken for one."""

from __future__ import annotations

import random
import re

import pytest

from slurmdoctor import diagnose
from slurmdoctor.knowledge import builtin, load
from slurmdoctor.model import ASSUMED_YEAR, LineFormat, Origin, SourceFormat, format_time
from slurmdoctor.ranks.labels import LabelReader, learn, parse_time
from slurmdoctor.ranks.rank_map import of_path

KNOWLEDGE = load([builtin()])
FORMATS = KNOWLEDGE.formats
LABELS = LabelReader(FORMATS)


@pytest.mark.parametrize("form", FORMATS, ids=lambda f: f.id)
def test_each_format_reads_its_samples(form: LineFormat) -> None:
    assert form.samples
    for sample in form.samples:
        origin, text = LABELS.strip_labels(str(sample["line"]))
        for key, value in sample.items():
            if key == "text":
                assert text == value
            elif key not in ("line", "time", "node_rank", "writer"):
                assert getattr(origin, key) == value, key


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        (" 6: [rank6]: KeyError: 'x'", 6),
        ("[rank6]:[E321 02:07:08.41 ProcessGroupNCCL.cpp:607] [Rank 2] Watchdog caught", 6),
        ("2026-11-21 09:24:45,860 INFO [rank 4] starting", 4),
        ("[1,3]<stderr>:Traceback", 3),
        ("(worker6, rank=6, pid=7714, ip=10.42.3.142) x", 6),
    ],
)
def test_ranks_are_read_through_two_labels(line: str, rank: int) -> None:
    assert LABELS.strip_labels(line, SourceFormat(locked=frozenset({"srun-label"})))[0].rank == rank


@pytest.mark.parametrize(
    "line",
    [
        "[default3]:KeyError",
        "wkr01:413:871 [4] NCCL INFO comm 0x1",
        "torch.OutOfMemoryError: CUDA out of memory. GPU 3 has a total capacity",
        "[E ProcessGroupNCCL.cpp:821] [Rank 1] Watchdog caught collective operation timeout",
        "['python', 'train.py', '--local_rank=7'] exits with return code = 1",
        "Expected all tensors to be on the same device, cuda:3",
    ],
)
def test_what_is_not_a_global_rank_is_not_taken_for_one(line: str) -> None:
    assert LABELS.strip_labels(line, SourceFormat())[0].rank is None


def test_an_outer_rank_label_of_torchrun_tee_is_a_local_rank() -> None:
    lines = ["[rank4]:[rank12]:[E321 02:07:08.41 ProcessGroupNCCL.cpp:607] x"] * 3
    traits = learn(lines, LABELS)
    origin, _ = LABELS.strip_labels("[rank4]:step 5", traits)
    assert (origin.rank, origin.local_rank) == (None, 4)
    assert LABELS.strip_labels(lines[0], traits)[0].rank == 12


def test_colour_and_nul_bytes_are_taken_off() -> None:
    assert LABELS.strip_labels("\x1b[31mFATAL:  \x1b[0m boom\x00\r", SourceFormat())[1] == "FATAL:   boom"


@pytest.mark.parametrize(
    ("stamp", "shown"),
    [
        ("2026-11-21 09:24:45,860", "2026-11-21T09:24:45"),
        ("2026-11-21T09:24:45.123456789Z", "2026-11-21T09:24:45"),
        ("2026-11-21T11:24:45+02:00", "2026-11-21T09:24:45"),
        ("321 02:07:08.41", "03-21T02:07:08"),
        ("1121 09:25:51.565688062", "11-21T09:25:51"),
        ("Apr 14 21:02:39", "04-14T21:02:39"),
        ("Sat Oct 25 03:12:08 2025", "2025-10-25T03:12:08"),
        ("09:40:43", "01-01T09:40:43"),
    ],
)
def test_stamps_of_every_style_are_read(stamp: str, shown: str) -> None:
    read = parse_time(stamp)
    assert read is not None
    assert (format_time(read[0]) or "").endswith(shown)
    assert read[1] is shown.startswith("20")


@pytest.mark.parametrize("stamp", ["2026-13-41 09:24:45", "9921 99:99:99.1", "yesterday", ""])
def test_what_is_no_stamp_is_none(stamp: str) -> None:
    assert parse_time(stamp) is None


def test_a_missing_year_is_taken_from_the_log() -> None:
    traits = learn(["2025-03-21 02:00:00 hello", "[E321 02:07:08.41 a.cpp:1] x"], LABELS)
    assert traits.year == 2025
    assert learn(["[E321 02:07:08.41 a.cpp:1] x"], LABELS).year == ASSUMED_YEAR


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("logs/141_l6hj/attempt_0/1/stderr.log", {"attempt": "0", "local_rank": "1"}),
        ("logs/3141_2_log.err", {"rank": "2"}),
        ("logs/rank_03.err", {"rank": "03"}),
        ("slurm-4242.out", {}),
        ("train.log", {}),
    ],
)
def test_file_names_tell_who_wrote_them(path: str, found: dict[str, str]) -> None:
    assert of_path(path, KNOWLEDGE.paths) == found


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


# ── labels that ordinary text can look like ──

RAISED = (
    (0, "loading the data"),
    (1, "loading the data"),
    (0, "step 1/100 loss 3.21 12 ms/step"),
    (3, "Traceback (most recent call last):"),
    (3, '  File "/scratch/demo/train.py", line 88, in <module>'),
    (3, "    main()"),
    (3, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
)


def labelled(label: str) -> str:
    return "".join(f"{label.format(r=rank)}{text}\n" for rank, text in RAISED)


@pytest.mark.parametrize(
    ("label", "rank"),
    [
        *((label, 3) for label in (
            "{r}: ", "[rank{r}]: ", "[12:01:02] [{r}] ", "rank{r}: ", "Rank {r}: ", "[Rank {r}/8] ", "(rank {r}) ", "[global rank {r}] ",
            "<stderr:{r}> ", "[1,{r}]<stderr>: ", "[gpu{r}] ", "GPU {r}: ", "[Process {r}] ", "R{r} | ", "task {r}: ",
            "【2026-03-01 10:00:00】[rank{r}]: ", "10.1.2.3: [rank{r}]: ", "2026-03-01 10:00:00.123 | ERROR    | __main__:main:12 - [rank {r}] ",
        )),
        *((label, None) for label in ("node07: ", "(RayWorker pid=4{r}1, ip=10.0.0.2) ", "[Node 1/GPU {r}] ", "10.1.2.3: ")),
    ],
)  # fmt: skip
def test_a_label_hides_neither_the_line_behind_it_nor_its_rank(label: str, rank: int | None) -> None:
    found = diagnose(labelled(label))
    assert (found.cause and found.cause.id, found.first_failure and found.first_failure.rank) == ("cuda-oom", rank)


def test_node_and_gpu_make_a_rank_where_the_log_tells_how_many_a_node_has() -> None:
    found = diagnose("launching on 4 nodes x 8 GPUs\n" + labelled("[Node 2/GPU {r}] "))
    assert found.first_failure is not None
    assert found.first_failure.rank == 2 * 8 + 3


@pytest.mark.parametrize("frames", [0, 1])
def test_of_few_lines_a_label_is_believed_where_a_traceback_and_its_frames_stand_behind_it(frames: int) -> None:
    raised = [
        " 3: Traceback (most recent call last):",
        *[' 3:   File "/x/a.py", line 1, in f'] * frames,
        " 3: ValueError: x",
    ]
    lines = [f"+ export VAR{n}=x" for n in range(60)] + raised
    assert ("srun-label" in learn(lines, LABELS).locked) is bool(frames)


@pytest.mark.parametrize(
    "line",
    [
        "[Step {n}] loss 3.{n}", "Epoch {n}: loss 3.{n}", "[{n}/9] Building CXX object a{n}.o", "layer {n}: Linear(8, 8)",
        "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={n})", "see file 3: all is well",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_label_stays_in_its_line(line: str) -> None:
    lines = [line.format(n=n) for n in range(9)]
    assert LABELS.strip_labels(lines[-1], learn(lines, LABELS)) == (Origin(), lines[-1])
