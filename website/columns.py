"""The columns of a survey's dataset as a page, made from the types of a row."""

from __future__ import annotations

from slurmdoctor.survey.dataset import columns

_INTRODUCTION = """\
# The columns of a survey

`slurmdoctor survey` writes one row per job into `DIR/jobs/month=YYYY-MM/jobs.parquet`. [What it is for](survey.md).
Times are local to the cluster, without a zone, as Slurm prints them. A column that may be empty is marked.
`schema_version` grows with each change of a column that is there. New columns come last.

| column | type | may be empty | meaning |
|---|---|---|---|
"""


def page() -> str:
    """A line per column."""
    rows = (
        f"| `{one.name}` | {one.kind} | {'yes' if one.optional else ''} | {one.meaning.replace('|', chr(92) + '|')} |"
        for one in columns()
    )
    return _INTRODUCTION + "\n".join(rows) + "\n"
