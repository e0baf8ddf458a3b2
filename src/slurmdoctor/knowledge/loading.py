"""The one way to the rules: `load(folders)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from threading import RLock
from time import monotonic

from msgspec.structs import replace

from slurmdoctor.knowledge import cache as kept, paths
from slurmdoctor.matching import bounded
from slurmdoctor.model import Knowledge, LineFormat
from slurmdoctor.search import digit_sensitive

_around: Callable[[], AbstractContextManager[object]] = nullcontext
_loaded: dict[tuple[str, bool], Knowledge] = {}
"""By what they were read from, and whether with examples: rules are loaded once a process."""
_one_at_a_time = RLock()
"""msgspec crashes where two threads learn a type for the first time."""
_latest: dict[tuple[Path, ...], Knowledge] = {}
"""What these folders held when they were last loaded."""
FRESH = 1.0
"""Seconds in which rule files are not looked at again."""
_current: dict[tuple[tuple[Path, ...], tuple[str, ...]], tuple[float, Knowledge]] = {}
"""When it was looked at, and what it was."""


def load(folders: Sequence[Path], *, cache: bool = True, examples: bool = True) -> Knowledge:
    """The knowledge in these folders. Raises a RuleError that lists all mistakes, where there are any.

    The first folder is ours; later ones add to it, override it, or silence parts of it. A diagnosis does without the
    `examples`, the lines that prove the rules: they are more than half of what there is to read.
    """
    with _one_at_a_time:
        return _load(folders, cache, examples)


def _load(folders: Sequence[Path], cache: bool, examples: bool) -> Knowledge:
    key = kept.key(folders) if cache else None
    found = key and (_loaded.get((key, examples)) or kept.get(key, examples))
    if not found:
        with _around():
            knowledge = _read(folders)
        found = knowledge if examples else kept.without_examples(knowledge)
        if key and key == kept.key(folders):  # else they were changed meanwhile
            kept.put(key, knowledge)
    if key:
        found = _loaded.setdefault((key, examples), found)
        _latest[tuple(folders)] = found
    return found


def current(extra: Iterable[Path] = ()) -> Knowledge:
    """The knowledge in the usual folders and these, without the examples, as the files are or were `FRESH` seconds ago.

    Who diagnoses one job after the other in one process need not open a hundred files for each.
    """
    extra = tuple(extra)
    key = (extra, paths.named_by())
    seen, found = _current.get(key, (-FRESH, None))
    now = monotonic()
    if found is None or now - seen >= FRESH:
        found = load(paths.folders(extra), examples=False)
        _current.clear()  # of many folders in turn none comes again
        _current[key] = now, found
    return found


def announce(around: Callable[[], AbstractContextManager[object]]) -> None:
    """Surround the reading of rule files, where no cache has them, by this: it takes seconds, and a person waits."""
    global _around
    _around = around


def loaded(folders: Sequence[Path]) -> Knowledge:
    """The same as `load` gave last, whatever has happened to the files since."""
    return _latest.get(tuple(folders)) or load(folders, examples=False)


def _read(folders: Sequence[Path]) -> Knowledge:
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
