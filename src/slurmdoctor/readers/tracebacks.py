"""Puts Python tracebacks together: per writer, chained ones and exception groups too.

Formats: CPython 3.8 to 3.14 (traceback.py), torch.distributed.checkpoint's `(RANK 9)`, torchelastic's `traceback :` field.
"""

from __future__ import annotations

from slurmdoctor.model import Line
from slurmdoctor.ranks.lines import Lines
from slurmdoctor.records import dataclass
from slurmdoctor.search.compiled import lazy

HEADER = "Traceback (most recent call last)"
_DECORATION = lazy(r"^[ ]*(?:[|+](?:-[-+]*)?[ ]?)+")
_FRAME = lazy(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?')
_EXCEPTION = lazy(
    r"^[ `>|]{0,8}(?P<class>(?:[A-Za-z_]\w*\.)*(?P<name>[A-Za-z_]\w*))(?:\([\w.]+\))?(?::\s?(?P<text>.*)|\s*)$"
)
_NAMED_LIKE_ONE = lazy(
    r"(?:Error|Exception|Interrupt|Exit|Iteration|Failure|Timeout|Warning|Unavailable|Refused|Group|Invalid\w*|NotFound|Corrupt\w*)$"
)
_MARKS = lazy(r"^\s*[\^~ ]+$")
_CONNECTORS = {
    "During handling of the above exception, another exception occurred": "during",
    "The above exception was the direct cause of the following exception": "cause",
}
_HARMLESS = lazy(r"Exception ignored in|--- Logging error ---|Error in atexit|Exception ignored on")
_SPAWNED = lazy(r"-- Process (\d+) terminated with the following error")
_COLLECTED = lazy(r"\(most recent call last\): \(RANK (\d+)\)")
_ONE_RANK = lazy(r"ranks:dict_keys\(\[\d+\]\)")
_THREAD = lazy(r"^\s*(?:Exception in thread|Unhandled exception in thread)")
_LIBRARY = lazy(r"site-packages|dist-packages|/lib/python\d|<frozen|<string>|torch/|/lib64/python\d")
_LAUNCHER = lazy(
    r'File "[^"]*/(?:torch/distributed/(?:elastic|launcher|run\.py|launch\.py)|deepspeed/launcher/|accelerate/commands/)'
)
WRAPPERS = frozenset(
    {"ChildFailedError", "CalledProcessError", "ProcessRaisedException", "ProcessExitedException", "SignalException",
     "RayTaskError", "RayActorError", "ActorDiedError", "WorkerCrashedError", "FailedJobError", "UncompletedJobError", "SystemExit",
     "ExceptionGroup", "BaseExceptionGroup", "CheckpointException", "TrainingFailedError"}
)  # fmt: skip
_LONGEST = 300
_AT_THE_END = 4096
"""Bytes that other writers may add to a log after the line at which it was cut."""


@dataclass(frozen=True, slots=True)
class Traceback:
    """One traceback of one writer; a chain is several that share their writer and follow each other."""

    header: Line
    exception: Line | None
    """The exception's own line; None where the log ends before it."""
    name: str
    """The class without its module."""
    frames: tuple[str, ...]
    own_frames: tuple[str, ...]
    """The frames outside of libraries, as `file:line in function`."""
    leads_to: str | None
    """`during` or `cause` where the next traceback of the writer belongs to the same chain."""
    harmless: bool
    in_thread: bool
    process: int | None = None
    """torch.multiprocessing.spawn's index of the process that it speaks of: a local rank."""
    cut: Line | None = None
    """The last line of one inside of which the log ends."""
    collected: int | None = None
    """torch.distributed.checkpoint prints what it collected from this rank, on any other one; -1: from others besides."""

    @property
    def wrapper(self) -> bool:
        """A launcher's or executor's error around a child's: never the cause."""
        return self.name in WRAPPERS

    @property
    def of_launcher(self) -> bool:
        """Whether it is a launcher that raises: what became of its children, not why."""
        return any(_LAUNCHER.search(frame) for frame in self.frames)


def assemble(lines: Lines, header: Line) -> Traceback:
    """Read the traceback that begins at this header."""
    prefix = header.text.find(HEADER)
    decorated = bool(_DECORATION.match(header.text))
    indent = None if header.text[:prefix].strip(" |+") else prefix
    above = list(lines.before(header, 2))
    harmless = any(_HARMLESS.search(line.text) for line in above)
    in_thread = any(_THREAD.match(line.text) for line in above[:1])
    spawned = next((m for line in above if (m := _SPAWNED.search(line.text))), None)
    from_rank = _COLLECTED.search(header.text)
    alone = any(_ONE_RANK.search(line.text) for line in above)
    frames: list[str] = []
    own: list[str] = []
    code_follows = False
    exception: Line | None = None
    last: Line | None = header
    cut: Line | None = None
    skipped = 0
    for line in lines.after(header, _LONGEST):
        text = _DECORATION.sub("", line.text) if decorated else line.text
        if not text.strip() or _MARKS.match(text):
            continue
        if frame := _FRAME.match(text):
            last = line
            frames.append(text.rstrip())
            code_follows = True
            if not _LIBRARY.search(frame["file"]):
                own.append(f"{frame['file']}:{frame['line']} in {frame['function'] or '?'}")
            continue
        depth = len(text) - len(text.lstrip())
        # a frame's source line, or `[Previous line repeated 900 more times]`
        if code_follows and (indent is None or decorated or depth > indent):
            last = line
            frames.append(text.rstrip())
            code_follows = False
            continue
        if HEADER in text:
            break
        found = exception_of(text, strict=indent is None or decorated or skipped > 0)
        if found and (indent is None or decorated or depth <= indent):
            exception = line
            break
        last = None
        skipped += 1
        if skipped > 40:
            break
    else:
        near = last is not None and lines.sources[last.source].length - last.end < _AT_THE_END
        cut = last if near and frames else None
    name = (exception_of(exception.text, strict=False) or ("", ""))[0] if exception else ""
    return Traceback(
        header,
        exception,
        name,
        tuple(frames),
        tuple(own),
        _connector(lines, exception),
        harmless,
        in_thread,
        int(spawned[1]) if spawned else None,
        cut,
        None if from_rank is None else int(from_rank[1]) if alone else -1,
    )


def undecorated(text: str) -> str:
    """The line without an exception group's tree, a quote mark or a paste's backtick before it."""
    return _DECORATION.sub("", text).lstrip(" `>")


def exception_of(text: str, strict: bool = True) -> tuple[str, str] | None:
    """(class name, message) where a line begins as an exception's own line does.

    With `strict`, the class must be named like an exception, or be a class of a module; without, any name will do.
    """
    if text.startswith("\\"):
        return None
    found = _EXCEPTION.match(_DECORATION.sub("", text))
    if found is None:
        return None
    named = _NAMED_LIKE_ONE.search(found["name"]) or (
        "." in found["class"] and (found["name"][0].isupper() or found["name"].endswith("error"))
    )
    if not named and (strict or (found["text"] is None and "." not in found["class"])):
        return None
    return found["name"], found["text"] or ""


def _connector(lines: Lines, exception: Line | None) -> str | None:
    if exception is None:
        return None
    for line in lines.after(exception, 12):
        if HEADER in line.text:
            return None
        for words, link in _CONNECTORS.items():
            if words in line.text:
                return link
    return None
