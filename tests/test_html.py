"""The page promises: all of the verdict, without script or network, small at any size, and nothing of a log is markup."""

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from cases import FIXTURES, run
from page_examples import of_ranks
from report_examples import CUDA_OOM, EXAMPLES, NO_FAILURE, SILENT, UNKNOWN
from slurmdoctor import Diagnosis, diagnose
from slurmdoctor.model import JobFiles, Mark, RankTimeline, RankTimelines, Rival, Span
from slurmdoctor.report.html_report import render_jobs_html
from test_report_chat import hostile

VOID = {"meta", "br"}
_ELEMENTS = """html head meta title style body a main header h1 h2 h3 span section p ul ol li dl dt dd div b q code pre mark details summary
    figure figcaption table caption thead tbody tr th td footer svg defs pattern symbol rect path circle line text use"""
_ATTRIBUTES = """lang charset http-equiv content name class id href rel scope open role aria-label aria-labelledby aria-hidden width height x y x1 x2
    y1 y2 d r patternunits overflow text-anchor"""
ELEMENTS, ATTRIBUTES = set(_ELEMENTS.split()), set(_ATTRIBUTES.split())
PAGES = {**EXAMPLES, "8 ranks": of_ranks(8), "4,096 ranks": of_ranks(4096)}
STEERING = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"


