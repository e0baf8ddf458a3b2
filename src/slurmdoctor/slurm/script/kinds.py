"""What kind of file was handed in: a shell's script, or something whose commands no shell reads."""

from __future__ import annotations

import re

_SHEBANG = re.compile(r"#!\s*(?:\S*/env\s+(?:-\S+\s+)*)?(?:\S*/)?([\w.+-]+)")
_DIRECTIVE = re.compile(r"^#SBATCH\b", re.MULTILINE)
_SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ksh", "ash"})
_ENDINGS = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".json": "json", ".toml": "toml", ".ipynb": "json"}
_NAMES = {"python": "Python", "yaml": "YAML", "json": "JSON", "toml": "TOML"}


def is_batch_script(text: str) -> bool:
    """Whether sbatch would take it for one: an `#SBATCH` line in a program, or among the comments at the top."""
    text = text.lstrip("\ufeff")
    top = re.match(r"(?:[ \t]*(?:#[^\n]*)?(?:\n|\Z))*", text)
    return _DIRECTIVE.search(text if text.startswith("#!") else top[0] if top else "") is not None


def is_no_text(text: str) -> bool:
    """Whether it is a program, a pickle or an image: no shell reads NUL, and what is no UTF-8 at all is no text."""
    start = text[:4096]
    return "\0" in text or start.count("\ufffd") > len(start) / 20


def of(text: str, name: str = "") -> tuple[str, str]:
    """The file's interpreter, and its language where no shell reads it: (`sh`, ``), (`python`, `Python`)."""
    if found := _SHEBANG.match(text):
        program = found[1].rstrip("0123456789.")
        return program, "" if program in _SHELLS else _NAMES.get(program, program)
    kind = _ENDINGS.get("." + name.rpartition(".")[2].lower(), "") if "." in name else ""
    if not kind and re.search(r"^slurm:[ \t]*(?:#.*)?$", text, re.M) and not re.search(r"^#SBATCH", text, re.M):
        kind = "yaml"
    return (kind, _NAMES[kind]) if kind else ("bash", "")
