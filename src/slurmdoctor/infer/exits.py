"""How the first failing process ended: its own exit, apart from the step's and the job's, by the best witness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from slurmdoctor.infer.case import STOPPED, Case, because
from slurmdoctor.infer.waiting_ranks import untold_tasks
from slurmdoctor.model import (
    COMMAND_NOT_FOUND,
    EXIT_CODE,
    HOST_OOM,
    MPI_ABORT,
    NATIVE_CRASHES,
    PROGRAM_ERROR,
    PYTHON_ERROR,
    USAGE_ERROR,
    Event,
    ExitClass,
    ExitReport,
    Finding,
    Incident,
    JobRecord,
    Knowledge,
    ProcessExit,
    Reason,
    from_code,
    from_signal,
    number,
    reason,
)

_CODES = 256
"""A process has so many; what is larger is the code of an error."""
_REFUSED: Mapping[int | None, ExitClass] = {2: "not-found", 13: "not-executable"}
"""srun hands on the errno of a program that could not be started."""


def cause_of(exit: ProcessExit, knowledge: Knowledge) -> str:
    """The cause that an exit alone establishes; `exit-code` where it tells nothing."""
    if exit.signal == "SIGFPE":
        return PROGRAM_ERROR
    ending: ExitClass = "segfault" if exit.signal in NATIVE_CRASHES else exit.exit_class
    return knowledge.cause_of_ending.get(ending, EXIT_CODE)


def find_exit(finding: Finding, case: Case) -> Finding:
    """The exit of the first failing process by the log; where the log tells none, by Slurm's record or the status that was given."""
    codes = [r.exit.code for r in case.reports if r.kind == "step" and r.exit.code]
    finding = replace(finding, step_code=max(codes, default=None))
    if finding.root is not None or case.record is None:
        finding = _by_its_words(_by_the_log(finding, case), case)
    open_ends = never_ended(case) if finding.suspicion is None else ()
    if open_ends:
        finding = because(finding, reason("never-ended", tasks=open_ends))
    if finding.root is not None and finding.root.cause == COMMAND_NOT_FOUND and finding.exit is not None:
        exit_class = _REFUSED.get(finding.exit.code, finding.exit.exit_class)
        finding = replace(finding, exit=replace(finding.exit, exit_class=exit_class))
    if case.record is not None:
        finding = _by_the_record(finding, case.record, case)
    elif case.exit_status and finding.exit is None:
        finding = _by_the_status(finding, case.exit_status, case)
    return _without_guess(finding, case)


def _by_the_status(finding: Finding, status: int, case: Case) -> Finding:
    """The job's own exit status, where the log shows no end: of a log without a failure it is all that is known."""
    given = from_code(status)
    if finding.root is None:
        finding = replace(finding, cause=cause_of(given, case.knowledge), rule=None)
    return _taken(finding, given, reason("given-status"), case)


def _taken(finding: Finding, reported: ProcessExit, who: Reason, case: Case) -> Finding:
    """The finding with an exit that is reported for the job or a step, where it may be the first process's own."""
    root = finding.root
    of_python = root is not None and root.main.traceback and reported.code == 1
    if root is None or finding.cause in case.traits["is-ending"] or of_python:
        return replace(finding, exit=reported, exit_how=(who,))
    return finding


def _without_guess(finding: Finding, case: Case) -> Finding:
    """A plain code says no more than it does: that 1 is Python's, and 2 refused arguments, only words beside it show."""
    end, root = finding.exit, finding.root
    if end is None or root is None or end.exit_class not in ("python-error", "usage-error"):
        return finding
    by_words = {rule.id for rule in case.causes[root.cause].rules if rule.applies_to == "exception"}
    python = root.cause == PYTHON_ERROR or any(e.traceback or e.rule in by_words for e in root.events)
    if python if end.exit_class == "python-error" else root.cause == USAGE_ERROR:
        return finding
    return replace(finding, exit=replace(end, exit_class="other"))


def never_ended(case: Case) -> tuple[int, ...]:
    """The step's tasks of which Slurm tells no end, where it tells that of nearly all others."""
    reports = [r for r in case.reports if r.kind == "step" and r.ranks]
    stopped = any(r.exit.exit_class in STOPPED for r in reports)
    return () if stopped else untold_tasks(reports)  # of a step that was ended none runs on


def _by_the_log(finding: Finding, case: Case) -> Finding:
    root, rank = finding.root, finding.origin.rank
    own = [r for r in case.reports if rank in r.ranks]
    best = root.report if root is not None else None
    if best is None and own:
        # the agent saw the process itself; an exit that nobody else caused tells more than one by the launcher's SIGTERM
        best = min(
            own, key=lambda r: (r.exit.exit_class == "terminated", r.exit.exit_class != "abort", r.kind != "table")
        )
    if best is not None:
        return because(_seen_by(best, finding), *_conflicts(finding, best, own))
    # who held up the others has an end of its own, if any: theirs is how they stopped waiting
    held_up = finding.suspicion is not None and rank is not None
    reports = [r for r in case.reports if not (held_up and r.ranks)]
    fitting = [r for r in reports if root is None or could_be_own(r, root, case.knowledge)]
    if fitting:
        same = len({(r.exit.code, r.exit.signal) for r in fitting}) == 1
        return _seen_by(fitting[0], finding, "witness" if same else "witness-of-several")
    if root is None:
        return finding
    own_end = next((r for r in reports if r.exit.exit_class not in STOPPED), None)
    if own_end is not None and root.cause not in case.traits["scheduler"]:
        return _seen_by(own_end, finding)
    return finding


