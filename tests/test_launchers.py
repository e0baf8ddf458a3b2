"""A launcher is an entry of a rule file: its label and its exit report, and no Python."""

from pathlib import Path
from typing import Any

import pytest

from builders import watchdog
from slurmdoctor import UserError, diagnose
from slurmdoctor.knowledge import builtin, load
from slurmdoctor.knowledge.workshop.check import check_paths
from tables import table

LAUNCHER = (Path(__file__).parent / "made_rules/skiff.yaml").read_text()
ENDS = table("launcher_ends")
STEPS = "".join(f"<r{rank}@boat-{rank // 2}> step {step} loss 3.1\n" for step in range(3) for rank in range(4))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "skiff.yaml").write_text(LAUNCHER)
    return folder


@pytest.mark.parametrize("case", ENDS["skiff"])
def test_a_made_up_launcher_names_cause_rank_node_and_how_it_ended(case: dict[str, Any], site: Path) -> None:
    log = STEPS + case["log"]
    found = diagnose(log, rules=[site])
    first = found.first_failure
    assert [found.cause.id, first.rank, found.exit.code, found.exit.signal] == case["ended"]
    assert (found.exit.how, found.facts["launcher"]) == ("skiff", "skiff")
    assert (first.node, "train.py" in str(first.traceback)) == (
        ("boat-1", True) if "Traceback" in log else (None, False)
    )
    assert "other.py" not in str(first.traceback)
    assert diagnose(log).exit.code is None, "without its entry the words are no exit"


SLIPS = {
    "rank: 3, pid: 77, code: 41}": "rank: 3, pid: 77, code: 42}",
    "^skiff: (?:status": "^skiff: (?:state",
    "(?P<code>": "(?P<kode>",
    "literals: ['skiff: process ']": "literals: ['skiff: process ', 'skiff: never']",
    "'skiff: process 3 went to sleep'": '"skiff: process 3 (pid 77) went down\\nskiff: status 1"',
    "below: 2": "below: many",
    "    below: 2": "    from_lable: [node]",
}


def test_a_slip_in_the_entry_is_found(tmp_path: Path) -> None:
    report = LAUNCHER[LAUNCHER.index("exit_reports:") :]
    for number, (right, wrong) in enumerate([("", ""), *SLIPS.items()]):
        assert right in report
        entry = report.replace(right, wrong or right).replace("skiff", f"skiff{number}")
        (tmp_path / f"{number}.yaml").write_text(entry)
    problems = check_paths([tmp_path], [builtin()]).problems
    found = {Path(str(problem.place).partition(":")[0]).stem for problem in problems}
    assert found == {str(number + 1) for number in range(len(SLIPS))}


def test_a_broken_entry_is_told_when_a_job_is_diagnosed(tmp_path: Path) -> None:
    (tmp_path / "skiff.yaml").write_text(LAUNCHER.replace("literals:", "litterals:"))
    with pytest.raises(UserError):
        load([tmp_path])


@pytest.mark.usefixtures("golden_verdicts")
@pytest.mark.parametrize(("log", "ended"), [(case["log"], case["ended"]) for case in ENDS["witnesses"]])
def test_each_witness_shows_who_ended_and_how(log: str, ended: list[Any]) -> None:
    found = diagnose(log)
    assert found.verdict == "failed"
    assert [found.first_failure.rank, found.exit.code, found.exit.signal] == ended


@pytest.mark.usefixtures("golden_verdicts")
def test_a_log_that_ends_before_the_last_status_line_names_nobody() -> None:
    """Rank 2 did time out with the others; only the line that tells its group is missing."""
    label = "[rank{0}]:[E626 06:24:44.90645762{0} ProcessGroupNCCL.cpp:1785] "
    status = (
        label
        + "[PG ID 0 PG GUID 0(default_pg) Rank {0}] Exception (either an error or timeout) detected by watchdog at work: 808, "
        "last enqueued NCCL work: 811, last completed NCCL work: 807.\n"
    )
    waits = [watchdog(rank, label.format(rank), 808) for rank in range(3)]
    found = diagnose(waits[1] + status.format(1) + waits[0] + status.format(0) + waits[2])
    assert (found.cause.id, found.first_failure.rank) == ("collective-timeout", None)
