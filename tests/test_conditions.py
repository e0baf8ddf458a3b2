"""Each row of `conditions/` is a job in which one condition alone decides: without it, the program would answer otherwise.

A row gives the job's files, what is called (by default `diagnose` with all files that no option names), and what must come out: values in
the JSON by their path (`*` takes every item of a list), words that the text must and must not say, and the exit status.
"""

import json
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from msgspec import convert
from msgspec.json import encode

from cases import inside, run
from tables import parsed

CALLS = parsed((Path(__file__).parent / "conditions" / "calls.yaml").read_text())
"""Functions, and what they give for what they are given, as JSON has it."""
ROWS = [
    pytest.param(row, id=f"{file.stem}: {row['promise']}")
    for file in sorted((Path(__file__).parent / "conditions").glob("*.yaml"))
    for row in parsed(file.read_text())
    if file.stem != "calls"
]


@pytest.mark.parametrize("of", CALLS)
def test_a_function_gives_for_what_it_is_given(of: str) -> None:
    module, _, name = of.rpartition(".")
    function = getattr(import_module(f"slurmdoctor.{module}"), name)
    kinds = list(get_type_hints(function).values())
    for given, wanted in CALLS[of]:
        arguments = [one if one is None else convert(one, kind) for one, kind in zip(given, kinds, strict=False)]
        assert json.loads(encode(function(*arguments))) == wanted, given


@pytest.mark.parametrize("row", ROWS)
def test_one_condition_decides(row: dict[str, Any], tmp_path: Path) -> None:
    files = {"job.log": row["log"]} if "log" in row else row["files"]
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    options = [str(word) for word in row.get("options", ())]
    call = row.get("call") or ["diagnose", *(name for name in files if name not in options), *options]
    with inside(tmp_path):
        data = run(*call, "--format", "json") if "then" in row else None
        text = run(*call) if data is None or {"says", "never"} & row.keys() else data
    assert text.returncode == row.get("status", 0), text.stderr.decode()
    if data is not None:
        found = json.loads(data.stdout)
        assert {path: at(found, path) for path in row["then"]} == row["then"]
    printed = " ".join((text.stdout + text.stderr).decode().split())
    assert [words for words in row.get("says", ()) if words not in printed] == [], printed
    assert [words for words in row.get("never", ()) if words in printed] == [], printed


def at(found: Any, path: str) -> Any:
    """What stands at a path like `evidence.*.line`; None where nothing does."""
    head, _, rest = path.partition(".")
    if head == "*":
        return [at(one, rest) if rest else one for one in found]
    if isinstance(found, list):
        inner = found[int(head)] if int(head) < len(found) else None
    else:
        inner = (found or {}).get(head)
    return at(inner, rest) if rest and inner is not None else inner
