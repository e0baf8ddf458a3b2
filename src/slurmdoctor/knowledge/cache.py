"""The parsed rules, as the wheel brings them or the user's cache keeps them: a diagnosis need not read fifty YAML files again.

The key is the text of every rule file, with the version of slurmdoctor; in a clone, whose program changes under one version, with
the program's text as well. What is kept is read back by its types, so that odd content counts as none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from zlib import compress, crc32, decompress, error

from msgspec import DecodeError, msgpack
from msgspec.structs import replace

from slurmdoctor import __version__
from slurmdoctor.knowledge.paths import data_of, names
from slurmdoctor.matching import get as usercache_get, name_for, put as usercache_put
from slurmdoctor.model import (
    Cause,
    Derived,
    ExitFormat,
    Fix,
    Knowledge,
    LineFormat,
    RankLine,
    Rule,
    SecretKind,
    Signal,
    Text,
)

_KINDS = (Knowledge, Cause, Rule, Derived, Fix, LineFormat, RankLine, Signal, ExitFormat, Text, SecretKind)
_SHAPE = repr([kind.__struct_fields__ for kind in _KINDS])
_PACKAGE = Path(__file__).parents[1]
_MADE_BY = ("knowledge", "model/knowledge.py", "model/words.py", "search/shapes.py")
"""What makes knowledge of rule files."""


def key(folders: Sequence[Path]) -> str | None:
    """What the rules depend on; None where a file cannot be looked at, or is none."""
    parts = [__version__, _SHAPE]
    try:
        for folder in folders:
            parts += ["", *_texts(folder)]
            if folder == _PACKAGE.parents[1] / "rules":
                parts += [part for name in _MADE_BY for part in _texts(_PACKAGE / name, ".py")]
    except OSError:
        return None
    return name_for("\n".join(parts).encode("utf-8", "surrogateescape"))


def get(key: str, examples: bool = True) -> Knowledge | None:
    with suppress(DecodeError, RecursionError, error):
        kept = usercache_get(_file(key, examples)) or b""
        return msgpack.decode(decompress(kept) if examples else kept, type=Knowledge)
    return None


def put(key: str, knowledge: Knowledge) -> None:
    for examples in (True, False):
        kept = knowledge if examples else without_examples(knowledge)
        text = msgpack.encode(kept, order="deterministic")
        # only the commands that prove rules read the examples: there a megabyte on disk weighs more than ten milliseconds
        usercache_put(_file(key, examples), compress(text) if examples else text)


def without_examples(knowledge: Knowledge) -> Knowledge:
    """The same without the lines that prove it."""
    causes = {
        name: replace(cause, rules=tuple(replace(rule, match=(), no_match=()) for rule in cause.rules))
        for name, cause in knowledge.causes.items()
    }
    tables = {}
    for name in ("formats", "signals", "paths", "rank_lines", "exit_reports", "texts", "secrets"):
        none = {"match" if name in ("signals", "secrets") else "samples": (), "no_match": ()}
        tables[name] = tuple(replace(entry, **none) for entry in getattr(knowledge, name))
    return replace(knowledge, causes=causes, **tables)


def _file(key: str, examples: bool) -> str:
    return f"{key}.{'rules' if examples else 'bare'}"


def _texts(folder: Path, suffix: str = "") -> Iterator[str]:
    """Name, length and checksum of each rule file, or of each file with this suffix."""
    for name in sorted(map(str, folder.glob(f"*{suffix}"))) if suffix and folder.is_dir() else names(folder):
        data = data_of(name)
        yield f"{name[len(str(folder)) :]}\0{len(data)}\0{crc32(data):x}"
