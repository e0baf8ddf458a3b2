"""The page of a survey promises: every answer with its denominator, readable by all, small at any size, and inert."""

import re
from datetime import date
from html import unescape

import pytest
from msgspec.structs import replace
from syrupy.assertion import SnapshotAssertion

from answers_examples import BIG, EMPTY, SMALL, hostile, many
from slurmdoctor.survey.answers import Answers, Cost, Period, SizeClass, UnknownKind
from slurmdoctor.survey.sections import hours, name, share, span
from slurmdoctor.survey.views import marks, render
from test_html import ATTACKS, ATTRIBUTES, ELEMENTS, STEERING, Page, assert_sound

DRAWN, MEASURED = {"bdi", "g"}, {"data-label", "cx", "cy", "rx"}
EXAMPLES = {"big": BIG, "small": SMALL, "empty": EMPTY, "hostile": hostile("<b>x</b>"), "many": many(100)}


def assert_inert(html: str) -> None:
    page = Page(html)
    assert html.isascii()
    assert {name for name, _ in page.elements} <= ELEMENTS | DRAWN
    assert {name for _, attributes in page.elements for name in attributes} <= ATTRIBUTES | MEASURED
    assert set(page.all("href")) == {"#details"}
    assert not re.search(STEERING, page.text)


@pytest.mark.parametrize("example", EXAMPLES)
def test_it_is_one_well_formed_document_that_asks_nothing_of_the_network(example: str) -> None:
    html = render(EXAMPLES[example])
    assert_inert(html)
    assert_sound(html)
    levels = [int(name[1]) for name, _ in Page(html).elements if re.fullmatch("h[1-6]", name)]
    assert levels == [1] + [2] * (len(levels) - 1)


WORDED = {
    "big": replace(BIG, filters=(("partition", "h100"),)),
    "small": SMALL,
    "empty": EMPTY,
    "healthy": Answers(jobs=3, healthy=3),
    "no suspects": replace(BIG, periods=(), nodes=replace(BIG.nodes, suspects=(), exclude=None, failed_only=True)),
    "few hours": replace(BIG, periods=(), failed_with_hours=1_359, delays=replace(BIG.delays, p90_s=None, worst=())),
}


@pytest.mark.parametrize("name", WORDED)
def test_what_it_says_has_its_denominator_and_where_there_is_nothing_it_says_so(
    name: str, snapshot: SnapshotAssertion
) -> None:
    assert re.sub(r"(?<=[.:;]) ", "\n", Page(render(WORDED[name])).text) == snapshot


def test_bars_are_as_long_as_their_numbers() -> None:
    rows = re.findall(r"<tr>\s*<th.*?</tr>", render(BIG), re.S)
    widths = [re.findall(r'<rect width="([\d.]+)%"', row) for row in rows[1:3]]
    assert widths == [["100.0", "58.7"], ["50.1", "93.3"]]


def test_columns_are_stacked_to_their_sums_and_each_tells_its_number() -> None:
    causes = (Cost("a", 3, 4), Cost("b", 1, 4))
    answers = Answers(jobs=9, failed=4, causes=causes, periods=(Period(date(2026, 11, 2), 9, causes), Period(date(2026, 11, 3), 0, ())))  # fmt: skip
    html = render(answers)
    heights = re.findall(r'<rect x="[\d.]+%" y="([\d.]+)" width="36.00%" height="([\d.]+)" class="(\w+)"', html)
    assert heights == [("48.0", "120.0", "c1"), ("8.0", "40.0", "c2")]
    assert "<title>Nov 2: 4 failed jobs</title>" in html
    assert 'aria-label="2 columns of failed jobs; the highest is 4, Nov 2. The table below has all numbers."' in html
    more = [Period(date(2026, 12, 1), 9, causes[1:])] * 39
    assert "40 columns of failed jobs; the highest is 1," in render(replace(answers, periods=(*answers.periods, *more)))


