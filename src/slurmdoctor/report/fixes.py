"""What to do: the fixes of a cause that fit this log, filled with its numbers, and with the job itself. Pure.

`knowledge.expressions` says when a fix fits, and how it is filled. Fixes and the retry line never contradict each other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from slurmdoctor.knowledge import Facts, fill, holds, value
from slurmdoctor.model import (
    SHORT,
    Cause,
    Finding,
    Fix,
    Knowledge,
    Remedy,
    Retry,
    RetryAdvice,
    expand_nodes,
    fold_nodes,
    ranges,
)

MOST = 3
"""So many fixes are shown: the ones that say most about this log."""
_SAME = 0.6
"""The share of words in common from which a reader takes two fixes for one."""


def derive(cause: Cause, facts: Facts) -> dict[str, Any]:
    """The names of the cause's `let` that these facts make known, each computed of those before it."""
    found: dict[str, Any] = {}
    for one in cause.let:
        known = {**facts, **found}
        if one.id in found or not holds(one.when, known):
            continue
        parts = [text for part in one.parts if (text := fill(part, known)) is not None]
        made = ", ".join(parts) if one.parts else value(one.value, known)
        if made is not None and made != "" and made is not False:
            found[one.id] = made
    return found


def derived_facts(cause: Cause, derived: Facts) -> dict[str, Any]:
    """Those of the derived names that are facts of the job."""
    names = {one.id for one in cause.let if one.told}
    return {k: round(v, 2) if isinstance(v, float) else v for k, v in derived.items() if k in names}


def best(cause: Cause, facts: Facts, advice: RetryAdvice | None = None) -> list[tuple[Fix, Remedy]]:
    """At most three fixes: the site's, then those with the most conditions, then in the file's order; each with its words for this log.

    `facts`: the root event's captures, the job's facts, `rule` (the root's), `seen` (all causes in the log). With `advice`, what to do
    with the job is known, and no fix may say otherwise.
    """
    fitting = [fix for fix in cause.fixes if (advice is None or fix.retry in (None, advice)) and holds(fix.when, facts)]
    # that something is absent says nothing of this log
    fitting.sort(key=lambda fix: (not fix.of_site, -sum(want is not False for want in fix.when.values())))
    found: list[tuple[Fix, Remedy]] = []
    for fix in fitting:
        remedy = _remedy(fix, facts)
        if remedy is not None and not any(_needless(fix, remedy, *other) for other in found):
            found.append((fix, remedy))
        if len(found) == MOST:
            break
    return found


def _needless(fix: Fix, remedy: Remedy, better: Fix, said: Remedy) -> bool:
    """Whether a fix adds nothing to a better one, or rules it out: of one topic, plainer, or in nearly its words."""
    return (fix.one_of is not None and fix.one_of == better.one_of) or _plainer(fix, better) or same_words(remedy, said)


def _plainer(fix: Fix, than: Fix) -> bool:
    """Whether a fix says the same for a log that tells less: of one rule, and with fewer conditions."""
    return "rule" in fix.when and all(
        key in than.when and (want is True or set(_all(than.when[key])) <= set(_all(want)))
        for key, want in fix.when.items()
    )


def same_words(one: Remedy, other: Remedy) -> bool:
    """Whether two fixes come to the same once they are filled."""
    mine, others = (set(re.findall(r"\w+", fix.do.lower())) for fix in (one, other))
    return len(mine & others) >= _SAME * min(len(mine), len(others))


def _all(want: Any) -> tuple[Any, ...]:
    return tuple(want) if isinstance(want, (tuple, list)) else (want,)


def verify(cause: Cause, facts: Facts) -> tuple[str, ...]:
    """How to make sure; what cannot be filled from this log is left out."""
    return tuple(text for template in cause.verify if (text := fill(template, facts, to_paste=True)) is not None)


def _remedy(fix: Fix, facts: Facts) -> Remedy | None:
    do = fill(fix.do, facts, to_paste=True)
    if do is None:
        return None
    return Remedy(do=do, why=fill(fix.why, facts, to_paste=True) if fix.why else None, reference=fix.reference)


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
    agreed = best(cause, names, finding.retry)
    fitting = agreed or best(cause, names)  # a cause whose fixes all say otherwise knows more than the state of a node
    word = fitting[0][0].retry if fitting else None
    word = (finding.retry if agreed else None) or word or ("elsewhere" if finding.reported else cause.retry)
    retry = _retry(finding, word)
    agreeing = [said for fix, said in fitting if fix.retry in (None, word) and _leaves_out(said, retry)]
    own = (*agreeing[:1], *_one_node(finding, knowledge), *agreeing[1:])
    shown = [*first]
    for remedy in own:
        if len(shown) + len(last) < MOST and not any(same_words(remedy, said) for said in shown):
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
