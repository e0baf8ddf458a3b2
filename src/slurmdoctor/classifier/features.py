"""What the classifier sees of a line: its words, pairs of them and pieces of them, as columns of a table.

A column is the CRC-32 of a feature's text, cut to 18 bits: the same on every machine, and no list of words to keep.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from zlib import crc32

COLUMNS = 1 << 18
_LONGEST = 300
"""Characters of a line, and"""
_MOST_WORDS = 80
"""words of it that count."""
_CODE = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]{12,}\b")
_NUMBER = re.compile(r"\d+")
_WORD = re.compile(r"[a-z_]+|0|[^\sa-z0_]")
_NAME = re.compile(r"[A-Za-z_.]{2,}")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_PIECES = (3, 5)
"""Letters of the pieces of a word."""


def masked(text: str) -> str:
    """A line, which has no labels, without its numbers."""
    return _NUMBER.sub("0", _CODE.sub("0", text[: 4 * _LONGEST])).strip()[:_LONGEST]


def words_of(line: str) -> list[str]:
    """The words of a masked line, pairs of them, and the words in `FileNotFoundError`."""
    words = _WORD.findall(line.lower())[:_MOST_WORDS]
    named = (_PART.findall(name) for name in _NAME.findall(line))
    parts = (part.lower() for found in named if len(found) > 1 for part in found)
    return list(dict.fromkeys([*words, *parts, *(f"{one} {other}" for one, other in pairwise(words))]))


def pieces_of(line: str) -> list[str]:
    """The words of a masked line, and pieces of them."""
    names = [f"<{name.lower()}>" for name in _NAME.findall(line)]
    pieces = (name[at : at + size] for name in names for size in _PIECES for at in range(len(name) - size + 1))
    return list(dict.fromkeys([*words_of(line), *(f"~{piece}" for piece in pieces)]))


def columns(features: Iterable[str]) -> list[int]:
    """The columns of the features, rising, each once."""
    return sorted({crc32(feature.encode("utf-8", "replace")) % COLUMNS for feature in features})


_LEVEL = re.compile(r"\b(ERROR|FATAL|CRITICAL|WARN(?:ING)?|INFO|DEBUG|NOTICE|Error|Warning|Fatal)\b")
_EXCEPTION = re.compile(r"\s*(?:[\w.]+)?(?:Error|Exception|Exit|Interrupt|Warning)\b")
_TROUBLE = re.compile(
    r"error|fail|fatal|abort|exception|denied|cannot|can't|could not|couldn't|unable|kill|signal|timeout|timed out|time limit|not found"
    r"|no such|invalid|illegal|refused|unreachable|out of|exceed|terminat|segv|segmentation|panic|assert|unrecognized|unknown|undefined"
    r"|missing|mismatch|corrupt|nan\b|unexpected|unsupported|not supported|no space|quota|cancel|lost|died|dead|broken|usage:|bad |oom",
    re.IGNORECASE,
)


def is_trouble(text: str) -> bool:
    """Whether a line has a word of trouble."""
    return _TROUBLE.search(text) is not None


def place_of(text: str, below: int) -> tuple[str, ...]:
    """Features of a line's place: how many lines are `below` it in its file, and what kind of line it is."""
    end = min(below.bit_length(), 9)
    level = found[1].upper()[:4] if (found := _LEVEL.search(text[:120])) else "-"
    raised, trouble = _EXCEPTION.match(text) is not None, is_trouble(text)
    inner = text[:1] in (" ", "\t")
    return (
        "@end " + str(end),
        f"@level {level} {min(end, 6)}",
        f"@raised {raised:d} {inner:d} {min(end, 6)}",
        f"@trouble {trouble:d} {inner:d} {min(end, 6)}",
    )
