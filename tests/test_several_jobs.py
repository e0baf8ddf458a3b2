"""Paths that hold several jobs: a row each, one verdict a job in every format, and how one is picked."""

import json
import os
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

import slurmdoctor
from slurmdoctor import LogText
from slurmdoctor.cli import cli
from slurmdoctor.input.job_files import picked
from slurmdoctor.model import JobFiles
from slurmdoctor.report.chat import jobs_markdown, jobs_slack
from slurmdoctor.report.terminal import cells
from slurmdoctor.report.wording import Row, counted, grouped, line, named

FIXTURES = Path(__file__).parent / "fixtures"
SCHEMA = json.loads((Path(slurmdoctor.__file__).parent / "report" / "schema.json").read_text())
OOM = "[rank5]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 5 has 79 GiB\n"
ERROR = "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    x['x']\nKeyError: 'x'\n"
DONE = "step 1 loss 2.1\nstep 2 loss 2.0\nTraining completed.\n"
LIMIT = "step 1 loss 2.1\nslurmstepd: error: *** JOB {} ON node07 CANCELLED AT 2026-11-{:02}T12:01:03 DUE TO TIME LIMIT ***\n"


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which an array and two jobs have left their logs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    folder = tmp_path / "logs"
    folder.mkdir()
    texts = {
        "slurm-4711_0.out": DONE, "slurm-4711_1.out": OOM, "slurm-4711_2.out": OOM, "slurm-4711_3.out": OOM,
        "slurm-4700.out": LIMIT.format(4700, 20), "slurm-4720.out": "step 1\n", "slurm-4720.err": ERROR,
    }  # fmt: skip
    for minute, (name, text) in enumerate(texts.items()):
        (folder / name).write_text(text)
        os.utime(folder / name, (1_795_600_000 + 60 * minute,) * 2)
    return folder


def run(*args: object) -> Any:
    return CliRunner().invoke(cli, ["diagnose", *map(str, args)])


def said(*args: object) -> str:
    answer = run(*args)
    assert answer.exception is None or isinstance(answer.exception, SystemExit), answer.exception
    return str(answer.stdout)


def documents(*args: object) -> dict[str, Any]:
    """The JSON of each job, by its id."""
    found = [json.loads(row) for row in said(*args, "--format", "json").splitlines()]
    return {document["job"]["id"]: document for document in found}


def test_each_job_has_a_row_and_like_causes_are_counted(logs: Path) -> None:
    *rows, count, again = said("logs").splitlines()
    assert [row.split()[:2] for row in rows] == [
        ["4700", "✗"], ["4711_0", "✓"], ["4711_1", "✗"], ["4711_2", "✗"], ["4711_3", "✗"], ["4720", "✗"],
    ]  # fmt: skip
    assert rows[2].startswith("4711_1  ✗ rank 5 ran out of GPU memory ")
    assert [row.split()[-1] for row in rows if "✗" in row] == ["time-limit", *["cuda-oom"] * 3, "python-error"]
    assert {len(row) for row in rows if "✗" in row} == {100}
    assert count == "6 jobs: 3 cuda-oom, 1 python-error, 1 time-limit; 1 without failure"
    assert again == "one in full: slurmdoctor diagnose logs --job-id 4700"


def test_the_command_for_one_job_works_as_printed(logs: Path) -> None:
    (logs.parent / "my logs").symlink_to(logs)
    command = shlex.split(said("my logs").splitlines()[-1].partition(": ")[2])
    assert command[:3] == ["slurmdoctor", "diagnose", "my logs"]
    assert "time-limit" in said(*command[2:]).splitlines()[0]
    files = sorted(map(str, logs.glob("*")))
    command = shlex.split(said(*files).splitlines()[-1].partition(": ")[2])
    assert command[2:] == [str(logs / "slurm-4700.out")]


def test_a_job_is_picked_by_its_id(logs: Path) -> None:
    whole = said("logs", "--job-id", "4711_2")
    assert whole.splitlines()[0].split()[:3] == ["✗", "rank", "5"]
    assert "slurm-4711_2.out:1" in whole
    assert json.loads(said("logs", "--job-id", "4720", "--format", "json"))["job"] == {
        "id": "4720", "array_task": None, "name": None, "files": ["logs/slurm-4720.err", "logs/slurm-4720.out"],
    }  # fmt: skip
    rows = said("logs", "--job-id", "4711").splitlines()
    assert [row.split()[0] for row in rows[:-2]] == ["4711_0", "4711_1", "4711_2", "4711_3"]
    assert rows[-2] == "4 jobs: 3 cuda-oom; 1 without failure"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["logs", "--job-id", "4712"], ["no job 4712", "4711_2"]),
        (["logs", "--job-id", "train"], ["no job train", "4700", "4711_0"]),
        (["-", "--job-id", "4711"], ["--job-id"]), (["--job-id", "4711"], ["--job-id"]),
        (["logs", "--exit-status", "1"], ["--exit-status is of one job", "--job-id"]),
        (["logs", "--script", "logs/slurm-4700.out"], ["--script is of one job", "--job-id"]),
        (["logs", "logs/slurm-9.out"], ["no such file", "slurm-9.out"]),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_in_one_line(logs: Path, args: list[str], words: list[str]) -> None:
    answer = run(*args)
    told = str(answer.exception)
    assert answer.exit_code != 0
    assert "\n" not in told
    assert all(word in told for word in words), told


