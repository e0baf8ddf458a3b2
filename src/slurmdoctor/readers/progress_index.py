"""Answers whether a rank went on after an event: a later training step of the same rank shows it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

from slurmdoctor.knowledge import text
from slurmdoctor.model import HELD_BACK, Event, Progress

_TOP = text("top-frame")


class ProgressIndex:
    """The steps of a job, to be asked whether somebody went on after an event."""

    def __init__(self, progress: Sequence[Progress], ends: Mapping[int, int] | None = None) -> None:
        """`ends` are the lengths of the sources, in bytes."""
        self._ends = ends or {}
        self._of_source: dict[int, list[Progress]] = {}
        self._of_writer: dict[tuple[int, int | bytes], list[Progress]] = {}
        for step in progress:
            self._of_source.setdefault(step.source, []).append(step)
            if step.rank is not None:
                self._of_writer.setdefault((step.source, step.rank), []).append(step)
            if step.label:
                self._of_writer.setdefault((step.source, step.label), []).append(step)

    def went_on(self, event: Event) -> bool:
        """Whether the event's rank, or the whole job, made a step after it."""
        source = event.hit.source
        if self._held_back(event):
            return False
        writers: list[int | bytes] = [w for w in (event.origin.rank, event.label) if w is not None and w != b""]
        for writer in writers:
            if any(True for _ in self._later(self._of_writer.get((source, writer), ()), event)):
                return True
        # without labels, or from ranks that cannot go on alone: several steps, not one that was on its way to the pipe
        enough = 4 if writers else 2
        others: set[tuple[int | None, int | None]] = set()
        for step in self._later(self._of_source.get(source, ()), event):
            others.add((step.rank, step.step))
            if len(others) >= enough:
                return True
        return False

    def _held_back(self, event: Event) -> bool:
        """Whether the steps below a traceback may have been printed above it, and were held back until its process ended.

        Where no step stands above it and none has a time, all of them came at once, from a buffer.
        """
        source = event.hit.source
        steps = self._of_source.get(source, ())
        ended = event.traceback and _TOP.search(event.traceback[0])
        if not steps or not ended or event.label or event.origin.time is not None:
            return False
        near = self._ends.get(source, 0) - event.hit.offset <= HELD_BACK
        first, last = steps[0], steps[-1]
        begins_below = first.offset > event.hit.offset and not first.skipped
        to_the_last = last.step is not None and last.step == last.steps
        return near and begins_below and not to_the_last and all(s.time is None and not s.label for s in steps)

    @staticmethod
    def _later(steps: Sequence[Progress], event: Event) -> Iterator[Progress]:
        time = event.origin.time
        first = bisect_right(steps, event.hit.offset, key=lambda step: step.offset)
        for at in range(len(steps) - 1, first - 1, -1):
            step = steps[at]
            if time is None or step.time is None or step.time > time:
                yield step
