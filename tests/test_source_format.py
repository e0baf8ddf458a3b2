"""What a sample of a source's lines shows: which labels are believed there, and what their numbers count."""

import pytest

from slurmdoctor.input.sources import Text
from slurmdoctor.knowledge import builtin, load
from slurmdoctor.model import ASSUMED_YEAR, Origin
from slurmdoctor.ranks.labels import LabelReader, learn, learn_formats

LABELS = LabelReader(load([builtin()]).formats)


def locked(*lines: str) -> bool:
    """Whether srun's label is believed."""
    return "srun-label" in learn(lines, LABELS).locked


def text(count: int) -> list[str]:
    return [f"epoch {n} of the loader" for n in range(count)]


@pytest.mark.parametrize(
    ("labelled", "others", "believed"),
    [(1, 0, True), (2, 0, True), (1, 1, False), (1, 2, False), (9, 1, True), (3, 30, False)],
)
def test_a_label_is_believed_where_most_lines_carry_it(labelled: int, others: int, believed: bool) -> None:
    assert locked(*(f"{n}: step {n}" for n in range(labelled)), *text(others)) is believed


UNLABELLED = [
    "",
    "srun: error: n1: task 2: Killed",
    "slurmstepd: error: x",
    "   ^^^^^",
    "=" * 10,
    "```",
    "2026-11-21 10:00:00,123",
]


@pytest.mark.parametrize("line", UNLABELLED)
def test_lines_that_nobody_labels_do_not_count(line: str) -> None:
    assert locked("1: step 1", "2: step 2", *([line] * 9))


def test_hosts_are_few_and_have_numbers() -> None:
    def hosts(*names: str) -> bool:
        forms = {form.id for form in LABELS.formats if form.lock and form.groups == {"node"}}
        return bool(forms & learn([f"{name}: step 1" for name in names], LABELS).locked)

    assert hosts(*["gpu01", "gpu02"] * 5)
    assert not hosts(*["error"] * 10)
    assert hosts("gpu01", "gpu02", "gpu03", *["gpu01"] * 6)
    assert not hosts("gpu01", "gpu02", "gpu03", *["gpu01"] * 5)


@pytest.mark.parametrize(("stamps", "others", "found"), [(2, 0, False), (3, 0, True), (9, 1, True), (8, 1, False)])
def test_a_collectors_stamp_stands_on_nearly_all_lines(stamps: int, others: int, found: bool) -> None:
    lines = [f"2026-11-21T10:00:0{n % 9}Z step" for n in range(stamps)] + text(others)
    assert learn(lines, LABELS).stamped is found


def test_a_label_behind_a_collectors_stamp_is_believed() -> None:
    traits = learn([f"2026-11-21T10:00:0{n}Z {n}: step {n}" for n in range(5)], LABELS)
    assert (traits.stamped, "srun-label" in traits.locked) == (True, True)
    origin = Origin(rank=3, time=1795255201.0, dated=True)
    assert LABELS.strip_labels("2026-11-21T10:00:01Z 3: boom", traits) == (origin, "boom")


LAUNCHER = "W1121 10:00:00.000000 7 torch/distributed/run.py:792] *****************************************"


@pytest.mark.parametrize(
    ("lines", "counts"),
    [
        (["1: [rank5]: x"], True),
        (["5: [rank5]: x"], False),
        (["1: [rank5]: x", "1: [rank6]: x", "1: [rank1]: x"], True),
        (["0: [rank0]: x", "1: [rank1]: x", "1: [rank5]: x"], False),
        (["1: [rank5]: x", "1: [rank1]: x"], False),
        (["1: [default5]: x"], True),
        ([f"1: {LAUNCHER}"], True),
        (["1: step 5"], False),
        ([f"1: {LAUNCHER}", "1: [rank1]: x"], False),
    ],
)
def test_a_label_counts_launchers_where_tags_name_other_ranks_or_a_launcher_prints(
    lines: list[str], counts: bool
) -> None:
    assert learn(lines * 3, LABELS).label_is_node is counts


def test_two_ranks_on_one_label_show_that_the_outer_one_is_local() -> None:
    for line, local in (("[rank4]:[rank12]: x", True), ("[rank4]:[rank4]: x", False), ("[rank4]: [rank12] x", False)):
        assert learn([line], LABELS).outer_rank_is_local is local


def test_the_year_may_come_from_any_file_of_the_job() -> None:
    def years(*contents: str) -> list[int]:
        return [form.year for form in learn_formats([Text.source(content) for content in contents], LABELS)]

    assert years("step 1\n", "2025-03-21 02:00:00 x\n", "2024/03/21T02:00 x\n", "step 2\n") == [2025, 2025, 2024, 2025]
    assert years("step 1\n") == [ASSUMED_YEAR]
