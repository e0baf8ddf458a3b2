"""Diagnoses of many ranks, made by hand: what the page must draw, at any size."""

from msgspec.structs import replace

from report_examples import CUDA_OOM
from slurmdoctor import Diagnosis
from slurmdoctor.model import Mark, RankGroup, RankTimeline, RankTimelines, Span

START = 1_763_640_000.0
"""2025-11-20, 12:00:00."""


STEPS = tuple(Mark(at, "step", None, "", "job.log", int(at)) for at in (5.0, 20.0, 35.0, 50.0))


def of_ranks(count: int, *, per_node: int = 8) -> Diagnosis:
    """A job in which rank 3 ran out of memory, and the others timed out waiting for it."""
    nodes = tuple(f"gpu{node:03}" for node in range(-(-count // per_node)))
    others = tuple(rank for rank in range(count) if rank != 3)
    groups = (
        RankGroup("first", (3,), "ran out of GPU memory", "job.log", 48211),
        RankGroup("collateral", others, "waited for rank 3", "job.log", 48300),
    )
    ticks = ((0.0, "12:00:00"), (180.0, "12:03:00"), (360.0, "12:06:00"), (540.0, "12:09:00"), (700.0, "12:11:40"))
    rows = (_culprit(nodes[0]), _waiting(nodes, others))
    drawn = RankTimelines(rows, START, START + 720.0, ticks, "2025-11-20 12:00:00", -5400.0)
    return Diagnosis.of(
        replace(CUDA_OOM, rank_timelines=drawn, ranks=groups, facts={**CUDA_OOM.facts, "world_size": count})
    )


def _culprit(node: str) -> RankTimeline:
    first = Mark(63.0, "first", "cuda-oom", "torch.OutOfMemoryError: CUDA out of memory.", "job.log", 48211)
    spans = (Span(0.0, 63.0, "running"), Span(63.0, 63.0, "failed"), Span(63.0, 720.0, "gone"))
    return RankTimeline((3,), (node,), "first", spans, (*STEPS, first), "exit code 1", first=True)


def _waiting(nodes: tuple[str, ...], ranks: tuple[int, ...]) -> RankTimeline:
    error = Mark(663.4, "error", "collective-timeout", "Watchdog caught collective operation timeout", "job.log", 48300)
    end = Mark(666.0, "exit", "sigterm", "Exited with exit code 143", "job.log", 51200)
    spans = (
        Span(0.0, 63.0, "running"),
        Span(63.0, 663.4, "waiting"),
        Span(663.4, 666.0, "followed"),
        Span(666.0, 720.0, "gone"),
    )
    return RankTimeline(ranks, nodes, "collateral", spans, (*STEPS, error, end), "SIGTERM")
