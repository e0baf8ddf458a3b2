"""`python -m website`: writes what mkdocs builds the site from, build/mkdocs.yml and build/pages (`make site`)."""

from __future__ import annotations

import shutil

import yaml

from slurmdoctor import diagnose
from website.links import ROOT
from website.pages import known, pages, settings

BUILD = ROOT / "build"
DEMO = ROOT / "tests/fixtures/demo-cascade"


def main() -> None:
    shutil.rmtree(BUILD / "pages", ignore_errors=True)
    shutil.copytree(ROOT / "docs", BUILD / "pages", ignore=shutil.ignore_patterns("*.md", "man"))
    rules = known()
    for name, text in pages(rules).items():
        path = BUILD / "pages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (BUILD / "pages/demo-report.html").write_text(diagnose(DEMO).to_html().replace(f"{ROOT}/", ""))
    base = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    (BUILD / "mkdocs.yml").write_text(yaml.safe_dump(settings(base, rules), sort_keys=False, allow_unicode=True))


if __name__ == "__main__":
    main()
