"""What NCCL's RAS lists (`ncclras -v`): who is missing in a communicator, or came less far than others, as ranks of the job. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from slurmdoctor.model import RankMap, SignalHit, number

_RAS = "members/ras"
_LARGEST = "0-0"
"""RAS numbers the communicators by their sizes."""
_STAYED = ("RUNNING", "INIT")
"""States of a communicator that its rank has not left."""
Value = int | str | None


def named_by_ras(signals: Sequence[SignalHit], rank_map: RankMap) -> list[SignalHit]:
    """The signals, with one for each rank at fault in place of those of RAS: its last answer counts, and who is missing first."""
    of_ras = [hit for hit in signals if hit.signal.id == _RAS]
    of_pid = defaultdict[int, set[int]](set)
    for (_, pid), rank in rank_map.rank_of_pid.items() if of_ras else ():
        of_pid[pid].add(rank)
    answers = [n for n, hit in enumerate(of_ras) if "answer" in hit.captures]
    comm, several = _LARGEST, False
    sections: list[tuple[str, list[SignalHit]]] = [(comm, [])]
    for hit in of_ras[answers[-1] if answers else 0 :]:
        several |= number(hit.captures.get("comms", "0")) > 1
        comm = hit.captures.get("comm", comm)
        if "section" in hit.captures:
            sections.append((comm, []))
        sections[-1][1].append(hit)
    # a number of a communicator is the job's where the communicator has all ranks
    found = [
        one
        for comm, section in sections
        for one in _at_fault(section, of_pid, rank_map.world_size, comm == _LARGEST and not several)
    ]
    missing = [hit for hit, absent in found if absent]
    return [*(hit for hit in signals if hit.signal.id != _RAS), *(missing or (hit for hit, _ in found))]


def _at_fault(
    section: Sequence[SignalHit], of_pid: Mapping[int, set[int]], world: int | None, whole: bool
) -> Iterator[tuple[SignalHit, bool]]:
    """Those of one list: by how many operations they have launched, by their communicator's state, or as nothing came of them."""
    absent = bool(section) and "absent" in section[0].captures
    size, values, rows = 0, list[Value](), list[tuple[SignalHit, Value]]()
    value: Value = None
    for hit in section:
        words = _value(hit.captures)
        if "others" in hit.captures:
            value = words
            size += number(hit.captures["others"])
            values.append(words)
        elif "pid" in hit.captures or "one" in hit.captures:
            size += words is not None
            rows.append((hit, value if words is None else words))
            values.append(words)
    most = max((one for one in values if isinstance(one, int)), default=0)
    usual = next((one for one in values if isinstance(one, str)), None)
    whole = whole and (not size or world in (None, size))
    for hit, value in rows:
        behind = value < most if isinstance(value, int) else usual in _STAYED and value not in (usual, "RUNNING")
        if not absent and (value is None or not behind):
            continue
        # containers on several nodes may have one pid
        known = of_pid.get(number(hit.captures.get("pid", "0")), set())
        own = hit.captures.get("one") if whole else None
        rank = str(*known) if len(known) == 1 else own
        if rank is not None:
            yield SignalHit(hit.signal, hit.line, hit.order, {"one": rank}), absent


def _value(words: Mapping[str, str]) -> Value:
    return number(words["launched"]) if "launched" in words else 0 if "never" in words else words.get("status")
