"""Takes a line for another cause's where the job is not what its rule asks for (`when`, `otherwise`): next(None) alone proves no missing data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from slurmdoctor.knowledge.expressions import holds
from slurmdoctor.knowledge.texts import text
from slurmdoctor.model import Event, Knowledge, RankMap, Rule, SignalHit
from slurmdoctor.model.causes import PYTHON_ERROR
from slurmdoctor.model.numbers import number
from slurmdoctor.ranks.lines import Lines
from slurmdoctor.readers.exceptions import exception_of

_LOGGER = text("framework-label")
_HEAD = (4096, 40)
"""Bytes and lines of each source in which a logger's label is looked for."""


def apply(
    events: Sequence[Event], rank_map: RankMap, facts: Mapping[str, Any], knowledge: Knowledge, lines: Lines
) -> list[Event]:
    """The events, each for the cause that this job allows. `facts` are those of the log and of the script."""
    asking = knowledge.once(_asking)
    asked = [event for event in events if event.rule in asking]
    if not asked:
        return list(events)
    known = {"framework": _framework(lines), **facts}
    other: dict[str, bool] = {}
    for name in {event.rule for event in asked}:
        same = [event for event in asked if event.rule == name]
        own = {key: value for event in reversed(same) for key, value in event.captures.items()}
        at = _rank0_node(same, rank_map, known)
        other[name] = not holds(asking[name].when, {**known, **own, "rank0_node": at})
    return [_of_other_cause(e, asking[e.rule], knowledge) if other.get(e.rule) else e for e in events]


def _asking(knowledge: Knowledge) -> dict[str, Rule]:
    return {rule.id: rule for rule in knowledge.rules if rule.when}


def facts_of(signals: Sequence[SignalHit]) -> dict[str, Any]:
    """The facts of the log, of each the first that it tells."""
    facts: dict[str, Any] = {}
    for hit in signals:
        if hit.signal.kind == "fact":
            name = hit.signal.id.partition("/")[0]
            if hit.signal.value is not None:
                facts.setdefault(name, hit.signal.value)
            for key, value in hit.captures.items():
                facts.setdefault(name if key == "value" else key, value)
    return facts


def _framework(lines: Lines) -> str | None:
    """The framework whose logger's label stands before the first lines."""
    heads = "\n".join(line for source in lines.sources for line in source.sample(*_HEAD))
    found = _LOGGER.search(heads)
    return found.lastgroup if found else None


def _rank0_node(events: Sequence[Event], rank_map: RankMap, facts: Mapping[str, Any]) -> str | None:
    """Whether any of these ranks runs on rank 0's node: `same`, `other`, or None where the log does not tell."""
    if str(facts.get("nodes")) == "1":
        return "same"
    local_of = {rank: local for (_, local), rank in rank_map.rank_of_local.items()}
    local_of |= {
        e.origin.rank: e.origin.local_rank
        for e in events
        if e.origin.rank is not None and e.origin.local_rank is not None
    }
    node_of = {
        **rank_map.node_of,
        **{e.origin.rank: e.origin.node for e in events if e.origin.rank is not None and e.origin.node},
    }
    per_node = str(facts.get("gpus_per_node", ""))
    home = node_of.get(0)
    told: set[bool] = set()
    for rank in {rank for event in events for rank in event.ranks}:
        if rank == 0:
            told.add(True)
        elif home is not None and rank in node_of:
            told.add(node_of[rank] == home)
        elif rank in local_of:
            told.add(local_of[rank] == rank)
        elif per_node.isdecimal() and (size := number(per_node)):
            told.add(rank < size)
    return "same" if True in told else "other" if told else None


def _of_other_cause(event: Event, rule: Rule, knowledge: Knowledge) -> Event:
    role = knowledge.causes[rule.otherwise].role if event.role != "hint" else event.role
    event = replace(event, cause=rule.otherwise, role=role)
    if rule.otherwise != PYTHON_ERROR:
        return event
    name, message = exception_of(event.hit.text, strict=False) or ("", "")
    captures = {**event.captures, "exception": name, "message": message}
    return replace(event, rule=f"{PYTHON_ERROR}/traceback", captures=captures)
