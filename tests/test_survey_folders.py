"""The jobs of folders as a survey's items."""

import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from slurmdoctor.model import UserError
from slurmdoctor.survey import listing
from slurmdoctor.survey.rows import Choice, Item

SACCT = """JobID|JobName|User|Account|Cluster|Partition|State|ExitCode|Submit|Start|End|ElapsedRaw|NodeList|AllocTRES
4711|train|demo|vision|alps|gpu|FAILED|1:0|2026-11-20T10:00:00|2026-11-20T10:05:00|2026-11-20T11:05:00|3600|node[01-02]|billing=4,gres/gpu=8,gres/gpu:a100=8,node=2
4711.batch|batch|||||FAILED|1:0|2026-11-20T10:05:00|2026-11-20T10:05:00|2026-11-20T11:05:00|3600|node01|gres/gpu=4
4712|eval|demo|vision|alps|gpu|COMPLETED|0:0|2026-11-20T10:00:00|2026-11-20T10:05:00|2026-11-20T11:05:00|3600|node03|billing=4,node=1
"""


def _logs(folder: Path, *names: str, at: float | None = None) -> list[Path]:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("step 1\n")
        if at is not None:
            os.utime(folder / name, (at, at))
    return [folder / name for name in names]


def _keys(folder: Path) -> dict[str, Item]:
    found = {item.key: item for item in listing.find_in_folders([str(folder)])}
    return {key.removeprefix(f"{folder.resolve()}"): item for key, item in found.items()}


def test_each_job_is_an_item_with_all_its_logs(tmp_path: Path) -> None:
    _logs(tmp_path, "slurm-4711.out", "slurm-4711.err", "slurm-4712_1.out", "slurm-4712_2.out", "a/train.log")
    found = _keys(tmp_path)
    logs = {key: len(item.logs) for key, item in found.items()}
    assert logs == {":4711": 2, ":4712_1": 1, ":4712_2": 1, "/a/train.log": 1}
    [log] = found[":4712_1"].logs
    status = (tmp_path / "slurm-4712_1.out").stat()
    assert (log.inode, log.size, log.mtime_ns) == (status.st_ino, 7, status.st_mtime_ns)


def test_a_key_stays_whatever_else_comes(tmp_path: Path) -> None:
    _logs(tmp_path, "slurm-4711.out", "a/train.log")
    before = set(_keys(tmp_path))
    _logs(tmp_path, "slurm-4711.err", "b/train.log", "slurm-4712.out", "c/slurm-4711.out")
    assert before <= set(_keys(tmp_path))


def test_slurms_saved_answer_goes_to_the_job_of_its_id(tmp_path: Path) -> None:
    _logs(tmp_path / "logs", "slurm-4711.out", "slurm-4713.out")
    (tmp_path / "sacct.txt").write_text(SACCT)
    found = {item.id: item for item in listing.find_in_folders([str(tmp_path / "logs")], [str(tmp_path / "sacct.txt")])}
    assert set(found) == {"4711", "4713"}
    assert found["4713"].record is None
    record: Any = found["4711"].record
    assert (record.user, record.account, record.cluster, record.gpus) == ("demo", "vision", "alps", 8)
    assert (record.elapsed, len(record.steps)) == (3600, 1)
    assert found["4711"].key == "alps:4711@1795168800"


def test_the_newest_log_tells_when_a_job_ended(tmp_path: Path) -> None:
    second, third = datetime(2026, 11, 2), datetime(2026, 11, 3)
    for day in (1, 2, 3):
        _logs(tmp_path, f"slurm-471{day}.out", at=datetime(2026, 11, day).timestamp())
        _logs(tmp_path, f"slurm-471{day}.err", at=datetime(2026, 10, 1).timestamp())
    for since, until, days in ((None, None, "123"), (second, None, "23"), (None, second, "1"), (second, third, "2")):
        found = listing.find_in_folders([str(tmp_path)], choice=Choice(since, until))
        assert {item.id for item in found} == {f"471{day}" for day in days}


def test_a_log_that_vanishes_is_still_its_jobs(tmp_path: Path) -> None:
    first, second = _logs(tmp_path, "slurm-4711.out", "slurm-4712.out")
    found = listing.find_in_folders([str(tmp_path)])
    first.unlink()
    assert [(item.id, item.logs[0].size) for item in found] == [("4711", 0), ("4712", second.stat().st_size)]


