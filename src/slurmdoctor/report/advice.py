"""What to do: the fixes, the best first, and with the job itself. The two never contradict each other. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from slurmdoctor.model import (
    SHORT,
    Cause,
    Finding,
    Knowledge,
    Remedy,
    Retry,
    RetryAdvice,
    expand_nodes,
    fold_nodes,
    ranges,
)
from slurmdoctor.report import remedies

_RETRY_WHY: Mapping[RetryAdvice, str] = {
    "as-is": "nothing in the job needs to change",
    "elsewhere": "the evidence points to the node, not to the job",
    "after-fix": "",
    "resume": "",
    "unknown": "",
}
_ONLY_FOLLOWED = "these lines show the consequences, not what failed first"
_NODE_UNKNOWN = "the log does not name the node to leave out"
_SCRIPT_FIRST = "fix the script first"
_PEER_TOO = "add the node behind {peer}: it is the other end of the link"
_ALL_ALIKE = "all ranks failed the same way, so no node stands out"
_EXCLUDED = re.compile(r"--exclude=([^\s`);]+)")


def advise(
    finding: Finding, knowledge: Knowledge, cause: Cause | None, names: Mapping[str, Any]
) -> tuple[tuple[Remedy, ...], Retry | None]:
    """At most three fixes, and what to do with the job; `names` are what the fixes may use."""
    first, last = _of_the_script(finding)
    if cause is None:
        return (*first, *last), None
    names = {**names, "checks": [m.check for m in finding.mistakes]}
    names |= {"exclude": fold_nodes(finding.exclude)} if finding.exclude else {}
    agreed = remedies.best(cause, names, finding.retry)
    best = agreed or remedies.best(
        cause, names
    )  # a cause whose fixes all say otherwise knows more than the state of a node
    word = best[0][0].retry if best else None
    word = (finding.retry if agreed else None) or word or ("elsewhere" if finding.reported else cause.retry)
    retry = _retry(finding, word)
    agreeing = [said for fix, said in best if fix.retry in (None, word) and _leaves_out(said, retry)]
    own = (*agreeing[:1], *_one_node(finding, knowledge), *agreeing[1:])
    shown = [*first]
    for remedy in own:
        if len(shown) + len(last) < remedies.MOST and not any(remedies.same_words(remedy, said) for said in shown):
            shown.append(remedy)
    return (*shown, *last), retry


def _of_the_script(finding: Finding) -> tuple[tuple[Remedy, ...], tuple[Remedy, ...]]:
    """The script's lines to change: first those that bring this failure about, last those that hid the exit status."""
    first, last = (
        tuple(Remedy(f"{finding.script}:{m.line}: {m.fix}", m.why) for m in mistakes)
        for mistakes in (finding.mistakes, finding.hiding)
    )
    return first, last


def _retry(finding: Finding, advice: RetryAdvice) -> Retry:
    """What the cause, or its best fix, advises, as far as the failure reached only as far as that."""
    if finding.mistakes and advice in ("as-is", "elsewhere"):
        return Retry("after-fix", _SCRIPT_FIRST)
    if advice != "elsewhere":
        return Retry(advice, _RETRY_WHY[advice])
    against = finding.exclude
    if finding.reported:
        node, words = next(iter(finding.reported.items()))
        more = f", and {len(finding.reported) - 1} more" if len(finding.reported) > 1 else ""
        return Retry(advice, f"Slurm reports {node} as {words}{more}", against)
    if not against and finding.root is not None and finding.root.main.role == "cascade":
        return Retry("after-fix", _ONLY_FOLLOWED)
    extent = finding.extent
    if len(extent.nodes) > 1 and len(extent.ranks) == extent.of and (not against or set(against) >= set(extent.nodes)):
        return Retry("after-fix", _ALL_ALIKE)
    peer = finding.root.main.captures.get("peer") if finding.root is not None else None
    if peer and peer not in against:
        return Retry(advice, _PEER_TOO.format(peer=peer), against)
    return Retry(advice, _RETRY_WHY[advice] if against else _NODE_UNKNOWN, against)


def _leaves_out(said: Remedy, retry: Retry) -> bool:
    """Whether a fix excludes no node that the retry line does not."""
    named = {node for listed in _EXCLUDED.findall(said.do) for node in expand_nodes(listed.rstrip(",."))}
    return not named or named <= set(retry.exclude_nodes)


def _one_node(finding: Finding, knowledge: Knowledge) -> tuple[Remedy, ...]:
    """The node to look at, where all its ranks failed alike and nobody else.

    Who only waited speaks against no node; what failed between two nodes, against neither.
    """
    traits, extent = knowledge.traits, finding.extent
    if not extent.whole_node or finding.suspicion is not None:
        return ()
    if finding.cause in traits["waited"] | traits["scheduler"] or (
        finding.root and "peer" in finding.root.main.captures
    ):
        return ()
    others = "no rank of another node" if extent.of is None else f"none of the other {extent.of - len(extent.ranks):,}"
    do = f"Check {extent.nodes[0]}: all its ranks ({ranges(extent.ranks, SHORT)}) failed the same way, {others} did."
    return (Remedy(do, "What fails on one node only is its files, environment or hardware, not the program."),)
