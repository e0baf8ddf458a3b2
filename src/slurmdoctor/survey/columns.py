"""Rows as columns: the Parquet schema, derived from `Row`, and the rows in its form."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pyarrow as pa
from msgspec import Meta, Struct

from slurmdoctor.model import UserError
from slurmdoctor.survey.rows import SCHEMA_VERSION, Row

_ARROW: dict[Any, tuple[Any, str]] = {
    str: (pa.string(), "text"),
    int: (pa.int64(), "whole number"),
    float: (pa.float64(), "number"),
    datetime: (pa.timestamp("us"), "time"),
    tuple: (pa.list_(pa.string()), "list of texts"),
}
_VERSION = b"slurmdoctor.schema_version"
_LARGEST = 2**63


class Column(Struct, frozen=True):
    """One column of the dataset."""

    name: str
    arrow: Any
    kind: str
    """Its type in words."""
    optional: bool
    meaning: str


@cache
def columns() -> tuple[Column, ...]:
    """All columns, in their order."""
    hints = get_type_hints(Row, include_extras=True)
    return tuple(_column(name, hints[name]) for name in Row.__struct_fields__)


@cache
def schema() -> Any:
    """The schema of every file of the dataset; each field says what it means."""
    fields = [pa.field(c.name, c.arrow, metadata={"description": c.meaning}) for c in columns()]
    return pa.schema(fields, metadata={_VERSION: str(SCHEMA_VERSION)})


def batch_of(rows: Sequence[Row]) -> Any:
    """The rows in the form of the files. What a column cannot hold is null, and text that is no Unicode is escaped."""
    arrays = []
    for column in columns():
        values = [getattr(row, column.name) for row in rows]
        try:
            arrays.append(pa.array(values, column.arrow))
        except (UnicodeEncodeError, OverflowError, pa.ArrowException):
            arrays.append(pa.array([_fit(value) for value in values], column.arrow))
    return pa.RecordBatch.from_arrays(arrays, schema=schema())


def conform(batch: Any) -> Any:
    """A batch of a file that an earlier version wrote, with the columns of today."""
    if batch.schema.names == schema().names:
        return pa.RecordBatch.from_arrays(batch.columns, schema=schema())
    held = dict(zip(batch.schema.names, batch.columns, strict=True))
    arrays = [held.get(c.name, pa.nulls(batch.num_rows, c.arrow)) for c in columns()]
    return pa.RecordBatch.from_arrays(arrays, schema=schema())


def check(found: Any, where: str) -> None:
    """Raise a UserError where a newer slurmdoctor wrote a file with this schema: its columns would be lost."""
    version = (found.metadata or {}).get(_VERSION, b"0")
    if not version.isdigit() or int(version) > SCHEMA_VERSION or set(found.names) - set(schema().names):
        raise UserError(f"{where} was written by a newer slurmdoctor", "update slurmdoctor, or name another --out")


def stored(text: str) -> str:
    """A text as the dataset holds it."""
    return text.encode("utf-8", "backslashreplace").decode()


def _fit(value: Any) -> Any:
    if isinstance(value, str):
        return stored(value)
    if isinstance(value, tuple):
        return [stored(text) for text in value]
    return None if isinstance(value, int) and not -_LARGEST <= value < _LARGEST else value


def _column(name: str, hint: Any) -> Column:
    kind, *metas = get_args(hint)
    meaning = next(meta.description for meta in metas if isinstance(meta, Meta))
    optional = get_origin(kind) in (Union, UnionType) and NoneType in get_args(kind)
    if optional:
        kind = next(one for one in get_args(kind) if one is not NoneType)
    plain = kind if kind in _ARROW else tuple if get_origin(kind) is tuple else str  # what is left is a choice of words
    arrow, words = _ARROW[plain]
    return Column(name, arrow, words, optional, meaning or "")
