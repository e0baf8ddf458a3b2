"""What a survey says, in the order of a meeting: worded once, for the page and for the terminal. Every number has what it is of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from functools import lru_cache
from itertools import compress
from math import isfinite

from slurmdoctor.model import Frozen, fold_nodes
from slurmdoctor.report import duration, one_line, plural, redact
from slurmdoctor.survey.answers import Answers, Cost, Period, SizeClass, UnknownKind
from slurmdoctor.survey.compare import Change, Difference, Side

UNKNOWN = "unknown"
"""What `Cost.what` says of failures without a known cause."""
_LONGEST = 2_000
"""Characters of a text that are looked at."""
_COLORS = 6
"""Causes with a color of their own; the rest share one."""
_OPEN, _CAUSES, _FEW, _SUSPECTS, _WORST = 12, 40, 10, 25, 5
"""How many the page shows: rows in sight, causes and periods, what is listed otherwise, nodes, jobs that ran on."""
_COUNTED = {
    "since-checkpoint": "since the newest checkpoint that the log shows",
    "whole-run": "as the whole run: its log shows no checkpoint",
}
_TRENDS = {"better": "good", "gone": "good", "worse": "bad", "new": "bad", "chance": "dim"}


class Cell(Frozen):
    """A cell of a table that is more than a text."""

    text: str
    about: str = ""
    """What a number is of, or what a name means."""
    bar: float | None = None
    """The number as a part of the column's largest one."""
    style: str = "plain-bar"


class Table(Frozen):
    """Numbers in rows; each row is headed by its first cell."""

    caption: str
    columns: tuple[str, ...]
    """Those whose names end in `#` hold plain numbers."""
    rows: Sequence[Sequence[Cell | str]]
    first: int = 2
    """Rows at the terminal."""
    open: int = _CAUSES
    """Rows of the page that are in sight without a click."""
    noun: str = ""
    """What a row is about."""
    more: int = 0
    """So many rows are not even on the page."""


class Say(Frozen):
    """Sentences; what is between backquotes is code."""

    text: str
    style: str = ""


class Copy(Frozen):
    """A line to copy: it is never cut."""

    text: str


class Kind(Frozen):
    """Last lines of one kind."""

    pattern: str
    about: str
    example: str
    draft: str
    """The command that drafts a rule from it."""


class Kinds(Frozen):
    """Kinds of last lines; the terminal shows the first ones."""

    kinds: Sequence[Kind]


class Facts(Frozen):
    """Names with their values."""

    rows: Sequence[tuple[str, str]]


Part = Table | Say | Copy | Kinds | Facts


class Section(Frozen):
    """A part of a report under its title."""

    anchor: str
    title: str
    parts: Sequence[Part]


class Report(Frozen):
    """All that is shown."""

    title: str
    lead: Sequence[Say]
    sections: Sequence[Section]
    chips: Sequence[str] = ()
    """What was looked at."""


def describe(found: Answers | Difference) -> Report:
    """The answers, or what differs between two, as a report."""
    return _changed(found) if isinstance(found, Difference) else _answered(found)


def _answered(answers: Answers) -> Report:
    if not answers.jobs:
        asked = " ".join(f"--{option} {name(value, 60)}" for option, value in answers.filters)
        why = f"No job matches {asked}." if asked else "The dataset holds no jobs."
        return Report("No jobs to report on", [Say(why), *_lacks(answers)], [], _chips(answers))
    lost = "What costs the GPU hours" if answers.by_hours else "What kills the jobs"
    sections = [
        Section("causes", lost, _causes(answers)),
        Section("nodes", "Nodes that fail more than chance", _nodes(answers)),
        Section("time", "Over time", _periods(answers)),
        Section("partitions", "Partitions", _groups("partition", answers.partitions, answers.partitions_in_all)),
        Section("users", "Users", _groups("user", answers.users, answers.users_in_all)),
        Section("sizes", "Mean time to failure by job size", _sizes(answers)),
        Section("delays", "From the first error to the end", _delays(answers)),
        Section("repeats", "Jobs that die again of the same cause", _repeats(answers)),
        Section("unknown", "Failures of no known cause", _unknown(answers)),
        Section("counted", "How this was counted", _counted(answers)),
    ]
    title = f"{answers.failed:,} of {plural(answers.jobs, 'job')} failed"
    return Report(title, [*_cost(answers), *_lacks(answers)], sections, _chips(answers))


