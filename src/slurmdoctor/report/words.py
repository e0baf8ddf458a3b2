"""What the reports for people say alike: who failed, how it ended, and what would tell more."""

from __future__ import annotations

import re
from collections.abc import Sequence

from slurmdoctor.model import Cascade, Diagnosis, Exit, FirstFailure, RetryAdvice
from slurmdoctor.model.exits import from_code
from slurmdoctor.model.ranges import ranges
from slurmdoctor.report.redact import disarm

_ENDED: dict[str, str] = {
    "ok": "it ended well",
    "python-error": "Python error",
    "usage-error": "refused its arguments",
    "oom-killed": "killed because host memory ran out",
    "killed": "SIGKILL, sender unknown",
    "terminated": "SIGTERM, stopped from outside",
    "segfault": "SIGSEGV, a crash in native code",
    "abort": "SIGABRT, the program aborted itself",
    "bus-error": "SIGBUS, a bus error",
    "interrupted": "SIGINT, interrupted",
    "time-limit": "stopped at the time limit",
    "not-executable": "found, but could not be executed",
    "not-found": "program not found",
    "other": "a code of the program's own",
}
_MANY = {"was": "were", "has": "have", "is": "are"}
_RETRY: dict[RetryAdvice, str] = {
    "as-is": "as it is",
    "elsewhere": "on other nodes",
    "after-fix": "after the fix",
    "resume": "from the last checkpoint",
}


def one_line(text: str) -> str:
    """A text of any origin as one harmless line."""
    return re.sub(r"[\s\ufffd]+", lambda gap: "\ufffd" if "\ufffd" in gap[0] else " ", disarm(text)).strip()


def headline(diagnosis: Diagnosis) -> str:
    """The verdict in one sentence, without its mark."""
    if diagnosis.verdict == "no-failure":
        return "no failure found"
    if diagnosis.verdict == "unknown":
        if not diagnosis.coverage.bytes:
            return "the log is empty"
        return "the log does not tell whether, or why, the job failed"
    cause, who = diagnosis.cause, _who(diagnosis)
    if cause is None or cause.id == "exit-code":
        return f"{who} {_died(diagnosis.exit)}, and the log does not tell why"
    title = agreeing(cause.title, len(diagnosis.first_failure.ranks) if diagnosis.first_failure else 1)
    likely = "probably " if cause.confidence == "low" else ""
    if title[:1].isupper():  # a heading, not the rest of a sentence
        return f"{who}: {likely}{title}"
    return f"{who} {likely}{title}"


def agreeing(title: str, count: int) -> str:
    """A cause's title behind so many subjects."""
    title = one_line(title)
    return re.sub(r"^(?:was|has|is)(?= )", lambda verb: _MANY[verb[0]], title) if count > 1 else title


def mark(diagnosis: Diagnosis) -> str:
    return {"failed": "✗", "no-failure": "✓", "unknown": "?"}[diagnosis.verdict]


def tag(diagnosis: Diagnosis) -> str:
    """The cause's id and how sure we are."""
    if diagnosis.cause is None:
        return ""
    return f"{one_line(diagnosis.cause.id)} · {diagnosis.cause.confidence} confidence"


def _who(diagnosis: Diagnosis) -> str:
    first = diagnosis.first_failure or FirstFailure()
    if len(first.ranks) > 1:
        return _alike(diagnosis, first)
    on = f" on {one_line(first.node)}" if first.node else ""
    if first.rank is not None:
        return f"rank {first.rank}{on}"
    if first.local_rank is not None and on:
        return f"local rank {first.local_rank}{on}"
    return f"a process{on}" if on else "the job"


def _alike(diagnosis: Diagnosis, first: FirstFailure) -> str:
    count = len(first.ranks)
    world = diagnosis.facts.get("world_size") or diagnosis.coverage.ranks_seen
    if count == world:
        return f"all {count} ranks" if count > 2 else "both ranks"
    listed = ranges(first.ranks)
    return f"ranks {listed}" if len(listed) <= 20 else f"{count} of {world} ranks" if world else f"{count} ranks"


def _died(end: Exit) -> str:
    if end.signal:
        return f"died of {one_line(end.signal)}"
    return f"exited with {end.code}" if end.code is not None else "failed"


def ending(diagnosis: Diagnosis) -> str:
    """How the first failing process ended, and what the step's own code is worth; empty where unknown."""
    end = diagnosis.exit
    shown = str(end.code) if end.code is not None else one_line(end.signal or "")
    text = ""
    if shown:
        meaning = _ENDED.get(end.exit_class) or (one_line(end.signal) if end.signal else "")
        if end.signal and end.code is None and meaning.startswith(shown):
            meaning = meaning[len(shown) :].lstrip(", ")
        first = diagnosis.first_failure
        rank = f" on rank {first.rank}" if first and first.rank is not None else ""
        rank = " on each of them" if first and len(first.ranks) > 1 else rank
        text = f"{shown} = {meaning}{rank}" if meaning else f"{shown}{rank}"
        text += f" (says {one_line(end.how)})" if end.how else ""
    if end.step_code is not None and not _same_end(end):
        text += ("; " if text else "") + f"the step's {end.step_code} is {_step(end.step_code, diagnosis.cascade)}"
    return text