class Page(HTMLParser):
    """A page as its elements and its visible text; fails where they are not nested."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.of: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []
        self.text = " ".join(" ".join(self.texts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
            self.of.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in set(self._open):
            self.of[tag][-1] += data
        if "style" not in self._open:
            self.texts.append(data)

    def all(self, attribute: str) -> list[str]:
        return [attributes[attribute] or "" for _, attributes in self.elements if attribute in attributes]


def assert_sound(html: str) -> None:
    """Ids are its own, labels lead to them, and its policy lets in nothing from elsewhere."""
    page = Page(html)
    ids = page.all("id")
    assert len(ids) == len(set(ids))
    assert set(page.all("aria-labelledby")) <= set(ids)
    policy = next(a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy") or ""
    assert (policy.startswith("default-src 'none'"), "script" in policy) == (True, False)
    assert not re.search(r"@import|url\((?!#)|<script|<iframe|<img|<link", html)


@pytest.mark.parametrize("example", PAGES)
def test_it_is_one_well_formed_document_that_asks_nothing_of_the_network(example: str) -> None:
    html = PAGES[example].to_html()
    page = Page(html)
    assert_inert(html)  # no server and no locale can misread it
    assert_sound(html)
    assert page.elements[2] == ("meta", {"charset": "utf-8"})
    assert html.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert (page.of["title"][0] != "", len(page.of["h1"])) == (True, 1)
    levels = [int(name[1]) for name, _ in page.elements if re.fullmatch("h[1-6]", name)]
    assert all(after - before <= 1 for before, after in zip([0, *levels], levels, strict=False))
    assert {url for name, a in page.elements if name != "a" and (url := a.get("href")) and url[0] != "#"} == set()

    inner = {url[1:] for url in page.all("href") if url.startswith("#")} | set(re.findall(r"url\(#(\w+)\)", html))
    drawn = "strip" in set(page.all("class"))
    assert inner - set(page.all("id")) <= (set() if drawn else {"waiting", "followed"}), "a link leads nowhere"
    assert (len(html) < 2_000_000, len(page.elements) < 20_000) == (True, True)


def test_it_says_all_of_the_verdict() -> None:
    shown = replace(
        CUDA_OOM, others=(Rival("node-failure", "low", "also on rank 9"),), verify=("Look with `nvidia-smi -l 5`.",),
        coverage=replace(CUDA_OOM.coverage, notes=("2 earlier attempts failed",), silent_ranks=(7,)),
        exit=replace(CUDA_OOM.exit, meaning="Python exits with 1 after an exception that nothing caught"),
    )  # fmt: skip
    page = Page(Diagnosis.of(shown).to_html())
    for said in (
        "Rank 13 on gpu-02 ran out of GPU memory", "cuda-oom", "high confidence", "job.log:48211", "12:01:03", "Tried to allocate 2.00 GiB",
        "Raise expert parallelism from 4 to 8", "Tensor parallelism does not shrink experts.", "Lower the micro batch size",
        "resubmit only after the fix; the node is not to blame", "Code 1 on rank 13", "nothing caught", "+10 m",
        "63 ranks waited for a collective that never came", "63 ranks were stopped by SIGTERM", "experts.py:213 in forward",
        "First error by time", "node-failure", "also on rank 9", "2 earlier attempts failed", "Rank 7 printed nothing",
        "megatron", "51,300 lines", "0-12,14-63", "nvidia-smi -l 5", "Traceback, 7 lines",
    ):  # fmt: skip
        assert said.lower() in page.text.lower(), said


def test_a_command_stands_by_itself_to_be_copied() -> None:
    html = diagnose([FIXTURES / "demo-cascade"]).to_html()
    commands = re.findall(r'<pre class="command"><code>(.*?)</code></pre>', html)
    assert commands[0] == "srun -w gpu-a2 -n1 df -h /local/tokcache/part-00005.rows"
    assert "Free space on the file system of /local/tokcache/part-00005.rows, or write elsewhere." in html


def test_a_healthy_job_says_so_and_an_unknown_one_what_to_ask() -> None:
    healthy, unknown = Page(NO_FAILURE.to_html()).text, Page(UNKNOWN.to_html()).text
    assert ("No failure found" in healthy, "What to do" in healthy) == (True, False)
    assert ("sacct -j JOBID" in unknown, "does not show whether" in unknown) == (True, True)


def test_the_proof_stands_among_its_neighbours_with_their_numbers() -> None:
    lines = [f"step {n}" for n in range(1, 31)] + ["KeyError: 'lr'"] + [f"after {n} & <b>" for n in range(9)]
    lines[28:28] = ["Traceback (most recent call last):", '  File "train.py", line 7, in main', "    go()"]
    proof = lines.index("KeyError: 'lr'")
    html = diagnose("\n".join(lines) + "\n").to_html()
    rows = re.findall(r'<span class="l(?: told)?"><span class="n">(\d+)</span><span class="t">(.*?)</span>', html)
    shown = [(int(number), unescape(re.sub("<.*?>", "", text))) for number, text in rows]
    assert shown == [(at + 1, lines[at]) for at in range(proof - 4, proof + 5)]


def test_a_line_of_a_megabyte_is_cut() -> None:
    wide = "x " * 500_000
    assert len(diagnose(f"{wide}\n[rank3]: KeyError: '{wide}'\n{wide}\n").to_html()) < 60_000


ATTACKS = (
    "<script>alert(1)</script>", "</style><script>alert(1)</script>", "</title><svg onload=alert(1)>", '" onmouseover="alert(1)" x="',
    "'><img src=x onerror=alert(1)>", "javascript:alert(1)", "https://evil.example/?q=<b>", "<!-- ", "-->", "]]>", "&lt;script&gt;", "&#60;",
    "a\x00b\x1b[2J\x1b]0;title\x07", "\u202eevil\u2066", "`</code><script>`", "(`x y</pre><script>alert(1)`)", "\r\n\r\n<h1>x", "\ud800",
    "data:text/html,<script>alert(1)</script>", "<base href=https://evil.example>", "{{7*7}}${7*7}", "//evil.example/x",
)  # fmt: skip


def assert_inert(html: str) -> None:
    page = Page(html)
    assert html.isascii()
    assert {name for name, _ in page.elements} <= ELEMENTS
    assert {name for _, attributes in page.elements for name in attributes} <= ATTRIBUTES
    assert all(re.match(r"#|https://[\w./#?=&%+~:-]+$", url) for url in page.all("href"))
    assert not re.search(STEERING, page.text)


@pytest.mark.parametrize("said", ATTACKS)
def test_hostile_text_is_text(said: str) -> None:
    rank_timeline = RankTimeline((3,), (said,), said, (Span(0, 1, "running"),), (), said)
    rank_timelines = RankTimelines((rank_timeline,), 0.0, 1.0, ((0.0, said),), said)
    html = Diagnosis.of(replace(hostile(said), rank_timelines=rank_timelines)).to_html()
    assert_inert(html)
    assert all(word in Page(html).text for word in re.findall(r"[a-z]{4,}", said) if word != "title")
    named = replace(hostile(said), job=JobFiles(said, None, said, (said,)))
    assert_inert(render_jobs_html([Diagnosis.of(named), Diagnosis.of(named)]))


@given(st.text(st.characters(), max_size=60))
def test_any_text_is_text(said: str) -> None:
    assert_inert(Diagnosis.of(hostile(said)).to_html())


def test_the_first_failure_stands_first_and_open_and_ranks_that_are_not_drawn_are_counted() -> None:
    html = of_ranks(4096).to_html()
    rows = re.findall(r'<details class="node"(| open)>.*?<b>(.*?)</b><span class="about">(.*?)</span>', html, re.DOTALL)
    assert rows == [
        (" open", "rank 3", "gpu000, failed first, exit code 1"),
        ("", "ranks 0-2,4-4095", "gpu[000-511], failed after it, SIGTERM"),
    ]
    assert "The left edge is 2025-11-20 12:00:00. The run began 1 h 30 m before it." in Page(html).text
    cut = replace(of_ranks(8).rank_timelines, left_out=tuple(range(4048)))
    assert "Not drawn: 4,048 ranks" in Page(replace(of_ranks(8), rank_timelines=cut).to_html()).text


def test_states_are_told_in_words_and_by_pattern() -> None:
    states: Any = ("running", "waiting", "failed", "followed", "silent", "gone", "finished")
    spans = tuple(Span(float(at), at + 1.0, state) for at, state in enumerate(states))
    rank_timelines = RankTimelines((RankTimeline((3,), ("gpu-1",), "first", spans, ()),), 0.0, 7.0)
    html = Diagnosis.of(replace(CUDA_OOM, rank_timelines=rank_timelines)).to_html()
    page = Page(html)
    told = next(label for label in page.all("aria-label") if label.startswith("running"))
    assert told == (
        "running until 00:00:01, waiting for others until 00:00:02, failed first until 00:00:03, failed after it until 00:00:04, "
        "silent until 00:00:05, gone until 00:00:06, finished until 00:00:07"
    )
    assert set(states) <= set(page.all("class"))
    assert {"waiting", "followed"} <= set(page.all("id"))
    assert "stroke-dasharray" in re.findall(r"\.silent \{(.*?)\}", html)[0]


def test_the_root_sign_stands_with_the_rank_that_the_verdict_names() -> None:
    """Of a silent rank others tell first: their lines are errors of theirs."""
    never = Mark(5.0, "first", None, "never joined the collective", None, None)
    told = Mark(9.0, "first", "collective-timeout", "Watchdog caught", "job.log", 71)
    rank_timelines = (
        RankTimeline((2,), ("n1",), "suspect", (Span(0.0, 10.0, "silent"),), (never,), first=True),
        RankTimeline((1,), ("n1",), "waiting", (Span(0.0, 9.0, "waiting"),), (told,)),
    )
    found = replace(CUDA_OOM, rank_timelines=RankTimelines(rank_timelines, 0.0, 10.0))
    drawn = Diagnosis.of(found).to_html().partition('class="lane head"')[2]
    assert set(re.findall(r'<use href="#first" x="([\d.]+%)"', drawn)) == {"50.0%"}
    assert re.findall(r'<use href="#error" x="([\d.]+%)"', drawn) == ["90.0%"]


def jobs(count: int) -> list[Diagnosis]:
    shapes = (CUDA_OOM, NO_FAILURE, SILENT, UNKNOWN, of_ranks(8))
    return [replace(shapes[at % 5], job=JobFiles(f"4711_{at}", at)) for at in range(count)]


def test_several_jobs_share_a_page_with_a_row_each() -> None:
    page = Page(render_jobs_html(jobs(5)))
    assert page.of["h1"] == ["3 of 5 jobs failed"]
    assert "2 cuda-oom, 1 collective-timeout; 1 without failure; 1 unknown" in page.text
    rows = ["".join(row.splitlines()) for row in page.of["tr"][1:6]]
    assert rows[0] == "4711_0✗failedrank 13 on gpu-02 ran out of GPU memorycuda-oom"
    assert rows[1] == "4711_1✓healthyno failure found"
    assert_sound(render_jobs_html(jobs(5)))
    links = [url for url in page.all("href") if url.startswith("#job-")]
    assert links == [f"#job-{at}" for at in range(5)]
    assert {link[1:] for link in links} <= set(page.all("id"))
    assert page.text.count("Raise expert parallelism") == 2


def test_a_page_of_thousands_of_jobs_stays_small_and_shows_those_that_failed() -> None:
    html = render_jobs_html(jobs(3000))
    page = Page(html)
    assert (len(html) < 2_000_000, len(page.elements) < 20_000) == (True, True)
    assert "2,000 more jobs not shown" in page.text
    assert html.count('class="job"') > 20
    assert not re.search(r'<summary><span class="small good"', html)


def test_the_command_writes_a_page_of_several_jobs(tmp_path: Path) -> None:
    for number, log in enumerate(("demo-cascade/slurm-6.out", "ok-srun-label/slurm-1.out")):
        (tmp_path / f"slurm-47{number:02}.out").write_bytes((FIXTURES / log).read_bytes())
    target = tmp_path / "report.html"
    done = run("diagnose", tmp_path, "-o", target)
    assert (done.returncode, done.stdout) == (0, b"")
    page = Page(target.read_text(encoding="ascii"))
    assert page.of["h1"] == ["1 of 2 jobs failed"]
    assert sum("4700" in text for text in page.of["summary"]) == 1


def test_evidence_that_stands_together_shows_its_neighbors_once() -> None:
    raised = "[rank{}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    killed = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed."
    lines = [*(f"step {n}" for n in range(9)), raised.format(0), raised.format(1), killed]
    html = diagnose("\n".join(lines) + "\n").to_html()
    numbers = re.findall(r'<span class="l"><span class="n">(\d+)</span>', html)
    assert len(numbers) == len(set(numbers))
