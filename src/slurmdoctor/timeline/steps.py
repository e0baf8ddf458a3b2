"""Answers whether a rank went on after an event: a later training step of the same rank shows it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from slurmdoctor.model import Event, Progress


class ProgressIndex:
    """The steps of a job, to be asked whether somebody went on after an event."""

    def __init__(self, progress: Sequence[Progress]) -> None:
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

    @staticmethod
    def _later(steps: Sequence[Progress], event: Event) -> Iterator[Progress]:
        time = event.origin.time
        first = bisect_right(steps, event.hit.offset, key=lambda step: step.offset)
        for at in range(len(steps) - 1, first - 1, -1):
            step = steps[at]
            if time is None or step.time is None or step.time > time:
                yield step
