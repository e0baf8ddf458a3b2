"""The JSON contract, schema_version 1 (`schema.json` beside this file)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from slurmdoctor import __version__
from slurmdoctor.model import Cascade, Coverage, Diagnosis, Evidence, FirstFailure, NamedCause

SCHEMA_VERSION = 1
# Facts that are always there; a log may add others.
_FACTS = ("world_size", "nodes", "launcher", "framework", "attempts", "last_step")


def to_dict(diagnosis: Diagnosis) -> dict[str, Any]:
    """The contract as plain Python values: every key present, unknown is None, none is []."""
    retry = diagnosis.retry
    return {
        "schema_version": SCHEMA_VERSION,
        "slurmdoctor": __version__,
        "verdict": diagnosis.verdict,
        "cause": _cause(diagnosis.cause),
        "first_failure": _first_failure(diagnosis.first_failure or FirstFailure()),
        "exit": {
            "code": diagnosis.exit.code,
            "signal": diagnosis.exit.signal,
            "class": diagnosis.exit.exit_class,
            "step_code": diagnosis.exit.step_code,
            "how": diagnosis.exit.how,
            "meaning": diagnosis.exit.meaning,
        },
        "evidence": [_evidence(item) for item in diagnosis.evidence],
        "cascade": [_cascade(item) for item in diagnosis.cascade],
        "others": [{"id": o.id, "confidence": o.confidence, "why": o.why} for o in diagnosis.others],
        "reasons": list(diagnosis.reasons),
        "fixes": [{"do": fix.do, "why": fix.why, "reference": fix.reference} for fix in diagnosis.fixes],
        "verify": list(diagnosis.verify),
        "retry": {
            "advice": retry.advice if retry else None,
            "why": retry.why if retry else None,
            "exclude_nodes": list(retry.exclude_nodes) if retry else [],
        },
        "facts": {
            **dict.fromkeys(_FACTS),
            **{str(key): _plain(item) for key, item in diagnosis.facts.items()},
        },
        "coverage": _coverage(diagnosis.coverage),
        "ranks": [
            {"standing": g.standing, "ranks": list(g.ranks), "why": g.why, "file": g.file, "line": g.line}
            for g in diagnosis.ranks
        ],
    }


def render(diagnosis: Diagnosis) -> str:
    """One JSON object. ASCII only, so that no terminal, locale or parser can trip over it."""
    return json.dumps(_plain(to_dict(diagnosis)), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _cause(cause: NamedCause | None) -> dict[str, Any]:
    if cause is None:
        return {"id": None, "family": None, "title": None, "rule": None, "confidence": None}
    return {
        "id": cause.id,
        "family": cause.family,
        "title": cause.title,
        "rule": cause.rule,
        "confidence": cause.confidence,
    }


def _first_failure(first: FirstFailure) -> dict[str, Any]:
    return {
        "rank": first.rank,
        "local_rank": first.local_rank,
        "node": first.node,
        "time": first.time,
        "file": first.file,
        "line": first.line,
        "text": first.text,
        "traceback": list(first.traceback),
        "how": first.how,
        "ranks": list(first.ranks),
    }


def _evidence(item: Evidence) -> dict[str, Any]:
    return {
        "file": item.file,
        "line": item.line,
        "text": item.text,
        "rank": item.rank,
        "node": item.node,
        "time": item.time,
        "rule": item.rule,
        "cause": item.cause,
        "role": item.role,
    }


def _cascade(item: Cascade) -> dict[str, Any]:
    return {
        "cause": item.cause,
        "title": item.title or None,
        "ranks": item.ranks,
        "count": item.count,
        "delay": item.delay,
        "first": {"file": item.file, "line": item.line, "time": item.time},
    }


def _coverage(coverage: Coverage) -> dict[str, Any]:
    return {
        "bytes": coverage.bytes,
        "lines": coverage.lines,
        "files": coverage.files,
        "ranks_seen": coverage.ranks_seen,
        "silent_ranks": list(coverage.silent_ranks),
        "order": coverage.order,
        "missing": list(coverage.missing),
        "notes": list(coverage.notes),
    }


def _plain(value: Any) -> Any:
    """Only what JSON can say: no NaN, no half of a surrogate pair, no type of ours."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {_plain(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(item) for item in value), key=str)
    return str(value)
