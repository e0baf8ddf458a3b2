"""The sentences on who held up a collective, and on what the others waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from slurmdoctor.model import SHORT, ProcessExit, ranges
from slurmdoctor.report.exits import exit_words
from slurmdoctor.report.quantities import plural

Values = Mapping[str, Any]
_SIZE_UNKNOWN = "the log does not show how many ranks there are"
_MOST_NUMBERS = 4
"""Collectives that a sentence names."""


def names_of(ranks: Iterable[int]) -> str:
    """`rank 3`, `ranks 0-3,7`."""
    found = tuple(ranks)
    return f"rank{'s' * (len(found) > 1)} {ranges(found, SHORT)}"


def _collective(seq: int | None, op: str | None) -> str:
    return f"{op}" if seq is None else f"SeqNum {seq} ({op})"


def _kind(kind: tuple[str | None, int | None]) -> str:
    op, size = kind
    return f"{op}" if size is None else f"{op} of {size} elements"


def _never_reported(v: Values) -> str:
    waiting = f"{v['waiting']} of {v['of']}" if v["of"] else v["waiting"]
    words = f"{waiting} ranks timed out in {_collective(v['seq'], v['op'])}; {names_of(v['ranks'])} never reported it"
    ended = [f"rank {rank} {_was_ended(exit, witness)}" for rank, exit, witness in v["ended"]]
    words = f"{words} ({'; '.join(ended)})" if ended else words
    return words if v["of"] else f"{words}; {_SIZE_UNKNOWN}"


def _was_ended(exit: ProcessExit, witness: str) -> str:
    if exit.signal:
        return f"was later ended by {exit.signal}, reported by {witness}"
    return f"ended with {exit_words(exit)}, reported by {witness}"


def _other_collective(v: Values) -> str:
    kinds = ", ".join(sorted({_kind(kind) for kind in v["kinds"]}))
    one = len(v["ranks"]) == 1
    return (
        f"at SeqNum {v['seq']} {names_of(v['ranks'])} {'waits' if one else 'wait'} in {kinds} while {v['others']} other ranks wait in "
        f"{_kind(v['usual'])}: {'it' if one else 'they'} took a different order of collectives"
    )


def _behind(v: Values) -> str:
    others = f"{plural(v['waiting'], 'rank')} waited in {_collective(v['seq'], v['op'])}"
    if v["own"]:
        own = ", ".join(_collective(seq, op) for seq, op in v["own"])
        back = f", {v['seq'] - v['own'][0][0]} behind" if v["seq"] is not None and len(v["own"]) == 1 else ""
        return f"{names_of(v['ranks'])} still waited in {own}{back}, while {others}"
    return f"{names_of(v['ranks'])} had enqueued nothing beyond the last completed collective while {others}"


def _ahead(v: Values) -> str:
    many = len(v["ranks"]) > 1
    return (
        f"{names_of(v['ranks'])} {'wait' if many else 'waits'} in {_collective(v['seq'], v['op'])}, {v['seq'] - v['usual_seq']} ahead of "
        f"{_collective(v['usual_seq'], v['usual_op'])}, where {names_of(v['others'])} wait: {'they' if many else 'it'} took a "
        "different order of collectives"
    )


def _numbers_differ(v: Values) -> str:
    by_work: dict[tuple[int | None, str | None], list[int]] = {}
    for seq, op, rank in v["waits"]:
        by_work.setdefault((seq, op), []).append(rank)
    told = [f"{names_of(ranks)} in {_collective(*work)}" for work, ranks in by_work.items()]
    more = f" and {len(told) - _MOST_NUMBERS} more" if len(told) > _MOST_NUMBERS else ""
    why = (
        "numbers this far apart belong to different process groups, which the log does not name"
        if v["far"]
        else "their order of collectives differs, and the log does not show which rank is wrong"
    )
    return f"the ranks timed out in different collectives: {', '.join(told[:_MOST_NUMBERS])}{more}; {why}"


def _waits_unclear(v: Values) -> str:
    of = f" of {v['of']}" if v["of"] else ""
    words = f"{names_of(v['ranks'])}{of} waited in {_collective(v['seq'], v['op'])}"
    if v["silent"]:
        words += f"; {names_of(v['silent'])} printed nothing in this log"
    else:
        words += (
            "; the log does not show for which rank"
            if v["of"]
            else "; the log does not show for which rank, or how many ranks there are"
        )
    if v["queued"]:
        words += f"; {plural(v['queued'], 'more collective')} {'was' if v['queued'] == 1 else 'were'} enqueued behind it, so the program itself went on"
    return words


def _entered_fewer(v: Values) -> str:
    return (
        f"{names_of(v['ranks'])} had entered collective {v['seq']} ({v['op']}) when the log ended, "
        f"{names_of(v['others'])} had entered {v['usual']}"
    )


def _says_nothing(v: Values) -> str:
    of = f" of {v['of']}" if v["of"] else ""
    return f"{names_of(v['ranks'])}{of} printed nothing in this log"


def _all_entered(v: Values) -> str:
    hung = f"all {v['count']} ranks entered {_collective(v['seq'], v['op'])} with the same size: it hung below NCCL "
    return hung + (
        "(network)" if v.get("told") else "(network or GPU), and the log does not show which rank is at fault"
    )


def _named_missing(v: Values) -> str:
    report = {"barrier": "monitored_barrier", "desync": "PyTorch's desync report"}[v["report"]]
    return f"{report} names {names_of(v['ranks'])} as missing"


WAITS: Mapping[str, str | Callable[[Values], str]] = {
    "did-not-wait": lambda v: (
        f"{v['waiting']} of {v['of']} ranks timed out; {names_of(v['ranks'])} did not wait with them"
    ),
    "behind": _behind,
    "never-reported": _never_reported,
    "other-collective": _other_collective,
    "ahead": _ahead,
    "numbers-differ": _numbers_differ,
    "all-entered": _all_entered,
    "waits-unclear": _waits_unclear,
    "says-nothing": _says_nothing,
    "entered-fewer": _entered_fewer,
    "timed-out-first": lambda v: f"rank {v['rank']} timed out first: it sent the dump signal",
    "named-missing": _named_missing,
}
"""Code -> a function of a reason's values."""
