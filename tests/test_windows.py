"""What sacct is asked for a time, and what is made of its answer."""

import os
import sys
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from slurmdoctor.model import JobRecord, Quote, UserError
from slurmdoctor.slurm import query, windows
from slurmdoctor.slurm.jobinfo import gpus, jobs, read_sacct, rows
from slurmdoctor.slurm.windows import moment

NOW = datetime(2026, 11, 23, 14, 30)
NAMES = ["JobID", "State", "ExitCode", "Start", "End", "AllocTRES", "JobName", "SubmitLine", "WorkDir", "JobIDRaw"]
DAY = windows.Window(datetime(2026, 11, 20), datetime(2026, 11, 21))


def test_a_time_as_sacct_takes_it() -> None:
    times = {
        "2026-11-01": datetime(2026, 11, 1),
        "2026-11-01T12:05": datetime(2026, 11, 1, 12, 5),
        "2026-11-01 12:05:30": datetime(2026, 11, 1, 12, 5, 30),
        "today": datetime(2026, 11, 23),
        "yesterday": datetime(2026, 11, 22),
        "now": NOW,
        "now-7days": NOW - timedelta(days=7),
        "7d": NOW - timedelta(days=7),
        "2 weeks ago": NOW - timedelta(weeks=2),
        "now-60": NOW - timedelta(seconds=60),
    }
    assert {text: moment(text, "--since", NOW) for text in times} == times


@pytest.mark.parametrize(
    "text", ["", "soon", "2026-13-01", "2026-02-30", "25:00", "7", "999999w", "2026-11-01T", "2026-11-01T12:00+02:00"]
)
def test_what_is_no_time_is_one_line(text: str) -> None:
    with pytest.raises(UserError, match=r"^--since .* is no time: give .* 2026-11-01") as error:
        moment(text, "--since", NOW)
    assert "\n" not in str(error.value)


def test_a_window_a_day() -> None:
    edges = [datetime(2026, 11, 20, 18), datetime(2026, 11, 21), datetime(2026, 11, 22), datetime(2026, 11, 22, 6)]
    assert [(one.begin, one.end) for one in windows.days(edges[0], edges[-1])] == list(pairwise(edges))


def _row(**cells: str) -> str:
    usual = {"JobID": "4711", "State": "FAILED", "ExitCode": "1:0", "Start": "2026-11-20T10:00:00"}
    usual |= {"End": "2026-11-20T11:00:00", "WorkDir": "/scratch/demo"}
    row = {**usual, "JobIDRaw": cells.get("JobID", "4711"), **cells}
    return "\x1f".join(row.get(name, "") for name in NAMES) + "\n"


HEAD = "\x1f".join(NAMES) + "\n"


def _rows(text: str, size: int = 7) -> list[dict[str, str]]:
    return list(rows((text[at : at + size] for at in range(0, len(text), size)), NAMES))


def _jobs(rows: list[dict[str, str]]) -> list[JobRecord]:
    return list(jobs((row, Quote("sacct", 0, "")) for row in rows))


ODD = {
    "plain": {},
    "line ends": {"JobName": "a\nb\n", "SubmitLine": "sbatch\n--comment 'x\ny' job.sh\n"},
    "an id in a name": {"JobName": "x\n4712 and\n4713.batch"},
    "the separator": {"JobName": "a\x1fb"},
    "separators and an id in a name": {"JobName": "a\n4712\x1fFAILED\x1f", "SubmitLine": "sbatch -J 'a\n4712\x1f' x"},
    "a carriage return": {"JobName": "a\rb\x0bc\x85d\u2028e"},
    "broken text": {"JobName": "caf\ufffd"},
}


@pytest.mark.parametrize("odd", ODD)
def test_whatever_a_name_holds_no_row_is_lost_or_doubled(odd: str) -> None:
    text = HEAD + _row(JobID="4710") + _row(**ODD[odd]) + HEAD + _row(JobID="4712_3", JobIDRaw="4714")
    found = _rows(text)
    assert [row["JobID"] for row in found] == ["4710", "4711", "4712_3"]
    assert found == _rows(text[:-1]) == _rows(f"{text}4713\x1fFAILED"), "an end without a line end, or torn"
    assert [row["WorkDir"] for row in found] == ["/scratch/demo"] * 3
    assert [row["End"] for row in found] == ["2026-11-20T11:00:00"] * 3
    if "\x1f" not in ODD[odd].get("JobName", ""):
        assert found[1]["JobName"] == ODD[odd].get("JobName", "")


def test_each_job_with_its_steps() -> None:
    text = HEAD + _row() + _row(JobID="4711.batch") + _row(JobID="4711.0", ExitCode="0:9") + _row(JobID="4712")
    text += _row(JobID="4711", State="REQUEUED") + _row(JobID="4711.batch", State="CANCELLED")
    found = list(_jobs(_rows(text)))
    assert [(job.id, job.state) for job in found] == [("4711", "FAILED"), ("4712", "FAILED"), ("4711", "REQUEUED")]
    assert [[step.id for step in job.steps] for job in found] == [["batch", "0"], [], ["batch"]]


