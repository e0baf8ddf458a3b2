"""`survey report` at the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from slurmdoctor.report import Line, clip, duration, plural
from slurmdoctor.survey.answers import Answers, Cost
from slurmdoctor.survey.text.tables import bar, clean, head, hours, more, said, share, table, whole

_CAUSES, _PERIODS, _SIZES, _FEW = 5, 3, 5, 2
"""Rows of a section: all are in the JSON and on the page."""
_NARROW = 90
"""Columns below which a table leaves out what can be spared."""
_WHOLE = ("good", "quote")
"""Styles of what is there to be copied: it is never cut."""
_STATED = {
    "since-checkpoint": "since the newest checkpoint",
    "whole-run": "the whole run, where the log shows no dated checkpoint",
}


def report(answers: Answers, width: int) -> list[Line]:
    """The answers as lines of at most this width, the most telling first."""
    if not answers.jobs:
        lacks = [line for note in answers.lacks for line in said(f"{note[:1].upper()}{note[1:]}.", width, "doubt")]
        asked = " ".join(f"--{name} {clean(value, 60)}" for name, value in answers.filters)
        return [[("bold", f"No job matches {asked}." if asked else "There are no jobs.")], *lacks]
    lines = [
        *_headline(answers, width),
        *_causes(answers, width),
        *_nodes(answers, width),
        *_periods(answers, width),
        *_shares(answers, width),
        *_sizes(answers, width),
        *_delays(answers, width),
        *_repeats(answers, width),
        *_unknown(answers, width),
        *_basis(answers, width),
    ]
    return [line if any(style in _WHOLE for style, _ in line) else clip(line, width) for line in lines]


def _headline(answers: Answers, width: int) -> list[Line]:
    """One sentence that a meeting can begin with."""
    text = f"{answers.failed:,} of {plural(answers.jobs, 'job')} failed ({share(answers.failed, answers.jobs)})"
    if answers.failed_with_hours:
        text += f" and lost {hours(answers.gpu_hours_lost)} of {hours(answers.gpu_hours)} GPU hours"
        known = (
            f"; known of {answers.with_hours:,} of {plural(answers.jobs, 'job')}"
            if answers.with_hours < answers.jobs
            else ""
        )
        text += f" ({share(answers.gpu_hours_lost, answers.gpu_hours)}{known})"
    lines = said(f"{text}.", width, "bold")
    for note in answers.lacks:
        lines += said(f"{note[:1].upper()}{note[1:]}.", width, "doubt")
    if answers.causes:
        lines += said(_first(answers), width)
    about = [f"{answers.first:%Y-%m-%d} to {answers.last:%Y-%m-%d}"] if answers.first and answers.last else []
    about += [f"cluster {', '.join(map(clean, answers.clusters[:_FEW]))}"] if answers.clusters else []
    about += [f"--{name} {clean(value, 60)}" for name, value in answers.filters]
    return [*lines, *said("; ".join(about), width, "dim")] if about else lines


def _first(answers: Answers) -> str:
    """The cause that is first, or two of a tie; of more none is first."""
    leaders, of_hours = answers.first_of(answers.causes), answers.by_hours
    if len(leaders) not in (1, 2):
        return f"{len(leaders):,} causes are first alike."
    one = leaders[0]
    part = share(one.gpu_hours_lost, answers.gpu_hours_lost) if of_hours else share(one.jobs, one.of)
    of = "GPU hours lost" if of_hours else "failed jobs"
    if len(leaders) == 2:
        return f"The first causes are {clean(one.what)} and {clean(leaders[1].what)}: each {part} of the {of}."
    return f"The first cause is {clean(one.what)}: {part} of the {of}."


def _lost(costs: Iterable[Cost]) -> float | None:
    """GPU hours; None where those of none are known."""
    costs = list(costs)
    return sum(cost.gpu_hours_lost for cost in costs) if any(cost.with_hours for cost in costs) else None


def _ordered(answers: Answers) -> list[Cost]:
    return sorted(answers.causes, key=lambda cost: 0 if answers.by_hours else -cost.jobs)


def _causes(answers: Answers, width: int) -> list[Line]:
    if not answers.causes:
        return []
    lost, narrow = answers.gpu_hours_lost if answers.by_hours else 0, width < _NARROW
    most = max(cost.gpu_hours_lost if lost else cost.jobs for cost in answers.causes)
    names = ["cause", "", *(["GPU h lost", ""] if lost else []), "jobs", "", "users"]
    rows = []
    for cost in _ordered(answers)[:_CAUSES]:
        row = [clean(cost.what), bar(cost.gpu_hours_lost if lost else cost.jobs, most)]
        row += [hours(_lost([cost])), share(cost.gpu_hours_lost, lost)] if lost else []
        row += [f"{cost.jobs:,}", share(cost.jobs, cost.of), f"{cost.users:,}"]
        rows.append(row if narrow else [*row, clean(cost.title or "", 60)])
    note = f"of {plural(answers.failed, 'failed job')}; GPU hours are known of {answers.failed_with_hours:,} of them"
    left = (0, 1) if narrow else (0, 1, len(names))
    lines = [*head("CAUSES", note, width), *table(names if narrow else [*names, "what happened"], rows, width, left)]
    return [*lines, *more(len(answers.causes) - _CAUSES, "cause")]


def _nodes(answers: Answers, width: int) -> list[Line]:
    nodes = answers.nodes
    note = f"{nodes.tested:,} tested with {plural(nodes.failures, 'failure')} and {hours(nodes.hours)} node hours"
    lines = head("NODES THAT FAIL MORE THAN CHANCE", note, width)
    rows = []
    for one in nodes.suspects[:_FEW]:
        causes = ", ".join(f"{clean(cause)} {count:,}" for cause, count in one.causes[:_FEW])
        row = [clean(one.node), f"{one.failures:,}", f"{one.expected:.1f}", f"{one.users:,}", f"{one.jobs:,}"]
        rows.append([*row, hours(one.hours), f"{one.chance:.1g}", causes])
    names = ["node", "failures", "expected", "users", "jobs", "hours", "chance", "causes"]
    lines += table(names, rows, width, (0, 7)) if rows else [[("", _no_node(answers))]]
    lines += more(len(nodes.suspects) - _FEW, "node", ", in the line below" if nodes.exclude else "")
    lines += [[("good", whole(nodes.exclude))]] if nodes.exclude else []
    if nodes.not_names:
        lines += said(
            f"The line is without {plural(nodes.not_names, 'suspect')} whose name sbatch would not take.", width, "dim"
        )
    if nodes.tested:
        lines += said(_counted(answers), width, "dim")
    if nodes.failed_only and nodes.tested:
        lines += said("No job here went well, so the hours are of failed jobs only, and the test shows less.", width, "doubt")  # fmt: skip
    return lines


def _counted(answers: Answers) -> str:
    """Which failures the test is of."""
    nodes = answers.nodes
    out = [
        (nodes.of_programs, "that no node brings about"),
        (nodes.without_node, "without a node"),
        (nodes.counted_already, "of a user who is counted already"),
    ]
    left = ", ".join(f"{count:,} {what}" for count, what in out if count)
    hours_of = f"ode hours are of {answers.jobs - nodes.jobs_left_out:,} of {plural(answers.jobs, 'job')}."
    return f"Not counted of {plural(answers.failed, 'failed job')}: {left}; n{hours_of}" if left else f"N{hours_of}"


def _no_node(answers: Answers) -> str:
    if answers.nodes.tested:
        return "none"
    unknown = "the dataset does not show on which nodes the jobs ran" if not answers.nodes.hours else ""
    return f"no test: {unknown or 'no failure that a node can bring about, or one node only'}"


def _periods(answers: Answers, width: int) -> list[Line]:
    if len(answers.periods) < 2:
        return []
    failed = {one.begins: sum(cost.jobs for cost in one.causes) for one in answers.periods}
    most = max(failed.values())
    rows = []
    for one in answers.periods[-_PERIODS:]:
        leaders = answers.first_of(one.causes)
        first = ", ".join(f"{clean(cost.what)} {cost.jobs:,}" for cost in leaders) if len(leaders) < 3 else ""
        lost = _lost(one.causes) if one.causes else 0.0
        row = [f"{one.begins}", bar(failed[one.begins], most), f"{failed[one.begins]:,}", f"{one.jobs:,}"]
        rows.append([*row, share(failed[one.begins], one.jobs), hours(lost), first])
    names = [answers.period, "", "failed", "of jobs", "", "GPU h lost", "first cause"]
    earlier = len(answers.periods) - _PERIODS
    note = f"by {answers.period}" + (f"; {earlier:,} earlier ones are in --format html and json" if earlier > 0 else "")
    return [*head("OVER TIME", note, width), *table(names, rows, width, (0, 1, 6))]


def _shares(answers: Answers, width: int) -> list[Line]:
    """Partitions and users, those that lost most."""
    sides = [
        ("partition", answers.partitions, answers.partitions_in_all),
        ("user", answers.users, answers.users_in_all),
    ]
    rows, left = [], []
    for noun, costs, in_all in sides:
        shown = [cost for cost in costs if cost.jobs][:_FEW] if len(costs) > 1 else []
        for cost in shown:
            row = [f"{noun} {clean(cost.what)}", f"{cost.jobs:,}", f"{cost.of:,}", share(cost.jobs, cost.of)]
            rows.append([*row, hours(_lost([cost])), hours(cost.gpu_hours or None)])
        left += [plural(in_all - len(shown), f"more {noun}")] if shown and in_all > len(shown) else []
    if not rows:
        return []
    known = f"{answers.with_hours:,} of {plural(answers.jobs, 'job')}"
    lines = [
        *head("PARTITIONS AND USERS", f"GPU hours of {known}", width),
        *table(["", "failed", "of jobs", "", "GPU h lost", "of GPU h"], rows, width),
    ]
    return [*lines, [("dim", f"and {' and '.join(left)}")]] if left else lines


def _sizes(answers: Answers, width: int) -> list[Line]:
    if not answers.sizes:
        return []
    rows = []
    for one in answers.sizes[:_SIZES]:
        gpus = f"{one.smallest}-{one.largest}" if one.largest else f"{one.smallest} and more"
        row = [str(one.smallest) if one.largest == one.smallest else gpus, f"{one.jobs:,}", hours(one.hours)]
        row += [f"{one.failures:,}", hours(one.mttf), _between(one.low, one.high)]
        rows.append([*row, f"{one.machine_failures:,}", hours(one.machine_mttf)])
    names = ["GPUs", "jobs", "hours run", "failures", "MTTF h", "95 % interval", "of machines", "MTTF h"]
    out = f"without {answers.sizes_left_out:,} of {plural(answers.jobs, 'job')} (GPUs or hours not known)"
    note = out if answers.sizes_left_out else "hours that jobs run until one fails"
    lines = [*head("MTTF BY JOB SIZE", note, width), *table(names, rows, width)]
    return [*lines, *more(len(answers.sizes) - _SIZES, "larger size")]


def _between(low: float | None, high: float | None) -> str:
    return f"{hours(low)} - {hours(high)}" if high is not None else f"over {hours(low)}"


def _delays(answers: Answers, width: int) -> list[Line]:
    delays = answers.delays
    if not delays.jobs or delays.median_s is None or delays.p90_s is None:
        return []
    text = f"Median {duration(delays.median_s)}, 90 % within {duration(delays.p90_s)}; "
    text += (
        f"{hours(delays.gpu_hours)} GPU hours of {delays.with_gpus:,} of them"
        if delays.with_gpus
        else "GPU hours not known"
    )
    note = f"{delays.jobs:,} of {plural(delays.of, 'job')} that an error ended"
    return [*head("FROM THE FIRST ERROR TO THE END", note, width), *said(f"{text}.", width)]


def _repeats(answers: Answers, width: int) -> list[Line]:
    if not answers.repeats:
        return []
    rows = [
        [clean(one.job_name or "-"), clean(one.user or "-", 16), clean(one.cause), f"{one.times:,}", hours(one.gpu_hours_lost)]
        for one in answers.repeats[:_FEW]
    ]  # fmt: skip
    text = f"{answers.repeated_jobs:,} of {plural(answers.failed, 'failed job')}, "
    known = answers.repeated_gpu_hours
    text += "GPU hours not known" if known is None else f"{hours(known)} GPU hours where known"
    names = ["job name", "user", "cause", "times", "GPU h lost again"]
    lines = [*head("DIED AGAIN OF THE SAME CAUSE", text, width), *table(names, rows, width, (0, 1, 2))]
    return [*lines, *more(answers.repeats_in_all - _FEW, "such job")]


def _unknown(answers: Answers, width: int) -> list[Line]:
    unknown = answers.unknown
    if not unknown.jobs:
        return []
    note = f"{unknown.jobs:,} of {plural(unknown.of, 'failed job')} ({share(unknown.jobs, unknown.of)})"
    note += f"; {unknown.with_line:,} {'has' if unknown.with_line == 1 else 'have'} a last line"
    lines = head("CAUSE NOT KNOWN", note, width)
    generic = [(count, clean(cause)) for cause, count in unknown.generic[:_FEW]]
    generic += [(sum(count for _, count in unknown.generic[_FEW:]), "other generic ones")]
    generic += [(unknown.jobs - sum(count for _, count in unknown.generic), "none at all")]
    told = ", ".join(f"{count:,} {cause}" for count, cause in generic if count > 0)
    if unknown.generic:
        lines += said(f"These have only a generic cause, which says how they ended, or none: {told}.", width, "dim")
    rows = [[f"{kind.jobs:,}", f"{kind.users:,}", clean(kind.pattern, width)] for kind in unknown.kinds[:_FEW]]
    lines += table(["jobs", "users", "last line"], rows, width, (2,)) if rows else []
    lines += more(len(unknown.kinds) - _FEW, "kind", " of last lines")
    if rows:
        lines += [[("quote", whole(unknown.kinds[0].draft))]]
    return lines


def _basis(answers: Answers, width: int) -> list[Line]:
    """What the numbers are of."""
    parts = [
        (answers.read, "read"),
        (answers.no_log, "without a log (Slurm's state decides)"),
        (answers.not_asked, "COMPLETED and not read"),
        (answers.errors, "unreadable"),
        (answers.undecided, "undecided"),
        (answers.completed_but_failed, "COMPLETED for Slurm, but failed"),
        (answers.undated, "without a time"),
    ]
    left = answers.undated_left_out
    text = f"Of {plural(answers.jobs, 'job')}: " + ", ".join(f"{count:,} {what}" for count, what in parts if count)
    text += (
        f"; {left:,} more {'has' if left == 1 else 'have'} no time and {'is' if left == 1 else 'are'} left out"
        if left
        else ""
    )
    text += f". GPU hours are known of {answers.with_hours:,}"
    counted = [f"{_STATED.get(how) or clean(how)} ({count:,})" for how, count in answers.lost_counted]
    text += f"; lost is {', or '.join(counted)}" if counted else ""
    if answers.rules_versions > 1:
        text += f". The rows are of {answers.rules_versions} versions of the rules: run the survey again"
    return [*head("HOW IT WAS COUNTED", "", width), *said(f"{text}.", width, "dim")]
