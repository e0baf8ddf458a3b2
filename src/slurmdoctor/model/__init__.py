"""The types that cross a stage, in the order in which data meets them; docs/glossary.md defines their words."""

from slurmdoctor.model.causes import ABORT as ABORT
from slurmdoctor.model.causes import BROKEN_CONTINUATION as BROKEN_CONTINUATION
from slurmdoctor.model.causes import CANCELLED as CANCELLED
from slurmdoctor.model.causes import COLLECTIVE_TIMEOUT as COLLECTIVE_TIMEOUT
from slurmdoctor.model.causes import COMMAND_NOT_FOUND as COMMAND_NOT_FOUND
from slurmdoctor.model.causes import EXIT_CODE as EXIT_CODE
from slurmdoctor.model.causes import HANG as HANG
from slurmdoctor.model.causes import HOST_OOM as HOST_OOM
from slurmdoctor.model.causes import ID_TIMEOUT as ID_TIMEOUT
from slurmdoctor.model.causes import KILLED as KILLED
from slurmdoctor.model.causes import NODE_FAILURE as NODE_FAILURE
from slurmdoctor.model.causes import NOT_STOPPED as NOT_STOPPED
from slurmdoctor.model.causes import PEER_LOST as PEER_LOST
from slurmdoctor.model.causes import PREEMPTED as PREEMPTED
from slurmdoctor.model.causes import PYTHON_ERROR as PYTHON_ERROR
from slurmdoctor.model.causes import SIGTERM as SIGTERM
from slurmdoctor.model.causes import SOCKET_FALLBACK as SOCKET_FALLBACK
from slurmdoctor.model.causes import STEP_CANCELLED as STEP_CANCELLED
from slurmdoctor.model.causes import TASK_FAILED as TASK_FAILED
from slurmdoctor.model.causes import TIME_LIMIT as TIME_LIMIT
from slurmdoctor.model.causes import USAGE_ERROR as USAGE_ERROR
from slurmdoctor.model.deadline import NEVER as NEVER
from slurmdoctor.model.deadline import Deadline as Deadline
from slurmdoctor.model.diagnosis import (
    Cascade,
    Coverage,
    Diagnosis,
    Evidence,
    Exit,
    FirstFailure,
    NamedCause,
    RankGroup,
    Remedy,
    Retry,
    Rival,
    Surroundings,
)
from slurmdoctor.model.errors import LogNotFoundError, UserError
from slurmdoctor.model.events import GPU_MEMORY as GPU_MEMORY
from slurmdoctor.model.events import HELD_BACK as HELD_BACK
from slurmdoctor.model.events import LAST_STAMP as LAST_STAMP
from slurmdoctor.model.events import (
    Busy,
    CollectiveStatus,
    Event,
    ExitReport,
    Hit,
    Line,
    MemoryReading,
    MemoryTrend,
    Origin,
    Progress,
    SignalHit,
    StackDump,
)
from slurmdoctor.model.events import Outlived as Outlived
from slurmdoctor.model.exits import NATIVE_CRASHES as NATIVE_CRASHES
from slurmdoctor.model.exits import ProcessExit
from slurmdoctor.model.exits import from_code as from_code
from slurmdoctor.model.exits import from_name as from_name
from slurmdoctor.model.exits import from_sacct as from_sacct
from slurmdoctor.model.exits import from_signal as from_signal
from slurmdoctor.model.exits import from_words as from_words
from slurmdoctor.model.exits import signal_name as signal_name
from slurmdoctor.model.finding import (
    EarlierAttempt,
    Extent,
    Finding,
    Incident,
    RankStanding,
    Reason,
    RunState,
    ScriptEvidence,
    ScriptMistake,
    Suspicion,
)
from slurmdoctor.model.finding import reason as reason
from slurmdoctor.model.formats import ASSUMED_YEAR, SourceFormat
from slurmdoctor.model.jobs import Glance as Glance
from slurmdoctor.model.jobs import JobFiles as JobFiles
from slurmdoctor.model.jobs import KnownBy as KnownBy
from slurmdoctor.model.knowledge import (
    Cause,
    Derived,
    ExitFormat,
    Fix,
    Knowledge,
    LineFormat,
    RankLine,
    Rule,
    SecretKind,
    Signal,
    Text,
)
from slurmdoctor.model.lanes import Course as Course
from slurmdoctor.model.lanes import Courses as Courses
from slurmdoctor.model.lanes import Lane as Lane
from slurmdoctor.model.lanes import Lanes as Lanes
from slurmdoctor.model.lanes import Mark as Mark
from slurmdoctor.model.lanes import MarkKind as MarkKind
from slurmdoctor.model.lanes import Sighting as Sighting
from slurmdoctor.model.lanes import Span as Span
from slurmdoctor.model.lanes import State as State
from slurmdoctor.model.matches import BURST as BURST
from slurmdoctor.model.matches import BURST_FIRST as BURST_FIRST
from slurmdoctor.model.matches import BURSTS as BURSTS
from slurmdoctor.model.matches import COUNT as COUNT
from slurmdoctor.model.matches import CROWD as CROWD
from slurmdoctor.model.matches import FIRSTS as FIRSTS
from slurmdoctor.model.matches import RECENTS as RECENTS
from slurmdoctor.model.matches import STRETCH as STRETCH
from slurmdoctor.model.matches import Entry as Entry
from slurmdoctor.model.matches import Matcher, MatchGroup, MatchSample, SearchResult, Target, Writer
from slurmdoctor.model.number_lists import MOST_TASKS as MOST_TASKS
from slurmdoctor.model.number_lists import SHORT as SHORT
from slurmdoctor.model.number_lists import expand as expand
from slurmdoctor.model.number_lists import expand_nodes as expand_nodes
from slurmdoctor.model.number_lists import fold_nodes as fold_nodes
from slurmdoctor.model.number_lists import ranges as ranges
from slurmdoctor.model.number_lists import spans as spans
from slurmdoctor.model.numbers import MOST_RANKS as MOST_RANKS
from slurmdoctor.model.numbers import gib as gib
from slurmdoctor.model.numbers import is_rank as is_rank
from slurmdoctor.model.numbers import number as number
from slurmdoctor.model.observations import Ending, LogFile, Observations
from slurmdoctor.model.parallel_layouts import layouts as layouts
from slurmdoctor.model.ranks import RankMap
from slurmdoctor.model.record import FAILED as FAILED
from slurmdoctor.model.record import FINAL as FINAL
from slurmdoctor.model.record import GONE as GONE
from slurmdoctor.model.record import NO_RECORD as NO_RECORD
from slurmdoctor.model.record import RUNNING as RUNNING
from slurmdoctor.model.record import WAITING as WAITING
from slurmdoctor.model.record import FoundLogs as FoundLogs
from slurmdoctor.model.record import JobRecord
from slurmdoctor.model.record import Quote as Quote
from slurmdoctor.model.record import Step as Step
from slurmdoctor.model.timeline import TICK as TICK
from slurmdoctor.model.timeline import Clocks, Order, Timeline
from slurmdoctor.model.times import format_time as format_time
from slurmdoctor.model.times import parse_time as parse_time
from slurmdoctor.model.times import span as span
from slurmdoctor.model.times import when as when
from slurmdoctor.model.times import zone_of as zone_of
from slurmdoctor.model.words import (
    Confidence,
    ExitClass,
    ExitReporter,
    RankBasis,
    RetryAdvice,
    Role,
    RunStateKind,
    SignalKind,
    Standing,
    Trait,
    Verdict,
)