# ── the top ──


def _lacks(answers: Answers) -> list[Say]:
    return [Say(f"{note[:1].upper()}{note[1:]}.", "doubt") for note in answers.lacks]


def _cost(answers: Answers) -> list[Say]:
    if not answers.failed:
        return []
    if not answers.failed_with_hours:
        sentence = "How many GPU hours they lost is not known: neither sacct nor the logs show their GPUs and times."
    else:
        sentence = f"They lost {gpu_hours(answers.gpu_hours_lost)}"
        if whole := share(answers.gpu_hours_lost, answers.gpu_hours):
            sentence += f", {whole} of the {gpu_hours(answers.gpu_hours)} that {plural(answers.with_hours, 'job')} used"
        if answers.failed_with_hours < answers.failed:
            sentence += f" (known of {answers.failed_with_hours:,} of the {plural(answers.failed, 'failed job')})"
        sentence += "."
    first, second, *_ = (*(cost for cost in answers.causes if cost.what != UNKNOWN), None, None)
    if first and not (second and answers.weight(first) == answers.weight(second)):  # a tie has no first
        jobs, cause = f"{first.jobs:,} of {plural(answers.failed, 'failed job')}", f"`{name(first.what)}`"
        part = f"{gpu_hours(first.gpu_hours_lost)}, {share(first.gpu_hours_lost, answers.gpu_hours_lost)} of the loss"
        most = (
            f"{cause} cost most: {part}, in {jobs}."
            if answers.by_hours
            else f"The most common cause is {cause}: {jobs}."
        )
        sentence = f"{sentence} {most}"
    return [Say(sentence)]


def _chips(answers: Answers) -> list[str]:
    chips = [f"ended {when}" for when in [span(answers.first, answers.last)] if when]
    if answers.clusters:
        noun = "cluster" if len(answers.clusters) == 1 else "clusters"
        chips.append(f"{noun} {listed([name(one) for one in answers.clusters], _FEW)}")
    return chips + [f"only {name(f'{option} {value}', 60)}" for option, value in answers.filters[:_FEW]]


# ── what failures cost ──


def colors(answers: Answers) -> dict[str, str]:
    """The causes that cost most -> their colors, the same on the whole page."""
    return {cost.what: f"c{at + 1}" for at, cost in enumerate(answers.causes[:_COLORS])}


def _causes(answers: Answers) -> list[Part]:
    if not answers.causes:
        return []
    base, color = plural(answers.failed, "failed job"), colors(answers)
    lost = (
        f"Hours are of the {gpu_hours(answers.gpu_hours_lost)} lost, known of {answers.failed_with_hours:,} of {base}. "
    )
    caption = f"{lost if answers.failed_with_hours else ''}Jobs are of {base}."
    shown = []
    for cost in answers.causes[:_CAUSES]:
        who = Cell(name(cost.what), "no rule names it" if cost.what == UNKNOWN else name(cost.title or "", 80))
        part = share(cost.gpu_hours_lost, answers.gpu_hours_lost)
        shown.append((cost, who, part, share(cost.jobs, cost.of), color.get(cost.what, "c0")))
    return _costs("cause", caption, shown, len(answers.causes), 5)


def _groups(noun: str, costs: Sequence[Cost], in_all: int) -> list[Part]:
    """Partitions or users: those that lost most, each with its own jobs and hours as the denominator."""
    if all(cost.what == UNKNOWN for cost in costs):
        return []
    shown = []
    for cost in costs[:_FEW]:
        who = Cell(f"{noun} not known" if cost.what == UNKNOWN else name(cost.what))
        part = f"{share(cost.gpu_hours_lost, cost.gpu_hours)} of {hours(cost.gpu_hours)}" if cost.gpu_hours else ""
        shown.append((cost, who, part, of(cost.jobs, cost.of, "job"), "plain-bar"))
    return _costs(noun, f"Each number is of the {noun}'s own GPU hours and jobs.", shown, max(in_all, len(costs)), 2)


