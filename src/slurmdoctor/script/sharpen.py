"""What the script adds to a diagnosis: sizes that the log does not tell, and the line to change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurmdoctor.model import Diagnosis
from slurmdoctor.script.model import Script


def facts(script: Script, known: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of the script that the log does not tell."""
    return {}


def sharpen(diagnosis: Diagnosis, script: Script) -> Diagnosis:
    """Prove the cause by the script where it can, and name the line to change first."""
    return diagnosis
