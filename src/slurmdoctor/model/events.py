"""What the log says: lines, who wrote them, and the events that they add up to."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Literal

from msgspec import field
from msgspec.structs import replace

from slurmdoctor.model.frozen import Frozen
from slurmdoctor.model.knowledge import ExitFormat, Rule, Signal
from slurmdoctor.model.notation import ProcessExit, plain
from slurmdoctor.model.words import ExitReporter, RankBasis, Role


class Reason(Frozen):
    """Why inference decided as it did: a code, and the values that its sentence needs (`report/reasons.py`)."""

    code: str
    values: Mapping[str, Any] = field(default_factory=dict)


def reason(code: str, **values: Any) -> Reason:
    """A reason with its values by name."""
    return Reason(code, values)


class Origin(Frozen):
    """Who printed a line, and when. Each field is read from the log, or None: never guessed."""

    rank: int | None = None
    local_rank: int | None = None
    node: str | None = None
    time: float | None = None
    """Seconds since the epoch as if the stamp were UTC; the year may be assumed (see `dated`)."""
    dated: bool = False
    """Whether the stamp held a year."""
    pid: int | None = None
    worker: str | None = None
    """What its label calls it by a number that is no global rank: `worker 4`, `node 2`, `TP1`."""


class Line(Frozen):
    """One line, taken apart."""

    source: int
    offset: int
    end: int
    """Offset of the byte after its line end."""
    raw: str
    """As printed, without its line end."""
    text: str
    """Without labels, colour and line end."""
    origin: Origin
    label: bytes
    order: int = 0
    """Position in the whole job's text."""

    @property
    def place(self) -> tuple[int, int]:
        """Where the line is: its source and its offset there. Its number is looked up for the few lines that are shown."""
        return self.source, self.offset


Outlived = Literal["", "maybe", "perhaps", "shortly", "long"]


class Event(Frozen):
    """Something that happened to a rank: the unit that inference reasons about."""

    cause: str
    role: Role
    rule: str
    origin: Origin
    hit: Line
    """The line that a rule or a reader took."""
    order: int
    """Position in the whole job's text, over all sources; comparable between events."""
    rank_basis: RankBasis | None = None
    """How the origin's rank is known."""
    captures: Mapping[str, str] = field(default_factory=dict)
    traceback: tuple[str, ...] = ()
    """The frames and the exception's line, outermost first, where the event is a traceback."""
    group: int = 0
    """Events of one chained traceback, or of one rank's burst, share a group."""
    count: int = 1
    survived: bool = False
    """The same rank, or the job as a whole, went on after it."""
    bound: bool = False
    """The line itself has no time: the origin's is that of a line before it, so it came then or later."""
    others: frozenset[int] = frozenset()
    """The ranks that printed the same and have no event of their own: of many ranks only the first ones have."""
    label: bytes = b""
    """The label of its line, which tells its writer from the others (`WriterKey`)."""
    retried: bool = False
    """A line just after it shows that the error was caught and dealt with: `attempt 2/5 succeeded`."""
    outlived: Outlived = ""
    """Whether what its writer printed after it shows that it went on; after long work what ended it later is something else. Maybe: it
    printed something more; perhaps: it printed on, or showed results."""
    caught: ProcessExit | None = None
    """The signal that a crash handler caught, where its line names one: the process ends by it."""
    warned: bool = False
    """Its line is a record of level WARNING or lower: who prints that goes on."""
    ends_job: bool = False
    """On its line Slurm ends or requeues the whole job."""
    unclocked: bool | None = None
    """Where a node's own log shows it, and not the job's: whether that has no known clock, so that it may have come before the job, or after."""
    stack_of: Literal["", "current", "main"] = ""
    """Whose frames a crash dump's `traceback` holds: those of the thread that crashed, or of the main thread."""

    @property
    def ranks(self) -> frozenset[int]:
        """All ranks that the event represents."""
        return self.others if self.origin.rank is None else self.others | {self.origin.rank}


class SignalHit(Frozen):
    """A signal's line: progress, a finish, a new attempt, a fact."""

    signal: Signal
    line: Line
    order: int
    captures: Mapping[str, str]

    @property
    def by_program(self) -> bool:
        """Whether a program prints it: `Training complete!` without a label may be an echo of the batch script."""
        return "said" not in self.captures or self.line.raw.strip() != self.line.text.strip()