def _costs(
    noun: str, caption: str, shown: Sequence[tuple[Cost, Cell, str, str, str]], in_all: int, first: int
) -> list[Part]:
    """A table of costs, each with who it is of, what part of the hours and of the jobs that is, and its color."""
    costs = [cost for cost, *_ in shown]
    largest, longest = max(cost.gpu_hours_lost for cost in costs), max(cost.jobs for cost in costs)
    rows: list[list[Cell | str]] = []
    for cost, who, part, jobs, style in shown:
        about = ", ".join(filter(None, (part, known(cost.with_hours, cost.jobs))))
        lost = Cell(hours(cost.gpu_hours_lost), about, _part(cost.gpu_hours_lost, largest), style)
        failed = Cell(f"{cost.jobs:,}", jobs, _part(cost.jobs, longest), style)
        rows.append([who, lost if cost.with_hours else "not known", failed, f"{cost.users:,}"])
    heads = (noun.capitalize(), "GPU hours lost", "Failed jobs", "Users#")
    kept = True, any(cost.with_hours for cost in costs), True, noun != "user" and any(cost.users for cost in costs)
    table = [list(compress(row, kept)) for row in rows]
    return [Table(caption, tuple(compress(heads, kept)), table, first, _OPEN, noun, in_all - len(rows))]


def _periods(answers: Answers) -> list[Part]:
    if not answers.periods:
        return []
    color, unit = colors(answers), answers.period
    heads = (unit.capitalize(), "Jobs that ended#", "Failed", "GPU hours lost", "Failed jobs by cause")
    rows = [_period(one, answers, color) for one in reversed(answers.periods[-_CAUSES:])]
    return [Table(f"Jobs by the {unit} in which they ended", heads, rows, 3, 0)]


def _period(period: Period, answers: Answers, color: Mapping[str, str]) -> list[Cell | str]:
    failed = sum(cost.jobs for cost in period.causes)
    lost, counted = sum(c.gpu_hours_lost for c in period.causes), sum(c.with_hours for c in period.causes)
    named = sorted((cost for cost in period.causes if cost.what in color), key=lambda cost: -cost.jobs)
    rest = failed - sum(cost.jobs for cost in named)
    shown = [f"{cost.jobs:,} {name(cost.what, 32)}" for cost in named] + [f"{rest:,} of other causes"] * (rest > 0)
    begins = f"{period.begins:%b %Y}" if answers.period == "month" else period.begins.isoformat()
    amount = Cell(hours(lost), known(counted, failed)) if counted else "not known" if failed else "0"
    return [
        begins,
        f"{period.jobs:,}",
        Cell(f"{failed:,}", of(failed, period.jobs, "job")),
        amount,
        ", ".join(shown),
    ]


# ── nodes, sizes, ends ──


def _nodes(answers: Answers) -> list[Part]:
    found = answers.nodes
    counts = (
        (found.of_programs, "that no node brings about (errors of the program, cancellations)"),
        (found.without_node, "whose node is not known"),
        (found.counted_already, "of the same user's same trouble, counted once"),
    )
    out = "; ".join(f"{count:,} {why}" for count, why in counts if count)
    jobs = f"Node hours leave out {plural(found.jobs_left_out, 'job')} whose nodes or hours are not known."
    left = _note(f"Failures left out: {out}." if out else "", jobs if found.jobs_left_out else "")
    if not found.tested:
        return [Say("No node could be tested: no failure that a node can bring about names its node."), *left]
    few = "No job of the dataset went well, so hours are of failed jobs only, and the test says less."
    left = _note(few if found.failed_only else "") + left
    base = (
        f"{plural(found.tested, 'node')} tested, {plural(found.failures, 'failure')} in {hours(found.hours)} node hours"
    )
    if not found.suspects:
        return [Say(f"No node fails more than chance explains: {base}."), *left]
    rows = [
        [
            name(one.node), f"{one.failures:,}", hours(one.expected), f"{one.certain:,}", f"{one.jobs:,}", hours(one.hours), f"{one.users:,}",
            listed([f"{name(cause)} {count:,}" for cause, count in one.causes], 4), _chance(one.chance),
        ]
        for one in found.suspects[:_SUSPECTS]
    ]  # fmt: skip
    heads = (
        "Node",
        "Failures#",
        "By chance#",
        "Surely its own#",
        "Jobs#",
        "Hours#",
        "Users#",
        "Causes",
        "Chance of so many",
    )
    who = "them out until they are" if len(found.suspects) > 1 else "it out until it is"
    line: list[Part] = [Say(f"Leave {who} checked:"), Copy(one_line(found.exclude))] if found.exclude else []
    without = f"The line is without {plural(found.not_names, 'suspect')} whose name sbatch would not take."
    return [
        Table(f"Suspects of {base}.", heads, rows, noun="suspect", more=len(found.suspects) - _SUSPECTS), *line,
        *_note(without if found.not_names else ""), *left,
    ]  # fmt: skip


