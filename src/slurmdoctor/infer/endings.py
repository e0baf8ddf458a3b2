"""How the first failing process ended: its own code, apart from the step's and the job's, by the best witness."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slurmdoctor.infer.finding import SCHEDULER, Finding
from slurmdoctor.model import ExitClass, ExitReport, Incident, ProcessExit, RankMap
from slurmdoctor.readers.crash_handlers import from_handler
from slurmdoctor.timeline.order import Timeline

_REFUSED: Mapping[int | None, ExitClass] = {2: "not-found", 13: "not-executable"}
"""srun hands on the errno of a program that could not be started."""


def name_exit(finding: Finding, timeline: Timeline, maps: RankMap) -> None:
    """The first failing process's own ending, apart from the step's."""
    _find_exit(finding, timeline, maps)
    death = finding.exit
    if finding.root is not None and finding.root.cause == "command-not-found" and death and death.code in _REFUSED:
        finding.exit = replace(death, exit_class=_REFUSED[death.code])


def _find_exit(finding: Finding, timeline: Timeline, maps: RankMap) -> None:
    root = finding.root
    codes = [r.exit.code for r in timeline.reports if r.witness == "srun" and r.exit.code]
    finding.step_code = max(codes) if codes else None
    rank = finding.origin.rank
    own = [r for r in timeline.reports if rank is not None and rank in r.ranks]
    if root is not None and root.report is not None:
        finding.exit, finding.exit_how = root.report.exit, root.report.witness
    elif own:
        # the agent saw the process itself; a death that nobody else caused tells more than one by the launcher's SIGTERM
        best = min(own, key=lambda r: (r.exit.exit_class == "terminated", r.witness != "torchelastic table"))
        finding.exit, finding.exit_how = best.exit, best.witness
    if finding.exit is not None:
        _note_conflicts(finding, finding.exit, own)
        return
    fit = [r for r in timeline.reports if root is None or own_death(r, root)]
    if fit:
        kinds = {(r.exit.code, r.exit.signal) for r in fit}
        finding.exit = fit[0].exit
        finding.exit_how = f"{fit[0].witness}" + ("" if len(kinds) == 1 else "; other processes ended otherwise")
    elif timeline.reports and root is not None and root.cause not in SCHEDULER:
        signals = [r for r in timeline.reports if r.exit.exit_class not in ("terminated", "killed")]
        if signals:
            finding.exit, finding.exit_how = signals[0].exit, signals[0].witness
    if finding.exit is None and root is not None:
        told = (from_handler(event.hit.text) for event in root.events)
        finding.exit = next((death for death in told if death is not None), None)
        finding.exit_how = "the process's own crash handler" if finding.exit else None


def _note_conflicts(finding: Finding, death: ProcessExit, own: list[ExitReport]) -> None:
    """Witnesses of one process that do not agree are shown, not hidden."""
    others = {r.witness: r.exit for r in own if _unlike(r.exit, death)}
    if others:
        told = "; ".join(f"{witness} says {shown(other)}" for witness, other in others.items())
        finding.reasons.append(
            f"the witnesses of rank {finding.origin.rank}'s end differ: {finding.exit_how} says {shown(death)}; {told}"
        )


def _unlike(one: ProcessExit, other: ProcessExit) -> bool:
    if one.signal is not None and one.signal == other.signal:
        return False
    return (one.code, one.signal) != (other.code, other.signal)


def shown(death: ProcessExit) -> str:
    """A death in a few words."""
    return death.signal or f"exit code {death.code}"


def own_death(report: ExitReport, root: Incident) -> bool:
    """Whether a process that ended so could be the root's own."""
    death = report.exit
    if root.main.cause in ("host-oom", "killed", "shm-exhausted", "data-worker") and death.exit_class in (
        "oom-killed",
        "killed",
    ):
        return True
    if root.main.cause in ("segfault", "bus-error", "abort"):
        return death.cause == root.main.cause
    return death.signal is None and death.code not in (0, None)


def ended_first(report: ExitReport, timeline: Timeline) -> bool:
    """Whether no other witness's own first failure came before."""
    times = [r.time for r in timeline.reports if r.first and r.time is not None]
    return report.time is None or not times or report.time <= min(times)
