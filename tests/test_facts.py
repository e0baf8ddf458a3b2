"""Facts of the job by name: the first line that tells one counts, and Slurm's record knows best."""

from typing import Any

import pytest
from msgspec.structs import replace

from builders import case, event, finish, incident, line, observed, report, step, timeline
from slurmdoctor.infer.facts import collect_facts, note_after_training
from slurmdoctor.model import (
    LIMITS,
    Finding,
    JobRecord,
    LogFile,
    Observations,
    Origin,
    RankMap,
    RunState,
    ScriptEvidence,
    Signal,
    SignalHit,
    Step,
    Timeline,
    from_signal,
)

GIB = 2**30


def hit(id: str, kind: str = "fact", says: str | None = None, order: int = 0, **captures: str) -> SignalHit:
    return SignalHit(Signal(id, kind, (), "", value=says), line("", order), order, captures)  # type: ignore[arg-type]


def facts(
    *signals: SignalHit,
    log: Timeline | None = None,
    finding: Finding | None = None,
    state: RunState | None = None,
    script: ScriptEvidence | None = None,
    **seen: Any,
) -> dict[str, Any]:
    observed = Observations(seen.pop("events", ()), (), (), signals, seen.pop("rank_map", RankMap()), **seen)
    return dict(
        collect_facts(replace(finding or Finding(), state=state or RunState()), case(log, observed), script).facts
    )


def recorded(**fields: Any) -> dict[str, Any]:
    return facts(finding=Finding(record=JobRecord("42", **fields)))


def test_a_log_that_tells_nothing_has_the_names_that_every_verdict_has() -> None:
    assert facts() == {
        "world_size": None, "nodes": None, "launcher": None, "framework": None, "attempts": 1, "last_step": None,
    }  # fmt: skip


def test_the_first_line_that_tells_a_fact_counts() -> None:
    found = facts(
        hit("torch/version", says="2.4"), hit("torch/other", says="2.5"), hit("job_id/env", says="9"),
        hit("batch/size", says="32", micro="4", note="-7x"), hit("batch/size", micro="5"), hit("run/x", "attempt", "no"),
        hit("depth/y", value="-12"), hit("big/y", value="1234567890123456789"),
    )  # fmt: skip
    assert {name: found[name] for name in ("torch", "micro", "note", "depth", "big")} == {
        "torch": "2.4", "micro": 4, "note": "-7x", "depth": -12, "big": "1234567890123456789",
    }  # fmt: skip
    assert "run" not in found


TWO = {0: "gpu01", 1: "gpu01", 2: "gpu02"}


@pytest.mark.parametrize(
    ("signal", "rank_map", "nodes", "world_size"),
    [
        ({}, RankMap(node_of=TWO), 2, None),
        ({}, RankMap(node_of=TWO, world_size=3), 2, 3),
        ({}, RankMap(node_of=TWO, world_size=4), None, 4),
        ({"world_size": "16"}, RankMap(world_size=4), None, 4),
        ({"world_size": "16"}, RankMap(), None, 16),
        ({"world_size": "many"}, RankMap(), None, None),
        ({"nodes": "8"}, RankMap(node_of=TWO), 8, None),
        ({"nodes": "gpu[01-02]"}, RankMap(node_of=TWO), 2, None),
    ],
)
def test_ranks_and_nodes_are_the_rank_maps_where_it_knows_all(
    signal: Any, rank_map: RankMap, nodes: int | None, world_size: int | None
) -> None:
    found = facts(hit("a/x", **signal), rank_map=rank_map)
    assert (found["nodes"], found["world_size"]) == (nodes, world_size)


@pytest.mark.parametrize(
    ("names", "job_id"),
    [
        (["slurm-4711.out"], 4711), (["logs/slurm-4711_3.err"], "4711_3"), (["slurm-4711.log.gz"], 4711),
        (["77_0_log.out", "a/77_1_log.err"], 77), (["77_0_1_log.out"], 77), (["slurm-1.out", "slurm-2.out"], None),
        (["slurm-1.out", "train.log"], 1), (["myslurm-1.out"], None), (["train.log"], None),
    ],
)  # fmt: skip
def test_the_job_id_is_what_the_files_names_agree_on(names: list[str], job_id: int | str | None) -> None:
    files = tuple(LogFile(name, 1, 1) for name in names)
    assert facts(files=files).get("job_id") == job_id
    assert facts(hit("job_id/env", says="9"), files=files)["job_id"] == "9"


