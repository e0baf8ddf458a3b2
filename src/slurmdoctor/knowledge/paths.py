"""Where rule files lie: ours, the site's, the user's, and those named on the command line."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from slurmdoctor.model import UserError

SITE = Path("/etc/slurmdoctor/rules.d")
VARIABLE = "SLURMDOCTOR_RULES"
LINT = "lint"
"""The folder of checks of batch scripts: another format (`slurmdoctor.slurm.script.checks`)."""


def builtin() -> Path:
    """Our own rules: inside the wheel, or beside `src` in a clone (an editable install has no copy)."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "rules", package.parents[1] / "rules"):
        if (folder / "formats.yaml").is_file():
            return folder
    raise UserError(
        "slurmdoctor's own rules are missing", "install it again: pip install --force-reinstall slurmdoctor"
    )


def folders(extra: Iterable[Path] = ()) -> tuple[Path, ...]:
    """All rule folders in the order of reading: what comes later overrides what came before."""
    found = [builtin(), *(folder for folder in (SITE, _user()) if os.path.isdir(folder))]  # noqa: PTH112 - never raises
    for name in os.environ.get(VARIABLE, "").split(os.pathsep):
        if name:
            found.append(_named(Path(name).expanduser(), f"{VARIABLE} names"))
    found.extend(_named(Path(path), "--rules names") for path in extra)
    return tuple(dict.fromkeys(found))


def files(folder: Path) -> list[Path]:
    """The rule files of a folder, in a fixed order. A path to a file gives that file."""
    if folder.is_file():
        return [folder]
    found = []
    for where, inner, names in os.walk(folder):
        inner[:] = sorted(name for name in inner if not name.startswith(".") and name != LINT)
        found += [Path(where, name) for name in names if name.endswith((".yaml", ".yml")) and not name.startswith(".")]
    return sorted(found)


def _user() -> Path:
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(configured) if configured.startswith("/") else Path(os.path.expanduser("~/.config"))  # noqa: PTH111
    return base / "slurmdoctor" / "rules.d"


def _named(path: Path, who: str) -> Path:
    if not os.access(path, os.R_OK):
        state = "cannot be read" if os.path.lexists(path) else "is not there"
        raise UserError(f"{who} {path}, which {state}", "name a folder of rule files, or one file")
    return path
