"""The one way to the rules: `load(folders)`, and by name the texts that come with the program: `text("python-frame")`.

Parsed rules come with the wheel, or are kept in the user's cache: a diagnosis need not read fifty YAML files again. The key is
the text of every rule file, with the version of slurmdoctor; in a clone, whose program changes under one version, with the
program's text as well. What is kept is read back by its types, so that odd content counts as none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache as once, lru_cache
from threading import RLock
from time import monotonic
from typing import TYPE_CHECKING, TypeVar
from zlib import compress, crc32, decompress, error

from msgspec import DecodeError, Struct, msgpack
from msgspec.structs import asdict, replace

from slurmdoctor import __version__
from slurmdoctor.knowledge import paths
from slurmdoctor.knowledge.paths import APath, data_of, names
from slurmdoctor.matching import bounded, get as usercache_get, lazily, name_for, put as usercache_put
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
from slurmdoctor.search import digit_sensitive

if TYPE_CHECKING:
    import regex

Made = TypeVar("Made", bound=Struct)
_around: Callable[[], AbstractContextManager[object]] = nullcontext
_loaded: dict[tuple[str, bool], Knowledge] = {}
"""By what they were read from, and whether with examples: rules are loaded once a process."""
_one_at_a_time = RLock()
"""msgspec crashes where two threads learn a type for the first time."""
_latest: dict[tuple[APath, ...], Knowledge] = {}
"""What these folders held when they were last loaded."""
FRESH = 1.0
"""Seconds in which rule files are not looked at again."""


def load(folders: Sequence[APath], *, cache: bool = True, examples: bool = True) -> Knowledge:
    """The knowledge in these folders. Raises a RuleError that lists all mistakes, where there are any.

    The first folder is ours; later ones add to it, override it, or silence parts of it. A diagnosis does without the
    `examples`, the lines that prove the rules: they are more than half of what there is to read.
    """
    with _one_at_a_time:
        key = cache_key(folders) if cache else None
        found = key and (_loaded.get((key, examples)) or kept(key, examples))
        if not found:
            with _around():
                knowledge = _read(folders)
            found = knowledge if examples else _without_examples(knowledge)
            if key and key == cache_key(folders):  # else they were changed meanwhile
                keep(key, knowledge)
        if key:
            found = _loaded.setdefault((key, examples), found)
            _latest[tuple(folders)] = found
        return found


def current(extra: Iterable[APath] = ()) -> Knowledge:
    """The knowledge in the usual folders and these, without the examples, as the files are or were `FRESH` seconds ago.

    Who diagnoses one job after the other in one process need not open a hundred files for each.
    """
    return _at(monotonic() // FRESH, tuple(extra), paths.named_by())


@lru_cache(maxsize=1)  # of many folders in turn none comes again
def _at(moment: float, extra: tuple[APath, ...], named_by: tuple[str, ...]) -> Knowledge:
    return load(paths.folders(extra), examples=False)


def announce(around: Callable[[], AbstractContextManager[object]]) -> None:
    """Surround the reading of rule files, where no cache has them, by this: it takes seconds, and a person waits."""
    global _around
    _around = around


def loaded(folders: Sequence[APath]) -> Knowledge:
    """The same as `load` gave last, even where the files have changed since."""
    return _latest.get(tuple(folders)) or load(folders, examples=False)


def _read(folders: Sequence[APath]) -> Knowledge:
    from slurmdoctor.knowledge.rule_reader import read  # imports yaml, which kept rules spare us

    found = read(folders)
    if found.problems:
        from slurmdoctor.knowledge.problems import RuleError

        raise RuleError(found.problems)
    known = found.knowledge
    formats = tuple(replace(form, begins=_beginnings(form.pattern)) for form in known.formats)
    return replace(known, formats=formats, digit_sensitive=digit_sensitive(known))


def _beginnings(pattern: str) -> str:
    """The usual characters with which a text may begin that the pattern takes."""
    match = bounded(pattern).match
    return "".join(first for first in LineFormat.USUAL if match(first, partial=True))


# ── what is kept between runs ────────────────────────────────────────────────────────────────

_KINDS = (Knowledge, Cause, Rule, Derived, Fix, LineFormat, RankLine, Signal, ExitFormat, Text, SecretKind)
_SHAPE = repr([kind.__struct_fields__ for kind in _KINDS])
_PACKAGE = os.path.realpath(__file__).rsplit("/", 2)[0]
_MADE_BY = ("knowledge", "model/knowledge.py", "model/words.py", "search/shapes.py")
"""What makes knowledge of rule files."""


def cache_key(folders: Sequence[APath]) -> str | None:
    """What the rules depend on; None where a file cannot be looked at, or is none."""
    parts = [__version__, _SHAPE]
    try:
        for folder in folders:
            parts += ["", *_texts(folder)]
            if os.fspath(folder) == f"{_PACKAGE.removesuffix('src/slurmdoctor')}rules":
                parts += [part for name in _MADE_BY for part in _texts(f"{_PACKAGE}/{name}", ".py")]
    except OSError:
        return None
    return name_for("\n".join(parts).encode("utf-8", "surrogateescape"))


def kept(key: str, examples: bool = True) -> Knowledge | None:
    with suppress(DecodeError, RecursionError, error):
        kept = usercache_get(_file(key, examples)) or b""
        return msgpack.decode(decompress(kept) if examples else kept, type=Knowledge)
    return None


def keep(key: str, knowledge: Knowledge) -> None:
    for examples in (True, False):
        kept = knowledge if examples else _without_examples(knowledge)
        text = msgpack.encode(kept, order="deterministic")
        # only the commands that prove rules read the examples: there a megabyte on disk weighs more than ten milliseconds
        usercache_put(_file(key, examples), compress(text) if examples else text)


def _without_examples(knowledge: Knowledge) -> Knowledge:
    """The same without the lines that prove it."""

    def bare(entries: Iterable[Made]) -> tuple[Made, ...]:
        proofs = ("match", "samples", "no_match")
        return tuple(replace(one, **{key: () for key in proofs if hasattr(one, key)}) for one in entries)

    causes = {name: replace(cause, rules=bare(cause.rules)) for name, cause in knowledge.causes.items()}
    tables = {key: bare(value) for key, value in asdict(knowledge).items() if isinstance(value, tuple)}
    return replace(knowledge, causes=causes, **tables)


def _file(key: str, examples: bool) -> str:
    return f"{key}.{'rules' if examples else 'bare'}"


def _texts(folder: APath, suffix: str = "") -> Iterator[str]:
    """Name, length and checksum of each rule file, or of each file with this suffix."""
    top = os.fspath(folder)
    files = names(top)
    if suffix and os.path.isdir(top):  # noqa: PTH112
        files = [f"{top}/{name}" for name in sorted(os.listdir(top)) if name.endswith(suffix)]  # noqa: PTH208
    for name in files:
        data = data_of(name)
        yield f"{name[len(top) :]}\0{len(data)}\0{crc32(data):x}"


# ── by name ──────────────────────────────────────────────────────────────────────────────────


@once
def secret_kinds() -> tuple[SecretKind, ...]:
    """The kinds of secrets that come with the program, the most telling first; `Knowledge.secrets` has a site's own too."""
    return loaded((paths.builtin(),)).secrets


def text(name: str) -> regex.Pattern[str]:
    """The pattern of this name, read when it is first used, and compiled when a text holds one of its literals."""

    def entry() -> tuple[str, tuple[str, ...]]:
        one = _by_name()[name]
        return one.pattern, one.literals

    return lazily(entry)


def literals(name: str) -> tuple[bytes, ...]:
    """What the search looks for to find this text."""
    return tuple(literal.encode() for literal in _by_name()[name].literals)


@once
def _by_name() -> Mapping[str, Text]:
    """The texts by name. They come with the program: a site's rule files cannot change them."""
    return {entry.id: entry for entry in loaded((paths.builtin(),)).texts}