class ExitReport(Frozen):
    """A program's report that one or several processes have ended."""

    line: Line
    witness: str
    """The program that reports it, as the verdict shows it: `mpirun`."""
    exit: ProcessExit
    rank: int | None = None
    local_rank: int | None = None
    node: str | None = None
    pid: int | None = None
    tasks: tuple[int, ...] = ()
    """srun's task ids: ranks only where a task is a rank."""
    time: float | None = None
    first: bool = False
    """The witness itself calls it the first failure."""
    order: int = 0
    """Position of its line in the whole job's text."""
    ranks: tuple[int, ...] = ()
    """The global ranks that it is about; none where they are not known."""
    rank_basis: RankBasis | None = None
    """How they are known."""
    kind: ExitReporter = "launcher"
    launcher: str | None = None
    """What the fact `launcher` is where this report is seen: `torchrun`."""
    how: Line | None = None
    """The line near it that tells how the process ended, where its own does not."""


class CollectiveStatus(Frozen):
    """What one rank's watchdog says of one collective."""

    rank: int
    group: str | None = None
    group_rank: int | None = None
    time: float | None = None
    order: int = 0
    seq: int | None = None
    op: str | None = None
    """The operation that timed out; None where the line tells only how far the rank's works were."""
    size: tuple[int, int] | None = None
    """Its input and output elements."""
    group_size: int | None = None
    """How many ranks its group has, where the operation's sizes tell."""
    enqueued: int | None = None
    completed: int | None = None
    dump: bool = False
    """Printed on a dump signal: its numbers are those of the default group, whichever timed out."""
    entered: str | None = None
    """The operation that the rank entered as this number; it need not have hung there."""
    reporter: int | None = None
    """The rank whose time-out gave the dump signal."""
    timeout_ms: int | None = None
    ran_ms: int | None = None
    """How long the operation had run when it timed out."""
    source: int = 0


class Busy(Frozen):
    """Work that one process did while others waited, by its bar or by a logger's line."""

    kind: str
    """`preparing`, `fetching`, `saving` or `evaluating`."""
    text: str
    order: int
    elapsed: float | None = None
    """Seconds that it had taken, where a bar says so;"""
    time: float | None = None
    """else when it began."""


class StackDump(Frozen):
    """Where one rank stood: of the thread that the line opens the innermost frame that shows it."""

    rank: int
    innermost: str
    """`function (file:line)`."""
    line: Line
    where: str = ""
    """`function (file)`: ranks that wait in one loop stand in one place."""
    order: int = 0
    """Position of its first line in the whole job's text."""
    waits: bool = False
    """Whether it waits for other ranks there: in a collective."""


class Progress(Frozen):
    """One step made by one writer."""

    source: int
    offset: int
    order: int
    rank: int | None
    label: bytes
    step: int | None
    steps: int | None
    time: float | None
    clock_time: float | None = None
    """Where the line has no time of its own: what the log's bare clock showed before it (`readers/attribution.py`)."""
    part: bool = False
    """Whether `steps` may be those of a part of the work: of an epoch, or a bar's."""
    skipped: bool = False
    """Whether steps may stand between the one before in its source and this one that were not read."""

    @property
    def shown_time(self) -> float | None:
        """The time of the step, by its own stamp or by the log's clock."""
        return self.time if self.time is not None else self.clock_time


GPU_MEMORY = "gpu_memory"
"""The fact (rules/facts.yaml) whose lines are readings, not names of their own."""


def facts_of(signals: Iterable[SignalHit]) -> dict[str, Any]:
    """The facts of the log by name. The first line that tells one counts: what is printed later may be a child's or a default."""
    facts: dict[str, Any] = {}
    for hit in signals:
        name = hit.signal.name
        if hit.signal.kind == "fact" and name != GPU_MEMORY:
            if hit.signal.value is not None:
                facts.setdefault(name, hit.signal.value)
            for key, value in hit.captures.items():
                facts.setdefault(name if key == "value" else key, plain(value))
    return facts


