"""Whatever is wrong with the cache, the program works as if there were none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import Raw, msgpack

from slurmdoctor.search import compiled as patterns
from slurmdoctor.search import engine, regex_internals, usercache

DEMO = Path(__file__).parent / "fixtures" / "demo-cascade"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "slurmdoctor"


def test_what_was_put_comes_back(folder: Path) -> None:
    usercache.put("a.rules", b"data")
    assert usercache.get("a.rules") == b"data"
    assert folder.stat().st_mode & 0o077 == 0
    assert [file.name for file in folder.iterdir()] == ["a.rules"]


@pytest.mark.parametrize("damage", [b"", b"x", b"\0" * 4096])
def test_a_damaged_file_counts_as_none(folder: Path, damage: bytes) -> None:
    usercache.put("a.rules", b"data")
    (folder / "a.rules").write_bytes(damage)
    assert usercache.get("a.rules") is None


def test_a_cut_file_counts_as_none(folder: Path) -> None:
    usercache.put("a.rules", b"data" * 100)
    file = folder / "a.rules"
    file.write_bytes(file.read_bytes()[:-1])
    assert usercache.get("a.rules") is None


def test_what_others_may_write_to_is_not_believed(folder: Path) -> None:
    usercache.put("a.rules", b"data")
    (folder / "a.rules").chmod(0o666)
    assert usercache.get("a.rules") is None
    (folder / "a.rules").chmod(0o600)
    folder.chmod(0o777)
    assert usercache.get("a.rules") is None


def test_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    usercache.put("a.rules", b"data")
    (folder / "a.rules").rename(tmp_path / "elsewhere")
    (folder / "a.rules").symlink_to(tmp_path / "elsewhere")
    assert usercache.get("a.rules") is None


def test_old_files_are_swept(folder: Path) -> None:
    for number in range(20):
        usercache.put(f"{number}.rules", b"data")
        os.utime(folder / f"{number}.rules", (number, number))
    assert len(list(folder.glob("*.rules"))) <= 9


SITE = r"""
formats:
  - id: site-label
    source: the launcher of a site
    pattern: '#w(?P<rank>\d+)# '
    samples: [{line: '#w3# hello', rank: 3, text: hello}]
"""


def _start(cache: str, site: Path) -> subprocess.Popen[bytes]:
    """A start that the files which the program brings do not serve: a site's rules are compiled anew."""
    env = {**os.environ, "XDG_CACHE_HOME": cache, "HOME": cache}
    command = [sys.executable, "-m", "slurmdoctor", "diagnose", "--format", "json", "--rules", str(site), str(DEMO)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)


@pytest.mark.slow
def test_starts_at_once_and_broken_caches_say_the_same(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "formats.yaml").write_text(SITE)
    starts = [_start(str(tmp_path), site) for _ in range(3)]
    said = {(start.communicate()[0], start.returncode) for start in starts}
    for file in (tmp_path / "slurmdoctor").iterdir():
        assert not file.name.startswith(".new-")
        file.write_bytes(b"broken")
    for cache in (str(tmp_path), str(tmp_path), "/dev/null/nowhere", ""):
        start = _start(cache, site)
        out, err = start.communicate()
        assert err == b""
        said.add((out, start.returncode))
    assert len(said) == 1
    assert said.pop()[1] == 0


def _as_in_another_process() -> None:
    for kept in (patterns.compiled, regex_internals._shipped, regex_internals._own):
        kept.cache_clear()


def test_kept_patterns_find_what_new_ones_find(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = r"(?P<rank>\d+): (?:lost|found) (?i:node)"
    monkeypatch.setattr(regex_internals, "_fresh", {})
    _as_in_another_process()
    new = patterns.compiled(pattern)
    regex_internals._write(os.getpid())
    _as_in_another_process()
    kept = regex_internals.recall(pattern)
    assert kept is not None
    assert kept is not new
    for text in ("12: lost NODE", "x", "12: lost"):
        one, other = new.search(text), kept.search(text)
        assert (one and one.groupdict()) == (other and other.groupdict())
    _as_in_another_process()


def test_what_came_with_the_program_is_no_concern_of_the_users_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usercache, "READY", str(folder))
    usercache.put("a.rules", b"data")
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/nowhere")
    (folder / "a.rules").chmod(0o444)
    assert (usercache.shipped("a.rules"), usercache.get("a.rules")) == (b"data", None)


