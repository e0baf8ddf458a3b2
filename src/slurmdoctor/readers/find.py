"""Searches the log for the lines that rules, signals and readers want to see whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slurmdoctor.input.sources import Source
from slurmdoctor.model import Knowledge, Matcher, SearchResult, SourceFormat
from slurmdoctor.ranks.labels import LabelReader
from slurmdoctor.readers import targets
from slurmdoctor.search.scan import scan

_QUOTED = "  │ ".encode()
"""How our own report quotes a log: what a job's footer printed into it is no event of the job."""


def find_lines(
    sources: Sequence[Source],
    knowledge: Knowledge,
    labels: LabelReader,
    formats: Sequence[SourceFormat],
    jobs: int,
    progress: Callable[[int], None] | None,
) -> SearchResult:
    """All lines worth reading, by what wants them. Large logs are read by `jobs` processes at once."""

    def strip_labels(number: int, line: bytes) -> str:
        return labels.strip_labels(line.decode("utf-8", "replace"), formats[number])[1]

    def confirm_line(matcher: Matcher, line: bytes, text: str) -> str | None:
        return None if line.startswith(_QUOTED) else targets.confirm_line(matcher, line, text)

    return scan(
        sources,
        targets.matchers(knowledge),
        strip_labels,
        confirm_line,
        [labels.writer_key(form) for form in formats],
        jobs=jobs,
        progress=progress,
        could_match=targets.could_match,
    )
