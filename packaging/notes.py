"""Prints what CHANGELOG.md says of the version that a tag names: `python packaging/notes.py v1.2.3`. Fails where the tag is not the version."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


class TagError(Exception):
    """Why this tag must not be published."""


def version_of(source: str) -> str:
    """The version that the program has."""
    found = re.search(r'^__version__ = "(.+)"$', source, re.M)
    if found is None:
        raise TagError("src/slurmdoctor/__init__.py has no __version__")
    return found[1]


def notes(tag: str, version: str, changelog: str) -> str:
    """The changelog's section of this version."""
    if tag != f"v{version}":
        raise TagError(
            f"the tag is {tag}, but __version__ in src/slurmdoctor/__init__.py is {version}: the tag must be v{version}"
        )
    head = re.search(rf"^## \[?{re.escape(version)}\]?(?: - (\S+))?(.*)$", changelog, re.M)
    if head is None:
        raise TagError(f"CHANGELOG.md has no section `## {version} - YYYY-MM-DD`")
    if head[1] is None or not re.fullmatch(r"\d{4}-\d\d-\d\d", head[1]) or head[2]:
        raise TagError(f"CHANGELOG.md: write the day of the release into the heading: `## {version} - 2026-11-30`")
    text = re.split(r"^(?:## |\[[^\]]+\]: )", changelog[head.end() :], maxsplit=1, flags=re.M)[0].strip()
    if not text:
        raise TagError(f"CHANGELOG.md says nothing of {version}")
    return text


def main(tag: str) -> None:
    """Print the notes."""
    version = version_of((ROOT / "src" / "slurmdoctor" / "__init__.py").read_text(encoding="utf-8"))
    print(notes(tag, version, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: notes.py TAG")
    try:
        main(sys.argv[1])
    except TagError as wrong:
        raise SystemExit(f"notes.py: {wrong}") from None
