"""The JSON contract, schema_version 1 (`schema.json` beside this file)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from msgspec import to_builtins

from slurmdoctor import __version__
from slurmdoctor.model import Cascade, Diagnosis, Extent, Retry, ranges

SCHEMA_VERSION = 1
# Facts that are always there; a log may add others.
_FACTS = ("world_size", "nodes", "launcher", "framework", "attempts", "last_step")

_JOB = ("id", "array_task", "name", "files")


def to_dict(diagnosis: Diagnosis) -> dict[str, Any]:
    """The contract as plain Python values: every key present, unknown is None, none is []."""
    contract: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "slurmdoctor": __version__,
        "verdict": diagnosis.verdict,
        "cause": to_builtins(diagnosis.cause),
        "first_failure": to_builtins(diagnosis.first_failure),
        "exit": to_builtins(diagnosis.exit),
        "evidence": to_builtins(diagnosis.evidence),
        "cascade": [_cascade(item) for item in diagnosis.cascade],
        "others": to_builtins(diagnosis.others),
        "reasons": diagnosis.reasons,
        "fixes": to_builtins(diagnosis.fixes),
        "verify": diagnosis.verify,
        "retry": _retry(diagnosis.retry),
        "facts": {**dict.fromkeys(_FACTS), **diagnosis.facts},
        "coverage": to_builtins(diagnosis.coverage),
        "ranks": to_builtins(diagnosis.ranks),
        "extent": _extent(diagnosis.extent),
        "job": {name: getattr(diagnosis.job, name) for name in _JOB},
    }
    del contract["first_failure"]["telling"]
    return {key: _plain(value) for key, value in contract.items()}


def _retry(retry: Retry | None) -> dict[str, Any]:
    """What is not known is null, as everywhere."""
    if retry is None:
        return {"advice": None, "why": None, "exclude_nodes": []}
    return {**to_builtins(retry), "advice": None if retry.advice == "unknown" else retry.advice}


def render(diagnosis: Diagnosis) -> str:
    """One JSON object. ASCII only, so that no terminal, locale or parser can trip over it."""
    return json.dumps(to_dict(diagnosis), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _extent(reached: Extent) -> dict[str, Any]:
    listed = ranges(reached.ranks)
    return {"failed": len(reached.ranks) or None, "of": reached.of, "ranks": listed or None, "nodes": reached.nodes}


def _cascade(item: Cascade) -> dict[str, Any]:
    return {
        "cause": item.cause,
        "title": item.title or None,
        "ranks": item.ranks,
        "count": item.count,
        "delay": item.delay,
        "first": {"file": item.file, "line": item.line, "time": item.time, "clock": item.clock},
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