class MemoryReading(Frozen):
    """What one writer's line shows of its GPU's memory, in GiB."""

    rank: int | None
    step: int | None
    text: str
    """As the line shows it: `18.2GB/40GB`."""
    order: int
    used: float | None = None
    total: float | None = None
    peak: float | None = None
    gpu: tuple[int, int] | None = None
    """The node's number and the GPU's on it, where the line names these in place of a rank."""
    before: float | None = None
    """What was used in the first of the steps that were read."""


def may_be(node: str | None, other: str | None) -> bool:
    """Whether two names may be one node's."""
    return None in (node, other) or str(node).partition(".")[0] == str(other).partition(".")[0]


def bus_of(words: str) -> str:
    """A GPU's place on the PCI bus as NCCL writes it: `1b000` for `0000:1b:00`, `0000:1b:00.0` and `00000000:1B:00.0`."""
    last = "" if "." in words or ":" not in words else "0"
    return words.replace(":", "").replace(".", "").lower().lstrip("0") + last


class RankMap(Frozen):
    """Which rank runs where. A sub-group's rank and a local rank are never taken for global ranks."""

    node_of: Mapping[int, str] = field(default_factory=dict)
    rank_of_pid: Mapping[tuple[str | None, int], int] = field(default_factory=dict)
    """By node and process id; by the process id alone under the node None."""
    rank_of_local: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """By node and local rank."""
    rank_of_bus: Mapping[tuple[str | None, str], int] = field(default_factory=dict)
    """By node and the PCI bus of the GPU, as `bus_of` writes it."""
    of_path: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """What the path of each source names: rank, local_rank, task, node, attempt."""
    world_size: int | None = None
    """The job's number of ranks, where the log names it."""
    seen: frozenset[int] = frozenset()
    """The ranks that the log places somewhere."""
    tasks_are_ranks: bool = True
    """False where each of Slurm's tasks is a launcher of several ranks."""
    lone_launcher: bool = False
    """One launcher prints in the log, and nothing in it shows a second node."""

    @property
    def one_node(self) -> bool:
        """Whether the log shows that the whole job ran on one node: local ranks are ranks there."""
        nodes = set(self.node_of.values())
        return len(nodes) == 1 and bool(self.rank_of_local) and all(k[1] == v for k, v in self.rank_of_local.items())

    def resolve(self, origin: Origin, source: int | None = None) -> tuple[Origin, RankBasis | None]:
        """The origin with its rank and node filled in, and how the rank is known; None where it is not.

        `source` is the file that its process wrote; None where another program prints about the process.
        """
        path = {} if source is None else self.of_path.get(source, {})
        rank, basis = self._rank_of(origin, path)
        local = origin.local_rank
        if local is None and "local_rank" in path:
            local = int(path["local_rank"])
        node = origin.node if origin.node is not None else path.get("node")
        if rank is None:
            rank, basis = self._mapped(node, local, origin.pid)
        if rank is not None and node is None:
            node = self.node_of.get(rank)
        if (rank, local, node) == (origin.rank, origin.local_rank, origin.node):
            return origin, basis
        return replace(origin, rank=rank, local_rank=local, node=node), basis

    def of_gpu(self, node: str | None, bus: str) -> int | None:
        """The rank that uses the GPU at this place of the bus; None where it is not known, or several nodes have one there."""
        ranks = {rank for (at, one), rank in self.rank_of_bus.items() if one == bus and node in (at, None)}
        return ranks.pop() if len(ranks) == 1 else None

    def ranks_of(self, report: ExitReport) -> tuple[tuple[int, ...], RankBasis | None]:
        """The ranks that an exit report is about, and how they are known; none where they are not."""
        if report.rank is not None:
            return (report.rank,), "as-written"
        if report.tasks and self.tasks_are_ranks:
            return report.tasks, "task"
        if report.local_rank is None:
            return (), None
        origin, basis = self.resolve(Origin(local_rank=report.local_rank, node=report.node, pid=report.pid))
        return (() if origin.rank is None else (origin.rank,)), basis

    def _rank_of(self, origin: Origin, path: Mapping[str, str]) -> tuple[int | None, RankBasis | None]:
        """The rank by the line itself or by its file's path."""
        if origin.rank is not None:
            return origin.rank, "as-written"
        if origin.local_rank is None and "rank" in path:
            return int(path["rank"]), "path"
        if "task" in path and self.tasks_are_ranks:
            return int(path["task"]), "task"
        return None, None

    def _mapped(self, node: str | None, local: int | None, pid: int | None) -> tuple[int | None, RankBasis | None]:
        """The rank by what other lines tell of its process."""
        if pid is not None:
            rank = self.rank_of_pid.get((node, pid), self.rank_of_pid.get((None, pid)))
            if rank is not None and may_be(node, self.node_of.get(rank)):
                return rank, "pid"
        if local is None:
            return None, None
        if node and (node, local) in self.rank_of_local:
            return self.rank_of_local[node, local], "node-and-local-rank"
        if self.one_node:
            return local, "one-node"
        if self.lone_launcher:
            return local, "lone-launcher"
        return None, None


