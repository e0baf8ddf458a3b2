"""docs/glossary.md: each word once, with a meaning in a sentence and a line of a log."""

import re
from pathlib import Path

import pytest

GLOSSARY = Path(__file__).parents[1] / "docs" / "glossary.md"
ROWS = re.findall(r"^\| (?!word |---)(.+?) \|$", GLOSSARY.read_text(encoding="utf-8"), re.M)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.partition(" |")[0])
def test_a_word_has_its_meaning_and_a_line_of_a_log(row: str) -> None:
    word, meaning, line = row.split(" | ")
    assert word == word.lower()
    assert re.fullmatch(r"[A-Z].{20,}\.", meaning)
    assert re.fullmatch(r"`[^`]{12,}`", line)


def test_each_word_is_there_once() -> None:
    words = [row.partition(" |")[0] for row in ROWS]
    assert len(words) > 40
    assert len(set(words)) == len(words)
