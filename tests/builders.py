"""Hand-made events, exit reports, timelines, findings and records for tests of the pure stages."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from slurmdoctor import diagnose
from slurmdoctor.infer.case import Case
from slurmdoctor.infer.slurm_record import apply_record
from slurmdoctor.knowledge import folders, load
from slurmdoctor.model import (
    Event,
    ExitReport,
    Finding,
    Hit,
    Incident,
    JobRecord,
    Line,
    Observations,
    Origin,
    ProcessExit,
    Progress,
    RankMap,
    Role,
    RunState,
    Signal,
    SignalHit,
    Step,
    Timeline,
    from_code,
    from_sacct,
    from_words,
    reason,
)

KNOWLEDGE = load(folders(()), examples=False)
"""The shipped rules."""


def event(cause: str, role: Role = "root", at: int = 0, rank: int | None = None, source: int = 0, **more: Any) -> Event:
    """An event of a rank whose line stands at `at`; `time` and `node` are those of its origin."""
    origin = Origin(rank=rank, time=more.pop("time", None), node=more.pop("node", None))
    rule = more.pop("rule", f"{cause}/test")
    return Event(cause, role, rule, origin, Hit(source, at, cause, cause), at, **more)


def incident(
    cause: str, role: Role = "root", at: int = 0, rank: int | None = None, report: ExitReport | None = None, **more: Any
) -> Incident:
    """An incident of one event."""
    main = event(cause, role, at, rank, **more)
    return Incident(main, (main,), report)


def line(text: str, at: int = 0, source: int = 0, rank: int | None = None, time: float | None = None) -> Line:
    """A line without a label."""
    return Line(source, at, at + len(text) + 1, text, text, Origin(rank=rank, time=time), b"")


def report(ended: int | str, *ranks: int, at: int = 0, source: int = 0, **more: Any) -> ExitReport:
    """srun's report, by a code (137) or by its words (`Killed`), of the end of these ranks."""
    end = from_code(ended) if isinstance(ended, int) else from_words(ended)
    assert isinstance(end, ProcessExit)
    given = {"witness": "srun", "kind": "step", "order": at, "ranks": ranks, **more}
    return ExitReport(line(f"ended: {ended}", at, source), exit=end, **given)


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
    printed = replace(line(text, at, source, time=time), raw=raw or text)
    return SignalHit(signal, printed, at, captures)


def timeline(**fields: Any) -> Timeline:
    """A timeline; its last step follows from its steps."""
    steps = tuple(fields.pop("progress", ()))
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    return Timeline(progress=steps, last_progress=steps[-1] if steps else None, **fields)


def case(log: Timeline | None = None, seen: Observations | None = None, **known: Any) -> Case:
    """One attempt; without `seen` nothing is known of its job besides."""
    return Case(log or timeline(), seen or Observations((), (), (), (), RankMap()), KNOWLEDGE, **known)


# ── beside Slurm's record ──

BEFORE = reason("before")


def job(state: str | None = None, **fields: Any) -> JobRecord:
    """Slurm's record of job 42."""
    return JobRecord("42", state=state, **fields)


def work(state: str, exit: str = "1:0", id: str = "0", **more: Any) -> Step:
    """A step that ran a program, with its exit as sacct shows it."""
    return Step(id, state=state, exit=from_sacct(exit), **more)


def failed(root: Incident | None, cause: str | None = None, **more: Any) -> Finding:
    """A finding of the log alone, with the reason BEFORE."""
    fields = {"reasons": (BEFORE,), "rule": "some/rule", **more}
    return Finding("failed", root, cause or (root.cause if root else "exit-code"), **fields)


def beside(finding: Finding, record: JobRecord, log: Timeline | None = None, state: RunState | None = None) -> Finding:
    """The finding with what Slurm's record does to it."""
    return apply_record(finding, record, state or RunState(), case(log))


# ── logs ──

FAILED = "srun: error: gpu07: task 2: Exited with exit code 1\n"
LIMIT = "slurmstepd: error: *** JOB 4711 ON gpu07 CANCELLED AT 2026-11-20T12:41:09 DUE TO TIME LIMIT ***\n"


def raised(error: str = "KeyError: 'x'", label: str = "", file: str = "/x/train.py", where: str = "<module>") -> str:
    """A traceback as a process prints it that nothing caught."""
    lines = ["Traceback (most recent call last):", f'  File "{file}", line 3, in {where}', "    f()", error]
    return "".join(f"{label}{line}\n" for line in lines)


def cause_of(*log: str, **options: Any) -> str | None:
    """The cause that a log's verdict names."""
    found = diagnose("".join(log), **options).cause
    return found.id if found else None
