"""Folders of rules that hold anything: bounded time and memory, one line a mistake, and a word on what others may write."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cases import one_line, run
from slurmdoctor.knowledge import problems, rule_reader as read
from slurmdoctor.knowledge.paths import LARGEST, doubts, folders, names
from slurmdoctor.model import UserError


def found_in(folder: Path) -> list[str]:
    return [str(problem) for problem in read.read([folder]).problems]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (os.mkfifo, "it is no regular file"),
        (lambda place: place.symlink_to("/dev/zero"), "it is no regular file"),
        (lambda place: place.symlink_to("gone"), "No such file"),
        (lambda place: place.symlink_to(place), "Too many levels of symbolic links"),
        (lambda place: place.write_bytes(b"#" * (LARGEST + 1)), "it is larger than"),
        (lambda place: place.write_bytes(b"\x7fELF\0\xff"), "not UTF-8 text"),
    ],
)
def test_what_is_no_rule_file_is_one_problem(make: Callable[[Path], object], words: str, tmp_path: Path) -> None:
    make(tmp_path / "odd.yaml")
    (problem,) = found_in(tmp_path)
    assert words in problem
    one_line(run("diagnose", "--rules", tmp_path, "/dev/null"), words)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "cause: site/many\n" + "".join(f"key{n}: x\n" for n in range(60_000)),
        "cause: site/many\nrules:\n" + "".join(f"  - idd: site/many/{n}\n" for n in range(20_000)),
        "silence:\n" + "".join(f"  - gpu/{n}\n" for n in range(20_000)),
        "cause: a\n" + "x: y\n" * 60_000,
    ],
)
def test_of_thousands_of_mistakes_the_first_are_told(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guessed = 0

    def counted(*arguments: object) -> None:
        nonlocal guessed
        guessed += 1

    monkeypatch.setattr(problems, "nearest", counted)
    (tmp_path / "many.yaml").write_text(text)
    told = found_in(tmp_path)
    assert len(told) == problems.MOST + 1
    assert any(f"there are more than {problems.MOST} problems; fix these first" in line for line in told)
    assert guessed <= problems.MOST


def test_fragments_that_use_one_another_twice_are_refused(tmp_path: Path) -> None:
    rows = ["  - id: a\n    regex: 'xxxxxxxxxx'\n    examples: {match: [xxxxxxxxxx], no_match: [y]}\n"]
    rows += [
        f"  - id: {one}\n    regex: '{{{before}}}{{{before}}}'\n    examples: {{match: [x], no_match: [y]}}\n"
        for before, one in zip("abcdefghijklmnopqrstuvwxy", "bcdefghijklmnopqrstuvwxyz", strict=True)
    ]
    (tmp_path / "fragments.yaml").write_text("fragments:\n" + "".join(rows))
    assert any("characters long" in line for line in found_in(tmp_path))


def test_the_root_of_a_file_system_is_no_folder_of_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slurmdoctor.knowledge.paths._MOST", 10)
    for number in range(12):
        (tmp_path / f"{number}.txt").write_text("")
    with pytest.raises(UserError, match="holds more than 10 files"):
        names(tmp_path)


def test_an_option_that_names_nothing_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="which holds no rule file"):
        folders([tmp_path])
    one_line(run("diagnose", "--rules", "", "/dev/null"), "the name is empty")


def test_what_every_user_may_write_is_told_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir(mode=0o755)
    file = tmp_path / "rules" / "host-oom.yaml"
    file.write_text("silence: []\n")
    file.chmod(0o644)
    assert doubts([tmp_path / "rules"]) == []
    file.chmod(0o646)
    (tmp_path / "rules").chmod(0o757)
    told = doubts([tmp_path / "rules"])
    assert [line.partition(":")[0] for line in told] == [
        f"every user may write rules into {tmp_path / 'rules'}",
        f"every user may write rules into {file}",
    ]
    done = run("diagnose", "--rules", tmp_path / "rules", "/dev/null")
    assert (done.returncode, done.stderr.count(b"slurmdoctor: every user may write")) == (0, 2)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_file_that_another_user_put_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "ours.yaml").write_text("silence: []\n")
    (tmp_path / "theirs.yaml").write_text("silence: []\n")
    os.chown(tmp_path, 4242, -1)
    os.chown(tmp_path / "ours.yaml", 4242, -1)
    assert doubts([tmp_path]) == []
    os.chown(tmp_path / "theirs.yaml", 4343, -1)
    (line,) = doubts([tmp_path])
    assert "theirs.yaml" in line