def _chance(value: float) -> str:
    """`0.021`, `1 in 110,000`."""
    if value >= 0.001:
        return f"{value:.2g}"
    return f"1 in {1 / value:,.0f}" if value > 1e-9 else "under 1 in a billion"


def _sizes(answers: Answers) -> list[Part]:
    if not answers.sizes:
        return []
    rows = [
        [gpus(one), f"{one.jobs:,}", hours(one.hours), f"{one.failures:,}", _mttf(one.mttf, one.low, one.high),
         f"{one.machine_failures:,}", _mttf(one.machine_mttf, one.machine_low, one.machine_high)]
        for one in answers.sizes
    ]  # fmt: skip
    heads = (
        "Size",
        "Jobs#",
        "Hours run#",
        "Failures#",
        "Hours to a failure (95 %)",
        "By a machine#",
        "Hours to one (95 %)",
    )
    return [Table("Jobs by their GPUs; ends by Slurm or a person are no failures", heads, rows, 6)]


def gpus(size: SizeClass) -> str:
    """`2 to 8 GPUs`."""
    if size.largest is None:
        return f"{size.smallest:,} or more GPUs"
    return (
        plural(size.smallest, "GPU") if size.smallest == size.largest else f"{size.smallest:,} to {size.largest:,} GPUs"
    )


def _mttf(mean: float | None, low: float | None, high: float | None) -> str:
    if not mean:
        return f"none; {hours(low)} or more" if low else ""
    return hours(mean) if low is None or high is None else f"{hours(mean)} ({hours(low)} to {hours(high)})"


def _delays(answers: Answers) -> list[Part]:
    found = answers.delays
    if not found.jobs or found.median_s is None:
        return []
    slow = f", and one in ten at least {duration(found.p90_s)}" if found.p90_s is not None else ""
    sentence = (
        f"Half of the jobs ran on for at least {duration(found.median_s)} after their first error{slow}. "
        f"In all, {gpu_hours(found.gpu_hours)} passed between the first error and the end, "
        f"known of {found.with_gpus:,} of {plural(found.jobs, 'job')}."
    )
    rows = [[name(job, 60, end=True), duration(seconds), hours(cost)] for job, seconds, cost in found.worst[:_WORST]]
    table = Table("The jobs that it cost most", ("Job", "From the first error to the end", "GPU hours#"), rows, 0)
    return [Say(sentence), *([table] if rows else [])]


def _repeats(answers: Answers) -> list[Part]:
    if not answers.repeats:
        return []
    jobs, shown = answers.repeated_jobs, answers.repeats[:_FEW]
    sentence = f"{jobs:,} jobs ({of(jobs, answers.failed, 'failed job')}) died of what the run before had died of. They lost {gpu_hours(answers.repeated_gpu_hours)}, as far as that is known."
    rows = []
    for one in shown:
        ids = listed([name(job, 24, end=True) for job in one.job_ids], 6, one.times)
        row = [name(one.job_name), name(one.user), name(one.cause), f"{one.times:,}", hours(one.gpu_hours_lost)]
        rows.append([*row, span(one.first, one.last), ids])
    heads = ("Job", "User", "Cause", "Times in a row#", "GPU hours lost again#", "When", "Job ids")
    more = max(answers.repeats_in_all, len(answers.repeats)) - len(shown)
    table = Table("One user's runs of one name, in the order of their start", heads, rows, noun="such job", more=more)
    return [*([Say(sentence)] if jobs else []), table]


def _unknown(answers: Answers) -> list[Part]:
    found = answers.unknown
    if not found.jobs:
        return []
    sentence = (
        f"A generic cause, or none, is known of {plural(found.jobs, 'job')}, {of(found.jobs, found.of, 'failed job')}: no rule says why they "
        f"failed. The logs of {found.with_line:,} of them have a last line that says something."
    )
    return [Say(sentence), Kinds([_kind(kind, found.jobs) for kind in found.kinds[:_FEW]])]


