"""`survey diff` at the terminal."""

from __future__ import annotations

from slurmdoctor.model import fold_nodes
from slurmdoctor.report import Line, clip, cut_path, plural
from slurmdoctor.survey.questions.compare import Change, Difference, Side
from slurmdoctor.survey.text.tables import clean, head, hours, more, said, share, table, whole

_MOST = 15
_STYLES = {"better": "good", "gone": "good", "worse": "bad", "new": "bad", "chance": "dim"}
_WORDS = {"chance": "within chance"}


def diff(found: Difference, width: int) -> list[Line]:
    """The comparison as lines of at most this width."""
    whole, lines = found.all, [*_side("Before", found.before, width), *_side("After", found.after, width)]
    lines += said(f"Failures per 1,000 jobs: {_rates(whole, 1000)}: {_word(whole)}.", width, "bold")
    if not found.same_rules:
        lines += said("The sides were read with different rules, so a cause may be new because its rule is: run both surveys again.", width, "doubt")  # fmt: skip
    lines += _causes(found, width)
    lines += _sizes(found, width)
    lines += _nodes(found, width)
    return [clip(line, width) for line in [*lines, [], *said(found.test, width, "dim")]]


def _side(title: str, side: Side, width: int) -> list[Line]:
    text = f"{title} ({cut_path(whole(side.name), 60)}): {side.failed:,} of {plural(side.jobs, 'job')} failed ({share(side.failed, side.jobs)}; {side.read:,} read), "
    lost = f"{hours(side.gpu_hours_lost)} of {hours(side.gpu_hours)} GPU hours lost (known of {plural(side.with_hours, 'job')})"
    text += f"{lost if side.with_hours else 'GPU hours not known'}; "
    return said(
        f"{text}{plural(side.unknown, 'cause')} unknown, {side.repeated:,} died again of the same cause.", width
    )


def _word(change: Change) -> str:
    return _WORDS.get(change.trend, change.trend)


def _rates(change: Change, each: float) -> str:
    return f"{_rate(change.before, change.before_of, each)} before, {_rate(change.after, change.after_of, each)} after"


def _rate(count: int, of: float, each: float) -> str:
    return f"{each * count / of:.1f}" if of else "-"


def _causes(found: Difference, width: int) -> list[Line]:
    if not found.causes:
        return []
    rows = [
        [
            clean(one.what),
            f"{one.before:,}", _rate(one.before, one.before_of, 1000), f"{one.after:,}", _rate(one.after, one.after_of, 1000),
            f"{_hours(one.hours_before, found.before)} to {_hours(one.hours_after, found.after)}", _word(one),
        ]
        for one in found.causes[:_MOST]
    ]  # fmt: skip
    names = ["cause", "before", "per 1,000", "after", "per 1,000", "GPU h lost", "change"]
    note = f"of {found.before.jobs:,} jobs before and {found.after.jobs:,} after"
    lines = [*head("CAUSES", note, width), *_painted(table(names, rows, width, (0, 6)), found.causes)]
    return [*lines, *more(len(found.causes) - _MOST, "cause", ", in --format json")]


def _hours(amount: float, side: Side) -> str:
    return hours(amount if side.with_hours else None)


def _sizes(found: Difference, width: int) -> list[Line]:
    if not found.sizes:
        return []
    rows = [
        [
            one.what,
            *(f"{one.before:,}", hours(one.before_of), _mttf(one.before, one.before_of)),
            *(f"{one.after:,}", hours(one.after_of), _mttf(one.after, one.after_of)),
            _word(one),
        ]
        for one in found.sizes
    ]
    names = ["GPUs", "failures", "hours run", "MTTF h", "failures", "hours run", "MTTF h", "change"]
    note = "before, then after; without ends by Slurm or a person"
    return [
        *head("MTTF BY JOB SIZE", note, width),
        *_painted(table(names, rows, width, (0, 7)), found.sizes),
    ]


def _mttf(failures: int, run: float) -> str:
    return hours(run / failures) if failures else "-"


def _painted(lines: list[Line], changes: tuple[Change, ...]) -> list[Line]:
    """The last column in the color of its word."""
    painted = [lines[0]]
    for line, change in zip(lines[1:], changes, strict=False):
        at = max(at for at, (_, text) in enumerate(line) if text.strip())
        painted.append([*line[:at], (_STYLES[change.trend], line[at][1]), *line[at + 1 :]])
    return painted


def _nodes(found: Difference, width: int) -> list[Line]:
    parts = [("new", found.nodes_new), ("no longer", found.nodes_gone), ("still", found.nodes_still)]
    parts += zip(("before, not tested after", "after, not tested before"), found.nodes_not_tested, strict=True)
    told = [f"{word}: {clean(fold_nodes(names), 300)}" for word, names in parts if names]
    return [*head("NODES THAT FAIL MORE THAN CHANCE", "", width), *said("; ".join(told) or "none before, none after", width)]  # fmt: skip
