"""CHANGELOG.md has the form of Keep a Changelog, and keeps it while many people add to it."""

import re
from datetime import date
from pathlib import Path

TEXT = (Path(__file__).parents[1] / "CHANGELOG.md").read_text()
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
RELEASES = re.split(r"^## ", re.sub(r"<!--.*?-->\n", "", TEXT, flags=re.S), flags=re.M)[1:]


def test_it_begins_with_what_is_not_released_then_versions_with_their_dates_the_newest_first() -> None:
    assert RELEASES[0].startswith("Unreleased\n")
    assert len(RELEASES) > 1
    heads = [re.match(r"(\d+)\.(\d+)\.(\d+) - (\d{4}-\d\d-\d\d)\n", release) for release in RELEASES[1:]]
    assert all(heads)
    seen = [(tuple(int(one) for one in head.groups()[:3]), date.fromisoformat(head[4])) for head in heads if head]
    assert seen == sorted(seen, reverse=True)


def test_every_entry_is_one_line_below_its_kind_and_none_is_there_twice() -> None:
    assert [line for line in TEXT.splitlines() if len(line) > 700] == [], "an entry fits on a screen"
    for release in RELEASES:
        kinds = re.findall(r"^### (.*)", release, re.M)
        assert kinds == [kind for kind in KINDS if kind in kinds], release[:20]
        before, *groups = re.split(r"^### .*\n", release, flags=re.M)
        assert not re.search(r"^- ", before, re.M), "put it below Added, Changed or Fixed"
        lines = [line for group in groups for line in group.splitlines() if line]
        assert [line for line in lines if not line.startswith("- ")] == []
        assert len(set(lines)) == len(lines)
