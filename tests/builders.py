"""Hand-made events, exit reports, timelines, findings and records for tests of the pure stages."""

from collections.abc import Sequence
from typing import Any, cast

from msgspec.structs import replace

from slurmdoctor import Diagnosis, diagnose
from slurmdoctor.infer.case import Case
from slurmdoctor.knowledge import folders, load
from slurmdoctor.model import (
    Event,
    ExitReport,
    Finding,
    Incident,
    Line,
    Observations,
    Order,
    Origin,
    ProcessExit,
    Progress,
    RankMap,
    Role,
    Signal,
    SignalHit,
    Timeline,
    from_code,
    from_words,
)

KNOWLEDGE = load(folders(()), examples=False)
"""The shipped rules."""


def event(
    cause: str, rank: int | None = None, time: float | None = None, at: int = 0, role: str | None = None, **more: Any
) -> Event:
    """An event of a rank at a second, whose line stands at byte `at`; its role is the cause's own where none is given."""
    source, node = more.pop("source", 0), more.pop("node", None)
    known = KNOWLEDGE.causes.get(cause)
    own = known.role if known else "root"
    origin = Origin(rank, more.pop("local_rank", None), node, time, dated=time is not None)
    text = f"{cause} at {at}"
    rule = more.pop("rule", f"{cause}/test")
    return Event(cause, cast("Role", role or own), rule, origin, line(text, at, source, origin), at, **more)


def incident(cause: str, *given: Any, report: ExitReport | None = None, **more: Any) -> Incident:
    """An incident of one event."""
    main = event(cause, *given, **more)
    return Incident(main, (main,), report)


def line(text: str = "", at: int = 0, source: int = 0, origin: Origin | None = None, label: bytes = b"") -> Line:
    return Line(source, at, at + len(text) + 1, text, text, origin or Origin(), label)


def report(ended: int | str, *ranks: int, at: int = 0, source: int = 0, **more: Any) -> ExitReport:
    """srun's report, by a code (137) or by its words (`Killed`), of the end of these ranks."""
    end = from_code(ended) if isinstance(ended, int) else from_words(ended)
    assert isinstance(end, ProcessExit)
    given = {"line": line(f"ended: {ended}", at, source), "witness": "srun", "kind": "step", "order": at, **more}
    return ExitReport(exit=end, ranks=ranks, **given)


def step(number: int | None, time: float | None = None, steps: int | None = None, at: int | None = None) -> Progress:
    """A training step; it stands at its number unless `at` is given."""
    order = at if at is not None else number or 0
    return Progress(0, order, order, None, b"", number, steps, time)


def finish(
    at: int,
    time: float | None = None,
    source: int = 0,
    text: str = "Training completed",
    raw: str = "",
    **captures: str,
) -> SignalHit:
    """The line that says that the program completed."""
    signal = Signal("finished/test", "finished", (), "")
    printed = replace(line(text, at, source, Origin(time=time)), raw=raw or text)
    return SignalHit(signal, printed, at, captures)


def timeline(
    incidents: Sequence[Incident] = (), reports: Sequence[ExitReport] = (), order: Order = "timestamps", **more: Any
) -> Timeline:
    """The timeline of these incidents and of further `events`; its last step is the last one of its `progress`."""
    events = [e for i in incidents for e in i.events] + list(more.pop("events", ()))
    keys = {e.order: ((e.origin.time or 0.0) if order == "timestamps" else 0.0, e.order) for e in events}
    events.sort(key=lambda e: keys[e.order])
    steps = tuple(more.get("progress", ()))
    given = {"keys": keys, "last_progress": steps[-1] if steps else None, **more, "progress": steps}
    return Timeline(tuple(events), tuple(reports), order=order, **given)


def observed(rank_map: RankMap | None = None, **more: Any) -> Observations:
    """What is known of a job besides an attempt."""
    given = {"events": (), "reports": (), "collectives": (), "signals": (), **more}
    return Observations(rank_map=rank_map or RankMap(), **given)


def case(log: Timeline | None = None, seen: Observations | None = None, **known: Any) -> Case:
    """One attempt."""
    return Case(log or timeline(), seen or observed(), KNOWLEDGE, **known)


def failed(root: Incident | None, cause: str | None = None, **more: Any) -> Finding:
    """A finding with its root chosen."""
    return Finding("failed", root, cause or (root.cause if root else None), **more)


# ── logs ──

FAILED = "srun: error: gpu07: task 2: Exited with exit code 1\n"
LIMIT = "slurmstepd: error: *** JOB 4711 ON gpu07 CANCELLED AT 2026-11-20T12:41:09 DUE TO TIME LIMIT ***\n"


def raised(error: str = "KeyError: 'x'", label: str = "", file: str = "/x/train.py", where: str = "<module>") -> str:
    """A traceback as a process prints it that nothing caught."""
    lines = ["Traceback (most recent call last):", f'  File "{file}", line 3, in {where}', "    f()", error]
    return "".join(f"{label}{line}\n" for line in lines)


def watchdog(
    rank: int, head: str = "", seq: int = 7, op: str = "ALLREDUCE", numel: tuple[int, int] = (1, 1), minutes: int = 10
) -> str:
    """PyTorch's line of a rank that waited in vain; `head` is what its logger prints before it."""
    return (
        f"{head}[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={numel[0]}, "
        f"NumelOut={numel[1]}, Timeout(ms)={60_000 * minutes}) ran for {60_000 * minutes + 10 + rank} milliseconds before timing out.\n"
    )


def said(found: Diagnosis) -> str:
    """The reasons of a verdict, and all of its fixes."""
    return " ".join([*found.reasons, *(f"{fix.do} {fix.why}" for fix in found.fixes)])


def left_out(found: Diagnosis) -> tuple[str, ...]:
    """The nodes that another try leaves out."""
    assert found.retry is not None
    return found.retry.exclude_nodes


def cause_of(*log: str, **options: Any) -> str | None:
    """The cause that a log's verdict names."""
    return diagnose("".join(log), **options).cause.id
