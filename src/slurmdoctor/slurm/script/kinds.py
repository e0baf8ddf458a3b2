"""What kind of file was handed in: a shell's script, or something whose commands no shell reads."""

from __future__ import annotations

import re

_SHELL = re.compile(r"#!\s*\S*?(?:/|\benv\s+(?:-\S+\s+)*)(?:ba|z|k|da|a)?sh\b")
_PYTHON = re.compile(r"#!.*\bpython[\d.]*\b")
_SHEBANG = re.compile(r"#!\s*(?:\S*/env\s+(?:-\S+\s+)*)?(?:\S*/)?(\S+)")
_ENDINGS = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".json": "json", ".toml": "toml", ".ipynb": "json"}
_NAMES = {"python": "Python", "yaml": "YAML", "json": "JSON", "toml": "TOML"}


def of(text: str, name: str = "") -> tuple[str, str]:
    """The kind, and the language of a file whose commands are not read; "" for a shell's script."""
    first = text.lstrip("\ufeff").split("\n", 1)[0]
    if first.startswith("#!"):
        if _SHELL.match(first):
            return "bash", ""
        if _PYTHON.match(first):
            return "python", _NAMES["python"]
        found = _SHEBANG.match(first)
        program = found[1] if found else first
        return program, program
    kind = _ENDINGS.get("." + name.rpartition(".")[2].lower(), "") if "." in name else ""
    if not kind and re.search(r"^slurm:[ \t]*(?:#.*)?$", text, re.M) and not re.search(r"^#SBATCH", text, re.M):
        kind = "yaml"
    return (kind, _NAMES[kind]) if kind else ("bash", "")
