"""Sentences that the reports for people share: the headline, the reasons, the retry advice, and what else to send."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from slurmdoctor.knowledge import text
from slurmdoctor.matching import lazy
from slurmdoctor.model import (
    EXIT_CODE,
    FINAL,
    KILLED,
    RUNNING,
    SHORT,
    SIGTERM,
    WAITING,
    Cascade,
    Diagnosis,
    Exit,
    ExitClass,
    Extent,
    Frozen,
    ProcessExit,
    Retry,
    RetryAdvice,
    Verdict,
    fold_nodes,
    from_code,
    ranges,
)
from slurmdoctor.report.redaction import disarm, one_line
from slurmdoctor.report.terminal import COLOURS, Line, cells, cut, cut_path

ONLY_ERROR = "the only fatal error in the log"
_MANY = {
    "was": "were", "has": "have", "is": "are", "sees": "see", "does": "do", "needs": "need",
    "its": "their", "it": "them", "itself": "themselves", "it was": "they were", "its node": "their nodes",
    "its container": "their containers", "its port": "their ports",
}  # fmt: skip
_OF_ONE = lazy(r"^\w+(?= )|\bit(?:s(?: (?:node|container|port)\b)?|self| was\b)?\b")
_PACKAGES = lazy(r"(?:site|dist)-packages/")
_RETRY: dict[RetryAdvice, str] = {
    "as-is": "resubmit as is",
    "elsewhere": "resubmit on other nodes",
    "after-fix": "resubmit only after the fix",
    "resume": "resubmit; the log shows no checkpoint to resume from",
    "unknown": "the cause is unknown: it may fail the same way again",
}


def headline(diagnosis: Diagnosis) -> str:
    """The verdict in one sentence, without its mark."""
    if diagnosis.verdict == "no-failure":
        return "no failure found"
    if diagnosis.verdict == "unknown":
        state = diagnosis.facts.get("state")
        if state in WAITING:
            return "the job has not started"
        if state in RUNNING:
            return f"the job is still running{'; no failure so far' if diagnosis.coverage.bytes else ', and its log is empty'}"
        if not diagnosis.coverage.bytes:
            return "the log is empty"
        return "the log does not show whether or why the job failed"
    cause, who = diagnosis.cause, _who(diagnosis)
    if not cause.title or cause.id == EXIT_CODE:
        return f"{who} {died(diagnosis.exit)}; the log does not say why"
    title = agreeing(cause.title, len(diagnosis.extent.ranks))
    if title[:1].isupper():  # a heading, not the rest of a sentence
        return f"{who}: {'probably ' * (cause.confidence == 'low')}{title}"
    return f"{who} {_probably(title) if cause.confidence == 'low' else title}"


def _probably(title: str) -> str:
    """`probably lost a peer`, `was probably stopped`."""
    verb = re.match(r"(?:was|were|has|have|is|are) ", title)
    return f"{verb[0]}probably {title[verb.end() :]}" if verb else f"probably {title}"


def agreeing(title: str, count: int) -> str:
    """A cause's title in the singular or the plural: `was killed`, `were killed`; `lost its node`, `lost their nodes`."""
    title = one_line(title)
    if count <= 1:
        return title
    return _OF_ONE.sub(lambda word: _MANY.get(word[0], word[0]), title)


def mark(diagnosis: Diagnosis) -> str:
    """The verdict as one sign."""
    return {"failed": "✗", "no-failure": "✓", "unknown": "?"}[diagnosis.verdict]


class Shown(NamedTuple):
    """The line of a log that a report quotes."""

    file: str | None
    line: int | None
    text: str | None
    time: str | None


def shown_line(diagnosis: Diagnosis) -> Shown:
    """The first failure's own line; of a rank that printed nothing, the first line of the evidence."""
    first = diagnosis.first_failure
    if first.text is None and diagnosis.evidence:
        item = diagnosis.evidence[0]
        return Shown(item.file, item.line, item.text, item.clock or item.time)
    return Shown(first.file, first.line, first.text, first.clock or first.time)


