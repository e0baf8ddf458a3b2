"""What nodes tell beside the job's own log: their kernels' logs, and what nvidia-smi, DCGM and scontrol say of their state.

A source is made of the lines that rules may read and that are of the job's time; each keeps its number. What such a line tells is then
weighed against the first error of the job itself: what came later did not bring it about.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

from msgspec.structs import replace

from slurmdoctor.input import Source, Text, Witness, opened
from slurmdoctor.knowledge import literals, text
from slurmdoctor.matching import named
from slurmdoctor.model import (
    Event,
    ExitReport,
    JobRecord,
    Knowledge,
    Progress,
    RankMap,
    Reason,
    SourceFormat,
    bus_of,
    may_be,
    reason,
)
from slurmdoctor.ranks import LabelReader, learn_formats

_NODE = text("node-of-a-file")
_CLOCK = text("kernel-clock")
_REPORT = text("node-report")
_UPTIME = text("kernel-uptime")
_KILL = text("kernel-oom-kill")
_MOST = 16 * 1024 * 1024
"""Bytes that are read of such a log, its last ones: a kernel's own buffer has less."""
_LONG, _DEEP = 4096, 8
"""Characters of a line, and headings of a report above each other, that are kept."""
_HEADS = 64
"""Job logs, and"""
_SAMPLE = 32 * 1024
"""bytes of each one's head and end, in which the job's time is looked for."""
_SLACK = 300.0
"""Seconds around the job's time in which a node tells of the job."""
_LATE = 5.0
"""Seconds that clocks of nodes are apart: what a kernel tells later than this after the first error followed from it."""
_EARLY = 2100.0
"""Seconds after which what a node survived is no reason any more: the longest usual timeout of a collective, and some minutes."""
_CLOCK_ALONE = datetime(2000, 1, 2, tzinfo=timezone.utc).timestamp()
"""Before it are the times of stamps without a day."""


def with_witnesses(
    sources: Sequence[Source], paths: Iterable[str], knowledge: Knowledge, labels: LabelReader, record: JobRecord | None
) -> tuple[list[Source], tuple[Reason, ...]]:
    """The job's sources, and one for the lines of each of these files that may tell of it; notes on what was left out."""
    words = {word for rule in knowledge.rules if rule.of_site for word in rule.literals}
    words.update(word.decode() for word in literals("kernel-line"))
    found, notes = [], list[Reason]()
    for source in opened(list(paths)).sources:
        numbered = _without_other_jobs(_kept(source, words, notes), record)
        source.close()
        made = Text.source("".join(f"{line}\n" for _, line in numbered), source.name)
        made.numbers = [number for number, _ in numbered]
        found.append(made)
    formats = learn_formats([*sources, *found], labels, record.year if record is not None else None)
    span = _span(sources, formats, labels, record)
    for place, (source, form) in enumerate(zip(found, formats[len(sources) :], strict=True)):
        found[place] = _of_the_time(source, span, labels, form)
        if len(source.numbers) and not len(found[place].numbers):
            notes.append(reason("kernel-log-of-another-time", name=source.name))
    return [*sources, *found], tuple(notes)


def _of_the_time(source: Source, span: tuple[float, float] | None, labels: LabelReader, form: SourceFormat) -> Source:
    """The source with its lines that are of the job's time, or show none."""
    lines = source.peek(source.size or 0).decode("utf-8", "replace").split("\n")
    rows = []
    for number, line in zip(source.numbers, lines, strict=False):
        time = None if span is None else labels.strip_labels(line, form)[0].time
        if span is None or time is None or span[0] - _SLACK <= time <= span[1] + _SLACK:
            rows.append((number, line))
    made = Text.source("".join(f"{line}\n" for _, line in rows), source.name)
    made.numbers = [number for number, _ in rows]
    node = _NODE.search(source.name)
    made.witness = Witness(named(node)["node"] if node else None, span is not None)
    return made


def _span(
    sources: Sequence[Source], formats: Sequence[SourceFormat], labels: LabelReader, record: JobRecord | None
) -> tuple[float, float] | None:
    """When the job ran, by its record and by the stamps of its logs that hold a day."""
    times = [time for time in (record.start, record.end) if time is not None] if record is not None else []
    for source, form in zip(sources[:_HEADS], formats, strict=False):
        lines = [*source.sample(_SAMPLE), *source.end_of(_SAMPLE)]
        stamps = [origin.time for line in lines if (origin := labels.strip_labels(line, form)[0]).time is not None]
        times += [time for time in stamps if time is not None and time >= _CLOCK_ALONE]
        if stamps and not source.divisible:  # its end is not read yet
            times.append(float("inf"))
    return (min(times), max(times)) if times else None


# ── lines, as rules and labels read them ─────────────────────────────────────────────────────


def _kept(source: Source, words: Collection[str], notes: list[Reason]) -> Iterator[tuple[int, str]]:
    """The numbers and texts of the lines that a rule may read. A time since boot is a clock's where a line shows both."""
    if source.divisible and (source.size or 0) > _MOST:
        source.leave_out((source.size or 0) - _MOST)
        notes.append(reason("kernel-log-cut", name=source.name, bytes=_MOST))
    boot: float | None = None
    rows: list[tuple[int, str, float | None, float | None]] = []
    for number, line in enumerate(_rendered(_lines(source)), (source.lines_above or 0) + 1):
        uptime = _UPTIME.match(line)
        since = float(uptime["seconds"]) if uptime else None
        if (clock := _CLOCK.match(line)) is not None:
            boot = float(clock["boot"] or clock["epoch"]) - (since or 0.0)
        if any(word in line for word in words):
            rows.append((number, line, since, boot))
    for number, line, since, last in rows:
        at = last if last is not None else boot
        yield number, line if since is None or at is None else f"{_stamp(at + since)} kernel: {line}"


