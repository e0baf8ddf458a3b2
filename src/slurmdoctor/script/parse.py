"""bash → Script, with tree-sitter-bash."""

from __future__ import annotations

from slurmdoctor.script.model import Script


def parse(text: str, name: str = "script") -> Script:
    """The script, taken apart."""
    return Script(name, text, None)
