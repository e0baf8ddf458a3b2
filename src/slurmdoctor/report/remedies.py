"""Chooses the fixes of a cause that fit this log, and fills in its numbers. Pure.

`knowledge.expressions` says when a fix fits, and how it is filled.
"""

from __future__ import annotations

import re
from typing import Any

from slurmdoctor.knowledge import Facts, fill, holds, value
from slurmdoctor.model import Cause, Fix, Remedy, RetryAdvice

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


def told(cause: Cause, derived: Facts) -> dict[str, Any]:
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
