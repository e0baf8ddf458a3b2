"""Whatever is wrong with the cache, the program works as if there were none."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import msgpack

from rule_files import SITE_LABEL
from slurmdoctor.matching import engine, usercache

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


@pytest.mark.parametrize("damage", [b"", b"x", b"\0" * 4096, None])
def test_a_damaged_or_cut_file_counts_as_none(folder: Path, damage: bytes | None) -> None:
    usercache.put("a.rules", b"data" * 100)
    file = folder / "a.rules"
    file.write_bytes(file.read_bytes()[:-1] if damage is None else damage)
    assert usercache.get("a.rules") is None


def _linked(file: Path) -> None:
    file.rename(file.parents[1] / "elsewhere")
    file.symlink_to(file.parents[1] / "elsewhere")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.chmod(0o666),
        lambda file: file.parent.chmod(0o777),
        lambda file: (
            os.chown(file, 65534, 65534) if os.geteuid() == 0 else pytest.skip("only root can give files away")
        ),
        _linked,
    ],
)
def test_what_others_could_have_written_is_not_believed(folder: Path, spoil: Callable[[Path], object]) -> None:
    usercache.put("a.rules", b"data")
    spoil(folder / "a.rules")
    assert usercache.get("a.rules") is None


def test_old_files_are_swept(folder: Path) -> None:
    for number in range(20):
        usercache.put(f"{number}.rules", b"data")
        os.utime(folder / f"{number}.rules", (number, number))
    assert len(list(folder.glob("*.rules"))) <= 9


def _start(cache: str, site: Path) -> subprocess.Popen[bytes]:
    """A start that the files which the program brings do not serve: a site's rules are compiled anew."""
    env = {**os.environ, "XDG_CACHE_HOME": cache, "HOME": cache}
    command = [sys.executable, "-m", "slurmdoctor", "diagnose", "--format", "json", "--rules", str(site), str(DEMO)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)


@pytest.mark.slow
def test_starts_at_once_and_broken_caches_say_the_same(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "formats.yaml").write_text(SITE_LABEL)
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


def test_what_came_with_the_program_is_no_concern_of_the_users_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usercache, "READY", str(folder))
    usercache.put("a.rules", b"data")
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/nowhere")
    (folder / "a.rules").chmod(0o444)
    assert usercache.get("a.rules") == b"data"


LITERALS = [f"word {number} of a rule".encode() for number in range(100)]


@pytest.mark.parametrize(
    "odd", [7, [LITERALS, [[0]], "x"], [LITERALS, [[0]], [99] * 100]], ids=["types", "x", "outside"]
)
def test_a_search_that_cannot_be_read_is_made_anew(folder: Path, odd: object) -> None:
    _, words, meant = engine.engine_for(LITERALS)
    for file in folder.glob("*.literals"):
        usercache.put(file.name, msgpack.encode(odd))
    found, words_again, meant_again = engine.engine_for(LITERALS)
    assert (words_again, meant_again) == (words, meant)
    assert list(found.which(b"the word 42 of a rule")) == [words.index(LITERALS[42])]
