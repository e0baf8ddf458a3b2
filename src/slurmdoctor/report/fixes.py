"""What to do: the fixes of a cause that fit this log, filled with its numbers, and with the job itself. Pure.

`knowledge.expressions` says when a fix fits, and how it is filled. Fixes and the retry line never contradict each other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from slurmdoctor.knowledge import Facts, fill, holds, layouts, text, value
from slurmdoctor.matching import lazy
from slurmdoctor.model import (
    ID_TIMEOUT,
    SHORT,
    TASK_FAILED,
    Cause,
    Extent,
    Finding,
    Fix,
    Incident,
    Knowledge,
    Observations,
    Remedy,
    Retry,
    RetryAdvice,
    ScriptMistake,
    Suspicion,
    Timeline,
    expand_nodes,
    fold_nodes,
    plain,
    ranges,
)
from slurmdoctor.report.redaction import one_line
from slurmdoctor.report.wording import Frame, best_frames, frames, names_of

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
    names = {one.id for one in cause.let if one.in_json}
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


def _needless(fix: Fix, remedy: Remedy, better: Fix, proposed: Remedy) -> bool:
    """Whether a fix adds nothing to a better one, or rules it out: of one topic, plainer, or in nearly its words."""
    return (
        (fix.one_of is not None and fix.one_of == better.one_of)
        or _plainer(fix, better)
        or same_words(remedy, proposed)
    )


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


_EXCLUDED = lazy(r"--exclude=([^\s`);]+)")


def advise(
    finding: Finding, knowledge: Knowledge, cause: Cause, names: Mapping[str, Any]
) -> tuple[tuple[Remedy, ...], Retry]:
    """At most three fixes, and what to do with the job; `names` are what the fixes may use."""
    first, last = _of_the_script(finding, finding.mistakes), _of_the_script(finding, finding.hiding)
    names = {**names, "checks": [m.check for m in finding.mistakes]}
    names |= {"exclude": fold_nodes(finding.exclude)} if finding.exclude else {}
    agreed = best(cause, names, finding.retry)
    fitting = agreed or best(cause, names)  # a cause whose fixes all say otherwise knows more than the state of a node
    word = fitting[0][0].retry if fitting else None
    word = (finding.retry if agreed else None) or word or ("elsewhere" if finding.reported else cause.retry)
    retry = _retry(finding, word)
    agreeing = [proposed for fix, proposed in fitting if fix.retry in (None, word) and _leaves_out(proposed, retry)]
    own = (*agreeing[:1], *_one_node(finding, knowledge), *agreeing[1:])
    shown = [*first]
    for remedy in own:
        if len(shown) + len(last) < MOST and not any(same_words(remedy, proposed) for proposed in shown):
            shown.append(remedy)
    return (*shown, *last), retry


def _of_the_script(finding: Finding, mistakes: Sequence[ScriptMistake]) -> tuple[Remedy, ...]:
    """The script's lines to change: those that bring this failure about come first, those that hid the exit status last."""
    return tuple(Remedy(f"{finding.script}:{m.line}: {m.fix}", m.why) for m in mistakes)


def _retry(finding: Finding, advice: RetryAdvice) -> Retry:
    """What the cause, or its best fix, advises, as far as the failure reached only as far as that."""
    if finding.mistakes and advice in ("as-is", "elsewhere"):
        return Retry("after-fix", "fix the script first")
    if advice != "elsewhere":
        return Retry(advice, "nothing in the job needs to change" if advice == "as-is" else "")
    against = finding.exclude
    if finding.reported:
        node, words = next(iter(finding.reported.items()))
        more = f", and {len(finding.reported) - 1} more" if len(finding.reported) > 1 else ""
        return Retry(advice, f"Slurm reports {node} as {words}{more}", against)
    if not against and finding.root is not None and finding.root.main.role == "cascade":
        return Retry("after-fix", "these lines show the consequences, not what failed first")
    extent = finding.extent
    if len(extent.nodes) > 1 and len(extent.ranks) == extent.of and (not against or set(against) >= set(extent.nodes)):
        return Retry("after-fix", "all ranks failed the same way, so no node stands out")
    peer = finding.root.main.captures.get("peer") if finding.root is not None else None
    if peer and peer not in against:
        return Retry(advice, f"add the node behind {peer}: it is the other end of the link", against)
    return Retry(
        advice,
        "the evidence points to the node, not to the job" if against else "the log does not name the node to leave out",
        against,
    )


