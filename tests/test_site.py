"""The docs site: what it says can be run, and what it links to is there."""

import itertools
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import click
import pytest
from click.testing import CliRunner
from website import contract, outputs
from website.links import ROOT, links, prose

from slurmdoctor.cli import cli

TEXTS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "corpus/README.md", "tests/fixtures/README.md"]
TEXTS += sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))


def read(text: str) -> str:
    return (ROOT / text).read_text()


def anchors(markdown: str) -> set[str]:
    """The addresses of a text's headings, as GitHub and the site make them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)", re.sub(r"^```.*?^```", "", markdown, flags=re.M | re.S), re.M):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found.add(next(one for n in itertools.count() if (one := slug + (f"-{n}" if n else "")) not in found))
    return found


@pytest.mark.parametrize("text", TEXTS)
def test_every_link_leads_to_a_file_and_a_heading_that_are_there(text: str) -> None:
    for target in links(read(text)):
        path, _, anchor = target.partition("#")
        if urlsplit(target).scheme:
            continue
        found = (ROOT / text).parent / path if path else ROOT / text
        assert found.exists(), target
        if anchor:
            assert anchor in anchors(found.read_text()), target


@pytest.mark.parametrize("text", TEXTS)
def test_links_to_elsewhere_are_whole_and_safe(text: str) -> None:
    for address in re.findall(r"\b[a-z]{3,9}://[^\s)>\]`'\"|]+", prose(read(text))):
        # a page of the browser itself; the form of an address of one's own
        if address.rstrip(",;") in ("chrome://tracing", "tcp://HOST:8786", "tcp://head:8786"):
            continue
        parts = urlsplit(address)
        assert parts.scheme == "https", address
        assert re.fullmatch(r"[a-z0-9.-]+\.[a-z]{2,}", parts.netloc), address


# What can be typed: the lines of code blocks that call slurmdoctor.
def typed(text: str) -> Iterator[str]:
    for language, block in re.findall(r"^```(\w*)[^\n]*\n(.*?)^```", read(text), re.M | re.S):
        if language in ("", "bash", "console", "sh", "yaml"):
            marked = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
            yield from marked or block.replace("\\\n", " ").splitlines() if language != "yaml" else marked


def calls(line: str) -> Iterator[list[str]]:
    """The words behind each `slurmdoctor` of a line, up to the next pipe or redirection."""
    if line.lstrip().startswith("#"):
        return
    try:
        lexer = shlex.shlex(line.replace("[", "").replace("]", ""), posix=True, punctuation_chars="|&;<>()")
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:
        return
    for before, part in itertools.groupby(words, key=lambda word: bool(re.fullmatch(r"[|&;<>()]+", word))):
        group = list(part)
        if not before and "slurmdoctor" in group[:1] + group[1:2] * (group[0] in ("sudo", "timeout", "time")):
            yield group[group.index("slurmdoctor") + 1 :]


def wrong(words: list[str]) -> str | None:
    """What click would say against a call, but for what the call's files hold."""
    group: click.Command = cli
    context = click.Context(cli)
    while isinstance(group, click.Group) and words:
        found = None if words[0].startswith("-") else group.get_command(context, words[0])
        if found is None and group.name == "survey" and words[0] != "--help":  # short for `survey run`
            group = group.get_command(context, "run") or group
            continue
        if words[0].startswith("-"):
            break
        if found is None:
            return f"there is no command {words[0]}"
        group, words = found, words[1:]
    try:
        parser = group.make_parser(click.Context(group))
        given, _, _ = parser.parse_args(args=list(words))
        for option in group.params:
            kind, value = option.type, given.get(option.name or "")
            if isinstance(kind, click.Choice) and isinstance(value, str) and value not in kind.choices:
                return f"{option.name}: there is no {value}"
    except click.ClickException as error:
        return error.format_message()
    return None


@pytest.mark.parametrize("text", TEXTS)
def test_every_call_shown_is_one_that_the_program_takes(text: str) -> None:
    said = {line: wrong(words) for line in typed(text) for words in calls(line)}
    assert not {line: error for line, error in said.items() if error}


def test_a_call_that_is_wrong_is_noticed() -> None:
    (words,) = calls("zcat a.gz | slurmdoctor diagnose - --format xml")
    assert wrong(words) == "form: there is no xml"
    assert wrong(["rules", "prove", "x.yaml"]) == "there is no command prove"


def test_the_rule_files_shown_are_proven(tmp_path: Path) -> None:
    """In one check: reading all rules takes most of it."""
    for number, block in enumerate(re.findall(r"^```yaml\n(.*?)^```", read("docs/site-rules.md"), re.M | re.S)):
        named = re.search(r"^cause: (\S+)", block, re.M)
        (tmp_path / f"{named[1] if named else f'ours{number}'}.yaml").write_text(block)
    result = CliRunner().invoke(cli, ["rules", "check", str(tmp_path)])
    assert result.exit_code == 0, result.output


# What is shown as output: below `$ slurmdoctor ...`, in blocks marked as console.
SHOWN = [(text, *call) for text in outputs.TEXTS for call in outputs.shown(read(text))]


@pytest.mark.parametrize(("text", "command", "output"), SHOWN, ids=[f"{text}:{said}" for text, said, _ in SHOWN])
def test_the_output_shown_is_the_output_printed(text: str, command: str, output: str) -> None:
    """`make docs` writes it again."""
    real = outputs.printed(command)
    assert outputs.same(output, real), real


def test_every_key_of_the_contract_says_what_it_means() -> None:
    keys = contract.keys(contract.schema())
    assert [path for path in keys if not keys[path]] == [], "describe them in src/slurmdoctor/report/schema.json"


@pytest.mark.parametrize("text", [text for text in TEXTS if text.startswith("docs/")])
def test_a_page_can_be_read_in_one_go(text: str) -> None:
    assert len(read(text).splitlines()) <= 310


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere() -> None:
    """mkdocs warns of dead links, and of pages that are in no menu."""
    subprocess.run(["make", "site"], cwd=ROOT, check=True, timeout=500)
    pages = list((ROOT / "build/site").rglob("*.html"))
    assert len(pages) > 70
    for path in pages:
        loaded = re.findall(r"<(?:script|img|iframe|source|link)\b[^>]*>", path.read_text())
        elsewhere = [one for one in loaded if re.search(r"(?:src|href)=[\"']?(?:https?:)?//", one)]
        assert [one for one in elsewhere if not re.search(r"rel=[\"']?(?:prev|next|canonical)", one)] == [], path.name
    for path in (ROOT / "build/site").rglob("*.css"):
        assert not re.search(r"@import|url\([\"']?(?:https?:)?//", path.read_text()), path.name
