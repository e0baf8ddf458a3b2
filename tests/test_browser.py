"""The page in a real browser: at any size and width, light and dark, by keyboard, on paper, and with whatever a log holds."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

import answers_examples
from page_examples import of_ranks
from report_examples import CUDA_OOM, NO_FAILURE, UNKNOWN
from simulate import Job, speak, written
from slurmdoctor import Diagnosis, diagnose
from slurmdoctor.report.html_report import render_jobs_html
from slurmdoctor.survey import views as survey
from test_html import ATTACKS, jobs
from test_report_chat import hostile

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

REQUIRED = os.environ.get("SLURMDOCTOR_REQUIRE_BROWSER") == "1"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None and not REQUIRED, reason="needs Chromium")]
QUIET = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync"
DEMO = Path(__file__).parent / "fixtures" / "demo-cascade"
PAGES: dict[str, Callable[[], Diagnosis | str]] = {
    "8 ranks": lambda: of_ranks(8),
    "512 ranks": lambda: of_ranks(512),
    "4,096 ranks": lambda: of_ranks(4096),
    "a real log": lambda: diagnose([DEMO]),
    "a log of 4,096 ranks": lambda: diagnose(written(speak(Job(4096, per_node=8, root=5, cause="cuda-oom", steps=2)))),
    "several jobs": lambda: render_jobs_html(jobs(7)),
    "a healthy job": lambda: NO_FAILURE,
    "an unknown end": lambda: UNKNOWN,
    "hostile": lambda: Diagnosis.of(replace(hostile(" ".join(ATTACKS)), rank_timelines=of_ranks(8).rank_timelines)),
    "a survey": lambda: survey.render(answers_examples.BIG),
    "a survey of twelve jobs": lambda: survey.render(answers_examples.SMALL),
    "a survey of nothing": lambda: survey.render(answers_examples.EMPTY),
    "a hostile survey": lambda: survey.render(answers_examples.hostile(" ".join(ATTACKS))),
    "a survey of long names": lambda: survey.render(answers_examples.many(300)),
    "one long word": lambda: Diagnosis.of(replace(hostile("x" * 3000), ranks=CUDA_OOM.ranks)),
}
OPEN_ALL = "() => document.querySelectorAll('details').forEach(one => { one.open = true })"
CONTRASTS = (Path(__file__).parent / "contrasts.js").read_text()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert CHROMIUM is not None, "SLURMDOCTOR_REQUIRE_BROWSER is set, and no Chromium is here"
    sync = pytest.importorskip("playwright.sync_api") if not REQUIRED else __import__("playwright.sync_api").sync_api
    with sync.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=QUIET.split())
        yield opened
        opened.close()


@pytest.fixture(scope="module", params=PAGES)
def report(request: pytest.FixtureRequest) -> str:
    page = PAGES[request.param]()
    return page if isinstance(page, str) else page.to_html()


@pytest.fixture
def shown(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Opens a page, and proves at the end that it asked for nothing, spoke up nowhere and complained of nothing."""
    contexts: list[Any] = []
    wrong: list[str] = []

    def spoke(dialog: Any) -> None:
        wrong.append(dialog.message)
        dialog.dismiss()

    def show(html: str, **options: Any) -> Page:
        file = tmp_path / "report.html"
        file.write_text(html, encoding="ascii")
        contexts.append(browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options}))
        page: Page = contexts[-1].new_page()
        page.on("request", lambda asked: wrong.append(asked.url) if asked.url != file.as_uri() else None)
        page.on("dialog", spoke)
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(file.as_uri())
        return page

    yield show
    urls = [page.url for context in contexts for page in context.pages]
    for context in contexts:
        context.close()
    assert wrong == []
    assert all(url.startswith("file:") and "report.html" in url for url in urls)


@pytest.mark.parametrize("width", [380, 800, 1280])
def test_nothing_overflows_at_any_width(report: str, width: int, shown: Callable[..., Page]) -> None:
    page = shown(report, viewport={"width": width, "height": 900})
    for _ in range(2):
        assert page.evaluate("() => document.scrollingElement.scrollWidth") <= width
        page.evaluate(OPEN_ALL)
    assert page.evaluate("() => document.querySelectorAll('*').length") < 20_000


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_stands_out_from_its_ground(report: str, scheme: str, shown: Callable[..., Page]) -> None:
    page = shown(report, color_scheme=scheme)
    page.evaluate(OPEN_ALL)
    assert page.evaluate(CONTRASTS) == []
    ground = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, ground[4:-1].split(","))) < 60) is (scheme == "dark")


def test_it_reads_the_same_without_javascript(report: str, shown: Callable[..., Page]) -> None:
    texts = [shown(report, java_script_enabled=on).locator("body").inner_text() for on in (True, False)]
    assert texts[0] == texts[1]
    assert len(texts[0]) > 70