def _kind(kind: UnknownKind, of_jobs: int) -> Kind:
    about = f"{kind.jobs:,} of {plural(of_jobs, 'job')}"
    about += f", {plural(kind.users, 'user')}" if kind.users else ""
    about += f", {gpu_hours(kind.gpu_hours_lost)} lost"
    return Kind(name(kind.pattern, 160), about, name(kind.example, 240), one_line(redact(kind.draft[:_LONGEST])))


def _counted(answers: Answers) -> list[Part]:
    jobs, unknown = answers.jobs, answers.failed - answers.failed_with_hours
    lost = [f"{plural(count, 'job')} {_COUNTED.get(way) or name(way)}" for way, count in answers.lost_counted[:_FEW]]
    lost += [f"{plural(unknown, 'failed job')} without known GPU hours"] if unknown > 0 else []
    counts = [
        ("Logs read", answers.read),
        ("No log found, decided by Slurm's record", answers.no_log),
        ("COMPLETED and not read", answers.not_asked),
        ("Could not be read", answers.errors),
        ("Failed", answers.failed),
        ("Healthy", answers.healthy),
        ("Neither the log nor Slurm shows which", answers.undecided),
    ]
    rows = [
        ("Jobs in the report", f"{jobs:,}"),
        *((title, f"{count:,}, {of(count, jobs, 'job')}") for title, count in counts if count),
        ("Without a time, left out of the dates", plural(answers.undated_left_out, "more job") if answers.undated_left_out else ""),
        ("GPU hours", f"Known of {answers.with_hours:,} jobs, {of(answers.with_hours, jobs, 'job')}: {gpu_hours(answers.gpu_hours)}"),
        ("How the loss is counted", "; ".join(lost)),
        ("Rules and program", "One version made all rows" if answers.rules_versions == 1 else f"{answers.rules_versions:,} versions made the rows; run the survey again to make them alike"),
    ]  # fmt: skip
    return [Facts([row for row in rows if row[1]])]


# ── two sides ──


def _changed(found: Difference) -> Report:
    whole = found.all
    lead = [_side("Before", found.before), _side("After", found.after)]
    rates = f"{_rate(whole.before, whole.before_of)} before, {_rate(whole.after, whole.after_of)} after"
    if not found.same_rules:
        lead.append(Say("The sides were read with different rules, so a cause may be new because its rule is: run both surveys again.", "doubt"))  # fmt: skip
    sections = [
        Section("causes", "Causes", _changed_causes(found)),
        Section("sizes", "Mean time to failure by job size", _changed_sizes(found)),
        Section("nodes", "Nodes that fail more than chance", [Say(_changed_nodes(found))]),
        Section("test", "How this was tested", [Say(found.test, "dim")]),
    ]
    return Report(f"Failures per 1,000 jobs: {rates}: {_trend(whole).text}", lead, sections)


def _side(title: str, side: Side) -> Say:
    lost = f"{hours(side.gpu_hours_lost)} of {hours(side.gpu_hours)} GPU hours lost (known of {plural(side.with_hours, 'job')})"
    return Say(
        f"{title} ({name(side.name, 60, end=True)}): {side.failed:,} of {plural(side.jobs, 'job')} failed "
        f"({share(side.failed, side.jobs)}; {side.read:,} read), {lost if side.with_hours else 'GPU hours not known'}; "
        f"{plural(side.unknown, 'cause')} unknown, {side.repeated:,} died again of the same cause."
    )


def _trend(change: Change) -> Cell:
    return Cell("within chance" if change.trend == "chance" else change.trend, style=_TRENDS[change.trend])


def _rate(count: int, whole: float) -> str:
    return f"{1000 * count / whole:.1f}" if whole else "-"


def _changed_causes(found: Difference) -> list[Part]:
    rows: list[list[Cell | str]] = []
    for one in found.causes:
        sides = (one.hours_before, found.before), (one.hours_after, found.after)
        lost = " to ".join(hours(amount if side.with_hours else None) for amount, side in sides)
        counts = f"{one.before:,}", _rate(one.before, one.before_of), f"{one.after:,}", _rate(one.after, one.after_of)
        rows.append([name(one.what), *counts, lost, _trend(one)])
    heads = ("Cause", "Before#", "Per 1,000#", "After#", "Per 1,000#", "GPU hours lost", "Change")
    caption = f"Of {found.before.jobs:,} jobs before and {found.after.jobs:,} after."
    return [Table(caption, heads, rows, 15)] if rows else []


