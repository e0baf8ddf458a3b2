"""Whatever is wrong with the cache, the program works as if there were none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slurmdoctor.search import compiled as patterns
from slurmdoctor.search import regex_internals, usercache

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


def _start(cache: str) -> subprocess.Popen[bytes]:
    env = {**os.environ, "XDG_CACHE_HOME": cache, "HOME": cache}
    command = [sys.executable, "-m", "slurmdoctor", "diagnose", "--format", "json", str(DEMO)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)


@pytest.mark.slow
def test_starts_at_once_and_broken_caches_say_the_same(tmp_path: Path) -> None:
    starts = [_start(str(tmp_path)) for _ in range(3)]
    said = {(start.communicate()[0], start.returncode) for start in starts}
    for file in (tmp_path / "slurmdoctor").iterdir():
        assert not file.name.startswith(".new-")
        file.write_bytes(b"broken")
    for cache in (str(tmp_path), str(tmp_path), "/dev/null/nowhere", ""):
        start = _start(cache)
        out, err = start.communicate()
        assert err == b""
        said.add((out, start.returncode))
    assert len(said) == 1
    assert said.pop()[1] == 0


def test_kept_patterns_find_what_new_ones_find(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = r"(?P<rank>\d+): (?:lost|found) (?i:node)"
    monkeypatch.setattr(regex_internals, "_stored", None)
    monkeypatch.setattr(regex_internals, "_fresh", {})
    patterns.compiled.cache_clear()
    new = patterns.compiled(pattern)
    regex_internals._write(os.getpid())
    monkeypatch.setattr(regex_internals, "_stored", None)
    patterns.compiled.cache_clear()
    assert pattern in regex_internals._read()
    kept = patterns.compiled(pattern)
    assert kept is not new
    for text in ("12: lost NODE", "x", "12: lost"):
        one, other = new.search(text), kept.search(text)
        assert (one and one.groupdict()) == (other and other.groupdict())


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
        assert done.stdout == f"{whole or start == 'first'}\nfine\n"
