"""Fixes, the retry line and the nodes to leave out never contradict each other."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from builders import KNOWLEDGE, incident
from cases import cases
from slurmdoctor import Diagnosis, diagnose
from slurmdoctor.model import Cause, Extent, Finding, Fix, JobRecord, Retry, ScriptMistake, expand_nodes
from slurmdoctor.report.fixes import advise
from tables import table
from test_record_goldens import LOGS as SMALL, RECORDS

LOGS = Path(__file__).parent / "seed_logs"


def advised(
    *fixes: Fix, retry: Any = "after-fix", role: str = "root", names: dict[str, Any] | None = None, **found: Any
) -> tuple[list[str], Retry]:
    cause = Cause("a", "f", "t", "root", (), frozenset(), retry, "s", (), fixes)
    finding = Finding("failed", incident("a", role=role, captures=found.pop("captures", {})), "a", **found)
    remedies, advice = advise(finding, KNOWLEDGE, cause, names or {})
    return [remedy.do for remedy in remedies], advice


def mistake(number: int) -> ScriptMistake:
    return ScriptMistake(f"check-{number}", "error", number, "It says", "why", f"Write line {number} anew")


def test_at_most_three_fixes_are_shown_and_the_scripts_come_first() -> None:
    fixes = [Fix("Lower the batch."), Fix("Shard the optimizer."), Fix("Offload to the CPU.")]
    shown, _ = advised(*fixes, script="job.sbatch", mistakes=(mistake(4), mistake(5)))
    assert shown == ["job.sbatch:4: Write line 4 anew", "job.sbatch:5: Write line 5 anew", "Lower the batch."]
    shown, _ = advised(*fixes, script="job.sbatch", hiding=(mistake(9),))
    assert shown == ["Lower the batch.", "Shard the optimizer.", "job.sbatch:9: Write line 9 anew"]


def test_a_fix_can_ask_what_the_script_says() -> None:
    fixes = [Fix("Derive the port.", when={"checks": False}), Fix("Start one task.", when={"checks": "check-4"})]
    assert advised(*fixes)[0] == ["Derive the port."]
    assert advised(*fixes, script="j", mistakes=(mistake(4),))[0][1:] == ["Start one task."]


def test_what_the_retry_line_says_is_what_the_best_fix_says() -> None:
    raise_it = Fix("Raise the timeout.", when={"busy": True, "rank": True}, retry="after-fix")
    leave_it = Fix("Submit with `--exclude={exclude}`.", when={"exclude": True}, retry="elsewhere")
    node = ("node07",)
    shown, retry = advised(raise_it, leave_it, names={"busy": 1, "rank": 0}, exclude=node)
    assert (shown, (retry.advice, retry.exclude_nodes)) == (["Raise the timeout."], ("after-fix", ()))
    shown, retry = advised(raise_it, leave_it, exclude=node)
    assert shown == ["Submit with `--exclude=node07`."]
    assert (retry.advice, retry.exclude_nodes) == ("elsewhere", ("node07",))


def test_a_fix_that_leaves_out_a_node_is_not_shown_beside_another_retry() -> None:
    shown, retry = advised(Fix("Lower the batch."), Fix("Try `--exclude={exclude}`."), exclude=("node07",))
    assert shown == ["Lower the batch."]
    assert not retry.exclude_nodes


@pytest.mark.parametrize(("found", "retry", "nodes", "why"), table("remedies")["retry"])
def test_what_to_do_with_the_job(found: dict[str, Any], retry: str, nodes: list[str], why: str) -> None:
    made = {
        **found,
        "extent": Extent(*found.get("extent", ())),
        "mistakes": tuple(map(mistake, found.get("mistakes", ()))),
    }
    given = advised(Fix("a"), **{"retry": "elsewhere", **made})[1]
    assert (given.advice, list(given.exclude_nodes), bool(given.why)) == (retry, nodes, bool(why))
    assert why in given.why


CHANGES = re.compile(r"^(?:Set|Raise|Lower|Add|Use|Give|Start|Derive|Increase|Reduce|Install|Unset|Fix)\b")
LONGER = re.compile(r"(?:[Rr]aise|[Ii]ncrease) (?:the )?(?:\w+[- ]){0,3}time-?out")
NO_HELP = re.compile(r"time-?out (?:does|will|would) not help|[Aa] longer time-?out (?:does not|helps only)")


def contradictions(found: Diagnosis) -> Iterator[str]:
    """What of a verdict's advice speaks against the rest of it."""
    retry = found.retry or Retry("unknown", "")
    if len(found.fixes) > 3:
        yield "more than three fixes"
    for listed in re.findall(r"--exclude=([^\s`);]+)", " ".join(fix.do for fix in found.fixes)):
        if not set(expand_nodes(listed.rstrip(",."))) <= set(retry.exclude_nodes):
            yield f"a fix leaves out {listed}, the retry line does not"
    if retry.exclude_nodes and retry.advice != "elsewhere":
        yield "nodes are left out, and it is not sent elsewhere"
    if retry.advice == "elsewhere" and not retry.exclude_nodes and "does not name the node" not in retry.why:
        yield "it is sent elsewhere, and no node is left out"
    if retry.advice in ("as-is", "resume") and re.search("had finished|steps were done", " ".join(found.reasons)):
        yield "what had finished is sent again"
    if retry.advice == "as-is" and any(CHANGES.match(fix.do) for fix in found.fixes):
        yield "it is sent again as it is, beside a fix that changes it"
    text = " ".join(f"{fix.do} {fix.why}" for fix in found.fixes)
    if LONGER.search(text) and NO_HELP.search(text):
        yield "a longer timeout is advised beside the word that it does not help"


