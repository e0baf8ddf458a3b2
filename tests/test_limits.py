"""Each number at which a judgement turns (`model/limits.py`) has a log, or what was read of one, on either side of it."""

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from msgspec.structs import fields, replace

from builders import case, event, finish, incident, line, raised, report, step, timeline
from slurmdoctor import diagnose
from slurmdoctor.classifier import Classifier
from slurmdoctor.infer.facts import note_after_training
from slurmdoctor.infer.first_rank import name_first_rank
from slurmdoctor.infer.outcome import decide_whether_failed, gather_incidents
from slurmdoctor.infer.roots import choose_root
from slurmdoctor.infer.silence import name_missing_peer
from slurmdoctor.infer.waiting_ranks import _far_apart, ended_tasks, odd_ones, suspect, world_of
from slurmdoctor.model import (
    CollectiveStatus,
    Finding,
    JobRecord,
    Likeness,
    Limits,
    LogFile,
    Observations,
    Origin,
    RankMap,
    Signal,
    SignalHit,
    Suspicion,
)
from slurmdoctor.timeline import by_zone, run_state
from slurmdoctor.timeline.attempts import find

OF_THE_READERS = {
    "lines_printed", "lines_excused", "lines_before_another", "rising_steps", "many_rising_steps", "long_work",
    "steps_of_others", "steps_of_any", "lines_after_tool", "lines_after_command", "lines_elsewhere", "retry_lines",
    "level_within",
}  # fmt: skip
"""Of these tests/test_survival.py has the logs."""


def seen(**read: Any) -> Observations:
    return Observations((), (), (), read.pop("signals", ()), read.pop("rank_map", RankMap()), **read)


# ── survival ──


def held_back(behind: float) -> object:
    done = finish(at=20_000, text="done", said="done")
    return decide_whether_failed(case(timeline(finished=done)), [incident("x", at=20_000 - int(behind))], ()).verdict


def after_a_cut(count: float, *marks: SignalHit) -> object:
    begun = SignalHit(Signal("attempt", "attempt", (), ""), line("", 500), 500, {})
    files = (LogFile("x", 500 + int(count), 9),)
    return find([event("x", at=100)], seen(signals=(begun, *marks), files=files)).last[0]


def last_try(above: float) -> object:
    hint = event("storage-io", role="hint", at=5000 - int(above), rank=4, survived=True)
    end = incident("exit-code", role="cascade", at=5000, rank=4)
    return choose_root(Finding("failed"), [end], case(timeline(events=[hint]))).cause


def near(order: float, time: float) -> object:
    both = [event("cuda-oom", at=at, rank=1, time=when) for at, when in ((0, 10.0), (int(order), 10.0 + time))]
    return len(gather_incidents(both, case(timeline(events=both))))


# ── stalls ──


def after(idle: float, *times: float, **record: Any) -> object:
    steps = [step(n, time) for n, time in enumerate(times, 1)]
    return run_state(timeline(progress=steps), times[-1] + idle, JobRecord("42", **record) if record else None).kind


def few_words(between: float) -> object:
    loaded = SignalHit(Signal("resumed", "resumed", (), ""), line("", 0), 0, {})
    done = timeline(finished=finish(at=1 + int(between)))
    return note_after_training(Finding("no-failure"), case(done, seen(signals=(loaded,)))).reasons != ()


def work(elapsed: str) -> object:
    bar = f"Map:   9%|9         | 2800/29695 [{elapsed}<4:48:08, 1.55 examples/s]\n"
    return "busy" in diagnose(bar + watchdog(1_800_000)).facts


def watchdog(ran: float) -> str:
    return (
        "[E ProcessGroupNCCL.cpp:475] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE, "
        f"NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for {ran:.0f} milliseconds before timing out.\n"
    )


# ── silence ──


def waits(*ranks: int, world: int | None = None, queued: int | None = None, idle: int = 0) -> Suspicion:
    works = [CollectiveStatus(r, "0", r, 1.0, r, 7, "ALLREDUCE", (4, 4), timeout_ms=600) for r in ranks]
    works += [CollectiveStatus(0, "0", 0, 1.0, 90, 7, enqueued=queued)] if queued is not None else []
    works += [CollectiveStatus(r, "0", r, 1.0, 90 + r, enqueued=6, completed=6) for r in range(idle)]
    found = suspect(works, world_of(seen(rank_map=RankMap(world_size=world, seen=frozenset(ranks)))), {})
    assert found is not None
    return found


def joined(came: float) -> object:
    spoke = incident("rendezvous-timeout", role="either", rank=0, captures={"joined": f"{came:.0f}", "expected": "8"})
    known = RankMap(seen=frozenset(range(int(came))))
    return name_missing_peer(Finding("failed", spoke), spoke, case(None, seen(rank_map=known))).suspicion


def still_there(later: float) -> object:
    root = incident("nccl-id-timeout", role="either", rank=1, time=100.0)
    words = {0: replace(line("tokenizing"), origin=Origin(rank=0, time=100.0 + later))}
    return name_missing_peer(Finding("failed", root), root, case(None, seen(last_words=words))).origin.rank