def _changed_sizes(found: Difference) -> list[Part]:
    def cells(count: int, run: float) -> tuple[str, str, str]:
        return f"{count:,}", hours(run), hours(run / count) if count else "-"

    rows: list[list[Cell | str]] = [
        [one.what, *cells(one.before, one.before_of), *cells(one.after, one.after_of), _trend(one)]
        for one in found.sizes
    ]
    heads = ("GPUs", *("Failures#", "Hours run#", "Hours to one#") * 2, "Change")
    return [Table("Before, then after; without ends by Slurm or a person.", heads, rows, 6)] if rows else []


def _changed_nodes(found: Difference) -> str:
    parts = [("new", found.nodes_new), ("no longer", found.nodes_gone), ("still", found.nodes_still)]
    parts += zip(("before, not tested after", "after, not tested before"), found.nodes_not_tested, strict=True)
    return (
        "; ".join(f"{word}: {name(fold_nodes(names), 300)}" for word, names in parts if names)
        or "None before, none after."
    )


# ── numbers, names and dates ──


@lru_cache(maxsize=4096)  # a report names the same nodes, users and causes again and again
def name(text: str | None, most: int = 40, *, end: bool = False) -> str:
    """A text of any origin in one line, cut and masked; of one that is a path its `end`, which tells most."""
    text = "(none)" if text is None else text
    plain = one_line(redact(text[-_LONGEST:] if end else text[:_LONGEST]))
    if len(plain) <= most:
        return plain
    return "…" + plain[1 - most :] if end and "/" in plain else plain[: most - 1] + "…"


def hours(value: float | None) -> str:
    """`0.75`, `12.5`, `18,205`: as precise as one reads it."""
    if value is None or not isfinite(value):
        return "not known"
    if abs(value) < 0.995:
        return f"{value:.2f}" if abs(value) >= 0.005 else "0" if value == 0 else "under 0.01"
    return f"{value:.1f}".removesuffix(".0") if abs(value) < 99.95 else f"{value:,.0f}"


def gpu_hours(value: float | None) -> str:
    """`1 GPU hour`, `18,205 GPU hours`."""
    if value is None:
        return "an unknown number of GPU hours"
    return f"{hours(value)} GPU hour" + "s" * (hours(value) != "1")


def share(part: float, whole: float) -> str:
    """`37 %`, `4.1 %`; empty where there is nothing to be a part of."""
    if not whole or not isfinite(part) or not isfinite(whole):
        return ""
    percent = part / whole * 100
    if part and abs(percent) < 0.1:
        return "under 0.1 %"
    rounded = f"{percent:.0f}" if 10 <= percent < 99 or percent >= 100 else f"{percent:.1f}".removesuffix(".0")
    return f"{'99.9' if rounded == '100' and part < whole else rounded} %"


def of(part: int, whole: int, noun: str) -> str:
    """`13.4 % of 20,312 jobs`."""
    return f"{share(part, whole)} of {plural(whole, noun)}".strip()


def known(with_hours: int, jobs: int) -> str:
    """Of how many jobs a sum of GPU hours is, where it is not of all."""
    return "" if with_hours >= jobs else f"known of {with_hours:,} of {plural(jobs, 'job')}"


def day(when: date) -> str:
    """`Nov 3`."""
    return f"{when:%b} {when.day}"


def span(first: date | None, last: date | None) -> str:
    """`May 25 to Nov 22, 2026`."""
    if first is None or last is None:
        return ""
    year = "" if first.year == last.year else f", {first.year}"
    if not year and day(first) == day(last):
        return f"{day(first)}, {first.year}"
    return f"{day(first)}{year} to {day(last)}, {last.year}"


def listed(items: Sequence[str], most: int, in_all: int = 0) -> str:
    """The first of the items, and how many more there are."""
    shown, count = ", ".join(items[:most]), max(in_all, len(items))
    return f"{shown} and {count - most:,} more" if count > most else shown


def _part(value: float, largest: float) -> float:
    return min(max(value / largest, 0.0), 1.0) if largest > 0 else 0.0


def _note(*sentences: str) -> list[Say]:
    text = " ".join(filter(None, sentences))
    return [Say(text, "dim")] if text else []
