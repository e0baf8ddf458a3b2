"""What `re` made of a pattern is kept for the next start."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurmdoctor.matching import kept_patterns, usercache

PATTERNS = [rf"(?P<rank>\d+) of {number}|[a-zä]*(?i:end)$" for number in range(20)]


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A process that has compiled nothing, and an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(usercache, "READY", "/nonexistent")
    monkeypatch.setattr(kept_patterns, "_new", {})
    kept_patterns._kept.cache_clear()
    yield
    kept_patterns._kept.cache_clear()


def start_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_patterns, "_new", {})
    kept_patterns._kept.cache_clear()


def test_a_kept_pattern_is_the_one_that_re_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    first = [kept_patterns.compiled_by_re(one) for one in PATTERNS]
    kept_patterns.keep()
    start_again(monkeypatch)
    again = [kept_patterns.compiled_by_re(one) for one in PATTERNS]
    assert not kept_patterns._new, "all were found in the cache"
    assert first == again == [re.compile(one) for one in PATTERNS]
    assert again[3].fullmatch("17 of 3")["rank"] == "17"  # type: ignore[index]


def test_few_new_patterns_are_not_worth_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    kept_patterns.compiled_by_re(PATTERNS[0])
    kept_patterns.keep()
    start_again(monkeypatch)
    assert not kept_patterns._kept()


@pytest.mark.parametrize(
    "kept", [b"no msgpack", b"\x81\xa1a\xc4\x01\x93", b"\x81\xa1a\xc4\x06\x95\x20\x91\x63\x00\x80\x91\xc0"]
)
def test_odd_content_counts_as_none(kept: bytes) -> None:
    usercache.put(kept_patterns._file(), kept)
    assert kept_patterns.compiled_by_re("a") == re.compile("a")


def test_what_is_no_pattern_is_an_error_as_before() -> None:
    with pytest.raises(re.error):
        kept_patterns.compiled_by_re("(")