def test_the_keyboard_reaches_and_opens_all_that_folds(report: str, shown: Callable[..., Page]) -> None:
    page = shown(report)
    count = page.locator("summary").count()
    reached = set()
    for _ in range(count + 3 + page.locator("a").count()):
        page.keyboard.press("Tab")
        at = page.evaluate("() => [...document.querySelectorAll('summary')].indexOf(document.activeElement)")
        if at >= 0 and at not in reached:
            reached.add(at)
            assert page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle") == "solid"
            before = page.locator("summary").nth(at).evaluate("one => one.parentElement.open")
            page.keyboard.press("Enter")
            assert page.locator("summary").nth(at).evaluate("one => one.parentElement.open") is not before
            if before:
                page.keyboard.press("Enter")
    assert reached >= {at for at in range(count) if page.locator("summary").nth(at).is_visible()}


def test_paper_shows_what_is_folded(report: str, shown: Callable[..., Page]) -> None:
    page = shown(report)
    page.emulate_media(media="print", color_scheme="dark")
    hidden = "[...document.querySelectorAll('details > :not(summary)')].filter(one => !one.checkVisibility({contentVisibilityAuto: true}))"
    page.wait_for_function(f"() => {hidden}.length === 0", timeout=10_000)
    assert page.evaluate(CONTRASTS) == []
    assert page.pdf().startswith(b"%PDF-")


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (
            of_ranks(512).to_html,
            (
                'heading "Failed: Rank 13 on gpu-02 ran out of GPU memory" [level=1]',
                'img "running until 12:01:03, failed first until 12:01:03, gone until 12:12:00"',
                'table "What happened to every rank"', 'columnheader "Ranks"', 'rowheader "failed first"',
            ),
        ),
        (
            lambda: survey.render(answers_examples.BIG),
            (
                'heading "2,720 of 20,312 jobs failed" [level=1]',
                'img "26 columns of GPU hours lost; the highest is 4,013, Sep 28. The table below has all numbers."',
                'table "Jobs by their GPUs; ends by Slurm or a person are no failures"',
                'columnheader "GPU hours lost"', 'rowheader "gpu-0217"',
            ),
        ),
    ],
    ids=["a job", "a survey"],
)  # fmt: skip
def test_a_screen_reader_hears_drawings_and_tables(
    page: Callable[[], str], said: tuple[str, ...], shown: Callable[..., Page]
) -> None:
    opened = shown(page())
    opened.evaluate(OPEN_ALL)
    heard = opened.locator("body").aria_snapshot()
    assert [words for words in said if words not in heard] == []
    assert all(opened.get_by_role("img").evaluate_all("all => all.map(one => one.getAttribute('aria-label'))"))


@pytest.mark.parametrize("width", [380, 1280])
def test_the_strips_tell_the_times(width: int, shown: Callable[..., Page]) -> None:
    """The root's sign stands where its bar ends, and on one line in all strips."""
    page = shown(of_ranks(8).to_html(), viewport={"width": width, "height": 900})
    bar = page.locator(".culprit .running").bounding_box()
    strip = page.locator(".culprit svg").bounding_box()
    assert bar is not None
    assert strip is not None
    assert bar["x"] + bar["width"] == pytest.approx(strip["x"] + strip["width"] * 63 / 720, abs=1.5)
    lines = page.locator("line.root").evaluate_all("all => all.map(one => one.getBoundingClientRect().x)")
    assert len(lines) == 2
    assert max(lines) - min(lines) < 1.5


def test_a_link_in_the_table_opens_the_job(shown: Callable[..., Page]) -> None:
    page = shown(render_jobs_html(jobs(7)))
    fix = page.locator("#job-0-fix")
    assert not fix.is_visible()
    page.get_by_role("link", name="4711_0").click()
    fix.wait_for(state="visible")


@pytest.mark.parametrize("said", ATTACKS)
def test_hostile_text_stays_still(said: str, shown: Callable[..., Page]) -> None:
    for html in (Diagnosis.of(hostile(said)).to_html(), survey.render(answers_examples.hostile(said))):
        page = shown(html)
        page.evaluate(OPEN_ALL)
        assert page.locator("script, img, iframe, base, [onload], [onerror], [onmouseover]").count() == 0
        assert page.locator("a:not([href^='#']):not([href^='https:'])").count() == 0
        assert page.locator("h1").count() == 1


def test_bars_of_a_survey_are_as_long_as_their_numbers(shown: Callable[..., Page]) -> None:
    page = shown(survey.render(answers_examples.BIG))
    drawn = page.locator("#causes tbody td:nth-child(2) rect").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect().width)"
    )
    assert drawn[1] / drawn[0] == pytest.approx(9_120.25 / 18_204.5, abs=0.01)
