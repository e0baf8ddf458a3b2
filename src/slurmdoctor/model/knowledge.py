"""What the rule files say: causes, their rules and fixes, labels of lines, signals.

They are kept between runs as arrays of their fields, and read back by their types: `from __future__ import annotations` would make
these types strings, to be parsed at every start.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from typing import Any, ClassVar, Literal, TypeVar, cast, get_args

from msgspec import field

from slurmdoctor.model.frozen import Frozen, Packed
from slurmdoctor.model.words import ExitClass, ExitReporter, RetryAdvice, Role, SignalKind, Trait

Plain = str | int | float | bool | None
Made = TypeVar("Made")


class Rule(Packed):
    """One way in which a known program prints a cause."""

    id: str
    """Stable, `<cause>/<name>`; shown in the verdict."""
    cause: str
    role: Role
    """The rule's own role, or its cause's."""
    source: str
    """The program that prints it, and since which version."""
    literals: tuple[str, ...]
    """Any one of these, present in a line, admits the line to the regex."""
    regex: str
    """Searched (third-party `regex` syntax) in the line without its labels and colours.

    Named groups become captures. `rank`, `local_rank`, `node`, `nodes`, `tasks`, `pid` name who failed.
    """
    applies_to: Literal["line", "exception", "frame", "message"] = "line"
    """What the line must be: any line, an exception's own line (`pkg.SomeError: text`), a traceback frame, or a line of the message
    in which a program says that it stops: such lines are not searched for, they stand beside another rule's."""
    match: tuple[str, ...] = ()
    no_match: tuple[str, ...] = ()
    general: bool = False
    """It goes by the wording of many programs: it counts only where no other rule of any cause takes the line."""
    ends_with: int | str | None = None
    """The code or the signal (`SIGABRT`) with which a process always ends that prints this."""
    when: Mapping[str, Plain | tuple[Plain, ...]] = field(default_factory=dict)
    """What must be known of the job besides: the line alone does not prove the cause."""
    of_site: bool = False
    """Nobody has proven its pattern: it is searched within a limit of time. So it is of the tables' entries."""

    @property
    def by_wording(self) -> bool:
        """Whether it is a general rule of exceptions: these lines are found without it."""
        return self.general and self.applies_to == "exception"


class Fix(Packed):
    """What to do about a cause; `{placeholders}` are filled from captures and facts."""

    do: str
    why: str | None = None
    when: Mapping[str, Plain | tuple[Plain, ...]] = field(default_factory=dict)
    """Names (captures, facts, `rule`, `seen`) and the values they must have; `true` means present."""
    reference: str | None = None
    retry: RetryAdvice | None = None
    """What to do with the job where this fix comes first; without it, what its cause says."""
    one_of: str | None = None
    """A topic: of the fixes with the same one only the best is offered."""
    of_site: bool = False
    """It comes before ours."""


class Derived(Packed):
    """A name that follows from others, for the fixes of its cause. Of several entries with one id the first that is known counts."""

    id: str
    value: str = ""
    """An expression."""
    parts: tuple[str, ...] = ()
    """Templates, of which those that can be filled are joined by commas."""
    when: Mapping[str, Plain | tuple[Plain, ...]] = field(default_factory=dict)
    in_json: bool = False
    """Whether it is one of the facts in the JSON report."""


class Cause(Packed):
    """All that slurmdoctor knows of one cause: one file of the rules folder."""

    id: str
    family: str
    title: str
    """Completes "rank 13: ..."."""
    role: Role
    exit_classes: tuple[ExitClass, ...]
    explains: frozenset[str]
    """The causes that this one brings about."""
    retry: RetryAdvice
    summary: str
    rules: tuple[Rule, ...]
    fixes: tuple[Fix, ...]
    verify: tuple[str, ...] = ()
    falsepositives: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    traits: frozenset[Trait] = frozenset()
    slurm_states: tuple[str, ...] = ()
    """The job states of Slurm that stand for this cause: TIMEOUT, NODE_FAIL."""
    endings: tuple[ExitClass, ...] = ()
    """The exit classes that alone establish it."""
    symptom: str = ""
    """What its lines are called where they only follow, in the plural: `lost peers`."""
    let: tuple[Derived, ...] = ()
    """Names that its fixes may use, each computed of those before it."""
    also: tuple[str, ...] = ()
    """What people call it besides: `OOM`, `137`."""

    def rule_named(self, id: str | None) -> Rule | None:
        """Its rule of this id; None where that is no rule of its."""
        return next((rule for rule in self.rules if rule.id == id), None)


@cache
def _groups(pattern: str) -> frozenset[str]:
    return frozenset(re.findall(r"\(\?P<(\w+)>", pattern))


