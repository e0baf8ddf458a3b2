"""Timeline → verdict: the root, told apart from its cascade, and the first failing rank. Pure, in named steps.

Each step is a module; each leaves its reason in the finding.
"""

from __future__ import annotations

from collections.abc import Mapping

from slurmdoctor.infer.confidence import weigh
from slurmdoctor.infer.culprits import find_silent_culprit
from slurmdoctor.infer.endings import name_exit
from slurmdoctor.infer.finding import Finding
from slurmdoctor.infer.first_rank import name_first
from slurmdoctor.infer.incidents import gather, silent_deaths
from slurmdoctor.infer.outcome import decide_whether_failed, drop_survived
from slurmdoctor.infer.roots import choose_root
from slurmdoctor.model import Cause, Observations
from slurmdoctor.ranks.lines import Lines
from slurmdoctor.timeline.order import Timeline

HANGS = frozenset({"collective-timeout", "abort", "hang", "time-limit", "cancelled"})
"""Causes behind which a rank may stand that said nothing."""


def infer(
    timeline: Timeline,
    assembled: Observations,
    causes: Mapping[str, Cause],
    lines: Lines,
    exit_status: int | None = None,
) -> Finding:
    """Find the root cause and who was first, and the same in a few words of the attempts before."""
    finding = _attempt(timeline, assembled, causes, lines, exit_status)
    before = [_attempt(one, assembled, causes, lines, None) for one in timeline.earlier]
    finding.earlier = tuple({"cause": f.cause, "rank": f.origin.rank} for f in before if f.verdict == "failed")
    if finding.earlier and finding.verdict == "failed":
        told = [f"{e['cause']}" + (f" on rank {e['rank']}" if e["rank"] is not None else "") for e in finding.earlier]
        finding.reasons.append(f"attempt {timeline.attempts}; before it failed: {', then '.join(told)}")
    return finding


def _attempt(
    timeline: Timeline,
    assembled: Observations,
    causes: Mapping[str, Cause],
    lines: Lines,
    exit_status: int | None,
) -> Finding:
    finding = Finding()
    maps = assembled.maps
    live = drop_survived(timeline, finding, exit_status)
    incidents = gather(live, timeline)
    deaths = silent_deaths(timeline, incidents, maps, lines)
    decide_whether_failed(finding, timeline, incidents, deaths, exit_status)
    if finding.verdict != "failed":
        return finding
    choose_root(finding, timeline, [*incidents, *deaths], causes)
    if finding.root is not None and finding.root.cause in HANGS:
        find_silent_culprit(finding, assembled, timeline, lines)
    name_first(finding, timeline, maps, incidents, lines)
    name_exit(finding, timeline, maps)
    weigh(finding, timeline)
    return finding