def _same_end(end: Exit) -> bool:
    """137, -9 and "Killed" are one ending, in three spellings."""
    if end.step_code is None or end.step_code == end.code:
        return True
    own = end.signal or (from_code(end.code).signal if end.code is not None else None)
    return own is not None and own == from_code(end.step_code).signal


def _step(code: int, cascade: Sequence[Cascade]) -> str:
    name = from_code(code).signal
    if name is None:
        return "the launcher's own" if code == 1 else "the highest code of all tasks"
    stopped = max((item.ranks for item in cascade if item.cause == "sigterm"), default=0)
    if name == "SIGTERM":
        return (
            f"SIGTERM to {stopped} other {'rank' if stopped == 1 else 'ranks'}" if stopped else "SIGTERM to the others"
        )
    return f"{name} on another process"


def retry(diagnosis: Diagnosis) -> str:
    """What to do with the job now."""
    if diagnosis.retry is None:
        return ""
    text = _RETRY[diagnosis.retry.advice]
    if diagnosis.retry.exclude_nodes:
        script = one_line(str(diagnosis.facts.get("script") or ""))
        script = script if re.fullmatch(r"[\w./+=-]{1,60}", script) else "..."
        text += f" (sbatch --exclude={','.join(map(one_line, diagnosis.retry.exclude_nodes))} {script})"
    return f"{text}; {one_line(diagnosis.retry.why)}" if diagnosis.retry.why else text


def why(diagnosis: Diagnosis) -> str:
    """The reasons, joined."""
    reasons = [one_line(reason).rstrip(".") for reason in diagnosis.reasons]
    if not reasons and diagnosis.first_failure and diagnosis.first_failure.how:
        reasons = [one_line(diagnosis.first_failure.how).rstrip(".")]
    return "; ".join(dict.fromkeys(filter(None, reasons)))


def remedy(do: str, reason: str | None) -> str:
    """A fix with its reason, as two sentences."""
    do = one_line(do)
    if not reason:
        return do
    do += "" if do.endswith((".", "!", "?", ":")) else "."
    return f"{do} {one_line(reason)}"


def read(diagnosis: Diagnosis) -> str:
    """What was read, in one phrase."""
    seen = diagnosis.coverage
    parts = [
        plural(seen.files, "file"),
        f"{seen.lines:,} {'line' if seen.lines == 1 else 'lines'} ({size(seen.bytes)})",
    ]
    if seen.ranks_seen:
        parts.append(plural(seen.ranks_seen, "rank"))
    return ", ".join(parts)


def requests(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """What would tell more where the verdict is not sure: the command that gets it, and what it shows."""
    if diagnosis.verdict == "no-failure" or (diagnosis.cause and diagnosis.cause.confidence == "high"):
        return []
    job = str(diagnosis.facts.get("job_id") or "")
    job = job if re.fullmatch(r"\d[\d_.+]{0,30}", job) else "JOBID"
    missing = [one_line(item) for item in diagnosis.coverage.missing]
    asks: list[tuple[str, str]] = []
    if "sacct" in missing or not missing:
        asks.append((f"sacct -j {job} -o JobID,State,ExitCode,NodeList", "how each step ended"))
    for item in missing:
        if item == "scontrol":
            shows = (
                "why Slurm ended it"
                if diagnosis.coverage.bytes
                else "why Slurm ended it, and where its StdOut and StdErr went"
            )
            asks.append((f"scontrol show job {job}", shows))
        elif item != "sacct":
            asks.append(("", item))
    weak = diagnosis.cause is None or diagnosis.cause.id in ("exit-code", "killed")
    if weak and diagnosis.coverage.bytes:
        asks.append((f"grep -nm40 -iE 'error|traceback|fatal|killed' {_log(diagnosis)}", "the first errors"))
    return asks


def _log(diagnosis: Diagnosis) -> str:
    """A file's name as a shell takes it, where it is one that a person would type."""
    first = diagnosis.first_failure
    file = first.file if first and first.file else next((item.file for item in diagnosis.evidence), None)
    return file if file and re.fullmatch(r"[\w./+=:,][\w./+=:,-]{0,99}", file) else "LOG"


def delay(seconds: float) -> str:
    """`+0.4 s`, `+35 s`, `+1 m 3 s`, `+10 m`, `+2 h 5 m`: two figures tell enough."""
    sign, seconds = ("-" if seconds < 0 else "+"), abs(seconds)
    if seconds < 9.95:
        return f"{sign}{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(seconds)
    for unit, part, length in (("d", "h", 86400), ("h", "m", 3600), ("m", "s", 60)):
        if whole >= length:
            rest = whole % length // (length // {"h": 24, "m": 60, "s": 60}[part])
            return f"{sign}{whole // length} {unit}" + (f" {rest} {part}" if rest and whole < 10 * length else "")
    return f"{sign}{whole} s"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def size(count: int) -> str:
    amount = float(count)
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if amount < 1000 or unit == "TB":
            break
        amount /= 1000
    if count == 1:
        return "1 byte"
    return f"{amount:.0f} {unit}" if unit == "bytes" or amount >= 100 else f"{amount:.1f} {unit}"


def clock(time: str) -> str:
    """The time of day of an ISO time."""
    return one_line(time).partition("T")[2] or one_line(time)