def _without_other_jobs(rows: Iterable[tuple[int, str]], record: JobRecord | None) -> list[tuple[int, str]]:
    """The rows without kills for the memory of another job on the node: each takes three lines, and the second one names the job."""
    own = {record.id, record.raw_id} if record is not None else set()
    found, others = list[tuple[int, str]](), False
    for row in rows:
        kill = _KILL.search(row[1])
        job = kill["job"] if kill else None
        if job and own and job not in own:
            others = True
            if found and (above := _KILL.search(found[-1][1])) and above["begins"]:
                found.pop()
        elif not (others and kill and kill["ends"]):
            found.append(row)
        else:
            others = False
    return found


def _lines(source: Source) -> Iterator[str]:
    read = 0
    for block in source.blocks():
        read += block.size
        if read > 2 * _MOST:  # packed: how long it is shows only at its end
            return
        for line in block.data[: block.size].removesuffix(b"\n").split(b"\n"):
            yield line[:_LONG].decode("utf-8", "replace").rstrip("\r")


def _rendered(lines: Iterable[str]) -> Iterator[str]:
    """The lines; a record of journalctl's JSON as journalctl prints it otherwise, a report's line behind the headings above it."""
    headings: list[tuple[int, str]] = []
    in_report = False
    for line in lines:
        in_report = in_report or _REPORT.match(line) is not None
        if line.startswith(("{", "\x1e{")):
            yield _of_record(line.lstrip("\x1e"))
        elif in_report and line.strip():
            indent, shown = len(line) - len(line.lstrip()), " ".join(line.split())
            headings = [(at, heading) for at, heading in headings if at < indent][:_DEEP]
            yield ", ".join((*(heading for _, heading in headings), shown))[:_LONG]
            headings.append((indent, shown))
        else:
            yield line


def _of_record(line: str) -> str:
    """A record of `journalctl -o json` in one line: time, node, program, and message."""
    try:
        record: Any = json.loads(line)
        message = record["MESSAGE"]
        words = bytes(message).decode("utf-8", "replace") if isinstance(message, list) else str(message)
        at = _stamp(int(record["__REALTIME_TIMESTAMP"]) / 1e6)
        speaker = record.get("SYSLOG_IDENTIFIER") or "kernel"
        return f"{at} {record['_HOSTNAME']} {speaker}: {words}".replace("\n", " ")
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, OSError, RecursionError):
        return line


def _stamp(epoch: float) -> str:
    """The time as clocks here show it, with their zone: a cluster's logs that name none are in it."""
    try:
        return datetime.fromtimestamp(epoch, timezone.utc).astimezone().isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return ""


# ── what they tell, beside the job's own errors ──────────────────────────────────────────────


def weigh_witnesses(
    events: Sequence[Event],
    reports: Iterable[ExitReport],
    steps: Iterable[Progress],
    sources: Sequence[Source],
    maps: RankMap,
    of_machine: Collection[str],
) -> list[Event]:
    """The events without those that nodes tell of other jobs or of what came after the first error; the others of theirs as time allows."""
    own = [e for e in events if sources[e.hit.source].witness is None and e.role in ("root", "either", "cascade")]
    errors = [e.origin.time for e in own if not e.survived and e.outlived in ("", "maybe")]
    first = min((t for t in (*errors, *(report.time for report in reports)) if t is not None), default=float("inf"))
    made = sorted({step.time for step in steps if step.time is not None})[-2:]
    found = []
    for event in events:
        witness = sources[event.hit.source].witness
        if witness is None:
            found.append(event)
        elif not _is_elsewhere(event, maps, of_machine):
            event = replace(event, survived=False, retried=False, outlived="", unclocked=False)
            time = event.origin.time if witness.in_time else None
            if time is None and event.role != "hint":
                # a process id is of this job, a GPU of any
                role = event.role if event.rank_basis == "pid" else "either"
                found.append(replace(event, role=role, unclocked=True))
            elif time is None or time <= first + _LATE:
                # below two more steps the job had survived it
                past = time is not None and len(made) > 1 and time < made[0]
                past |= time is not None and event.role == "either" and time < first - _EARLY < first
                found.append(replace(event, role="hint") if past else event)
    return found


def _is_elsewhere(event: Event, maps: RankMap, of_machine: Collection[str]) -> bool:
    """Whether it is about a node, a GPU or a process that the job does not have."""
    origin, bus = event.origin, bus_of(event.captures.get("bus", ""))
    placed = maps.node_of if len(maps.node_of) >= (maps.world_size or 2) else {}
    if placed and not any(may_be(origin.node, node) for node in placed.values()):
        return True
    if origin.rank is not None:
        return False
    own = {gpu for node, gpu in maps.rank_of_bus if origin.node in (None, node)}
    if bus and own:
        return bus not in own
    return not bus and "pid" in event.captures and event.cause not in of_machine