def test_json_is_a_document_a_line(logs: Path) -> None:
    found = documents("logs")
    for document in found.values():
        jsonschema.validate(document, SCHEMA)
    assert list(found) == ["4700", "4711_0", "4711_1", "4711_2", "4711_3", "4720"]
    assert found["4711_1"]["job"] == {
        "id": "4711_1", "array_task": 1, "name": None, "files": ["logs/slurm-4711_1.out"],
    }  # fmt: skip


def test_one_job_is_one_indented_document_as_ever(logs: Path) -> None:
    text = said("logs/slurm-4720.err", "logs/slurm-4720.out", "--format", "json")
    assert text == json.dumps(json.loads(text), indent=2) + "\n"
    assert json.loads(text)["job"]["id"] == "4720"


def test_a_chat_gets_a_short_list(logs: Path) -> None:
    text = said("logs", "--format", "markdown")
    assert text.startswith("**6 jobs: 3 cuda-oom, 1 python-error, 1 time-limit; 1 without failure**\n")
    assert "- ✗ `4711_[1-3]`: the first: rank 5 ran out of GPU memory (cuda-oom)\n" in text
    message = json.loads(said("logs", "--format", "slack"))
    assert message["text"].startswith("6 jobs: 3 cuda-oom")
    assert "4711_[1-3]" in json.dumps(message["blocks"])


def test_only_those_that_failed(logs: Path) -> None:
    text = said("logs", "--if-failed")
    assert "4711_0" not in text
    assert "1 without failure" in text
    for name in ("slurm-4711_4.out", "slurm-4711_5.out"):
        (logs / name).write_text(DONE)
    assert said(logs / "slurm-4711_0.out", logs / "slurm-4711_4.out", "--if-failed") == ""


def test_the_exit_status_is_that_of_the_worst(logs: Path) -> None:
    unknown, done, oom = (logs / name for name in ("slurm-4730.out", "slurm-4711_0.out", "slurm-4711_1.out"))
    unknown.write_text("")
    unexplained = logs / "slurm-4731.out"
    unexplained.write_text("srun: error: node07: task 3: Exited with exit code 7\n")
    for paths, status in (
        ((logs,), 1), ((done, unknown), 4), ((unexplained, unknown), 3), ((done, unexplained, oom), 1), ((logs, "--job-id", "4711_0"), 0),
    ):  # fmt: skip
        assert run(*paths, "--exit-code").exit_code == status, paths
    assert run(logs).exit_code == 0


def test_saved_texts_of_slurm_go_to_each_by_its_id(logs: Path) -> None:
    (logs.parent / "sacct.txt").write_text(
        "JobID|JobName|State|ExitCode|NodeList\n4700|long|TIMEOUT|0:0|node07\n4720|train|FAILED|1:0|node08\n"
    )
    (logs / "slurm-4720.err").write_text("")
    found = documents("logs", "--slurm-info", "sacct.txt")
    names = {ident: document["job"]["name"] for ident, document in found.items()}
    assert names == {"4700": "long", "4720": "train", **{f"4711_{task}": None for task in range(4)}}
    assert found["4720"]["verdict"] == "failed"


def test_a_job_that_cannot_be_read_is_a_row(logs: Path) -> None:
    (logs / "slurm-4740.out").write_bytes(b"\x7fELF" + bytes(range(256)) * 20)
    rows = said("logs").splitlines()
    assert any(row.startswith("4740    ? logs/slurm-4740.out is not a text log") for row in rows)
    found = {one.job.id: one for one in slurmdoctor.diagnose_jobs(["logs"])}
    assert found["4740"].verdict == "unknown"
    assert found["4711_1"].cause.id == "cuda-oom"


def test_the_rows_go_to_a_file(logs: Path) -> None:
    assert said("logs", "-o", "report.txt") == ""
    assert (logs.parent / "report.txt").read_text() == said("logs")
    said("logs", "-o", "report.json")
    assert len((logs.parent / "report.json").read_text().splitlines()) == 6


def test_no_name_of_a_file_steers_the_terminal(logs: Path) -> None:
    hostile = logs / "a\x1b]0;owned\x07\n.log"
    hostile.write_text(OOM)
    os.utime(hostile, (0, 0))
    *rows, _, again = said(logs).splitlines()
    assert len(rows) == 7
    assert again.startswith("one in full: ")
    assert not {"\x1b", "\x07"} & set("".join([*rows, again]))