@pytest.mark.parametrize(
    ("unit", "begins", "apart"),
    [
        ("day", ["2026-11-30", "2026-12-01"], False), ("day", ["2026-11-30", "2026-12-02"], True),
        ("month", ["2026-12-01", "2027-01-01"], False), ("month", ["2026-12-01", "2027-02-01"], True),
    ],
)  # fmt: skip
def test_columns_that_are_apart_in_time_are_no_secret(unit: str, begins: list[str], apart: bool) -> None:
    periods = tuple(Period(date.fromisoformat(day), 4, ()) for day in begins)
    text = Page(render(replace(SMALL, period=unit, periods=periods, undated=1))).text
    assert ("not next to each other in time" in text) is apart
    assert "3 of 11 jobs ended at other times: in no column. 1 of 12 jobs show no time: in no column." in text


@pytest.mark.parametrize(
    ("most", "last", "count"),
    [(0, 1, 2), (3, 3, 4), (9, 9, 10), (45, 50, 6), (90, 90, 10), (100, 100, 2), (2_100, 3_000, 4), (0.32, 0.4, 5), (1e15 + 1, 2e15, 3)],
)  # fmt: skip
def test_columns_end_below_a_round_number_and_counts_have_no_halves(most: float, last: float, count: int) -> None:
    found = marks(most)
    assert len(found) == count
    assert found[-1] == pytest.approx(last)


@pytest.mark.parametrize("said", [*ATTACKS, "\u05d0\u05d1" * 2_500, "w" * 5_000, ""])
def test_hostile_text_is_text(said: str) -> None:
    assert_inert(render(hostile(said)))


@pytest.mark.slow
@pytest.mark.parametrize("letter", ["&", "\U0001f525"])
def test_it_stays_small_at_any_dataset(letter: str) -> None:
    html = render(many(200, letter * 300))
    page = Page(html)
    assert (len(html) <= 400_000, len(page.elements) < 20_000) == (True, True)
    for more in ("160 more causes", "190 more partitions", "175 more suspects", "190 more kinds"):
        assert f"{more} not shown" in page.text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 1e300])
def test_a_number_that_cannot_be_breaks_nothing(value: float) -> None:
    cost = Cost("a", 1, 1, 1, value, 1, value)
    size = SizeClass(1, 8, 1, 1, value, value, value, value)
    answers = replace(
        SMALL, gpu_hours=value, gpu_hours_lost=value, failed_with_hours=1, causes=(cost,), users=(cost,), sizes=(size,)
    )
    assert_inert(render(replace(answers, periods=(Period(date(2026, 1, 1), 1, (cost,)),))))


def test_a_secret_of_a_last_line_is_masked() -> None:
    token = "hf_" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBK"
    line = f"HF_TOKEN={token}"
    kind = UnknownKind(line, 1, 1, 0.0, line, f"slurmdoctor rules new site/x --line '{line}'")
    html = unescape(render(replace(SMALL, unknown=replace(SMALL.unknown, kinds=(kind,)))))
    assert token[:20] not in html
    assert html.count("[redacted") == 3


@pytest.mark.parametrize(
    ("told", "words"),
    [
        *((hours(value), words) for value, words in ((0, "0"), (0.001, "under 0.01"), (0.75, "0.75"), (1, "1"), (12.46, "12.5"), (99.96, "100"), (18_204.6, "18,205"))),
        # shares never round to all or nothing
        *((share(part, whole), words) for part, whole, words in ((0, 9, "0 %"), (1, 3, "33 %"), (1, 30, "3.3 %"), (1, 9_999, "under 0.1 %"), (9_999, 10_000, "99.9 %"), (9, 9, "100 %"), (1, 0, ""))),
        # of a path the end is told
        *((name(text, end=True), words) for text, words in (("4711_3", "4711_3"), ("x" * 50, "x" * 39 + "…"), ("/scratch/" + "a/" * 40 + "job.log", "…" + "a/" * 16 + "job.log"))),
        (span(date(2026, 5, 25), date(2026, 11, 22)), "May 25 to Nov 22, 2026"),
        (span(date(2025, 12, 31), date(2026, 1, 1)), "Dec 31, 2025 to Jan 1, 2026"),
        (span(date(2026, 1, 1), date(2026, 1, 1)), "Jan 1, 2026"),
    ],
)  # fmt: skip
def test_numbers_and_dates_are_as_precise_as_one_reads_them(told: str, words: str) -> None:
    assert told == words
