"""What of Slurm's record is missing, how the job's logs were found, and which other tasks failed."""

from __future__ import annotations

from msgspec.structs import replace

from slurmdoctor.model import Coverage, FoundLogs, JobRecord
from slurmdoctor.report.redactor import one_line, redact

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
