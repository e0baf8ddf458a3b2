"""A recipe of NeMo AutoModel, whose `slurm:` section stands for a batch script: its settings, and what is wrong with them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from slurmdoctor.slurm.script.finds.subject import Occurrence, Subject

if TYPE_CHECKING:
    from yaml import Node

_MOST, _DEEPEST = 5_000, 8
"""Settings that are read, and how deep they lie."""
SECTION = "slurm"
_TEMPLATE = re.compile(r"\{\{\s*[\w.-]+\s*\}\}")


def settings(text: str) -> dict[str, tuple[str, int]]:
    """Dotted name -> its value and line: `slurm.nodes`, `slurm.extra_mounts.0`. Nothing without a `slurm:` section."""
    import yaml  # here: hardly any diagnosis has a script

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    found: dict[str, tuple[str, int]] = {}
    for name, value, line in _scalars(root, "", 0) if root else ():
        if len(found) >= _MOST:
            break
        found[name] = (value, line)
    return found if any(name.startswith(f"{SECTION}.") for name in found) else {}


def _scalars(node: Node, name: str, depth: int) -> Iterator[tuple[str, str, int]]:
    import yaml

    if isinstance(node, yaml.ScalarNode):
        yield name, str(node.value), node.start_mark.line + 1
    elif depth < _DEEPEST and isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _scalars(value, f"{name}.{key.value}".lstrip("."), depth + 1)
    elif depth < _DEEPEST and isinstance(node, yaml.SequenceNode):
        for at, value in enumerate(node.value):
            yield from _scalars(value, f"{name}.{at}", depth + 1)


def mounts(subject: Subject) -> Iterator[Occurrence]:
    """`extra_mounts: ["shared/data:/data"]`: a mount is `source:target`, both from the root."""
    for name, (value, line) in subject.script.settings.items():
        if re.fullmatch(rf"{SECTION}\.extra_mounts(?:\.\d+)?", name) and not _TEMPLATE.search(value):
            parts = value.split(":")
            if len(parts) != 2 or not all(part.startswith(("/", "$", "~")) for part in parts):
                yield Occurrence(line, {"mount": value})


def templates(subject: Subject) -> Iterator[Occurrence]:
    """`nodes: "{{ node_count }}"`: what a template leaves to be filled in."""
    for value, line in subject.script.settings.values():
        if found := _TEMPLATE.search(value):
            yield Occurrence(line, {"name": found[0]})