Target = Rule | Signal | ExitFormat | str
"""What a matcher works for: a rule, a signal, an exit report, or a structural reader, by its name (`traceback`)."""

Writer = tuple[int, bytes]
"""(source, label): who printed a line, as far as the head of the line shows it: `(0, b"[rank3]:")`."""

Entry = list[Any]
"""The count and some places of one writer's lines:
[count, number of the last burst, its first place, first places, places of the last burst, last places]."""
COUNT, BURST, BURST_FIRST, FIRSTS, BURSTS, RECENTS = range(6)
STRETCH = 18
"""Binary digits of a stretch's length. After 256 KiB of the log without such a line, the next one begins a new burst."""
MANY_WRITERS = 64
"""Where more writers than this print the same, of each only its first place and the first of its last burst are kept."""


class Matcher(Frozen):
    """Something to look for in every line."""

    target: Target
    id: str
    literals: tuple[bytes, ...]
    """A line that holds none of these is not looked at."""
    keep: int
    """How many places to keep of each sort (first, burst, last) for a writer; 1 keeps the first place alone."""
    digit_sensitive: bool = True
    """Whether it may take one line and refuse another that differs in its digits only: `exit code 137`."""


class MatchSample(Frozen):
    """Some of one writer's lines that a matcher takes."""

    source: int
    label: bytes
    count: int
    """The number of all of them."""
    places: tuple[int, ...]
    """Offsets of the first lines, of the first ones of the last burst, and of the last lines."""


class MatchGroup(Frozen):
    """All lines that one matcher takes for one reason, by writer."""

    matcher: Matcher
    kind: str
    """Tells apart what one matcher takes: an exception's class and first words. Empty for most."""
    writers: dict[Writer, list[Entry]]
    """A writer has several entries where some of its lines satisfy other matchers besides."""
    in_order: bool = False
    """Whether the writers stand in the order of their first lines."""

    @property
    def count(self) -> int:
        return sum(map(self.count_of, self.writers))

    def first_of(self, writer: Writer) -> int:
        """The place of this writer's first line."""
        return int(min(entry[FIRSTS][0] for entry in self.writers[writer]))

    def count_of(self, writer: Writer) -> int:
        return sum(entry[COUNT] for entry in self.writers[writer])

    def by_first(self, most: int | None = None) -> list[Writer]:
        """The writers in the order of their first lines, or the first few of them."""
        if self.in_order:
            return list(islice(self.writers, most))
        order = sorted((source, self.first_of((source, label)), label) for source, label in self.writers)
        return [(source, label) for source, _, label in order[:most]]

    def by_last_burst(self, most: int) -> list[Writer]:
        """The first few writers of the latest burst."""
        latest = sorted(
            (source, -max(e[BURST] for e in entries), max(e[BURST_FIRST] for e in entries), label)
            for (source, label), entries in self.writers.items()
        )
        return [(source, label) for source, _, _, label in latest[:most]]

    def sample(self, writer: Writer) -> MatchSample:
        return MatchSample(*writer, self.count_of(writer), self._places(self.writers[writer]))

    def _places(self, entries: list[Entry]) -> tuple[int, ...]:
        keep = self.matcher.keep
        firsts = sorted(place for e in entries for place in e[FIRSTS])[:keep]
        if keep == 1:
            return (firsts[0],)
        if len(self.writers) > MANY_WRITERS:
            again = max(e[BURST_FIRST] for e in entries)
            near = (again >> STRETCH) <= (firsts[0] >> STRETCH) + 1  # one burst, in other words
            return (firsts[0],) if near else (firsts[0], again)
        bursts = [place for e in entries for place in e[BURSTS][:keep]]
        recents = sorted(place for e in entries for place in e[RECENTS])[-keep:]
        return tuple(sorted({*firsts, *bursts, *recents}))


