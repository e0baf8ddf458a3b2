"""The columns of a survey's dataset as a page, made from the types of a row."""

from __future__ import annotations

from slurmdoctor.survey.dataset import schema
from slurmdoctor.survey.rows import Row

_INTRODUCTION = """\
# The columns of a survey

`slurmdoctor survey` writes one row per job into `DIR/jobs/month=YYYY-MM/jobs.parquet`. [What it is for](survey.md).
Times are local to the cluster, without a zone, as Slurm prints them. A column that may be empty is marked.
`schema_version` grows with each change of a column that is there. New columns come last.

| column | type | may be empty | meaning |
|---|---|---|---|
"""

_WORDS = {
    "string": "text",
    "int64": "whole number",
    "double": "number",
    "timestamp[us]": "time",
    "list<element: string>": "list of texts",
    "list<item: string>": "list of texts",
}


def page() -> str:
    """A line per column."""
    optional = {name for name in Row.__struct_fields__ if getattr(Row(key="", fingerprint=""), name) is None}
    rows = []
    for field in schema():
        meaning = field.metadata[b"description"].decode().replace("|", "\\|")
        empty = "yes" if field.name in optional else ""
        rows.append(f"| `{field.name}` | {_WORDS[str(field.type)]} | {empty} | {meaning} |")
    return _INTRODUCTION + "\n".join(rows) + "\n"