@pytest.mark.slow
def test_no_known_verdict_contradicts_itself() -> None:
    """Every fixture and seed log, in turn alone, with a node that is down and with one that is drained; small logs beside every record."""
    logs = {log.stem: [str(log)] for log in sorted(LOGS.glob("*.log"))}
    logs |= {case.name: [str(log) for log in case.logs] for case in cases()}
    beside = (None, RECORDS["FAILED, a node down"], RECORDS["FAILED, a node drained"])
    asked: list[tuple[str, str | list[str], JobRecord | None]] = [
        (name, files, beside[at % 3]) for at, (name, files) in enumerate(logs.items())
    ]
    asked += [(f"{log}, {state}", text, record) for log, text in SMALL.items() for state, record in RECORDS.items()]
    for name, log, record in asked:
        assert list(contradictions(diagnose(log, record=record, rank_timelines=False))) == [], name


def test_a_node_that_is_drained_long_after_the_job_speaks_against_nobody() -> None:
    """And a fix that knows what failed is not dropped for a node that is only drained."""
    race = "0: error: failed to remove directory `/home/kim/run/.venv/lib/python3.11/site-packages/torch`: Directory not empty (os error 39)\n"
    killed = "srun: error: gpu07: task 3: Killed\n"
    for state, words, raced, alone in (
        ("IDLE+DRAIN", "planned kernel update [root@2026-11-22T09:00:00]", "after-fix", ()),
        ("IDLE+DRAIN", "Xid 79 [root@2026-11-20T11:30:00]", "after-fix", ("gpu08",)),
        ("DOWN*", "Not responding [slurm@2026-11-20T11:00:30]", "elsewhere", ("gpu08",)),
    ):
        record = replace(RECORDS["FAILED"], bad_nodes={"gpu08": f"{state} ({words})"})
        found = [diagnose(log, record=record).retry for log in (race, killed)]
        assert [one and one.advice for one in found] == [raced, "elsewhere" if alone else "after-fix"]
        assert getattr(found[1], "exclude_nodes", None) == alone


def test_what_failed_between_two_nodes_speaks_against_neither() -> None:
    alone = Extent((2, 3), 4, ("node07",), True)
    assert len(advised(Fix("a"), extent=alone)[0]) == 2
    assert advised(Fix("a"), extent=alone, captures={"peer": "10.0.0.7"})[0] == ["a"]
