"""`--format perfetto`: Chrome's trace JSON, which ui.perfetto.dev and chrome://tracing open (Trace Event Format)."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cases import cases
from simulate import Job, speak, written
from slurmdoctor import diagnose
from slurmdoctor.cli import cli

Events = list[dict[str, Any]]
NEEDED = {
    "M": {"name", "pid", "tid", "args"},
    "X": {"name", "cat", "pid", "tid", "ts", "dur"},
    "i": {"name", "cat", "pid", "tid", "ts", "s"},
    "s": {"name", "cat", "pid", "tid", "ts", "id"},
    "f": {"name", "cat", "pid", "tid", "ts", "id", "bp"},
}
"""Phase -> the keys that the format asks for."""
DEMO = "tests/fixtures/demo-cascade/slurm-6.out"


def trace(log: str | list[Path], **how: Any) -> dict[str, Any]:
    found = json.loads(diagnose(log, **how).to_perfetto())
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def demo() -> Events:
    events: Events = trace(DEMO)["traceEvents"]
    return events


def of(events: Events, phase: str) -> Events:
    return [event for event in events if event["ph"] == phase]


def named(events: Events, kind: str) -> dict[tuple[int, int], str]:
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in of(events, "M") if e["name"] == kind}


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_every_case_is_a_trace_of_the_documented_form(case: Any) -> None:
    whole = trace(case.logs)
    assert whole.keys() == {"traceEvents", "displayTimeUnit", "otherData"}
    assert whole["displayTimeUnit"] == "ms"
    for event in whole["traceEvents"]:
        assert NEEDED[event["ph"]] <= event.keys()
        assert all(type(event[key]) is int and event[key] >= 0 for key in ("pid", "tid", "ts", "dur") if key in event)
    tracks: dict[tuple[int, int], Events] = {}
    for event in of(whole["traceEvents"], "X"):
        tracks.setdefault((event["pid"], event["tid"]), []).append(event)
    for slices in tracks.values():
        assert all(one["ts"] + one["dur"] <= other["ts"] for one, other in pairwise(slices))
        assert all(one["dur"] > 0 for one in slices)
    ends = [sorted(e["id"] for e in of(whole["traceEvents"], phase)) for phase in ("s", "f")]
    assert ends[0] == ends[1]


def test_a_node_is_a_process_and_a_rank_a_thread(demo: Events) -> None:
    assert sorted(named(demo, "process_name").values()) == ["job", "node gpu-a1", "node gpu-a2"]
    assert sorted(named(demo, "thread_name").values()) == [f"rank {rank}" for rank in range(8)]
    node = named(demo, "process_name")
    assert all(name == f"rank {tid}" for (_, tid), name in named(demo, "thread_name").items())
    there = {name: node[pid, 0] for (pid, _), name in named(demo, "thread_name").items()}
    assert (there["rank 3"], there["rank 5"]) == ("node gpu-a1", "node gpu-a2")


def test_the_first_failure_is_an_instant_on_its_rank_with_its_line(demo: Events) -> None:
    [first] = [event for event in of(demo, "i") if event["cat"] == "first"]
    assert first["name"] == "first failure: disk-full"
    assert named(demo, "thread_name")[first["pid"], first["tid"]] == "rank 5"
    assert first["args"]["line"] == 22
    assert first["args"]["file"] == DEMO
    assert "CRITICAL cannot write" in first["args"]["text"]


def test_arrows_lead_from_it_to_each_rank_that_followed(demo: Events) -> None:
    names = named(demo, "thread_name")
    assert {names[e["pid"], e["tid"]] for e in of(demo, "s")} == {"rank 5"}
    assert "rank 5" not in {names[e["pid"], e["tid"]] for e in of(demo, "f")}
    assert all(e["ts"] >= s["ts"] for s, e in zip(of(demo, "s"), of(demo, "f"), strict=True))


def test_after_its_end_a_rank_has_no_slice(demo: Events) -> None:
    ends = {(e["pid"], e["tid"]): e["ts"] for e in of(demo, "i") if e["cat"] == "exit"}
    last = {(e["pid"], e["tid"]): e["ts"] + e["dur"] for e in of(demo, "X")}
    first = next(track for track, name in named(demo, "thread_name").items() if name == "rank 5")
    assert last[first] <= ends[first] + 1


def test_the_verdict_is_said_across_all_tracks(demo: Events) -> None:
    [said] = [event for event in of(demo, "i") if event["s"] == "g"]
    assert said["name"].startswith("disk-full: ")


def test_a_log_that_tells_of_no_rank_is_a_trace_too() -> None:
    whole = trace("hello\nworld\n")
    assert [event["name"] for event in of(whole["traceEvents"], "i")] == ["unknown"]


def test_the_same_log_gives_the_same_trace() -> None:
    assert diagnose(DEMO).to_perfetto() == diagnose(DEMO).to_perfetto()


def test_4096_ranks_are_a_few_megabytes() -> None:
    log = written(speak(Job(ranks=4096, per_node=8, root=5, cause="cuda-oom", steps=2)))
    found = diagnose(log)
    begun = time.process_time()
    text = found.to_perfetto()
    assert time.process_time() - begun < 2
    assert len(named(json.loads(text)["traceEvents"], "thread_name")) == 4096
    assert len(text) < 6_000_000


def test_the_command_writes_it(tmp_path: Path) -> None:
    file = tmp_path / "job.perfetto.json"
    result = CliRunner().invoke(cli, ["diagnose", DEMO, "-o", str(file)], catch_exceptions=False)
    assert result.exit_code == 0
    assert len(of(json.loads(file.read_text())["traceEvents"], "X")) >= 8


def test_names_and_secrets_are_masked_in_it() -> None:
    text = diagnose(DEMO, redact="strict").to_perfetto()
    assert "gpu-a2" not in text
    assert "host-" in text