class SearchResult(Frozen):
    """All matches in a job's logs."""

    groups: tuple[MatchGroup, ...]
    line_index: tuple[tuple[list[int], list[int]], ...]
    """For each source: offsets of blocks, and the number of lines before each; -1 behind text that was not read."""
    matchers_for: Callable[[bytes], Sequence[Matcher]]
    """A line -> the matchers of which it contains a literal."""
    notes: tuple[Reason, ...] = ()
    """The limits that the search met: what it did not read, or did not confirm."""
    complete: bool = True
    """Whether all bytes were read."""

    def lines_before(self, source: int, offset: int) -> tuple[int, int]:
        """The nearest indexed offset at or before this one, and the number of lines before that.

        The number is -1 where some text before it was not read.
        """
        offsets, lines = self.line_index[source]
        at = max(0, bisect_right(offsets, offset) - 1)
        return (offsets[at], lines[at]) if offsets else (0, 0)


class LogFile(Frozen):
    """One file of the job."""

    name: str
    bytes: int
    lines: int
    cut: bool = False
    """Whether it ends within a line."""


class Ending(Frozen):
    """How the job's text ends, where no line proves why."""

    telling: Line | None = None
    """The line that looks most like an end,"""
    shown: tuple[Line, ...] = ()
    """and the last ones of its file."""
    read: Line | None = None
    """The line that the classifier takes for an end."""


CLASSIFIER = "classifier"
"""The rule of what no rule knows: the classifier's reading."""


class Likeness(Frozen):
    """What a line reads like, or the most telling one beside it."""

    line: Line
    cause: str
    probability: float
    """Calibrated on lines of programs that were left out of the training."""
    words: tuple[str, ...]
    """The words of the line that weighed most."""
    pointed: tuple[Line, ...] = ()
    """The neighbors that an expert would rather point to."""
    example: str | None = None
    """The example of a rule of that cause that is nearest to the line, where one is near."""


class Observations(Frozen):
    """Everything that was read, in the order of the job's text."""

    events: tuple[Event, ...]
    reports: tuple[ExitReport, ...]
    collectives: tuple[CollectiveStatus, ...]
    signals: tuple[SignalHit, ...]
    rank_map: RankMap
    dumps: Mapping[int, StackDump] = field(default_factory=dict)
    """Each rank's last stack dump."""
    progress: tuple[Progress, ...] = ()
    """Training steps: where they are few all, else those at each file's ends, around the events, and around long pauses."""
    launcher: str | None = None
    """The job's launcher, where one reported an exit: `torchrun`, `srun`."""
    memory: tuple[MemoryReading, ...] = ()
    """What each rank's last step shows of its GPU's memory, and reports of it."""
    last_words: Mapping[int, Line] = field(default_factory=dict)
    """What each rank printed last around the first wait for another rank, its own errors left out."""
    busy: Busy | None = None
    """What a process was busy with when the first wait timed out, or when the job was ended."""
    rank_0_work: Busy | None = None
    """The work that rank 0's last words tell of, where it was not done."""
    ending: Ending = Ending()
    """Nothing where a line may prove why the job ended."""
    likeness: Mapping[tuple[int, int], Likeness] = field(default_factory=dict)
    """Of the last telling line, and of errors that rules name in general: what the classifier takes them for, by place."""
    in_good_run: Mapping[tuple[int, int], bool] = field(default_factory=dict)
    """Of each event's place, whether a run that ended well has the same line; nothing where none is given."""
    files: tuple[LogFile, ...] = ()
    begins: tuple[int, ...] = ()
    """Where attempts begin, where what was read is ordered by attempt and then by file."""
    zone: int | None = None
    """Seconds east of UTC of the log's stamps, where they name a zone."""
    notes: tuple[Reason, ...] = ()
    """What was not read, and why: the limits that the search and the readers met."""
    complete: bool = True
    """Whether all of the log was looked at; what was not may hold a failure, or an earlier one."""

    @property
    def ranks_that_printed(self) -> set[int]:
        """The ranks of which a line was read."""
        printed = {rank for e in self.events for rank in e.ranks} | {w.rank for w in self.collectives}
        printed |= set(self.last_words) | {step.rank for step in self.progress if step.rank is not None}
        paths = (path for n, path in self.rank_map.of_path.items() if any(file.lines for file in self.files[n : n + 1]))
        return printed | {int(path["rank"]) for path in paths if "rank" in path}

    @property
    def ranks_seen(self) -> set[int]:
        """All ranks that the log names, those of which only others tell, too."""
        seen = self.ranks_that_printed | self.rank_map.seen | set(self.rank_map.node_of)
        if self.rank_map.tasks_are_ranks:
            seen |= {task for report in self.reports for task in report.tasks}
        return seen

    @property
    def numbers(self) -> Mapping[str, int]:
        """The facts of the log that are numbers."""
        return {name: value for name, value in facts_of(self.signals).items() if isinstance(value, int)}

    @property
    def started_by(self) -> str | None:
        """What started the ranks, as far as the log shows: the first fact `launcher`, else who reported an exit."""
        named: str | None = facts_of(self.signals).get("launcher")
        return named or self.launcher


