"""The JSON contract as a page, made from its schema: each key with its type, its meaning and an example."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from slurmdoctor import diagnose
from website.links import ROOT

SCHEMA = ROOT / "src/slurmdoctor/report/schema.json"
_EXAMPLES = (
    "demo-cascade",
    "fatal-segfault-torchrun-r1",
    "nan-two-agents-tee",
    "every-second-rank-r5",
    "node-failed-d6",
)
_LONGEST = 90

_INTRODUCTION = """\
# The JSON contract

```console
$ slurmdoctor diagnose tests/fixtures/demo-cascade --format json
```

{about}

Made from [the schema](../src/slurmdoctor/report/schema.json) (JSON Schema 2020-12), with examples from real runs.
A value that may be missing is `null`; a list that may be is `[]`.
"""


def markdown(schema: dict[str, Any], examples: list[dict[str, Any]]) -> str:
    lines = [_INTRODUCTION.format(about=schema["description"]), *_chapter("", schema, examples)]
    return "\n".join(lines).rstrip() + "\n"


def schema() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(SCHEMA.read_text())
    return loaded


def keys(schema: dict[str, Any], path: str = "") -> dict[str, str]:
    """Every key by its path, with its description."""
    found: dict[str, str] = {}
    for key, value in schema["properties"].items():
        inner = _object(value)
        found[f"{path}{key}"] = value.get("description", "") or (inner or {}).get("description", "")
        found |= keys(inner, f"{_path(path, key, value)}.") if inner else {}
    return found


def page() -> str:
    """The page, with examples from logs of the tests."""
    runs = (json.dumps(diagnose(ROOT / "tests/fixtures" / name).to_dict()) for name in _EXAMPLES)
    return markdown(schema(), [json.loads(run.replace(f"{ROOT}/", "")) for run in runs])


def _chapter(path: str, schema: dict[str, Any], examples: list[Any]) -> Iterator[str]:
    """A table of an object's keys, and below it a chapter for each key that is an object itself."""
    if path:
        yield f"\n## `{path}`\n"
        yield _plain(schema.get("description", "")) + "\n"
    yield "| key | type | meaning | example |"
    yield "|---|---|---|---|"
    properties: dict[str, Any] = schema["properties"]
    for key, value in properties.items():
        inner = _object(value)
        named = f"[`{key}`](#{_path(path, key, value).replace('.', '').replace('[]', '')})" if inner else f"`{key}`"
        meaning = value.get("description", "") or (inner or {}).get("description", "")
        yield f"| {named} | {_type(value)} | {_plain(meaning)} | {_example(key, value, examples)} |"
    for key, value in properties.items():
        if inner := _object(value):
            yield from _chapter(_path(path, key, value), inner, list(_inside(key, examples)))


def _path(path: str, key: str, value: dict[str, Any]) -> str:
    return f"{path}{'.' * (path[-1:] not in ('', '.'))}{key}{'[]' * (value.get('type') == 'array')}"


def _object(value: dict[str, Any]) -> dict[str, Any] | None:
    """The object that a key holds, or its list holds, where its keys are described."""
    if "properties" in value:
        return value
    items = value.get("items", {})
    return items if "properties" in items else None


def _inside(key: str, examples: list[Any]) -> Iterator[Any]:
    for one in examples:
        found = one.get(key)
        yield from found if isinstance(found, list) else [found] if found else []


def _type(value: dict[str, Any]) -> str:
    if "const" in value:
        return f"`{json.dumps(value['const'])}`"
    if "enum" in value:
        return ", ".join(f"`{json.dumps(one)}`" for one in value["enum"])
    named = value.get("type", "any")
    kinds = [named] if isinstance(named, str) else named
    if kinds == ["array"]:
        return f"list of {_type(value.get('items', {}))}s"
    return " or ".join(kinds)


def _example(key: str, value: dict[str, Any], examples: list[Any]) -> str:
    """The first example that is not empty."""
    if _object(value) or "const" in value:
        return ""
    found = next((one[key] for one in examples if one.get(key) not in (None, [], {})), None)
    if found is None:
        return ""
    shown = json.dumps(found, ensure_ascii=False)
    shown = shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"
    return f"`` {shown} ``".replace("|", r"\|")


def _plain(text: str) -> str:
    """Text for a table; what is in backquotes is unchanged."""
    parts = text.replace("|", r"\|").split("`")
    return "`".join(part if at % 2 else part.replace("<", "&lt;") for at, part in enumerate(parts))