def _leaves_out(proposed: Remedy, retry: Retry) -> bool:
    """Whether a fix excludes no node that the retry line does not."""
    named = {node for listed in _EXCLUDED.findall(proposed.do) for node in expand_nodes(listed.rstrip(",."))}
    return not named or named <= set(retry.exclude_nodes)


def _one_node(finding: Finding, knowledge: Knowledge) -> tuple[Remedy, ...]:
    """The node to look at, where all its ranks failed the same way and nobody else.

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


_PHASE = text("work-phase")
_NODE_LOCAL = text("node-local")
_SAVING = text("saving-function")
_MOST_FRAMES = 160
_PARTS = ("src", "lib", "python")
"""Folders of one checkout that hold its packages."""


def names_for_fixes(finding: Finding, timeline: Timeline, observed: Observations) -> dict[str, Any]:
    """Names and their values; a later kind overrides an earlier one, where it is known."""
    root, origin = finding.root, finding.origin
    kinds: list[Mapping[str, Any]] = [
        finding.facts,
        {name: plain(value) for name, value in root.main.captures.items()} if root is not None else {},
        {"rank": origin.rank, "local_rank": origin.local_rank, "node": origin.node},
        {
            "rule": finding.rule,
            "task_failed": any(e.rule == TASK_FAILED for e in timeline.events) or None,
            "seen": sorted({e.cause for e in timeline.events if e.role != "hint"}),
            "reach": _reach(finding.extent),
            "exit_code": finding.exit.shell_code if finding.exit is not None else None,
            "traceback_seen": any(e.traceback for e in observed.events),
        },
        _of_the_suspect(finding.suspicion) if finding.suspicion is not None else {},
        _of_the_silent(finding, observed),
        _of_the_root(finding, root) if root is not None else {},
        finding.node_names,
    ]
    names = {name: value for kind in kinds for name, value in kind.items() if value is not None}
    names["node_local"] = _NODE_LOCAL.match(str(names.get("path"))) is not None
    return names | layouts(names)


def _of_the_suspect(suspicion: Suspicion) -> dict[str, Any]:
    names: dict[str, Any] = {"seq": suspicion.seq, "op": suspicion.op, "stuck_in": suspicion.stuck_in}
    listed = ranges(suspicion.ranks, SHORT)
    if suspicion.kind == "mismatch":
        names["odd_ranks"] = listed
    elif suspicion.ranks:
        late = listed if suspicion.kind == "behind" and not suspicion.stuck_in else None
        names |= {"silent_ranks": listed, "suspects": names_of(suspicion.ranks), "late_ranks": late}
    elif suspicion.kind == "all-entered":
        names["all_entered"] = len(suspicion.waiting)
    return names


def _reach(extent: Extent) -> str | None:
    """How far the failure reached, where the log tells: `all` ranks, all those of one `node`, or `one` of several."""
    failed, of = len(extent.ranks), extent.of or 0
    if extent.whole_node:
        return "node"
    return {of: "all", 1: "one"}.get(failed) if of > 1 else None


def _of_the_silent(finding: Finding, observed: Observations) -> dict[str, Any]:
    """The ranks of which no line was read where nobody else is suspected, and their node where it is one."""
    silent = finding.silent
    if not silent or (finding.suspicion is not None and finding.suspicion.ranks):
        return {}
    nodes = {observed.rank_map.node_of.get(rank) for rank in silent}
    return {"untold": names_of(silent), "untold_node": nodes.pop() if len(nodes) == 1 else None}


def _of_the_root(finding: Finding, root: Incident) -> dict[str, Any]:
    """What failed, where in the program, and on how many ranks."""
    known = root.main.captures
    names: dict[str, Any] = {"failed": _how_many(finding, root)}
    events = (e for i in (root, *finding.same) for e in (i.main, *i.events) if e.cause == root.cause)
    if listed := next((e.captures["nodes"] for e in events if e.captures.get("nodes")), None):
        # `nodes` is also how many there are
        names["nodes"] = fold_nodes(expand_nodes(listed))
    stack = frames(root.main.traceback)
    if stack:
        names |= _phase(stack) | _of_the_import(stack, known)
    if root.main.stack_of and stack:
        names |= {"stack_function": stack[-1].function, "stack_place": stack[-1].short_place}
    if not root.main.stack_of:
        raised = of_the_exception(root.main.traceback, known.get("exception", ""), known.get("message", ""))
        names |= {name: value for name, value in raised.items() if name not in known}
    waiting = (i.main.traceback for i in finding.same) if finding.cause == ID_TIMEOUT else ()
    shown = stack or frames(next(filter(None, waiting), ()))
    saving = (frame.function for frame in reversed(shown) if _SAVING.search(frame.function))
    return names | {"frames": tuple(frame.function for frame in shown) or None, "saves_in": next(saving, None)}


def _phase(stack: Sequence[Frame]) -> dict[str, Any]:
    """What the program was at: `backward pass`, `model setup`."""
    shown = "\n".join(f"{frame.path}:{frame.function}:{frame.code}" for frame in stack[:_MOST_FRAMES])
    found = _PHASE.search(shown)
    return {"phase": found.lastgroup.replace("_", " ")} if found and found.lastgroup else {}


def _of_the_import(stack: Sequence[Frame], captures: Mapping[str, str]) -> dict[str, str]:
    """The folder of the script, and another copy of the code from which Python imports the package that the exception is about."""
    own = [frame.path for frame in stack if frame.own and frame.path.startswith("/")]
    names = {"frame_file": stack[-1].path.rpartition("/")[2]}
    if not own:
        return names
    names["script_dir"] = own[0].rpartition("/")[0]
    file = captures.get("file") or stack[-1].path
    root, found, _ = file.partition(f"/{captures.get('package') or '?'}/")
    if found and "-packages" not in root and _is_other_copy(root, names["script_dir"]):
        names["other_copy"] = root
    return names


def _is_other_copy(root: str, script_dir: str) -> bool:
    """Whether two folders belong to two checkouts: they share no more than a disk, or lie side by side."""
    beside = root.rpartition("/")[0] == script_dir.rpartition("/")[0] and root.rpartition("/")[2] not in _PARTS
    return not f"{script_dir}/".startswith(f"{root}/") and (
        beside or root.split("/")[1:3] != script_dir.split("/")[1:3]
    )


def _how_many(finding: Finding, root: Incident) -> int:
    """The ranks that failed the same way; without labels so many processes as raised the same."""
    if finding.extent.ranks or not root.main.traceback:
        return max(len(finding.extent.ranks), 1)
    counts = [e.count for i in (root, *finding.same) for e in i.events if e.rule == root.main.rule]
    return max(sum(counts), 1)


_DETAILS = text("exception-details")
_RAISES = text("raising-code")
_PACKAGE = lazy(r"(?:site|dist)-packages/(\w+)")
_LONGEST_PLACE, _LONGEST_MESSAGE, _LONGEST_CODE = 48, 90, 60


def of_the_exception(traceback: Sequence[str], exception: str, message: str) -> Mapping[str, Any]:
    """Its place and code in the user's own files, the package that raised it, and what its message names; None where not known."""
    quoted = one_line(f"{exception}: {message}" if message else exception)
    names: dict[str, Any] = {"said": quoted if len(quoted) <= _LONGEST_MESSAGE else None}
    if found := _DETAILS.match(f"{exception}: {message}"):
        names |= {name: one_line(value) for name, value in found.groupdict().items() if value}
    stack = frames(traceback)
    if not stack:
        return names
    inner, nearest = stack[-1], best_frames(traceback, 1)[0]
    if nearest.own:
        code, checked = nearest.code, _RAISES.match(nearest.code) is not None
        shown = code if 0 < len(code) <= _LONGEST_CODE and "`" not in code else None
        names |= {"at": _at(nearest), "code": shown, "checked": checked or None}
    if not inner.own:
        package = _PACKAGE.search(inner.path)
        names |= {"raised_at": _at(inner), "package": package[1] if package else None}
    return names


def _at(frame: Frame) -> str:
    """`train.py:484 in Train`."""
    place = frame.place if len(frame.place) <= _LONGEST_PLACE else frame.short_place
    function = frame.function if re.fullmatch(r"[\w.]{1,40}", frame.function) else ""
    return f"{place} in {function}" if function else place
