"""Links of the repository's Markdown, as the site's pages need them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath

ROOT = Path(__file__).parents[1]
PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Files of the root -> their pages."""
_CAUSE = re.compile(r"rules/(?!lint/)[a-z]+/([a-z0-9-]+)\.yaml")
"""The file of a cause, which is a page of the site."""
_LINK = re.compile(r"(?<!\\)(\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^()\s]+)\)")
_CODE = re.compile(r"^(?P<fence>```|~~~).*?^(?P=fence)|`[^`\n]*`", re.M | re.S)


def prose(markdown: str) -> str:
    """The text with its code blanked out, every character in its place."""
    return _CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), markdown)


def links(markdown: str) -> Iterator[str]:
    """Where the text links to."""
    yield from (hit[2] for hit in _LINK.finditer(prose(markdown)))


def rewritten(markdown: str, source: str, page: str, wanted: Callable[[str], None]) -> str:
    """The text of the repository's file `source`, with the links that the site's `page` needs.

    `wanted` is told each file that is no page yet; a folder is no page, and its link becomes plain text.
    """

    def link(hit: re.Match[str]) -> str:
        name, target = hit.groups()
        path, _, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return hit[0]
        found = normpath((PurePosixPath(source).parent / path).as_posix())
        if (ROOT / found).is_dir() and found != "rules":
            return str(name[1:-1])
        there, anchor = _page(found, anchor)
        if there.startswith("source/"):
            wanted(found)
        return f"{name}({relpath(there, PurePosixPath(page).parent.as_posix())}{'#' * bool(anchor)}{anchor})"

    kept = prose(markdown)
    parts, end = [], 0
    for hit in _LINK.finditer(kept):  # links in code stay
        real = _LINK.match(markdown, hit.start())
        if real:
            parts += [markdown[end : hit.start()], link(real)]
            end = real.end()
    return "".join((*parts, markdown[end:]))


def _page(found: str, anchor: str) -> tuple[str, str]:
    """The page of a repository's file, and the anchor in it."""
    if found == "rules":
        return "causes/index.md", ""
    if cause := _CAUSE.fullmatch(found):
        return f"causes/{cause[1]}.md", ""
    if found in PAGES:
        return PAGES[found], anchor
    if found.startswith("docs/"):
        return found.removeprefix("docs/"), anchor
    return (f"source/{found}" if found.endswith(".md") else f"source/{found}.md"), anchor
