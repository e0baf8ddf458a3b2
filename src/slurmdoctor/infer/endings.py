"""How the first failing process ended: its own code, apart from the step's and the job's, by the best witness."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slurmdoctor.infer.finding import SCHEDULER, Finding, Incident
from slurmdoctor.infer.incidents import ranks_of
from slurmdoctor.model import ExitClass
from slurmdoctor.ranks.maps import RankMaps
from slurmdoctor.readers.exits import Death, from_handler
from slurmdoctor.readers.witnesses import Report
from slurmdoctor.timeline.order import Timeline

_REFUSED: Mapping[int | None, ExitClass] = {2: "not-found", 13: "not-executable"}
"""srun hands on the errno of a program that could not be started."""


def name_exit(finding: Finding, timeline: Timeline, maps: RankMaps) -> None:
    """The first failing process's own ending, apart from the step's."""
    _find_exit(finding, timeline, maps)
    death = finding.death
    if finding.root is not None and finding.root.cause == "command-not-found" and death and death.code in _REFUSED:
        finding.death = replace(death, exit_class=_REFUSED[death.code])


def _find_exit(finding: Finding, timeline: Timeline, maps: RankMaps) -> None:
    root = finding.root
    codes = [r.death.code for r in timeline.reports if r.witness == "srun" and r.death.code]
    finding.step_code = max(codes) if codes else None
    rank = finding.origin.rank
    own = [r for r in timeline.reports if rank is not None and rank in ranks_of(r, maps)]
    if root is not None and root.report is not None:
        finding.death, finding.death_how = root.report.death, root.report.witness
    elif own:
        # the agent saw the process itself; a death that nobody else caused tells more than one by the launcher's SIGTERM
        best = min(own, key=lambda r: (r.death.exit_class == "terminated", r.witness != "torchelastic table"))
        finding.death, finding.death_how = best.death, best.witness
    if finding.death is not None:
        _note_conflicts(finding, finding.death, own)
        return
    fit = [r for r in timeline.reports if root is None or own_death(r, root)]
    if fit:
        kinds = {(r.death.code, r.death.signal) for r in fit}
        finding.death = fit[0].death
        finding.death_how = f"{fit[0].witness}" + ("" if len(kinds) == 1 else "; other processes ended otherwise")
    elif timeline.reports and root is not None and root.cause not in SCHEDULER:
        signals = [r for r in timeline.reports if r.death.exit_class not in ("terminated", "killed")]
        if signals:
            finding.death, finding.death_how = signals[0].death, signals[0].witness
    if finding.death is None and root is not None:
        told = (from_handler(event.hit.text) for event in root.events)
        finding.death = next((death for death in told if death is not None), None)
        finding.death_how = "the process's own crash handler" if finding.death else None


def _note_conflicts(finding: Finding, death: Death, own: list[Report]) -> None:
    """Witnesses of one process that do not agree are shown, not hidden."""
    others = {r.witness: r.death for r in own if _unlike(r.death, death)}
    if others:
        told = "; ".join(f"{witness} says {shown(other)}" for witness, other in others.items())
        finding.reasons.append(
            f"the witnesses of rank {finding.origin.rank}'s end differ: {finding.death_how} says {shown(death)}; {told}"
        )


def _unlike(one: Death, other: Death) -> bool:
    if one.signal is not None and one.signal == other.signal:
        return False
    return (one.code, one.signal) != (other.code, other.signal)


def shown(death: Death) -> str:
    """A death in a few words."""
    return death.signal or f"exit code {death.code}"


def own_death(report: Report, root: Incident) -> bool:
    """Whether a process that ended so could be the root's own."""
    death = report.death
    if root.main.cause in ("host-oom", "killed", "shm-exhausted", "data-worker") and death.exit_class in (
        "oom-killed",
        "killed",
    ):
        return True
    if root.main.cause in ("segfault", "bus-error", "abort"):
        return death.cause == root.main.cause
    return death.signal is None and death.code not in (0, None)


def ended_first(report: Report, timeline: Timeline) -> bool:
    """Whether no other witness's own first failure came before."""
    times = [r.time for r in timeline.reports if r.first and r.time is not None]
    return report.time is None or not times or report.time <= min(times)