def test_python_reads_one_and_says_that_there_are_more(logs: Path) -> None:
    (note,) = slurmdoctor.diagnose(["logs"]).coverage.notes
    assert note == "these are the files of 6 jobs (4700, 4711_0, 4711_1 and 3 more), read as one: name the files of one"
    assert [one.job.id for one in slurmdoctor.diagnose_jobs("logs")][:2] == ["4700", "4711_0"]
    doubtful = [logs.parent / name for name in ("prep.log", "train.log")]
    for path in doubtful:
        path.write_text("step 1\n")
    (note,) = slurmdoctor.diagnose(doubtful).coverage.notes
    assert note == "several files were read as one job; if they are not, name one"


def test_texts_are_told_apart_by_their_names_and_lines() -> None:
    names = ("slurm-4711.out", "slurm-4712.out", "slurm-4711.err", "slurm-4712.out")
    texts = [LogText(text, name) for text, name in zip((OOM, DONE, ERROR, DONE), names, strict=True)]
    found = {one.job.id: one for one in slurmdoctor.diagnose_jobs(texts)}
    assert found["4711"].job.files == ("slurm-4711.out", "slurm-4711.err")
    assert found["4712"].job.files == ("slurm-4712.out", "slurm-4712.out (2)")
    assert (found["4711"].failed, found["4712"].failed) == (True, False)
    assert found["4712"].headline == "no failure found"
    by_line = [LogText(LIMIT.format(number, number % 30), f"{name}.out") for number, name in ((4711, "a"), (4712, "b"))]
    assert [one.job.id for one in slurmdoctor.diagnose_jobs(by_line)] == ["4711", "4712"]
    notes = slurmdoctor.diagnose(texts[:2]).coverage.notes
    assert notes[0].startswith("these are the files of 2 jobs (4711, 4712), read as one")


# ── rows ─────────────────────────────────────────────────────────────────────────────────────


def row(label: str = "4711", headline: str = "rank 5 ran out of GPU memory", cause: str | None = "cuda-oom") -> Row:
    return Row(label, "failed" if cause else "no-failure", "✗" if cause else "✓", headline, cause)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
@pytest.mark.parametrize("headline", ["ran", "x" * 300, "記" * 90])
def test_a_row_fits_the_width(width: int, headline: str) -> None:
    text = "".join(piece for _, piece in line(row(headline=headline), 8, width))
    assert cells(text) <= width
    assert text.startswith("4711  ")
    assert text.endswith("  cuda-oom")


def test_the_task_of_an_array_is_no_rank(logs: Path) -> None:
    for task in (1, 2, 3):
        (logs / f"slurm-4711_{task}.out").write_text(ERROR + "srun: error: node1: task 1: Exited with exit code 1\n")
    rows = [row for row in CliRunner().invoke(cli, ["diagnose", "logs"]).output.splitlines() if row.startswith("4711_")]
    assert [row.split("✗ ")[1][:15] for row in rows if "✗" in row] == ["rank 1 on node1"] * 3


def test_tasks_of_an_array_are_named_as_slurm_does() -> None:
    assert named(["4711_0", "4711_1", "4711_2", "4711_7", "4720"]) == "4711_[0-2,7], 4720"
    assert named(["4711_3"]) == "4711_3"
    assert named([str(number) for number in range(4700, 4720)], 3) == "4700, 4701, 4702 and 17 more"


def test_many_causes_are_counted_together() -> None:
    rows = [row(cause=f"cause-{number}") for number in range(9)] + [row(cause="cause-0"), row(cause=None)]
    single = ", ".join(f"1 cause-{number}" for number in range(1, 6))
    assert counted(rows) == f"11 jobs: 2 cause-0, {single}, 3 others; 1 without failure"
    assert [len(kind.labels) for kind in grouped(rows)][:2] == [2, 1]


def test_a_list_for_a_chat_is_short_and_cannot_ping() -> None:
    rows = [row(f"<@U1> @everyone {number}", "`x` @here *b* " * 30, f"cause-{number % 40}") for number in range(5000)]
    text, slack = jobs_markdown(rows), jobs_slack(rows)
    assert len(text) <= 1500
    assert not [ping for ping in ("@everyone", "<@") if ping in text]
    json.loads(slack)
    assert len(slack) < 20_000


def test_the_id_of_a_component_or_a_step_picks_its_job() -> None:
    jobs = (JobFiles("5000", files=("slurm-5000.out",)), JobFiles("5001", files=("slurm-5001.out",)))
    assert {picked(jobs, wanted) for wanted in ("5000", "5000+1", "5000.0", "5000+1.0")} == {jobs[:1]}


@pytest.mark.parametrize(("wanted", "files"), [("47_5", ("a/arr-47_5.out",)), ("8", ("r2-8.err", "r2-8.out"))])
def test_a_number_in_a_name_is_an_id_where_the_user_says_so(wanted: str, files: tuple[str, ...]) -> None:
    (job,) = picked((JobFiles(files=("a/arr-47_5.out", "r2-8.err", "r2-8.out", "r2-18.out", "a47_51.out")),), wanted)
    assert (job.id, job.files) == (wanted, files)
