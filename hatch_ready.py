"""Makes what the first start after an installation would have to: reads the rules, chooses the words, compiles the patterns.

usage: hatch_ready.py FOLDER, with the slurmdoctor for which it is on the path, and an empty folder as XDG_CACHE_HOME. FOLDER gets the
files as the user's cache holds them, under the same names. `hatch_build.py` runs it.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from pathlib import Path

from regex import _regex_core

from slurmdoctor.input import paste
from slurmdoctor.input.sources import Text
from slurmdoctor.knowledge import builtin, load
from slurmdoctor.pipeline import examine
from slurmdoctor.report import json, markdown, slack, text
from slurmdoctor.report.redact import Redactor
from slurmdoctor.search import compiled, regex_internals


def _hash(node: _regex_core.RegexBase) -> int:
    """By the name of its class: by its address, as `regex` does, sets come in another order in each run."""
    key = node._key if isinstance(node._key, tuple) else ()
    return hash((type(node).__name__, *key[1:]))


_regex_core.RegexBase.__hash__ = _hash

known = load((builtin(),))
lines = [line for rule in known.rules for line in rule.match[:1]] + ["KeyError: 'api_token=0123456789abcdef'"]
# a line of every rule, and one to be masked, so that all readers and reports use their patterns, and pastes of some for those that mend pastes
for log in (
    "\n".join(f"{n % 8}: [rank{n % 8}]: {line}" for n, line in enumerate(lines)),
    "\n> ".join(lines[:60]),
    " ".join(lines[:20]),
):
    sources, _ = paste.unwrap([Text.source(log)], known)
    said = Redactor("default").apply(examine(sources, known))
    text.render(said, width=80, colour=False)
    for form in (json, markdown, slack):
        form.render(said)

# what a run imports only where it needs it has patterns, too
for room in ("input", "ranks", "readers", "timeline", "infer", "slurm", "report"):
    package = importlib.import_module(f"slurmdoctor.{room}")
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)

tables = (
    known.rules,
    *(getattr(known, name) for name in known.__struct_fields__ if name not in ("causes", "digit_sensitive")),
)
fields = ("regex", "pattern", "near", "writer", "behind")
patterns = {getattr(entry, field, "") for table in tables for entry in table for field in fields}
for pattern in sorted(patterns | set(compiled.LAZY)):
    compiled.compiled(pattern)
regex_internals._write(os.getpid())
folder = Path(sys.argv[1])
folder.mkdir()
for file in sorted(Path(os.environ["XDG_CACHE_HOME"], "slurmdoctor").iterdir()):
    (folder / file.name).write_bytes(file.read_bytes())  # for all to read, as the cache's are not
