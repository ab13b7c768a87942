"""A query whose names are words that engines may read as more than names."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from cdc_views.sql.dialects import dialect
from cdc_views.sql.dialects.keywords import KEYWORDS
from cdc_views.sql.dialects.writing import identifier, number

OURS = [
    "written", "rank", "value", "bytes", "path", "key", "cells", "deletion", "size", "inclusive", "_live", "_deleted", "_kind",
    "id", "name", "date", "text", "l", "r", "orders",
]  # fmt: skip
"""Names of stored fields, and names that tables often have."""
_NAMED_FIELDS = ("duckdb", "spark", "bigquery")
"""Dialects that name the fields of a struct in any expression."""


def in_groups(own: Iterable[str], *, size: int = 10) -> list[list[str]]:
    """Return our keywords, usual names and an engine's `own` keywords, in groups of at most `size`."""
    words = sorted({*KEYWORDS, *OURS, *(word.lower() for word in own)})
    return [words[i : i + size] for i in range(0, len(words), size)]


def statement(words: list[str], name: str) -> str:
    """Return a query with each word as a column, its alias and a group's key; the first is also a table and a struct's field."""
    target, table, alias, field = dialect(name), words[0], f"{words[-1]}_", words[0]
    columns = [exp.alias_(number(i), identifier(word)) for i, word in enumerate(words)]
    if name in _NAMED_FIELDS:
        struct = target.struct([(word, number(i)) for i, word in enumerate(words)])
        columns.append(exp.alias_(struct, identifier("_struct")))
    read = [exp.column(identifier(word)) for word in words]
    shown = [exp.alias_(column, identifier(word)) for column, word in zip(read, words, strict=True)]
    if name in _NAMED_FIELDS:
        place = exp.Dot(this=exp.column(identifier("_struct")), expression=identifier(field))
        shown.append(exp.alias_(exp.func("MAX", place), identifier("_field")))
    source = exp.alias_(exp.Table(this=identifier(table)), identifier(alias), table=True)
    query = exp.select(*shown).from_(source).group_by(*(column.copy() for column in read))
    return query.with_(identifier(table), as_=exp.select(*columns)).sql(dialect=target.sqlglot_name)


def answer(words: list[str], name: str) -> dict[str, int]:
    """Return the one row of `statement`."""
    return {word: i for i, word in enumerate(words)} | ({"_field": 0} if name in _NAMED_FIELDS else {})