Order = Literal["timestamps", "file", "unknown"]
TICK = 1.0
"""Seconds within which two stamps of two clocks do not tell what came first."""


class Clocks(Frozen):
    """Seconds by which the clocks of nodes (or files) are ahead of the one that most steps were stamped with."""

    ahead: Mapping[str, float] = field(default_factory=dict)
    steps: Mapping[str, int] = field(default_factory=dict)
    """How many common steps show it."""
    reference: str = ""
    name_of: Callable[[int, int | None, str | None], str] = lambda source, rank, node: ""
    """(source, rank, node) of a line -> the clock that stamped it."""

    def ahead_of(self, source: int, rank: int | None, node: str | None) -> float:
        """What to take from a line's time to compare it with those of other nodes."""
        if not self.ahead:
            return 0.0
        own = self.ahead.get(self.name_of(source, rank, node))
        return self.ahead.get(self.name_of(source, None, None), 0.0) if own is None else own

    @property
    def notes(self) -> tuple[Reason, ...]:
        """What a reader should know of clocks that differ."""
        return tuple(
            reason("clocks-differ", name=name, seconds=by, reference=self.reference, steps=self.steps[name])
            for name, by in sorted(self.ahead.items())
        )


class Timeline(Frozen):
    """The last attempt that failed, in order; what came before it is kept apart."""

    events: tuple[Event, ...] = ()
    reports: tuple[ExitReport, ...] = ()
    collectives: tuple[CollectiveStatus, ...] = ()
    earlier: tuple[Timeline, ...] = ()
    """The attempts that failed before, oldest first."""
    attempts: int = 1
    span: tuple[int, int] = (0, 1 << 62)
    """Where the attempt begins and ends in the job's text."""
    order: Order = "unknown"
    finished: SignalHit | None = None
    """The last line that says that the program completed."""
    last_progress: Progress | None = None
    progress: tuple[Progress, ...] = ()
    began: SignalHit | None = None
    """The last line that says that the training loop begins, where no step came after it."""
    keys: Mapping[int, tuple[float, int]] = field(default_factory=dict)
    """Event order -> its sorting key."""
    cut: bool = False
    """Whether a file of the job ends within a line."""
    clocks: Clocks = Clocks()

    @property
    def notes(self) -> tuple[Reason, ...]:
        """What a reader should know of its order."""
        return self.clocks.notes if self.order == "timestamps" else ()

    def key(self, event: Event) -> tuple[float, int]:
        """What events are sorted by: the time, and the place in the text."""
        return self.keys.get(event.order, (float("inf"), event.order))