__all__ = [
    "ABORT",
    "ASSUMED_YEAR",
    "BROKEN_CONTINUATION",
    "BURST",
    "BURSTS",
    "BURST_FIRST",
    "CANCELLED",
    "COLLECTIVE_TIMEOUT",
    "COMMAND_NOT_FOUND",
    "COUNT",
    "CROWD",
    "EXIT_CODE",
    "FAILED",
    "FINAL",
    "FIRSTS",
    "GONE",
    "GPU_MEMORY",
    "HANG",
    "HELD_BACK",
    "HOST_OOM",
    "ID_TIMEOUT",
    "KILLED",
    "LAST_STAMP",
    "MOST_RANKS",
    "MOST_TASKS",
    "NATIVE_CRASHES",
    "NEVER",
    "NODE_FAILURE",
    "NOT_STOPPED",
    "NO_RECORD",
    "PEER_LOST",
    "PREEMPTED",
    "PYTHON_ERROR",
    "RECENTS",
    "RUNNING",
    "SHORT",
    "SIGTERM",
    "SOCKET_FALLBACK",
    "STEP_CANCELLED",
    "STRETCH",
    "TASK_FAILED",
    "TICK",
    "TIME_LIMIT",
    "USAGE_ERROR",
    "WAITING",
    "Busy",
    "Cascade",
    "Cause",
    "Clocks",
    "CollectiveStatus",
    "Confidence",
    "Course",
    "Courses",
    "Coverage",
    "Deadline",
    "Derived",
    "Diagnosis",
    "EarlierAttempt",
    "Ending",
    "Entry",
    "Event",
    "Evidence",
    "Exit",
    "ExitClass",
    "ExitFormat",
    "ExitReport",
    "ExitReporter",
    "Extent",
    "Finding",
    "FirstFailure",
    "Fix",
    "FoundLogs",
    "Glance",
    "Hit",
    "Incident",
    "JobFiles",
    "JobRecord",
    "Knowledge",
    "KnownBy",
    "Lane",
    "Lanes",
    "Line",
    "LineFormat",
    "LogFile",
    "LogNotFoundError",
    "Mark",
    "MarkKind",
    "MatchGroup",
    "MatchSample",
    "Matcher",
    "MemoryReading",
    "MemoryTrend",
    "NamedCause",
    "Observations",
    "Order",
    "Origin",
    "Outlived",
    "ProcessExit",
    "Progress",
    "Quote",
    "RankBasis",
    "RankGroup",
    "RankLine",
    "RankMap",
    "RankStanding",
    "Reason",
    "Remedy",
    "Retry",
    "RetryAdvice",
    "Rival",
    "Role",
    "Rule",
    "RunState",
    "RunStateKind",
    "ScriptEvidence",
    "ScriptMistake",
    "SearchResult",
    "SecretKind",
    "Sighting",
    "Signal",
    "SignalHit",
    "SignalKind",
    "SourceFormat",
    "Span",
    "StackDump",
    "Standing",
    "State",
    "Step",
    "Surroundings",
    "Suspicion",
    "Target",
    "Text",
    "Timeline",
    "Trait",
    "UserError",
    "Verdict",
    "Writer",
    "expand",
    "expand_nodes",
    "fold_nodes",
    "format_time",
    "from_code",
    "from_name",
    "from_sacct",
    "from_signal",
    "from_words",
    "gib",
    "is_rank",
    "layouts",
    "number",
    "parse_time",
    "ranges",
    "reason",
    "signal_name",
    "span",
    "spans",
    "when",
    "zone_of",
]
