"""Whatever a terminal, a collector or a disk did to a log, the verdict is that of the log as it was printed (pastes: test_paste.py)."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import slurmdoctor
from tables import table

TEXTS = table("damaged_logs")
_BAR = " 33%|###3      | 33/100 [00:54<01:51, 26.24s/it]"


def _each(log: str, change: Callable[[int, str], str]) -> str:
    return "".join(change(number, line) + "\n" for number, line in enumerate(log.splitlines(), 1))


def _behind(log: str, bar: str) -> str:
    """The bar, whose line end was lost, before each line that a launcher or Python begins to tell with."""
    begins = ("[rank3]: Traceback", "slurmstepd", "E0301")
    return _each(log, lambda _, line: bar + line if line.startswith(begins) else line)


_DAMAGES: dict[str, Callable[[str], str | bytes]] = {
    "Windows' line ends": lambda log: log.replace("\n", "\r\n"),
    "a byte order mark": lambda log: "\ufeff" + log,
    "UTF-16": lambda log: log.encode("utf-16"),
    "UTF-16 without a mark": lambda log: log.encode("utf-16-le"),
    "a hole of NULs": lambda log: log.encode().replace(b"\n", b"\n" + bytes(5000), 1),
    "damaged bytes": lambda log: log.encode().replace(b"\n", b" \xff\xfe\x80\x01\x02\x03\x04\x05\x06\x0e\x0f\n"),
    "colours": lambda log: _each(log, lambda _, line: f"\x1b[31m{line}\x1b[0m"),
    "a bar without its line end": lambda log: _behind(log, _BAR),
    "a bar with its carriage return": lambda log: _behind(log, _BAR + "\r"),
    "a step without its line end": lambda log: _behind(log, "step 12/100 loss 3.1"),
    "Docker's records": lambda log: _each(log, lambda _, line: json.dumps({"log": line + "\n", "stream": "stderr"})),
    "one record for several lines": lambda log: json.dumps({"ts": "2026-03-01T10:00:00Z", "msg": log}) + "\n",
    "gh run view": lambda log: _each(log, lambda n, line: f"train\tRun it\t2026-03-01T10:00:{n:02d}.1234567Z {line}"),
    "containerd": lambda log: _each(log, lambda n, line: f"2026-03-01T10:00:{n:02d}.123456789Z stderr F {line}"),
}  # fmt: skip


@pytest.mark.parametrize("damage", _DAMAGES)
@pytest.mark.parametrize(("cause", "log"), TEXTS["logs"].items(), ids=TEXTS["logs"])
def test_a_damaged_log_gets_the_verdict_of_the_whole_one(log: str, cause: str, damage: str, tmp_path: Path) -> None:
    text = _DAMAGES[damage](log)
    path = tmp_path / "job.log"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    assert _verdict(path)[:2] == (cause, 3)


@pytest.mark.parametrize(("paste", "rank"), TEXTS["ends"])
def test_an_exception_that_a_log_ends_with_is_an_answer_in_low_confidence(paste: str, rank: int | None) -> None:
    assert _verdict(paste) == ("python-error", rank, "low")


@pytest.mark.parametrize("log", TEXTS["go-on"])
def test_an_exception_after_which_the_program_spoke_on_is_none(log: str) -> None:
    assert _verdict(log)[0] is None


def _verdict(job: str | Path) -> tuple[str | None, int | None, str | None]:
    found = slurmdoctor.diagnose(job)
    return found.cause.id, found.first_failure.rank, found.cause.confidence
