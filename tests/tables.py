"""Tables of tests that are data alone: each is a YAML file beside its test."""

from pathlib import Path
from typing import Any

import yaml


def table(name: str) -> dict[str, Any]:
    text = (Path(__file__).parent / f"{name}.yaml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text))
