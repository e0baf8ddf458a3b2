"""What Slurm's record adds to the report: its own lines as evidence, what else is missing, the nodes to leave out."""

from __future__ import annotations

from msgspec.structs import replace

from slurmdoctor.model import Coverage, Diagnosis, Evidence, JobRecord, Knowledge, Retry
from slurmdoctor.model.record import FAILED, RUNNING, WAITING, FoundLogs, Quote
from slurmdoctor.report.redact import one_line, redact

_SOURCES = ("sacct", "scontrol")
_MOST_SIBLINGS = 8
_NOT_TOLD = {
    "unreachable": "Slurm is not reachable from here",
    "gone": "Slurm no longer knows job {job}",
    "silent": "Slurm does not say where the log is",
    "elsewhere": "the log that Slurm names, {log}, is not here",
}
_HOW = {
    "submit-line": "named on the command line of sbatch",
    "script": "named in the batch script",
    "comment": "named in the job's comment",
}
"""How a job's logs were found, where it was not by their names."""


def coverage_with_record(coverage: Coverage, job: JobRecord) -> Coverage:
    """The coverage, with what Slurm was asked and did not answer, and with other failed tasks of the job."""
    unanswered = [who for who in _SOURCES if who not in job.sources and not any(m.startswith(who) for m in job.missing)]
    missing = [word for word in coverage.missing if word not in _SOURCES]
    coverage = replace(coverage, missing=tuple(dict.fromkeys([*missing, *job.missing, *unanswered])))
    if job.found is not None:
        coverage = replace(coverage, notes=(how_found(job, job.found), *coverage.notes))
    if not job.siblings:
        return coverage
    more = len(job.siblings) - _MOST_SIBLINGS
    listed = ", ".join(job.siblings[:_MOST_SIBLINGS]) + (f" and {more} more" if more > 0 else "")
    return replace(coverage, notes=(*coverage.notes, f"also failed: {listed}"))


def how_found(job: JobRecord, found: FoundLogs) -> str:
    """`Slurm is not reachable from here: read ./slurm-4711.out, found by its name`."""
    first, count = found.files[0], len(found.files)
    shown = one_line(redact(first if "/" in first else f"./{first}"))
    told = shown if count == 1 else f"{shown} and {count - 1:,} more"
    how = _HOW[found.how] if found.how != "name" else f"found by {'its name' if count == 1 else 'their names'}"
    why = _NOT_TOLD[found.slurm].format(job=job.id, log=one_line(redact(job.std_out or "")))
    return f"{why}: read {told}, {how}"


def with_record(diagnosis: Diagnosis, job: JobRecord, knowledge: Knowledge) -> Diagnosis:
    """The diagnosis of a failure, with Slurm's own line as evidence, and without the nodes that Slurm calls bad."""
    return _without_bad_nodes(_with_quote(diagnosis, job, knowledge), job, knowledge)


def _with_quote(diagnosis: Diagnosis, job: JobRecord, knowledge: Knowledge) -> Diagnosis:
    quote = _quote(job)
    cause, first = diagnosis.cause, diagnosis.first_failure
    proves = first.file is None or job.state in knowledge.cause_of_state
    if quote is None or cause.id is None or not proves:
        return diagnosis
    rule = f"{cause.id}/slurm"
    line = Evidence(quote.source, quote.line, quote.text, None, None, None, rule, cause.id, "confirmation")
    if first.file is not None:
        return replace(diagnosis, evidence=(*diagnosis.evidence, line))
    first = replace(first, file=quote.source, line=quote.line, text=quote.text)
    return replace(diagnosis, first_failure=first, evidence=(line, *diagnosis.evidence))


def _quote(job: JobRecord) -> Quote | None:
    """The line of Slurm's record that says how the job, or its step, ended."""
    if job.state in RUNNING | WAITING:
        return None
    if job.preempted_at is not None and job.state in FAILED and "preempt" in job.quotes:
        return job.quotes["preempt"]
    worst = next((s for s in reversed(job.work_steps) if s.failed), None)
    if worst is not None and worst.quote is not None and job.state in ("COMPLETED", "FAILED", None):
        return worst.quote
    return job.quotes.get("state")


def _without_bad_nodes(diagnosis: Diagnosis, job: JobRecord, knowledge: Knowledge) -> Diagnosis:
    """Nodes are left out of the next run only where the evidence is against them."""
    if not job.bad_nodes or diagnosis.cause.id not in knowledge.traits["blames-node"]:
        return diagnosis
    known = diagnosis.retry.exclude_nodes if diagnosis.retry else ()
    names = tuple(dict.fromkeys([*known, *job.bad_nodes]))
    node, words = next(iter(job.bad_nodes.items()))
    more = f", and {len(job.bad_nodes) - 1} more" if len(job.bad_nodes) > 1 else ""
    return replace(diagnosis, retry=Retry("elsewhere", f"Slurm reports {node} as {words}{more}", names))
