"""All pages of the site, as Markdown by their names: those of docs/, those that are made, and the files that they link to."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

from slurmdoctor.knowledge.loading import load
from slurmdoctor.knowledge.paths import builtin
from slurmdoctor.model import Knowledge
from website import causes, columns, commands, contract
from website.links import PAGES, ROOT, rewritten

_LANGUAGES = {".py": "python", ".json": "json", ".yaml": "yaml", ".yml": "yaml", ".sh": "bash", ".sbatch": "bash"}

_EXAMPLE = "<!-- the site has an example here -->", "[The page of the job that these guides use](demo-report.html)"
_ELSEWHERE = {"index.md"}
"""Pages of docs/ that the guides leave out."""
_WIDE = {"index.md": "navigation", "start.md": "toc"}
"""Pages that leave out a column, so that a report fits."""


def known() -> Knowledge:
    return load((builtin(),), cache=False)


def pages(rules: Knowledge) -> dict[str, str]:
    """Name -> Markdown, with the links that the site needs."""
    sources = {f"docs/{path.name}": path.name for path in (ROOT / "docs").glob("*.md")}
    sources |= {source: page for source, page in PAGES.items() if source != "README.md"}
    made = {"commands.md": commands.markdown(), "json.md": contract.page(), "survey-columns.md": columns.page()}
    made |= {"causes/index.md": causes.index(rules)}
    made |= {f"causes/{cause.id}.md": causes.page(cause, rules) for cause in rules.causes.values()}
    texts = {page: (f"docs/{page}", text) for page, text in made.items()}
    texts |= {page: (source, (ROOT / source).read_text()) for source, page in sources.items()}
    done: dict[str, str] = {}
    while texts:
        page, (source, text) = texts.popitem()
        wanted: list[str] = []
        head = f"---\nhide: [{_WIDE[page]}]\n---\n" if page in _WIDE else ""
        done[page] = head + _tables(rewritten(text, source, page, wanted.append)).replace(*_EXAMPLE)
        for one in wanted:
            name = f"source/{one}" if one.endswith(".md") else f"source/{one}.md"
            if name not in done and (ROOT / one).is_file():
                texts[name] = (one, _shown(one))
    return done


def settings(base: dict[str, Any], rules: Knowledge) -> dict[str, Any]:
    """mkdocs.yml with a page for each cause in its navigation, family by family.

    A page of docs/ that mkdocs.yml does not place comes last among the guides.
    """
    families = groupby(causes.sorted_causes(rules), key=lambda cause: cause.family)
    of_causes = [{family.capitalize(): [f"causes/{cause.id}.md" for cause in members]} for family, members in families]
    parts = {title: list(entries) for part in base["nav"] for title, entries in part.items() if title != "Home"}
    placed = {page for entries in parts.values() for entry in entries for page in entry.values()}
    rest = sorted(path.name for path in (ROOT / "docs").glob("*.md") if path.name not in {*placed, *_ELSEWHERE})
    parts["Guides"] += rest
    parts["Causes"] = ["causes/index.md", *of_causes]
    return {**base, "nav": [{"Home": "index.md"}, *({title: entries} for title, entries in parts.items())]}


def _shown(name: str) -> str:
    """A file of the repository as a page."""
    text = (ROOT / name).read_text()
    if name.endswith(".md"):
        return text
    language = next((known for end, known in _LANGUAGES.items() if name.endswith(end)), "text")
    return f"---\nsearch: {{exclude: true}}\n---\n# {name}\n\n````{language}\n{text.rstrip()}\n````\n"


def _tables(text: str) -> str:
    r"""GitHub wants `\|` in the code of a table; here it would be shown."""
    rows = re.compile(r"^\|.*\|$", re.M)
    return rows.sub(lambda row: re.sub(r"(`+).*?\1", lambda code: code[0].replace(r"\|", "|"), row[0]), text)
