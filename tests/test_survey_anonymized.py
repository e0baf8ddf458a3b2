"""`survey run --anonymize`: no file of the dataset holds a name, and a dataset holds either names or pseudonyms."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner, Result

from slurmdoctor.cli import cli
from slurmdoctor.model import UserError
from slurmdoctor.survey import pseudonyms

NAMES = ("quillon", "vexley", "brackwater", "zorblatt")
LOG = (
    "[rank0]: loading /lustre/quillon/vexley/a.bin on brackwater017\n"
    "[rank0]: FileNotFoundError: [Errno 2] No such file or directory: '/lustre/quillon/vexley/a.bin'\n"
    "srun: error: brackwater017: task 0: Exited with exit code 1\n"
)


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The logs of three jobs; names are in the folder, in the files' names, and in the lines."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "quillon" / "runs"
    folder.mkdir(parents=True)
    for number in range(3):
        (folder / f"zorblatt-{4711 + number}.out").write_text(LOG if number else "zorblatt cannot find its tape\n")
    return folder


def survey(logs: Path, *options: str, out: str = "out") -> Result:
    place = str(logs.parents[1] / out)
    return CliRunner().invoke(cli, ["survey", "run", str(logs), "--out", place, "--jobs", "1", *options])


def refusal(logs: Path, *options: str) -> str:
    """What a run that is refused says, and how to mend it."""
    refused = survey(logs, *options).exception
    assert isinstance(refused, UserError)
    return f"{refused}; {refused.mend}"


def rows(logs: Path, what: str) -> list[tuple[object, ...]]:
    found = duckdb.sql(f"SELECT {what} FROM read_parquet('{logs.parents[1]}/out/jobs/*/*.parquet') ORDER BY ALL")
    assert found is not None
    return found.fetchall()


def test_no_file_of_the_dataset_holds_a_name(logs: Path) -> None:
    assert survey(logs, "--anonymize").exit_code == 0
    said = repr(rows(logs, "*")).casefold()
    files = [file for file in (logs.parents[1] / "out").rglob("*") if file.is_file()]
    raw = b"".join(file.read_bytes() for file in files).decode("latin-1").casefold()
    raw += " ".join(map(str, (file.relative_to(logs.parents[1]) for file in files))).casefold()
    assert [name for name in NAMES if name in said or name in raw] == []
    assert pseudonyms.own_key().hex() not in raw
    assert rows(logs, 'count(*), count(DISTINCT key), count(DISTINCT "user"), count(cause)') == [
        (3, 3, 0, 2)
    ]  # one owner of all logs is no user


def test_a_second_run_reads_only_what_changed(logs: Path) -> None:
    survey(logs, "--anonymize")
    (logs / "zorblatt-4711.out").write_text("now it can\n")
    again = survey(logs, "--anonymize")
    assert "; 1 read; 2 jobs unchanged" in again.stdout
    assert rows(logs, "count(*)") == [(3,)]


@pytest.mark.parametrize(
    ("first", "then", "told"),
    [([], ["--anonymize"], "holds rows with names"), (["--anonymize"], [], "add --anonymize, or name another folder")],
)
def test_names_and_pseudonyms_are_never_in_one_dataset(
    logs: Path, first: list[str], then: list[str], told: str
) -> None:
    assert survey(logs, *first).exit_code == 0
    assert told in refusal(logs, *then)
    assert rows(logs, "count(*)") == [(3,)]


def test_a_dataset_goes_on_with_the_key_that_it_was_begun_with(logs: Path) -> None:
    survey(logs, "--anonymize")
    pseudonyms.key_place().unlink()
    assert "another key" in refusal(logs, "--anonymize")
    assert rows(logs, "count(*)") == [(3,)]


def test_shards_of_one_run_share_their_pseudonyms(logs: Path) -> None:
    for shard in ("1/2", "2/2"):
        assert survey(logs, "--anonymize", "--shard", shard).exit_code == 0
    found = duckdb.sql(
        f"SELECT count(*), count(DISTINCT node) FROM read_parquet('{logs.parents[1]}/out/*/jobs/*/*.parquet')"
    )
    assert found is not None
    assert found.fetchall() == [(3, 1)]


def test_without_a_key_nothing_is_written(logs: Path) -> None:
    pseudonyms.key_place().parent.mkdir(parents=True)
    pseudonyms.key_place().write_text("nonsense")
    assert "others may read" in refusal(logs, "--anonymize")
    assert not (logs.parents[1] / "out").exists()
