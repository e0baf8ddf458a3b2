"""The one way to the rules: `load(folders)`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from slurmdoctor.knowledge import cache as kept
from slurmdoctor.model import Knowledge
from slurmdoctor.search.shapes import digit_sensitive

_loaded: dict[tuple[str, bool], Knowledge] = {}
"""By what they were read from, and whether with examples: rules are loaded once a process. Several threads may load the same at once, to no harm."""


def load(folders: Sequence[Path], *, cache: bool = True, examples: bool = True) -> Knowledge:
    """The knowledge in these folders. Raises a RuleError that lists all mistakes, where there are any.

    The first folder is ours; later ones add to it, override it, or silence parts of it. A diagnosis does without the
    `examples`, the lines that prove the rules: they are more than half of what there is to read.
    """
    key = kept.key(folders) if cache else None
    if key and (known := _loaded.get((key, examples)) or kept.get(key, examples)):
        return _loaded.setdefault((key, examples), known)
    from slurmdoctor.knowledge.read import read  # imports yaml, which a warm cache spares us

    loaded = read(folders)
    if loaded.problems:
        from slurmdoctor.knowledge.problems import RuleError

        raise RuleError(loaded.problems)
    knowledge = replace(loaded.knowledge, digit_sensitive=digit_sensitive(loaded.knowledge))
    found = knowledge if examples else kept.without_examples(knowledge)
    if key:
        kept.put(key, knowledge)
        _loaded[key, examples] = found
    return found
