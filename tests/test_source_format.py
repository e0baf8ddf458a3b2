"""What a sample of a source's lines shows: which labels are believed there, and what their numbers count."""

import pytest

from slurmdoctor.input.sources import Source, Text
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


@pytest.mark.parametrize(
    "line",
    [
        "",
        "srun: error: n1: task 2: Killed",
        "slurmstepd: error: x",
        "   ^^^^^",
        "=" * 10,
        "```",
        "2026-11-21 10:00:00,123",
    ],
)
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


def stamped(stamps: int, others: int) -> bool:
    return learn([f"2026-11-21T10:00:0{n % 9}Z step" for n in range(stamps)] + text(others), LABELS).stamped


@pytest.mark.parametrize(("stamps", "others", "found"), [(2, 0, False), (3, 0, True), (9, 1, True), (8, 1, False)])
def test_a_collectors_stamp_stands_on_nearly_all_lines(stamps: int, others: int, found: bool) -> None:
    assert stamped(stamps, others) is found


def test_a_label_behind_a_collectors_stamp_is_believed() -> None:
    traits = learn([f"2026-11-21T10:00:0{n}Z {n}: step {n}" for n in range(5)], LABELS)
    assert (traits.stamped, "srun-label" in traits.locked) == (True, True)
    assert LABELS.strip_labels("2026-11-21T10:00:01Z 3: boom", traits) == (
        Origin(rank=3, time=1795255201.0, dated=True),
        "boom",
    )


def counts_launchers(*lines: str) -> bool:
    return learn([*lines] * 3, LABELS).label_is_node


def test_a_label_counts_launchers_where_the_tags_behind_it_name_other_ranks() -> None:
    assert counts_launchers("1: [rank5]: x")
    assert not counts_launchers("5: [rank5]: x")
    assert counts_launchers("1: [rank5]: x", "1: [rank6]: x", "1: [rank1]: x")
    assert not counts_launchers("0: [rank0]: x", "1: [rank1]: x", "1: [rank5]: x")
    assert not counts_launchers("1: [rank5]: x", "1: [rank1]: x")
    assert counts_launchers("1: [default5]: x")


def test_a_label_counts_launchers_where_one_prints_behind_it() -> None:
    launcher = "W1121 10:00:00.000000 7 torch/distributed/run.py:792] *****************************************"
    assert counts_launchers(f"1: {launcher}")
    assert not counts_launchers("1: step 5")
    assert not counts_launchers(f"1: {launcher}", "1: [rank1]: x")


def test_two_ranks_on_one_label_show_that_the_outer_one_is_local() -> None:
    assert learn(["[rank4]:[rank12]: x"], LABELS).outer_rank_is_local
    assert not learn(["[rank4]:[rank4]: x"], LABELS).outer_rank_is_local
    assert not learn(["[rank4]: [rank12] x"], LABELS).outer_rank_is_local


def source(content: str) -> Source:
    made = Text.source(content)
    for _ in made.blocks():
        pass
    return made


def test_the_year_may_come_from_any_file_of_the_job() -> None:
    def years(*contents: str) -> list[int]:
        return [form.year for form in learn_formats([Text.source(content) for content in contents], LABELS)]

    assert years("step 1\n", "2025-03-21 02:00:00 x\n", "2024/03/21T02:00 x\n", "step 2\n") == [2025, 2025, 2024, 2025]
    assert years("step 1\n") == [ASSUMED_YEAR]