def test_restarts_and_the_steps_gained_since_the_first() -> None:
    restarts = [hit("a/x", "attempt", order=20 * number, restart=str(number)) for number in (1, 2)]
    begins = [*restarts, hit("a/x", "attempt", order=5)]
    steps = [step(n, at=at) for n, at in ((90, 10), (100, 15), (None, 16), (130, 50), (120, 60))]
    found = facts(*begins, log=timeline(progress=steps))
    assert (found["restarts"], found["gained"]) == (2, 30)
    assert facts(*begins, log=timeline(progress=[step(100, at=15), step(90, at=50)]))["gained"] == 0
    for at in (15, 50):  # steps of one side
        assert "gained" not in facts(*begins, log=timeline(progress=[step(100, at=at)]))
    assert "restarts" not in facts(hit("a/x", "attempt", restart="0"), hit("f/x", "finished", restart="4"))


SAVED, BEGUN = hit("c/a", "saved", order=10, step="100"), hit("c/b", "saving", order=20, step="200")


def test_the_newest_checkpoint_is_the_last_that_is_sure() -> None:
    def newest(at: int, *marks: SignalHit) -> str | None:
        found: str | None = facts(*marks, log=timeline(progress=[step(300, at=at)])).get("checkpoint")
        return found

    assert (newest(30, BEGUN), newest(15, BEGUN)) == ("step 200", None)
    assert newest(30, SAVED, BEGUN) == "step 100", "a program that confirms its saves did not confirm this one"
    assert newest(15, hit("c/a", "saved", path="/ck/9"), hit("c/a", "saved", order=12)) == "/ck/9"


def test_a_save_is_open_where_the_failure_is_all_that_follows_it() -> None:
    def is_open(last: int, failed: int, *marks: SignalHit) -> bool:
        log = timeline(progress=[step(300, at=last)])
        return "save_open" in facts(BEGUN, *marks, log=log, events=(event("host-oom", at=failed),))

    saved = hit("c/a", "saved", order=25)
    assert [is_open(15, 40), is_open(30, 40), is_open(15, 18), is_open(15, 40, saved)] == [True, False, False, False]


def test_a_run_that_loads_and_is_done_at_once_had_nothing_to_train() -> None:
    loaded = hit("r/a", "resumed", order=10, path="/ck/9"), hit("r/b", "resumed", order=20, step="9")
    for done in (finish(at=50), finish(at=50, source=1), finish(at=15), finish(at=22 + LIMITS.few_words)):
        log = case(timeline(finished=done), observed(signals=loaded))
        reasons = note_after_training(Finding("no-failure"), log).reasons
        assert [why.values["path"] for why in reasons] == ["/ck/9"][: done.line.place == (0, 50)]


@pytest.mark.parametrize(("world", "total", "noted"), [(4, 8, True), (8, 8, False), (3, 8, False)])
def test_a_job_that_starts_on_a_part_of_its_gpus_is_noted(world: int, total: int, noted: bool) -> None:
    seen = observed(signals=(hit("a/x", world_size=str(world), total_gpus=str(total), nodes="2"),))
    assert bool(collect_facts(Finding(), case(None, seen)).notes) is noted


def test_how_a_job_stood_that_slurm_ended() -> None:
    root = incident("time-limit", time=1795168800.0)
    hung = RunState("hung", idle=6029.0, since=1795168800.0)
    found = facts(finding=Finding("failed", root), state=hung)
    assert (found["ended"], found["stalled_since"], found["idle_min"]) == ("hung", "2026-11-20T10:00:00", 100)
    undated = replace(root, main=replace(root.main, origin=Origin(time=1.0)))
    assert facts(finding=Finding("failed", undated), state=hung)["stalled_since"] == "10:00:00"
    moving = facts(finding=Finding("failed", root), state=RunState("progressing", idle=5.0))
    assert (moving["ended"], "idle_min" in moving) == ("progressing", False)
    assert facts(finding=Finding("failed", root), state=RunState("hung")).get("idle_min", "none") == "none"
    assert "ended" not in facts(finding=Finding("failed", root))
    assert "ended" not in facts(finding=Finding("failed", incident("gpu-oom")), state=hung)