@pytest.mark.parametrize(
    ("path", "words"), [("gone", "is not there"), ("-", "no standard input"), ("empty", "no log files")]
)
def test_what_is_no_folder_of_logs_is_one_line(tmp_path: Path, path: str, words: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=words) as error:
        listing.find_in_folders([path if path == "-" else str(tmp_path / path)])
    assert "\n" not in str(error.value)


def test_more_files_than_one_job_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of a job's files is none of a survey's; what is above the survey's own is told."""
    monkeypatch.setattr("slurmdoctor.input.files.MOST_FILES", 3)
    _logs(tmp_path, *(f"slurm-{4711 + k}.out" for k in range(10)))
    assert len(list(listing.find_in_folders([str(tmp_path)]))) == 10
    monkeypatch.setattr(listing, "MOST_FILES", 4)
    found = listing.find_in_folders([str(tmp_path)])
    assert (len(list(found)), len(found.skipped)) == (4, 6)


def test_each_folder_tells_for_itself_whether_its_files_have_names_of_logs(tmp_path: Path) -> None:
    _logs(tmp_path, "a/wien2k-result", "b/new.log", "b/notes", "b/train.py", "c/kernel.cu", "c/Makefile")
    found = listing.find_in_folders([str(tmp_path)])
    read = {str(Path(log.path).relative_to(tmp_path)) for item in found for log in item.logs}
    assert read == {"a/wien2k-result", "b/new.log"}
    left = sorted(str(Path(path).relative_to(tmp_path)) for path in found.others)
    assert left == ["b/notes", "b/train.py", "c/Makefile", "c/kernel.cu"]
    assert str(found.no_logs).startswith(f"4 files are no logs by their names, as {tmp_path}/")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["600.out", "600.err", "slurm-601.out"], {("600", None), ("601", None)}),
        (["train-4711.out", "eval-4712.out"], {("4711", "train"), ("4712", "eval")}),
        (["expA.log", "expB.log"], {(None, None)}),
        (["runs/exp1/log_rank_0.txt", "runs/exp2/log_rank_0.txt"], {(None, "exp1"), (None, "exp2")}),
        ([f"{rank}.out" for rank in range(128)], {(None, None)}),
        (["20261120.out", "20261121.out"], {(None, None)}),
    ],
)
def test_ids_and_names_are_those_of_jobs_never_of_files(
    tmp_path: Path, names: list[str], expected: set[tuple[str | None, str | None]]
) -> None:
    _logs(tmp_path, *names)
    assert {(item.id, item.name) for item in listing.find_in_folders([str(tmp_path)])} == expected


@pytest.mark.parametrize(
    ("owners", "expected"),
    [(("root", "root"), (None, None)), (("ada", "ada"), (None, None)), (("root", "ada"), (None, None)),
     (("ada", "bob"), ("ada", "bob")), (("ada", "bob", "root"), ("ada", "bob", None))],
)  # fmt: skip
def test_one_owner_of_all_logs_is_no_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owners: tuple[str, ...], expected: tuple[str | None, ...]
) -> None:
    made = _logs(tmp_path, *(f"slurm-{4711 + at}.out" for at in range(len(owners))))
    of = {str(path): at for at, path in enumerate(made)}
    log_of = listing.log_of
    monkeypatch.setattr(listing, "log_of", lambda path, begins=0: (log_of(path, begins)[0], of[path]))
    monkeypatch.setattr(listing, "name_of", lambda uid: owners[uid])
    assert tuple(item.user for item in listing.find_in_folders([str(tmp_path)])) == expected
    first = listing.find_in_folders([str(tmp_path)], choice=Choice(users=owners[:1]))
    assert len(list(first)) == owners.count(owners[0])


def test_saved_records_tell_users_and_partitions(tmp_path: Path) -> None:
    _logs(tmp_path / "logs", "slurm-4711.out", "slurm-4712.out")
    (tmp_path / "sacct.txt").write_text(SACCT.replace("eval|demo|vision|alps|gpu", "eval|jane|vision|alps|cpu"))
    for choice, expected in ((Choice(), {"4711", "4712"}), (Choice(users=("jane",)), {"4712"}), (Choice(partitions=("gpu",)), {"4711"})):  # fmt: skip
        found = listing.find_in_folders([str(tmp_path / "logs")], [str(tmp_path / "sacct.txt")], choice)
        assert {item.id for item in found} == expected