def tag(diagnosis: Diagnosis) -> str:
    """The cause's id and how sure we are."""
    cause = diagnosis.cause
    return f"{one_line(cause.id)} · {cause.confidence} confidence" if cause.id else ""


def _who(diagnosis: Diagnosis) -> str:
    first, extent = diagnosis.first_failure, diagnosis.extent
    if len(extent.ranks) > 1:
        return _several(extent)
    on = f" on {one_line(first.node)}" if first.node else ""
    if extent.ranks and (first.rank is not None or not on):  # one that failed too may be elsewhere
        return f"rank {extent.ranks[0]}{on}"
    if first.local_rank is not None:
        return f"local rank {first.local_rank}{on}"
    if first.worker:
        return f"{'a process on ' * first.worker.startswith('node')}{one_line(first.worker)}{on}"
    return f"a process{on}" if on else "the job"


def others(diagnosis: Diagnosis) -> str:
    """Who came after the first, where no line says how many they are."""
    ranks = diagnosis.coverage.ranks_seen > 1 or (diagnosis.facts.get("world_size") or 1) > 1
    return "other ranks" if ranks else "other processes"


_SAVED = 40
"""Columns of a checkpoint's name."""
_SHORT = 20
"""Columns of a list of ranks that a headline has room for."""


def _several(extent: Extent) -> str:
    """`all 8 ranks`, `8 of 256 ranks (24-31), all on node003,`, `ranks 0-3`."""
    count, listed = len(extent.ranks), ranges(extent.ranks)
    if count == extent.of:
        return f"all {count:,} ranks" if count > 2 else "both ranks"
    on = f", all on {one_line(extent.nodes[0])}," if len(extent.nodes) == 1 else ""
    if extent.of is not None:
        return f"{count:,} of {extent.of:,} ranks{f' ({listed})' * (len(listed) <= _SHORT)}{on}"
    return (f"ranks {listed}" if len(listed) <= _SHORT else f"{count:,} ranks") + on


def retry(diagnosis: Diagnosis) -> str:
    """What to do with the job now; empty where that says no more than the fixes."""
    if diagnosis.retry is None or (diagnosis.fixes and diagnosis.retry == Retry("after-fix", "")):
        return ""
    text = _RETRY[diagnosis.retry.advice]
    if diagnosis.retry.advice == "resume" and (saved := one_line(str(diagnosis.facts.get("checkpoint") or ""))):
        text = f"resubmit and resume from the last checkpoint ({saved if len(saved) <= _SAVED else '…' + saved[1 - _SAVED :]})"
    if nodes := fold_nodes(map(one_line, diagnosis.retry.exclude_nodes)):
        script = one_line(str(diagnosis.facts.get("script") or ""))
        script = script if re.fullmatch(r"[\w./+=-]{1,60}", script) else "..."
        slurm = other_record(diagnosis) is None
        text = f"on other nodes: `sbatch --exclude={nodes} {script}`" if slurm else f"on other nodes than {nodes}"
    return f"{text}; {one_line(diagnosis.retry.why)}" if diagnosis.retry.why else text


def reasons(diagnosis: Diagnosis) -> list[str]:
    """Why the verdict is what it is, each reason once; that there is no other error says nothing to who sees none."""
    known = diagnosis.reasons if diagnosis.reasons != (ONLY_ERROR,) else ()
    known = known or (diagnosis.first_failure.how or "",)
    return list(dict.fromkeys(filter(None, (one_line(reason).rstrip(".") for reason in known))))


def as_many(clauses: Sequence[str], fits: Callable[[str], bool]) -> str:
    """As many of the clauses as fit, none of them cut; the first one in any case."""
    counts = range(len(clauses), 1, -1)
    texts = ("; ".join(clauses[:count]) for count in counts)
    return next(filter(fits, texts), clauses[0] if clauses else "")


