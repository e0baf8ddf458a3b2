"""Markdown and Slack: short, and nothing that a log says can format, link, mention or ping."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec.structs import replace
from syrupy.assertion import SnapshotAssertion

from report_examples import CUDA_OOM, EXAMPLES, EXIT_CODE, NO_FAILURE, SILENT, UNKNOWN
from slurmdoctor import Diagnosis
from slurmdoctor.model import Coverage, Evidence, Exit, FirstFailure, NamedCause, Remedy, Retry, Rival
from slurmdoctor.report import chat as markdown, render
from slurmdoctor.report.redaction import one_line
from test_report_goldens import TextFile

MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])

ATTACKS = [
    "@channel @here @everyone @octocat",
    "<!here> <!channel> <!everyone> <@U012AB3CD> <#C012AB3CD|general> <!subteam^S012|x>",
    "<https://evil.example|click> https://evil.example http://evil.example www.evil.example",
    "[click](https://evil.example) ![x](https://evil.example/x.png) <https://evil.example>",
    "[ref]: https://evil.example",
    "``` \n@everyone\n```",
    "```\n# heading\n````\n@here\n`````",
    "`` ` `` ` `code` \\`",
    "~~~\n~~~",
    "*bold* _it_ **b** __b__ ~~s~~ ***x*** _a_b_",
    "<script>alert(1)</script> <b>x</b> <!-- c --> &lt;b&gt; &amp; <details>",
    "# heading\n- item\n1. item\n> quote\n---\n| a | b |\n|---|---|\n| c | d |",
    "$\\frac{1}{2}$ #123 GH-1 !45 org/repo#7 :skull:",
    "mailto:a@b.example a@b.example xmpp:x@y",
    "\x1b[31mred\x1b[0m \x1b]8;;https://evil.example\x07link\x1b]8;;\x07 \u202eabc\u2066",
    "\n\n\n    code\n\n<div>\n",
    "a" * 5000,
    "`" * 5000,
    "*" * 3000,
    "",
]


def hostile(said: str) -> Diagnosis:
    """A diagnosis in which the log speaks wherever it can."""
    return Diagnosis(
        "failed",
        NamedCause("cuda-oom", "memory", said, "cuda-oom/torch", "low"),
        FirstFailure(3, 1, said, said, said, 7, said, (f'  File "{said}", line 3, in {said}', "    x", said), said),
        Exit(1, None, "python-error", 143, said),
        evidence=(Evidence(said, 9, said, 1, said, said, "r", "cuda-oom", "root"),),
        others=(Rival(said, "low", said),),
        reasons=(said, said),
        fixes=(Remedy(said, said, said),),
        verify=(said,),
        retry=Retry("elsewhere", said, (said,)),
        facts={"job_id": said, "last_step": said, "world_size": 8},
        coverage=Coverage(1, 2, 3, 4, (5,), "file", ("sacct", "scontrol", said), (said,)),
    )


def tokens(text: str) -> Iterator[Token]:
    for token in MARKDOWN.parse(text):
        yield token
        yield from token.children or ()


def outside_of_code(text: str) -> str:
    return "\n".join(token.content for token in tokens(text) if token.type == "text")


def assert_contained(text: str) -> None:
    assert len(text) <= markdown.LIMIT
    kinds = [token.type for token in tokens(text)]
    assert (set(kinds) <= ALLOWED, kinds.count("fence") <= 1) == (True, True)
    assert not LIVE.search(outside_of_code(text))


ALLOWED = {
    "paragraph_open", "paragraph_close", "inline", "text", "softbreak", "hardbreak", "strong_open", "strong_close",
    "code_inline", "fence", "bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close", "text_special",
}  # fmt: skip
LIVE = re.compile(r"@\w|https?://|ftp://|www\.|<[@#!]|mailto:\w|xmpp:\w|#\d|GH-\d", re.IGNORECASE)


def assert_harmless(text: str, quotes: bool) -> None:
    assert_contained(text)
    seen = list(tokens(text))
    assert [token.level for token in seen if token.type == "fence"] == ([0] if quotes else [])
    for token in seen:
        if token.type in {"fence", "code_inline"}:
            # Slack and Discord read some of these inside of code too
            assert not re.search(r"@(?:everyone|here|channel)|<[@#!]|`{3}", token.content)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    # bold is ours alone: one headline and one label a line
    strong = [token for token in seen if token.type == "strong_open"]
    assert len(strong) <= 1 + 9
    assert text.splitlines()[0].startswith("**")


BARE = {verdict: replace(Diagnosis("unknown"), verdict=verdict) for verdict in ("failed", "no-failure", "unknown")}


@pytest.mark.parametrize("diagnosis", [*EXAMPLES.values(), *BARE.values()], ids=[*EXAMPLES, *BARE])
def test_the_examples_and_bare_answers(diagnosis: Diagnosis) -> None:
    text = render(diagnosis, "markdown")
    assert_harmless(text, quotes="```" in text)
    assert text == diagnosis.to_markdown()
    assert_slack(diagnosis)


def test_markdown_reads_well(snapshot: SnapshotAssertion) -> None:
    assert render(CUDA_OOM, "markdown") == snapshot(extension_class=TextFile)


FIXES = (
    Remedy("Look with `srun -N1 df -h /scratch/demo` at *node07*, then `dmesg -T`.", "It was full."),
    Remedy("x" * 600, "Too long to be shown whole."),
    Remedy("Ask `"),
    Remedy("a fourth"),
)


def test_fixes_are_numbered_and_whole_with_commands_as_code() -> None:
    said = replace(CUDA_OOM, fixes=FIXES)
    shown = render(said, "markdown")
    first = "**Fix 1:** Look with `srun -N1 df -h /scratch/demo` at \\*node07\\*, then `dmesg -T`.  \nIt was full.  \n"
    assert (first in shown, "**Fix 2:** Ask \\`  \n" in shown) == (True, True)
    assert not re.search("xxx|fourth", shown)
    coded = [e["text"] for e in walk(assert_slack(said)) if e.get("style") == {"code": True}]
    assert coded[1:] == ["srun -N1 df -h /scratch/demo", "dmesg -T"]
    assert "**Fix:** Ask" in render(replace(CUDA_OOM, fixes=FIXES[2:3]), "markdown")


def test_markdown_asks_for_what_would_tell() -> None:
    for diagnosis in (EXIT_CODE, UNKNOWN, SILENT):
        assert "`sacct -j " in render(diagnosis, "markdown")
    for diagnosis in (CUDA_OOM, NO_FAILURE):
        assert "Not enough?" not in render(diagnosis, "markdown")


@pytest.mark.parametrize("said", ATTACKS, ids=[attack[:16].strip() for attack in ATTACKS])
def test_no_attack_leaves_its_block(said: str) -> None:
    assert_harmless(render(hostile(said), "markdown"), quotes=bool(said))
    assert_slack(hostile(said))


MARKUP = st.text(
    st.one_of(st.sampled_from("`*_~<>[]()!@#|&$:/\\\n\r\t -+=.1a\x1b\u200b\u202e"), st.characters()), max_size=400
)


@example(said="@`")
@example(said="\u0300" * 400)
@given(MARKUP)
def test_no_text_leaves_its_block(said: str) -> None:
    text = render(hostile(said), "markdown")
    assert_contained(text)
    text.encode()
    assert_slack(hostile(said))


@given(MARKUP)
def test_code_and_prose_say_what_they_were_given(said: str) -> None:
    """Escaped or broken, never lost: without the zero-width spaces the words are the same."""
    want = one_line(said).replace("\u200b", "")
    if not want.strip() or "\ufffd" in want:
        return
    shown = "".join(t.content for t in tokens(f"x{markdown.code(said)}x") if t.type == "code_inline")
    assert " ".join(shown.replace("\u200b", "").split()) == " ".join(want.split())
    shown = outside_of_code(f"x {markdown.prose(said)} x").replace("\u200b", "").replace("\n", "")
    assert "".join(shown.split())[1:-1] == "".join(want.split())


ELEMENTS = {"rich_text_section", "rich_text_preformatted", "rich_text_list", "text"}


def walk(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from walk(item)


def assert_slack(diagnosis: Diagnosis) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(render(diagnosis, "slack"))
    assert set(message) == {"text", "blocks", "unfurl_links", "unfurl_media"}
    assert message["unfurl_links"] is message["unfurl_media"] is False
    assert 0 < len(message["text"]) <= 1500
    assert not re.search(r"[<>*`~]|@\w|://", message["text"])
    assert not re.search(r"&(?!amp;|lt;|gt;)", message["text"])
    (block,) = message["blocks"]
    assert block["type"] == "rich_text"
    for element in walk(block["elements"]):
        if "type" in element:  # text is the only leaf: no link, user, channel, broadcast or emoji
            assert element["type"] in ELEMENTS
            if element["type"] == "text":
                assert element["text"]
                assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", element["text"])
    assert sum(len(element.get("text", "")) for element in walk(block)) <= 3000
    return message


def test_slack_says_it_all() -> None:
    said = json.dumps(assert_slack(CUDA_OOM), ensure_ascii=False)
    proof = ("rank 13 on gpu-02 ran out of GPU memory", "job.log:48211", "Tried to allocate 2.00 GiB")
    assert [part for part in (*proof, "Fix 1: ", "Fix 2: ", "Why: ") if part not in said] == []
    assert "sacct -j 77" in json.dumps(assert_slack(EXIT_CODE))
