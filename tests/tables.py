"""Tables of tests that are data alone: each is a YAML file beside its test."""

from pathlib import Path
from typing import Any

import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Tests read a megabyte of YAML in each process: in Python it takes seconds."""


def parsed(text: str | bytes) -> Any:
    return yaml.load(text, Loader=LOADER)


def table(name: str) -> dict[str, Any]:
    text = (Path(__file__).parent / f"{name}.yaml").read_text(encoding="utf-8")
    return dict(parsed(text))
