"""The words of all that people read: plain American English, the field's words, no inversions (issue 14, point 4)."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurmdoctor.knowledge import builtin, load
from slurmdoctor.model import Cause
from tables import table

ROOT = Path(__file__).parents[1]
CAUSES = load((builtin(),)).causes
SENTENCES = sorted(
    file
    for place in ("report/**/*.py", "survey/sections.py", "survey/views.py")
    for file in (ROOT / "src/slurmdoctor").glob(place)
)
PAGES = ["README.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))]
_BAD = {re.compile(pattern, re.IGNORECASE): instead for pattern, instead in table("plain_words").items()}


def found(text: str) -> list[str]:
    text = " ".join(text.split())
    return [f"`{hit[0]}`: write {instead}" for bad, instead in _BAD.items() for hit in bad.finditer(text)]


def said_by(cause: Cause) -> Iterator[str]:
    yield from (cause.title, cause.summary, cause.symptom, *cause.verify, *cause.falsepositives)
    for fix in cause.fixes:
        yield from (fix.do, fix.why or "")


@pytest.mark.parametrize("cause", sorted(CAUSES))
def test_a_cause_is_told_in_plain_words(cause: str) -> None:
    assert not [wrong for text in said_by(CAUSES[cause]) for wrong in found(text)]


@pytest.mark.parametrize("file", SENTENCES, ids=lambda file: file.stem)
def test_the_reports_sentences_are_plain(file: Path) -> None:
    tree = ast.parse(file.read_text())
    notes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    texts = (
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes
    )
    assert not [wrong for text in texts if " " in text for wrong in found(text)]


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_are_plain(page: str) -> None:
    prose = re.sub(r"```.*?```|`[^`]*`", "", (ROOT / page).read_text(), flags=re.S)
    assert not found(prose)


def test_what_crept_in_before_is_found() -> None:
    crept = ("Mend it.", "See that /x is there", "8 ranks failed alike", "one file a rank", "waits in vain")
    assert [text for text in crept if not found(text)] == []
    assert not found("Tell the administrators. It stands for one rank. Check that it exists, per node, the same way.")


_OLD = re.compile(
    r"(?<![a-z])(?:told|said|alike|lanes?|whatever|crowds?|afterlife|heard|spoken?|stands(?! for| out| still))(?![a-z])",
    re.I,
)


@pytest.mark.parametrize("file", sorted((ROOT / "src").rglob("*.py")), ids=lambda file: file.stem)
def test_names_and_docstrings_have_the_fields_words(file: Path) -> None:
    nodes = list(ast.walk(ast.parse(file.read_text())))
    notes = (node.value.value for node in nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    names = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    names |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    names |= {node.id for node in nodes if isinstance(node, ast.Name)}
    assert not _OLD.findall(" ".join(name.replace("_", " ") for name in names))
    assert not [hit for note in notes if isinstance(note, str) for hit in _OLD.findall(note)]