def at_once(apart: float) -> object:
    both = [incident("cuda-oom", at=n, rank=n, time=n * apart) for n in (0, 1)]
    keys = {i.main.order: (i.main.origin.time or 0.0, i.main.order) for i in both}
    attempt = timeline(events=[i.main for i in both], order="timestamps", keys=keys)
    finding = Finding("failed", both[0], "cuda-oom", same=(both[1],))
    return name_first_rank(finding, both, case(attempt, seen(rank_map=RankMap(world_size=2)))).origin.rank


def read_as(probability: float, log: str, status: int | None = 1, decisive: float = 9.0) -> object:
    with (
        mock.patch.object(Classifier, "likeness", lambda _, line: Likeness(line, "disk-full", probability, ())),
        mock.patch.object(Classifier, "decisive", return_value=decisive),
    ):
        return diagnose(log, exit_status=status).cause.id


EDGES: dict[str, tuple[Callable[[float], object], float, float]] = {
    "held_back": (held_back, 8192, 8193),
    "nothing_after_cut": (lambda n: after_a_cut(n, finish(at=510)), 200, 201),
    "attempt_begins": (after_a_cut, 1024, 1025),
    "last_try": (last_try, 2047, 2048),
    "one_incident_bytes": (lambda n: near(n, 60.0), 2047, 2048),
    "one_incident_seconds": (lambda n: near(9000, n), 5.0, 5.1),
    "stall": (lambda n: after(n, 10.0, 20.0, 30.0, 40.0), 300, 301),
    "pauses_longest": (lambda n: after(n, 0.0, 10.0, 20.0, 220.0), 600, 601),
    "pauses_usual": (lambda n: after(n, 0.0, 50.0, 100.0, 150.0), 500, 501),
    "stall_of_unknown_pace": (lambda n: after(n, 100.0, elapsed=1000), 900, 901),
    "stall_share": (lambda n: after(n, 100.0, elapsed=8000), 2000, 2001),
    "steps_for_a_pace": (lambda n: after(8000.0, *(10.0 * k for k in range(int(n)))), 3, 4),
    "stall_of_few_steps": (lambda n: after(n, 10.0, 20.0, 30.0, start=0.0), 3 * 3600, 3 * 3600 + 1),
    "few_words": (few_words, 4096, 4097),
    "other_clock": (by_zone, 3660, 3661),
    "zone": (by_zone, 5400, 4500),
    "farthest_zone": (by_zone, 14 * 3600, 14.5 * 3600),
    "longest_job": (lambda n: run_state(timeline(finished=finish(at=9, time=30.0)), 30.0 + n).idle is None, 30 * 86400 - 1, 30 * 86400),
    "work_least": (lambda n: work(f"{n:.2f}".replace(".", ":")), 24.00, 23.59),
    "work_most": (lambda n: work(f"{n:.2f}".replace(".", ":")), 45.00, 45.01),
    "overdue": (lambda n: any("times the limit" in why for why in diagnose(watchdog(n)).reasons), 3_600_000, 3_599_999),
    "few": (lambda n: odd_ones({rank: "read" if rank < n else "wait" for rank in range(8)}), 2, 3),
    "minority": (lambda n: waits(*range(6), world=6, idle=int(n)).kind, 2, 3),
    "waiting_of_unknown": (lambda n: waits(*range(1, int(n) + 1)).ranks, 2, 3),
    "waiting_of_a_node": (lambda n: waits(*range(1, int(n) + 1)).confidence, 6, 7),
    "works_queued": (lambda n: waits(0, 1, world=8, queued=7 + int(n)).how.values["queued"] > 0, 15, 16),
    "one_group": (lambda n: _far_apart({r: CollectiveStatus(r, seq=1 + r * int(n)) for r in (0, 1)}), 4096, 4097),
    "unheard": (joined, 4, 3),
    "still_there": (still_there, 60.0, 60.1),
    "step_reported": (lambda n: ended_tasks([report(1, *range(8 - int(n), 8), tasks=tuple(range(8 - int(n), 8)))]), 6, 5),
    "at_once": (at_once, 10.0, 10.1),
    "likely": (lambda n: read_as(n, "the table of part 3 is corrupt\n"), 0.5, 0.4999),
    "likely_nearer": (lambda n: read_as(n, "solver: matrix of part 3 cannot be factorized, giving up\n"), 0.8, 0.7999),
    "decisive": (lambda n: read_as(0.99, "the table of part 3 is corrupt\n", None, n), 2.8, 2.79),
    "called_error": (lambda n: read_as(0.1, "ERROR: the table of part 3 is wrong\n", None, n), 2.0, 1.99),
    "likely_exception": (lambda n: read_as(n, raised("RuntimeError: step 3 went wrong")), 0.9, 0.8999),
}  # fmt: skip
"""Each limit: what judges by it, and the nearest quantities on its two sides."""


@pytest.mark.parametrize("limit", EDGES)
def test_a_judgement_turns_at_its_limit(limit: str) -> None:
    judge, here, beyond = EDGES[limit]
    assert judge(here) != judge(beyond)


def test_every_limit_has_both_sides() -> None:
    assert {field.name for field in fields(Limits)} == EDGES.keys() | OF_THE_READERS