# ── whole files with odd content ─────────────────────────────────────────────────────────────

LITERALS = [f"word {number} of a rule".encode() for number in range(100)]
OFFSETS = [0] * 100
ALONE = [[number] for number in range(100)]


@pytest.mark.parametrize(
    "odd",
    [
        7,
        [LITERALS, ALONE, "x"],
        [[b"e"] * 100, ALONE, OFFSETS],
        [LITERALS, [[0]] * 100, OFFSETS],
        [LITERALS, [[number + 1] for number in range(100)], OFFSETS],
        [LITERALS, ALONE, [99] * 100],
        [LITERALS[::-1], ALONE, OFFSETS],
    ],
    ids=["no search", "types", "a letter as a word", "one literal for all", "no such literal", "outside", "others"],
)
def test_a_search_that_does_not_fit_its_literals_is_made_anew(folder: Path, odd: object) -> None:
    _, words, meant = engine.engine_for(LITERALS)
    files = list(folder.glob("*.literals"))
    assert bool(files) == (engine.available() != "python")
    for file in files:
        usercache.put(file.name, msgpack.encode(odd))
    found, words_again, meant_again = engine.engine_for(LITERALS)
    assert (words_again, meant_again) == (words, meant)
    assert list(found.which(b"the word 42 of a rule")) == [words.index(LITERALS[42])]


@pytest.mark.parametrize(
    "odd", [b"\xc0", msgpack.encode(7), msgpack.encode(("other", 0, b"", {}, {}, {}, [], 0, (), 0, 0))]
)
def test_a_pattern_that_is_another_one_is_compiled_anew(
    folder: Path, odd: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern = r"rank (?P<rank>\d+) of none"
    monkeypatch.setattr(regex_internals, "_fresh", {regex_internals._number(pattern): Raw(odd)})
    regex_internals._write(os.getpid())
    _as_in_another_process()
    assert regex_internals.recall(pattern) is None
    found = patterns.compiled(pattern).search("rank 3 of none")
    assert found is not None
    assert found["rank"] == "3"
    _as_in_another_process()


HALF = """
import sys, threading
{before}
import slurmdoctor
from slurmdoctor.search import compiled as patterns
slurmdoctor.diagnose({demo!r})
print("regex" in sys.modules)
kept = patterns.compiled(r"rank (?P<rank>\\d+) (?:said|(?i:DID)) (\\p{{Lu}}\\w+)")
import regex
new = regex.compile(kept.pattern)
assert type(kept) is type(new) is type(patterns.compiled("[a-z]+")), "the same types"
assert kept.sub(r"<\\g<rank>>", "a rank 3 did Run") == new.sub(r"<\\g<rank>>", "a rank 3 did Run") == "a <3>"
assert kept.search("rank 3 did run") is None and new.fullmatch("rank 12 said No")["rank"] == "12"
assert regex._regex.compile is not None and regex.__version__
print("fine")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "whole"),
    [
        ("", False),
        ("import regex", True),
        ("threading.Thread(target=threading.Event().wait, daemon=True).start()", True),
        (
            "from importlib.machinery import PathFinder as f; old = f.find_spec; f.find_spec = lambda *of: old(*of) if of[1:] else None",
            True,
        ),
    ],
    ids=["alone", "imported already", "among threads", "another importer"],
)
def test_patterns_that_are_kept_need_but_the_compiled_half_of_regex(before: str, whole: bool, tmp_path: Path) -> None:
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    program = HALF.format(before=before, demo=str(DEMO))
    for start in ("first", "second"):
        done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
        assert done.stderr == ""
        # the program brings its patterns compiled; a clone whose rules were edited since compiles them at the first start
        assert done.stdout in ({f"{whole}\nfine\n"} | ({"True\nfine\n"} if start == "first" else set()))