class LineFormat(Packed):
    """A label at the head of a line, as a launcher or logger prints it (`rules/formats.yaml`)."""

    id: str
    pattern: str
    """Matched at the start of what is left of the line; groups: rank, local_rank, worker, node, writer, time, pid, level."""
    lock: float = 0.0
    """Share of a source's lines that must carry it before it is believed; 0: always believed."""
    samples: tuple[Mapping[str, Any], ...] = ()
    no_match: tuple[str, ...] = ()
    source: str = ""
    regular: bool = False
    """Only believed where its numbers come back: what only grows is a count of steps."""
    after_time: bool = False
    """Only believed directly after a label that held a time."""
    stamp: bool = False
    """The time stamp of a collector (kubectl, ts): after it comes the line as its writer printed it."""
    writer: str = ""
    """A logger's tag that tells its writer apart, searched behind what the logger prints before it. A format without one tells
    its writers apart by its groups, unless it has a time or a level."""
    begins: str = ""
    """The usual characters with which a text may begin that has it; empty where that is not known."""
    literals: tuple[str, ...] = ()
    """Where there are any, one of them is in each text that has it: its pattern is not even compiled for others."""

    USUAL: ClassVar[str] = "\t" + "".join(map(chr, range(32, 127)))

    def may_begin(self, text: str) -> bool:
        """Whether a text's first character leaves it open that it begins with this: most are ruled out by that alone."""
        return not self.begins or text[:1] not in self.USUAL or text[:1] in self.begins

    def may_be_in(self, text: str) -> bool:
        """Whether its literals leave it open that a text has it."""
        return not self.literals or any(literal in text for literal in self.literals)

    @property
    def groups(self) -> frozenset[str]:
        """The names of the groups of its pattern."""
        return _groups(self.pattern)

    @property
    def tags_rank(self) -> bool:
        """Whether it is a logger's tag of a rank. Where it occurs twice with two ranks, the outer one is a local rank: `[rank4]:[rank12]:`."""
        return bool(self.writer) and self.groups == {"rank"}

    @property
    def numbers(self) -> bool:
        """Whether it is a number alone, such as srun's: under it launchers of several ranks may print, one a node."""
        return self.lock > 0 and self.groups == {"rank"}


class RankLine(Packed):
    """A line that names where a rank runs, or how many ranks the job has (`rules/ranks.yaml`)."""

    id: str
    literals: tuple[str, ...]
    """Any one of these, present in a line, admits the line."""
    pattern: str
    """Searched in the line without its labels; groups: rank, node, local, pid, world; comm_rank, comm_size."""
    samples: tuple[Mapping[str, Any], ...] = ()
    no_match: tuple[str, ...] = ()
    source: str = ""
    of_site: bool = False


class Signal(Packed):
    """A line that tells the state of the job rather than a cause (`rules/signals.yaml`, `rules/facts.yaml`)."""

    id: str
    kind: SignalKind
    literals: tuple[str, ...]
    regex: str
    match: tuple[str, ...] = ()
    no_match: tuple[str, ...] = ()
    value: str | None = None
    """What a fact is where its line says it by being there (`framework: megatron`), not by a group."""
    source: str = ""
    of_site: bool = False

    @property
    def name(self) -> str:
        """The part before the slash of its id: of a fact its name."""
        return self.id.partition("/")[0]


class ExitFormat(Packed):
    """A message of a launcher, of Slurm or of a parent that a process has ended (`rules/launchers.yaml`)."""

    id: str
    witness: str
    """The program's name as the verdict shows it: `mpirun`."""
    literals: tuple[str, ...]
    """Any one of these, present in a line, admits the line to the pattern."""
    pattern: str
    """Groups: rank, local_rank, node, pid, tasks (who ended); code, signal, status (of wait), words (how)."""
    kind: ExitReporter = "launcher"
    launcher: str | None = None
    """What the fact `launcher` is where this message is seen: `torchrun`."""
    from_label: tuple[str, ...] = ()
    """What the line's label says of the process, where the pattern does not: `rank`, `node`, `time`; `local_rank` where
    the rank of the label is a local one."""
    near: str = ""
    """Searched in the lines around for how it ended: groups code, signal, words. One with a signal comes first."""
    below: int = 0
    above: int = 0
    """How many lines `near` is searched in."""
    general: bool = False
    """It reads only lines that no other entry reads."""
    samples: tuple[Mapping[str, Any], ...] = ()
    no_match: tuple[str, ...] = ()
    source: str = ""
    of_site: bool = False


class Text(Packed):
    """A text of a program that a reader looks for by name (`rules/texts.yaml`)."""

    id: str
    pattern: str
    literals: tuple[str, ...] = ()
    """What the search looks for, where the text begins something that is read: any one admits a line."""
    samples: tuple[Mapping[str, Any], ...] = ()
    no_match: tuple[str, ...] = ()
    source: str = ""