def read(diagnosis: Diagnosis) -> str:
    """What was read: `3 files, 1,890 lines (2.1 MB), 64 ranks`."""
    seen = diagnosis.coverage
    ranks = f", {plural(seen.ranks_seen, 'rank')}" if seen.ranks_seen else ""
    return f"{plural(seen.files, 'file')}, {plural(seen.lines, 'line')} ({size(seen.bytes)}){ranks}"


def requests(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """What else to look at where the verdict is not sure: (command, what it shows)."""
    if diagnosis.verdict == "no-failure" or diagnosis.cause.confidence == "high":
        return []
    job = str(diagnosis.facts.get("job_id") or diagnosis.job.id or "")
    job = job if re.fullmatch(r"\d[\d_.+]{0,30}", job) else "JOBID"
    missing = [one_line(item) for item in diagnosis.coverage.missing]
    asks: list[tuple[str, str]] = []
    if command := other_record(diagnosis):
        asks.append((command, "how the job ended"))
    else:
        if _can_tell("sacct", missing) or not missing:
            asks.append((f"sacct -j {job} -o JobID,State,ExitCode,NodeList", "how each step ended"))
        if _can_tell("scontrol", missing):
            where = "" if diagnosis.coverage.bytes else ", and where its StdOut and StdErr went"
            asks.append((f"scontrol show job {job}", f"why Slurm ended it{where}"))
    asks += [("", item) for item in missing if not _asked_of_slurm(item)]
    return asks


def notes(diagnosis: Diagnosis) -> list[str]:
    """What is to be known of the reading, and what was not asked where nothing is asked for."""
    seen, sure = diagnosis.coverage, diagnosis.verdict == "failed"
    found = [one_line(note).rstrip(".") for note in seen.notes]
    if seen.silent_ranks:
        found.append(f"{names_of(seen.silent_ranks)} printed nothing")
    # to a verdict that is sure, Slurm's records would add nothing
    no_use = sure or other_record(diagnosis)
    missing = [one_line(item) for item in seen.missing if not (no_use and _asked_of_slurm(item))]
    if missing and not requests(diagnosis):
        found.append(f"not checked: {', '.join(missing)}")
    return found


def _asked_of_slurm(item: str) -> bool:
    """Whether what is missing is what one of Slurm's programs would tell: `sacct`, `sacct (accounting is off)`."""
    return item.partition(" (")[0] in ("sacct", "scontrol")


def _can_tell(program: str, missing: list[str]) -> bool:
    """Whether this program was not asked, or may answer another time or on another machine."""
    final = {f"{program} ({answer})" for answer in FINAL}
    return any(item.partition(" (")[0] == program and item not in final for item in missing)


def other_record(diagnosis: Diagnosis) -> str | None:
    """The command that shows how the job ended, where the log shows another batch system than Slurm."""
    command = diagnosis.facts.get("record_command")
    if not command or diagnosis.facts.get("job_id"):
        return None
    job = str(diagnosis.facts.get("batch_job") or "")
    job = job if re.fullmatch(r"[\w.\[\]-]{1,60}", job) else "JOBID"
    import shlex  # here: few reports name a command

    return f"{command} {shlex.quote(job)}"


def clock(time: str) -> str:
    """The time of day of an ISO time, with its zone."""
    shown = one_line(time)
    return re.sub(r"\+00:00$", "Z", shown.partition("T")[2] or shown)


_MEANING: dict[ExitClass, tuple[str, str]] = {
    "ok": ("", "success"),
    "python-error": ("", "a general error; Python exits with 1 after an exception that nothing caught"),
    "usage-error": ("", "many programs exit with 2 when they reject their arguments"),
    "oom-killed": ("host memory ran out", "SIGKILL: the kernel killed it because the job ran out of host memory"),
    "killed": (
        "the log does not say by whom",
        "SIGKILL: by the out-of-memory killer, by Slurm after another failure, or by hand",
    ),
    "terminated": ("", "SIGTERM: stopped by Slurm, the launcher or a person, so rarely the first failure"),
    "segfault": ("a crash in native code", "SIGSEGV: a crash in native code"),
    "abort": (
        "the process aborted itself",
        "SIGABRT: native code gave up (an assertion, an uncaught C++ exception, the NCCL watchdog)",
    ),
    "bus-error": (
        "a bus error",
        "SIGBUS: mapped memory is no longer backed (shared memory full, a truncated file)",
    ),
    "interrupted": ("", "SIGINT: interrupted by a person or by scancel"),
    "time-limit": ("", "stopped at Slurm's time limit"),
    "not-executable": ("found, but could not be executed", "the program was found but could not be executed"),
    "not-found": ("program not found", "the shell did not find the program"),
    "other": ("", "an exit code of the program's own"),
    "unknown": ("", "the log does not show it"),
}
"""Exit class -> what the report's line of the exit adds to the code, and a sentence for the JSON."""
_BY_SIGNAL = {"SIGKILL": "killed by SIGKILL", "SIGTERM": "stopped by SIGTERM", "SIGINT": "interrupted by SIGINT"}


def meaning_of(exit_class: ExitClass) -> str:
    """What an exit means, in plain words."""
    return _MEANING[exit_class][1]


def exit_words(end: ProcessExit | None) -> str:
    """As a noun: `exit code 1`, `SIGKILL`."""
    if end is None:
        return "an unknown exit"
    if end.code is None and end.signal is None:  # Slurm's own: 0:53 of a job whose output file could not be opened
        return "a signal that has no name"
    return end.signal or f"exit code {end.code}"


def died(end: Exit) -> str:
    """As a verb: `exited with 1`, `was killed by SIGKILL`."""
    if end.signal in _BY_SIGNAL:
        return f"was {_BY_SIGNAL[end.signal]}"
    if end.signal:
        return f"died of {one_line(end.signal)}"
    return f"exited with {end.code}" if end.code is not None else "failed"


def ending(diagnosis: Diagnosis) -> str:
    """How the first failing process ended, and what the step's own code means; empty where unknown."""
    end = diagnosis.exit
    text = ""
    if end.code is not None or end.signal:
        text = (_BY_SIGNAL.get(end.signal, one_line(end.signal)) if end.signal else f"code {end.code}") + _on(diagnosis)
        known = [f"code {end.code}"] if end.signal and end.code is not None else []
        known += [f"reported by {one_line(end.how)}"] if end.how else []
        text += f" ({', '.join(known)})" if known else ""
        text += f"; {adds}" if (adds := _adds(diagnosis)) else ""
    if end.step_code is not None and not _same_end(end, end.step_code):
        text += ("; " if text else "") + _step_end(end.step_code, diagnosis.cascade)
    return text


def _adds(diagnosis: Diagnosis) -> str:
    """What the code's meaning adds; that the killer is unknown only where nothing explains the kill."""
    cause = diagnosis.cause.id or EXIT_CODE
    explained = diagnosis.exit.exit_class == "killed" and cause not in (KILLED, EXIT_CODE)
    return "" if explained else _MEANING[diagnosis.exit.exit_class][0]


def _on(diagnosis: Diagnosis) -> str:
    first = diagnosis.first_failure
    if len(first.ranks) > 1:
        return " on each"
    return f" on rank {first.rank}" if first.rank is not None else ""


def _same_end(end: Exit, step_code: int) -> bool:
    """Whether the step ended as the process did: 137, -9 and "Killed" are the same."""
    return step_code == end.code or (end.signal is not None and end.signal == from_code(step_code).signal)


def _step_end(code: int, cascade: Sequence[Cascade]) -> str:
    name = from_code(code).signal
    if name is None:
        return f"Slurm shows the step's highest exit code, {code}"
    stopped = max((item.ranks for item in cascade if item.cause == SIGTERM), default=0)
    if name == "SIGTERM":
        others = f"{stopped} other {'rank' if stopped == 1 else 'ranks'}" if stopped else "the other ranks"
        return f"the step's {code} is SIGTERM to {others}"
    return f"the step's {code} is {name} on another process"


def plural(count: int, noun: str) -> str:
    """`1 rank`, `63 ranks`, `1,890 lines`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def names_of(numbers: Sequence[int]) -> str:
    """`rank 3`, `ranks 0-3,7`."""
    return f"rank{'s' * (len(numbers) > 1)} {ranges(numbers, SHORT)}"


def listed(words: Sequence[str], link: str = "and") -> str:
    """`exit codes`, `exit codes and lost peers`, `a, b and c`."""
    return f" {link} ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def size(count: int) -> str:
    """`1 byte`, `12.3 kB`, `1.5 GB`."""
    from rich.filesize import decimal  # here: few reports name a size

    return decimal(count)


def duration(seconds: float) -> str:
    """`0.4 s`, `35 s`, `1 m 3 s`, `10 m`, `2 h 5 m`: two figures are enough."""
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(seconds)
    for unit, length, part, part_length in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        parts, each = round(whole / part_length), length // part_length
        if parts >= each:
            if whole >= 10 * length:
                return f"{round(whole / length)} {unit}"
            return f"{parts // each} {unit}" + (f" {parts % each} {part}" if parts % each else "")
    return f"{whole} s"


def delay(seconds: float) -> str:
    """A duration after (or before) the first failure: `+10 m`, `-0.4 s`."""
    return ("-" if seconds < 0 else "+") + duration(abs(seconds))


_FRAME = text("python-frame")
_FOREIGN = text("library-path")
_WRAPPER = text("wrapping-function")


class Frame(Frozen):
    """`File "train.py", line 41, in main`, and the code below it."""

    path: str
    line: str
    function: str
    code: str = ""

    @property
    def own(self) -> bool:
        """Whether it is in no installed package and not in the standard library."""
        return not _FOREIGN.search(self.path)

    @property
    def place(self) -> str:
        """The place as an editor takes it; an installed package's from its own name on."""
        path = _PACKAGES.split(self.path)[-1]
        return f"{one_line(path)}:{self.line}"

    @property
    def short_place(self) -> str:
        """The file's name and the line."""
        return f"{self.path.rpartition('/')[2]}:{self.line}"


def place(file: str | None, line: int | None, width: int = 4000) -> str:
    """`job.log:48211`, shortened at its beginning; nothing where no file is known."""
    number = "" if line is None else f":{line}"
    return cut_path(one_line(file), max(width - len(number), 12)) + number if file else ""


def rows_of(traceback: Sequence[str]) -> list[str]:
    """All lines of a traceback, as they are shown."""
    return [row.rstrip().expandtabs(4) for entry in traceback for row in disarm(entry).split("\n")]


def frames(traceback: Sequence[str]) -> list[Frame]:
    """All frames, outermost first; their code may stand in the same string, in the next, or nowhere."""
    lines = [line for entry in traceback for line in entry.split("\n")]
    found = []
    for number, line in enumerate(lines):
        if match := _FRAME.search(line):
            after = lines[number + 1] if number + 1 < len(lines) else ""
            code = after.strip() if after.startswith((" ", "\t")) and not _FRAME.search(after) else ""
            function = one_line(match["function"] or "")
            found.append(Frame(match["file"], match["lineno"], function, one_line(code) if code.strip("^~ ") else ""))
    return found


def best_frames(traceback: Sequence[str], count: int = 2) -> list[Frame]:
    """The innermost own frame and its own caller; the innermost of all where none is own."""
    every = frames(traceback)
    own = [frame for frame in every if frame.own]
    plain = [frame for frame in own if not _WRAPPER.match(frame.function)] or own
    chosen = list(dict.fromkeys(reversed(plain)))[:count]
    return chosen or every[-1:]


_WIDEST, _LONGEST_LABEL = 140, 40
_COUNTED = 6
"""Causes that are counted each."""


class Row(Frozen):
    """One job in short."""

    label: str
    verdict: Verdict
    mark: str
    headline: str
    cause: str | None = None

    @classmethod
    def of(cls, found: Diagnosis) -> Row:
        """What a diagnosis says in a row; of files that could not be read, why."""
        unread = found.verdict == "unknown" and not found.coverage.files and found.coverage.notes
        headed = one_line(found.coverage.notes[0]) if unread else headline(found)
        return cls(one_line(found.job.label), found.verdict, mark(found), headed, found.cause.id)


def room_for(labels: Iterable[str]) -> int:
    """Columns for the names of all jobs."""
    return min(max(map(cells, labels), default=0), _LONGEST_LABEL)


def line(row: Row, room: int, width: int) -> Line:
    """A row that fits the width; a label is never cut, for it is what picks the job."""
    width = min(width, _WIDEST)
    label = row.label + " " * (room - cells(row.label))
    tag = row.cause or ""
    left = width - cells(label) - 4 - (cells(tag) + 2 if tag else 0)
    text = cut(row.headline, max(left, 12))
    gap = " " * max(2, width - cells(label) - 4 - cells(text) - cells(tag))
    shown: Line = [("bold", label), ("", "  "), (COLOURS[row.mark], row.mark), ("", f" {text}")]
    return [*shown, ("dim", gap + tag)] if tag else shown


def counted(rows: Sequence[Row]) -> str:
    """Like causes counted: `6 jobs: 3 cuda-oom, 1 time-limit; 2 without failure`."""
    kinds = [kind for kind in grouped(rows) if kind.row.verdict == "failed"]
    known = [f"{len(kind.labels):,} {kind.row.cause or 'unknown cause'}" for kind in kinds[:_COUNTED]]
    known += [f"{sum(len(kind.labels) for kind in kinds[_COUNTED:]):,} others"] if len(kinds) > _COUNTED else []
    parts = [", ".join(known)] if known else []
    for verdict, how in (("no-failure", "without failure"), ("unknown", "unknown")):
        if count := sum(row.verdict == verdict for row in rows):
            parts.append(f"{count:,} {how}")
    return f"{plural(len(rows), 'job')}: " + "; ".join(parts)


class Rows(Frozen):
    """Jobs of one cause: the first of them, and the names of all."""

    row: Row
    labels: tuple[str, ...]


def grouped(rows: Sequence[Row]) -> tuple[Rows, ...]:
    """Jobs of one cause together: the most frequent failures first, what has none last."""
    groups: dict[tuple[int, str], list[Row]] = defaultdict(list)
    order = {"failed": 0, "unknown": 1, "no-failure": 2}
    for row in rows:
        groups[order[row.verdict], row.cause or ""].append(row)
    ordered = sorted(groups.items(), key=lambda one: (one[0][0], -len(one[1]), one[0][1]))
    return tuple(Rows(group[0], tuple(row.label for row in group)) for _, group in ordered)


def named(labels: Sequence[str], most: int = 12) -> str:
    """Labels, with the tasks of an array as Slurm writes them: `4711_[0-2,7], 4720 and 3 more`."""
    tasks: dict[str, set[int]] = {}
    for label in labels:
        array, _, task = label.partition("_")
        if array.isdigit() and task.isdigit():
            tasks.setdefault(f"{array}_", set()).add(int(task))
        else:
            tasks[label] = set()
    shown = [name + (f"[{ranges(of)}]" if len(of) > 1 else ranges(of)) for name, of in tasks.items()]
    more = len(shown) - most
    return ", ".join(shown[:most]) + (f" and {more:,} more" if more > 0 else "")


def ended(kind: Rows) -> str:
    """What the jobs of a kind say: the first one's headline, and the cause."""
    shown_text = cut(kind.row.headline, 120)
    if len(kind.labels) > 1 and kind.row.verdict == "failed":
        shown_text = f"the first: {shown_text}"
    return f"{shown_text} ({kind.row.cause})" if kind.row.cause else shown_text