def test_a_job_belongs_to_the_day_of_its_end() -> None:
    ends = ("2026-11-19T23:59:59", "2026-11-20T00:00:00", "2026-11-20T23:59:59", "2026-11-21T00:00:00", "Unknown")
    inside = [DAY.holds(job) for end in ends for job in _jobs(_rows(HEAD + _row(End=end)))]
    assert inside == [False, True, True, False, False]


def test_gpus_are_counted_once() -> None:
    count = {
        "billing=8,cpu=64,gres/gpu=8,mem=1T,node=1": 8,
        "cpu=64,gres/gpu:a100=8,gres/gpu=8": 8,
        "cpu=64,gres/gpu:a100=4,gres/gpu:h100=2": 6,
        "cpu=4,gres/gpu=2,gres/gpumem=40G,gres/gpuutil=0,gres/shard=3": 2,
        "cpu=4,mem=1G": None,
        "": None,
    }
    assert {tres: gpus(tres) for tres in count} == count


# ── the program ──


@pytest.fixture
def sacct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of the test's own in sacct's place: what is written here, it does."""
    file = tmp_path / "sacct"
    file.touch(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return file


def _does(file: Path, body: str) -> None:
    file.write_text(f"#!{sys.executable}\nimport sys, time, os\n{body}\n")


def test_one_call_a_day_asks_for_what_this_sacct_knows(sacct: Path, tmp_path: Path) -> None:
    known = ["JobID", "State", "End", "JobName", "JobIDRaw"]
    _does(
        sacct,
        f"open({str(tmp_path / 'asked')!r}, 'a').write(repr(sys.argv[1:]) + '\\n')\n"
        f"print('JobID State  End\\nJobIDRaw JobName' if sys.argv[1] == '-e' else '\\x1f'.join({known}))",
    )
    names = windows.fields()
    assert names == known
    assert list(windows.ended(DAY, windows.Asked("demo", "gpu"), names)) == []
    _, call = map(eval, (tmp_path / "asked").read_text().splitlines())  # what repr wrote
    given = {"--user=demo", "--partition=gpu", "--duplicates", "--noconvert", f"--format={','.join(known)}"}
    assert given <= set(call)
    assert {"-X", "--allocations", "-T", "--truncate", "--allusers"}.isdisjoint(call)
    assert "--allusers" in windows.command(DAY, windows.Asked(), names)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("sys.exit('sacct: error: slurm_persist_conn_open_without_init: failed to open')", "database does not answer"),
        ("sys.exit('sacct: error: Invalid user id: demo')", "sacct failed: Invalid user id: demo"),
        ("print('JobID'); sys.stdout.flush(); os.kill(os.getpid(), 9)", "sacct failed"),
        ("time.sleep(60)", "sacct has said nothing for 1 s"),
    ],
)
def test_no_answer_is_one_line(sacct: Path, body: str, words: str) -> None:
    _does(sacct, body)
    with pytest.raises(UserError, match=words) as error:
        list(windows.ended(DAY, windows.Asked(), NAMES, patience=1))
    assert "\n" not in str(error.value)


def test_rows_that_are_no_end_of_a_job_are_left_to_others(sacct: Path) -> None:
    _does(sacct, f"print({HEAD + ''.join(_row(State=one) for one in ('FAILED', 'RESIZING', 'RUNNING'))!r})")
    rest: list[JobRecord] = []
    assert [job.state for job in windows.ended(DAY, windows.Asked(), NAMES, other=rest.append)] == ["FAILED"]
    assert [job.state for job in rest] == ["RESIZING", "RUNNING"]
    _does(sacct, "print(1)")
    with pytest.raises(UserError, match="does not tell its fields"):
        windows.fields()


def test_no_sacct_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError, match="sacct is not installed here"):
        windows.fields()


def test_text_that_is_no_utf8_comes_as_it_can(sacct: Path) -> None:
    _does(sacct, "sys.stdout.buffer.write(b'caf\\xc3\\xa9 caf\\xe9\\n')")
    assert "".join(query.stream(["sacct"], 10)) == "café caf\ufffd\n"


def test_memory_in_use_is_bytes_where_sacct_converts_nothing() -> None:
    """`sacct --noconvert` prints 3297280 where sacct prints 3220K."""
    for printed, held in {"3220K": 3297280, "3297280": 3297280, "1.50M": 1572864, "0": 0}.items():
        table = f"JobID|State|MaxRSS|ReqMem\n56|OUT_OF_MEMORY||60M\n56.0|OUT_OF_MEMORY|{printed}|\n"
        [job] = read_sacct(table)
        assert (job.steps[0].max_rss, job.req_mem) == (held, 60 * 1024**2)
