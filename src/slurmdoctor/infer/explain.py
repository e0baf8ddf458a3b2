"""Which incident brings which other about, as far as causes, roles and order tell."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from heapq import nsmallest
from itertools import chain

from slurmdoctor.infer.incidents import was_not_made
from slurmdoctor.model import BROKEN_CONTINUATION, TICK, Incident, Knowledge, Timeline


class Explainer:
    """Answers what explains what, for the incidents of one timeline."""

    def __init__(self, timeline: Timeline, knowledge: Knowledge) -> None:
        self._timeline = timeline
        self._causes = knowledge.causes
        self._scheduler = knowledge.traits["scheduler"]
        self._knowledge = knowledge

    def unexplained(self, tier: Sequence[Incident], explainers: Iterable[Incident]) -> list[Incident]:
        """The incidents of a tier that no other one brings about; all of them where each is explained."""
        explaining = self._explaining(self._earliest(explainers))
        left = [i for i in tier if not any(o is not i and self._explains_alone(o, i) for o in explaining(i))]
        return left or list(tier)

    def _explaining(self, earliest: Iterable[Incident]) -> Callable[[Incident], Iterable[Incident]]:
        """Incident -> those that may explain it: its own file's, and of the other files' those that came first."""
        here: dict[tuple[str, int], list[Incident]] = {}
        elsewhere: dict[str, dict[object, list[Incident]]] = {}
        for incident in earliest:
            known = self._causes.get(incident.cause)
            kind = (incident.cause, incident.main.role, incident.report is None)
            for cause in (known.explains | self._scheduler) if known else ():
                here.setdefault((cause, incident.main.hit.source), []).append(incident)
                elsewhere.setdefault(cause, {}).setdefault(kind, []).append(incident)
        first = {cause: self._firsts(kinds.values()) for cause, kinds in elsewhere.items()}
        return lambda i: chain(here.get((i.cause, i.main.hit.source), ()), first.get(i.cause, ()))

    def _firsts(self, kinds: Iterable[list[Incident]]) -> list[Incident]:
        """Of each kind the two first ones by time and the two first ones by place: one of two is another file's."""
        found: list[Incident] = []
        for incidents in kinds:
            by_time = {i.main.hit.source: i for i in sorted(incidents, key=self._key_of, reverse=True)}
            in_text = {i.main.hit.source: i for i in sorted(incidents, key=lambda i: i.main.order, reverse=True)}
            found += nsmallest(2, by_time.values(), key=self._key_of)
            found += nsmallest(2, in_text.values(), key=lambda i: i.main.order)
        return found

    def _key_of(self, incident: Incident) -> tuple[float, int]:
        return self._timeline.key(incident.main)

    def _explains_alone(self, one: Incident, other: Incident) -> bool:
        """Whether `one` explains `other`; where two explain each other, the earlier one does."""
        key = self._timeline.key
        mutual = self._explains(other, one) and key(other.main) < key(one.main)
        return self._explains(one, other) and not mutual

    def _explains(self, one: Incident, other: Incident) -> bool:
        known = self._causes.get(one.cause)
        if known is None or one.cause == other.cause:
            return False
        listed = other.cause in known.explains
        ended_by_slurm = other.cause in self._scheduler
        if not listed and not ended_by_slurm:
            return False
        if one.main.rule == BROKEN_CONTINUATION and printed_above(other, one):
            return False
        earlier = self._clearly_earlier(other, one)
        if ended_by_slurm and not earlier and one.main.role in ("root", "confirmation"):
            return self._failed_before_slurm_ended_it(one, other)
        if not listed or not (_role_may_explain(one, other) or was_not_made(one.main, other.main, self._knowledge)):
            return False
        # a witness may speak late of what came first
        return one.main.role == "confirmation" or not earlier

    def _failed_before_slurm_ended_it(self, one: Incident, other: Incident) -> bool:
        """Whether a root came before Slurm's ending `other`; in two files without a clock its own error says so."""
        no_common_clock = one.main.hit.source != other.main.hit.source and self._timeline.order != "timestamps"
        return (one.report is None and no_common_clock) or one.main.order < other.main.order

    def _clearly_earlier(self, one: Incident, other: Incident) -> bool:
        """Whether stamps (or, for roots without stamps, the file) show that `one` came before `other`."""
        a, b = one.main, other.main
        printed = printed_above(one, other)
        if self._timeline.order == "timestamps":
            # a lower bound alone does not show that it was early
            key = self._timeline.key
            return key(a)[0] < key(b)[0] - TICK and (printed or not a.bound)
        return a.role == "root" and b.role == "root" and printed

    def _earliest(self, incidents: Iterable[Incident]) -> Collection[Incident]:
        """Of incidents that explain the same, the earliest by time and the first in each file: others add nothing."""
        by_time: dict[object, Incident] = {}
        in_file: dict[object, Incident] = {}
        key = self._timeline.key
        for incident in incidents:
            main = incident.main
            kind = (incident.cause, main.role, main.hit.source)
            if kind not in by_time or key(main) < key(by_time[kind].main):
                by_time[kind] = incident
            if kind not in in_file or main.order < in_file[kind].main.order:
                in_file[kind] = incident
        return [*by_time.values(), *(i for kind, i in in_file.items() if i is not by_time[kind])]


def printed_above(one: Incident, other: Incident) -> bool:
    """Whether `one` stands above `other` in the same file."""
    return one.main.hit.source == other.main.hit.source and one.main.order < other.main.order


def _role_may_explain(one: Incident, other: Incident) -> bool:
    """A symptom explains symptoms only, and what may be either never explains a root."""
    if one.main.role == "cascade" and other.main.role != "cascade":
        return False
    return not (one.main.role == "either" and other.main.role == "root")
