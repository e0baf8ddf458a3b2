"""What made a row: a digest of the rules in use and of the program."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from pathlib import Path

import slurmdoctor
from slurmdoctor.knowledge import data_of, folders, names


@cache
def version(rules: tuple[str, ...]) -> str:
    """The same wherever program and rules are the same."""
    package = Path(slurmdoctor.__file__).parent
    program = [str(path) for path in sorted(package.rglob("*.py"))]
    files = [*program, *(name for folder in folders(map(Path, rules)) for name in names(folder))]
    return sha256(b"\0".join((slurmdoctor.__version__.encode(), *_digests(files)))).hexdigest()[:16]


def _digests(files: Iterable[str]) -> Iterable[bytes]:
    return (sha256(data_of(name)).digest() for name in files)
