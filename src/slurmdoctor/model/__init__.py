"""The types that cross a stage, in the order in which data meets them; docs/glossary.md defines their words."""

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
)
from slurmdoctor.model.errors import UserError
from slurmdoctor.model.events import (
    CollectiveStatus,
    Event,
    ExitReport,
    Hit,
    Line,
    Origin,
    Progress,
    SignalHit,
    StackDump,
)
from slurmdoctor.model.exits import ProcessExit
from slurmdoctor.model.finding import Incident, Suspicion
from slurmdoctor.model.formats import ASSUMED_YEAR, SourceFormat
from slurmdoctor.model.knowledge import Cause, Fix, Knowledge, LineFormat, Rule, Signal
from slurmdoctor.model.matches import Matcher, MatchGroup, MatchSample, SearchResult, Target, Writer
from slurmdoctor.model.observations import LogFile, Observations
from slurmdoctor.model.ranks import RankMap
from slurmdoctor.model.words import Confidence, ExitClass, RankBasis, RetryAdvice, Role, Status, Trait, Verdict

__all__ = [
    "ASSUMED_YEAR",
    "Cascade",
    "Cause",
    "CollectiveStatus",
    "Confidence",
    "Coverage",
    "Diagnosis",
    "Event",
    "Evidence",
    "Exit",
    "ExitClass",
    "ExitReport",
    "FirstFailure",
    "Fix",
    "Hit",
    "Incident",
    "Knowledge",
    "Line",
    "LineFormat",
    "LogFile",
    "MatchGroup",
    "MatchSample",
    "Matcher",
    "NamedCause",
    "Observations",
    "Origin",
    "ProcessExit",
    "Progress",
    "RankBasis",
    "RankGroup",
    "RankMap",
    "Remedy",
    "Retry",
    "RetryAdvice",
    "Rival",
    "Role",
    "Rule",
    "SearchResult",
    "Signal",
    "SignalHit",
    "SourceFormat",
    "StackDump",
    "Status",
    "Suspicion",
    "Target",
    "Trait",
    "UserError",
    "Verdict",
    "Writer",
]