class SecretKind(Packed):
    """One kind of secret, known by its shape or by the name of the key before it (`rules/secrets.yaml`)."""

    id: str
    literals: tuple[str, ...]
    """Text in small letters of which one is in every text that holds such a secret."""
    shown: str = ""
    """What the mask calls it: `[redacted github token]`; without one, its id."""
    regex: str = ""
    """Its shape; the group `secret` is masked, or the whole match where there is none."""
    names: tuple[str, ...] = ()
    """Names of keys, or their ends: what is assigned to such a key is a secret. `*password`: also glued, `PGPASSWORD`."""
    but_not: tuple[str, ...] = ()
    """Ends of names that are no such key."""
    value: Literal["any", "mixed", "random", "dense"] = "random"
    """What a named value must look like: anything, with a digit or a sign, no words, or with letters of both cases and digits."""
    behind: str = ""
    """Searched in the line before the shape, which alone does not tell."""
    check: Literal["", "digit", "pair"] = ""
    """What the secret must hold besides: a digit, or `user:password` in base64."""
    unlike: str = ""
    """What such a secret never is, as a whole, in small letters."""
    strict: bool = False
    """A name of a person, host or place: masked by `--redact strict` alone, and as `shown` with a number."""
    command: bool = False
    """An argument of a program: also searched in a list of quoted words, as Python prints the arguments of one."""
    cut: bool = False
    """Also masked where the line was cut within it: what begins with a literal, and is no word."""
    match: tuple[str, ...] = ()
    """Lines with such a secret, which `<alnum 36>` means: 36 random letters and digits."""
    no_match: tuple[str, ...] = ()
    source: str = ""


def admits(entry: Rule | Signal | RankLine | ExitFormat | SecretKind, text: str) -> bool:
    """Whether one of its literals is in the text: without one its pattern is not tried."""
    return any(literal in text for literal in entry.literals)


class Knowledge(Frozen, dict=True, array_like=True):
    """Everything read from the rule files."""

    causes: Mapping[str, Cause]
    formats: tuple[LineFormat, ...]
    signals: tuple[Signal, ...]
    paths: tuple[LineFormat, ...] = ()
    """What a file's path says of the process that wrote it (`paths:` of formats.yaml)."""
    rank_lines: tuple[RankLine, ...] = ()
    exit_reports: tuple[ExitFormat, ...] = ()
    texts: tuple[Text, ...] = ()
    secrets: tuple[SecretKind, ...] = ()
    digit_sensitive: frozenset[str] | None = None
    """The patterns to which digits matter (`shapes.digits_matter`); None where nobody looked: to look takes longer than a scan."""

    def once(self, make: Callable[["Knowledge"], Made]) -> Made:
        """What this function makes of the knowledge: made when it is first asked for, and kept as long as the knowledge.

        Who diagnoses thousands of jobs in one process pays for it once.
        """
        if make not in self._made:
            self._made[make] = make(self)
        return cast(Made, self._made[make])

    @cached_property
    def _made(self) -> dict[Callable[["Knowledge"], Any], Any]:
        return {}

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """All rules of all causes, in the order of their ids."""
        return tuple(rule for cause in self.causes.values() for rule in cause.rules)

    @cached_property
    def traits(self) -> Mapping[Trait, frozenset[str]]:
        """Each trait and the ids of the causes that have it; none for a trait that no cause has."""
        traits: tuple[Trait, ...] = get_args(Trait)
        return {one: frozenset(cause.id for cause in self.causes.values() if one in cause.traits) for one in traits}

    @cached_property
    def untold(self) -> frozenset[str]:
        """Causes that no line tells by its words alone: how a process ended tells them, or they follow from another's failure."""
        return self.traits["exit-only"] | {cause.id for cause in self.causes.values() if cause.role == "cascade"}

    @cached_property
    def cause_of_state(self) -> Mapping[str, str]:
        """Slurm's job state -> the cause that it means: TIMEOUT -> time-limit."""
        return {state: cause.id for cause in self._ours_first for state in cause.slurm_states}

    @cached_property
    def cause_of_ending(self) -> Mapping[ExitClass, str]:
        """Exit class -> the cause that it establishes where nothing else is known: segfault -> segfault."""
        return {ending: cause.id for cause in self._ours_first for ending in cause.endings}

    @property
    def _ours_first(self) -> list[Cause]:
        """All causes, a site's own last: what a site claims, it has."""
        return sorted(self.causes.values(), key=lambda cause: cause.id.startswith("site/"))


ASSUMED_YEAR = 2000
"""Stamps without a year are placed in this one (a leap year) unless the log names its year elsewhere."""


class SourceFormat(Frozen):
    """What a source's lines have in common, learnt from a sample of them."""

    locked: frozenset[str] = frozenset()
    """Ids of the ambiguous formats that this source uses."""
    outer_rank_is_local: bool = False
    """`[rank4]:[rank12]:`, torchrun --tee with --role rank: the outer number is a local rank."""
    label_is_node: bool = False
    """srun's label counts torchrun agents, one a node: it is no rank."""
    year: int = ASSUMED_YEAR
    zone: int | None = None
    """Seconds east of UTC of the stamps that name a zone; UTC counts only where no other is named."""
    stamped: bool = False
    """A collector's time stamp precedes every line and its label."""
    per_node: int | None = None
    """The ranks of a node: with them a node's number and a local rank make a rank."""
    sizes: tuple[tuple[str, int], ...] = ()
    """How many parts each kind of parallelism has, of a server whose labels name a worker by them: TP 4, PP 2."""