def test_the_script_fills_in_what_nothing_else_tells() -> None:
    script = ScriptEvidence("job.sbatch", {"nodes": 4, "launcher": "torchrun", "port": 29500}, ())
    found = facts(script=script, launcher="srun")
    assert (found["nodes"], found["launcher"], found["port"]) == (4, "srun", 29500)


def test_a_records_sizes_and_limits_are_facts() -> None:
    found = recorded(
        state="FAILED", nodes=("a", "b"), num_nodes=3, num_tasks=24, tasks_per_node=8, time_limit=86430, elapsed=125,
        req_mem=200 * GIB + GIB // 4 * 3, restarts=2, command="/scratch/demo/job.sbatch a/b", cancelled_by=7,
    )  # fmt: skip
    own = {
        "job_id": "42", "state": "FAILED", "nodes": 3, "num_tasks": 24, "tasks_per_node": 8, "time_limit_min": 1440,
        "elapsed_min": 2.1, "req_mem_gib": 200.8, "restarts": 2, "script": "job.sbatch", "cancelled_by": 7,
    }  # fmt: skip
    assert {name: found[name] for name in own} == own
    assert set(found) - set(own) == {"world_size", "launcher", "framework", "attempts", "last_step"}


def test_an_empty_record_adds_its_id_only() -> None:
    assert recorded() == {**facts(), "job_id": "42"}
    assert recorded(restarts=0, elapsed=0, time_limit=0, req_mem=0, nodes=("a", "b"))["nodes"] == 2
    assert recorded(elapsed=0)["elapsed_min"] == 0
    assert recorded(command="train.sh")["script"] == "train.sh"


@pytest.mark.parametrize(
    ("fields", "state", "ended", "idle"),
    [
        ({"state": "TIMEOUT"}, "hung", "hung", 100),
        ({"state": "DEADLINE"}, "hung", "hung", 100),
        ({"running_children": ("srun",)}, "hung", "hung", 100),
        ({"state": "FAILED"}, "hung", None, 100),
        ({"state": "TIMEOUT"}, "finished", "finished", None),
    ],
)
def test_how_it_stood_is_told_where_slurm_ended_it(
    fields: Any, state: Any, ended: str | None, idle: int | None
) -> None:
    found = facts(finding=Finding(record=JobRecord("42", **fields)), state=RunState(state, idle=6029.0))
    assert (found.get("ended"), found.get("idle_min")) == (ended, idle)


def test_a_warning_and_a_script_that_ended_well() -> None:
    other = JobRecord("42", state="FAILED", time_limit=600, elapsed=500, warned_by="SIGUSR1", warned_before=120)
    warned = Finding(record=replace(other, exit=from_signal("SIGUSR1")))
    found = facts(finding=warned, state=RunState("progressing"))
    assert (found["signalled"], found["ended"], "script_ended" in found) == (True, "progressing", False)
    in_log = timeline(reports=[report("User defined signal 1", 1)])
    assert "signalled" not in facts(finding=Finding(record=other), log=in_log)
    assert recorded(state="COMPLETED")["script_ended"] == 0


@pytest.mark.parametrize(
    ("rss", "asked", "shown"),
    [(50, 200, 50.0), (49, 200, None), (1.25, None, 1.2), (0, None, None), (1e-8, None, None)],
)
def test_a_peak_far_below_what_was_asked_for_missed_the_growth(rss: float, asked: int | None, shown: float) -> None:
    found = recorded(req_mem=asked and asked * GIB, steps=(Step("0", max_rss=int(rss * GIB)),))
    assert found.get("max_rss_gib") == shown


def test_the_time_that_all_steps_need() -> None:
    moving = RunState("progressing")

    def needed(done: Timeline, state: RunState = moving, **fields: Any) -> int | None:
        record = JobRecord("42", **{"start": 1000.0, "time_limit": 3600, **fields})
        found: int | None = facts(finding=Finding(record=record), log=done, state=state).get("needed_min")
        return found

    half = timeline(progress=[step(50, 4600.0, 100)])
    assert [needed(half, time_limit=limit) for limit in (3600, 7919, 7920, None)] == [132, 132, None, None]
    assert needed(half, start=None) is None
    for other in (step(50, None, 100), step(0, 4600.0, 100), step(50, 4600.0), step(None, 4600.0, 100)):
        assert needed(timeline(progress=[other])) is None
    assert needed(timeline(finished=finish(at=1))) is None
    assert needed(half, RunState("hung")) is None