def _by_its_words(finding: Finding, case: Case) -> Finding:
    """The end that the first failing process printed itself, where nobody tells another one."""
    if finding.root is None or (finding.exit is not None and finding.exit.exit_class != "unknown"):
        return finding
    for event in finding.root.events:
        if (end := _end_of(event, case)) is not None:
            how = reason("own-words" if event.caught is None else "crash-handler")
            return replace(finding, exit=end, exit_how=(how,))
    return finding


def _end_of(event: Event, case: Case) -> ProcessExit | None:
    """How a process ends that prints this: by the signal that it caught or the code that it names, or as its kind always does."""
    code = number(event.captures.get("exit_code") or "0")
    if event.caught is not None:
        return replace(event.caught, code=code or None)
    if 0 < abs(code) < _CODES:
        return from_code(code)
    rule = case.causes[event.cause].rule_named(event.rule)
    end = rule.ends_with if rule is not None else None
    return from_signal(end) if isinstance(end, str) else None if end is None else from_code(end)


def _seen_by(report: ExitReport, finding: Finding, code: str = "witness") -> Finding:
    return replace(finding, exit=report.exit, exit_how=(reason(code, witness=report.witness),))


def _conflicts(finding: Finding, best: ExitReport, own: Sequence[ExitReport]) -> tuple[Reason, ...]:
    """Witnesses of one process that do not agree are shown, not hidden."""
    end, rank = best.exit, finding.origin.rank
    others = {
        r.witness: r.exit
        for r in own
        if r.exit.signal != end.signal or (end.signal is None and r.exit.code != end.code)
    }
    return (reason("witnesses-differ", rank=rank, witness=best.witness, exit=end, others=others),) if others else ()


def could_be_own(report: ExitReport, root: Incident, knowledge: Knowledge) -> bool:
    """Whether a process that ended so could be the one that the root is about."""
    exit_, traits = report.exit, knowledge.traits
    # the runtime that printed it says with what it ends, or the launcher does not say how
    if exit_.exit_class == "unknown" or any(e.captures.get("exit_code") == str(exit_.code) for e in root.events):
        return True
    if root.main.cause in traits["killed-process"] and exit_.exit_class in ("oom-killed", "killed"):
        return True
    if root.main.cause in traits["own-signal"]:
        return cause_of(exit_, knowledge) == root.main.cause
    # a program that prints its error may abort() for it
    if exit_.exit_class == "abort" and root.main.cause in knowledge.traits["own-words"]:
        return True
    # what an uncaught C++ exception says is the cause, and abort() its end
    if any(e.cause in traits["own-signal"] and cause_of(exit_, knowledge) == e.cause for e in root.events):
        return True
    return exit_.signal is None and (exit_.code not in (0, None) or report.witness == MPI_ABORT)


def first_reports(case: Case) -> list[ExitReport]:
    """The failures that their witnesses call the first, without those before which another witness's came."""
    first = [r for r in case.reports if r.first]
    earliest = min((r.time for r in first if r.time is not None), default=None)
    return [r for r in first if r.time is None or r.time == earliest]


# ── what Slurm's record knows ────────────────────────────────────────────────────────────────


def _by_the_record(finding: Finding, job: JobRecord, case: Case) -> Finding:
    """Fill in the exit where the log tells none, and say where Slurm's hides the first one."""
    recorded, own = worst_exit(job), finding.exit
    if recorded is None:
        return finding
    if finding.step_code is None:
        finding = replace(finding, step_code=recorded.code)
    if own is None:
        return _taken_from_record(finding, job, recorded, case)
    if own.code and own.signal is None and recorded.signal == "SIGTERM":
        return because(finding, reason("record-hides-exit", recorded=recorded, own=own.code))
    return finding


def _taken_from_record(finding: Finding, job: JobRecord, recorded: ProcessExit, case: Case) -> Finding:
    step = job.failed_step
    who = reason("recorded-job" if job.exit_status is None else "script-status")
    if step is not None and step.exit == recorded:
        who = reason("recorded-step", step=step.id)
    if finding.cause in case.traits["whole-job"]:
        return finding
    if finding.cause == HOST_OOM:
        return replace(finding, exit=ProcessExit(None, "SIGKILL", "oom-killed"), exit_how=(who,))
    return _taken(finding, recorded, who, case)


def worst_exit(job: JobRecord) -> ProcessExit | None:
    """The bad exit that Slurm recorded: of the last step that failed, else of the script, else of the job."""
    of_step = job.failed_step.exit if job.failed_step is not None else None
    of_script = from_code(job.exit_status) if job.exit_status else None
    reported = (of_step, of_script, job.exit, job.derived)
    return next((one for one in reported if one is not None and one.exit_class != "ok"), None)
