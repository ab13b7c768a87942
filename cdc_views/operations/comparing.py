"""Compares two reads of a table, cell by cell."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import duckdb
import pyarrow as pa

from cdc_views.engines.duckdb.types import quoted
from cdc_views.engines.exact import rows_of
from cdc_views.model.schema import Column, Role
from cdc_views.model.types import MapOf
from cdc_views.operations.explained import json_object
from cdc_views.plan.build import Ask, output_names
from cdc_views.plan.names import identity
from cdc_views.rules.codec.jsontext import to_json
from cdc_views.rules.oracle import Row, may_be_spelled_otherwise, one_spelling
from cdc_views.storage.relation import Relation

MOST_LISTED = 1_000
_Pair = tuple[int | None, int | None]
"""The row numbers of a key in both reads; None in a read without the key."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One differing cell, both values as JSON. For a row in one read only, `column` is empty, and so is `before` or `after`."""

    key: dict[str, str]
    column: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Counts of equal rows, changed rows, rows `gone` from the first read and `new` rows; and up to `MOST_LISTED` differences.

    `uncompared`: further rows, in buckets whose sums differ, that were too many to compare one by one.
    """

    equal: int
    changed: int
    gone: int
    new: int
    differences: tuple[Difference, ...]
    uncompared: int = 0

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs."""
        return not (self.changed or self.gone or self.new or self.uncompared)


def comparison_key(column: Column, value: Any) -> Hashable:
    """Return the identity of a value for comparisons; equal keys may be spelled differently (rule K1)."""
    spelled = one_spelling(column, value)
    if spelled is value:
        return to_json(column.type, value)
    if isinstance(column.type, MapOf) and column.role is not Role.CLUSTERING:
        return tuple((key, to_json(column.type.value, element)) for key, element in spelled)
    return cast(Hashable, spelled)


def compare(relation: Relation, before: pa.Table, after: pa.Table) -> Comparison:
    """Compare two reads of all columns in exact form with their keys' identities, in any order. Of a row key that a read has
    several times, as only a damaged state shows, each further row is compared with a further row of the other read.
    """
    names = dict(output_names(Ask(relation, is_exact=True)))
    keys = [names[column.name] for column in relation.schema.row_key]
    values = [name for column, name in names.items() if name not in keys]
    with duckdb.connect() as connection:
        connection.register("before_rows", _numbered(before))
        connection.register("after_rows", _numbered(after))
        unlike: pa.Table = connection.sql(_statement(relation, keys, values)).to_arrow_table()
    pairs = [(pair["b"], pair["a"]) for pair in unlike.to_pylist()]
    if any(may_be_spelled_otherwise(column) for column in relation.schema.columns):
        pairs = _but_for_spelling(relation, before, after, pairs)
    gone, new = (sum(pair[side] is None for pair in pairs) for side in (1, 0))
    changed = len(pairs) - gone - new
    listed = tuple(_differences(relation, before, after, pairs[:MOST_LISTED]))[:MOST_LISTED]
    return Comparison(before.num_rows - gone - changed, changed, gone, new, listed)


def _but_for_spelling(relation: Relation, before: pa.Table, after: pa.Table, pairs: list[_Pair]) -> list[_Pair]:
    """Return the pairs that differ in more than the spelling of equal keys."""
    columns = relation.schema.columns
    keyed: list[dict[int, Row]] = []
    for side, table in enumerate((before, after)):
        numbers = [number for pair in pairs if (number := pair[side]) is not None]
        rows = rows_of(relation, (), table.take(pa.array(numbers, pa.int64())))
        keyed.append({n: {c.name: comparison_key(c, row[c.name]) for c in columns} for n, row in zip(numbers, rows, strict=True)})
    keys = [{tuple(row[c.name] for c in relation.schema.row_key): number for number, row in side.items()} for side in keyed]
    met = [(keys[0].get(key), keys[1].get(key)) for key in {**keys[0], **keys[1]}]
    return [(b, a) for b, a in met if b is None or a is None or keyed[0][b] != keyed[1][a]]


def _numbered(table: pa.Table) -> pa.Table:
    return table.append_column("_number", pa.array(range(table.num_rows), pa.int64()))


def _statement(relation: Relation, keys: list[str], values: list[str]) -> str:
    key_list, row = ", ".join(map(quoted, keys)), ", ".join(map(quoted, [*values, "_number"]))
    nth = f"SELECT *, row_number() OVER (PARTITION BY {key_list} ORDER BY {row}) AS _nth"
    on = " AND ".join(f"b.{quoted(key)} IS NOT DISTINCT FROM a.{quoted(key)}" for key in keys)
    differs = [f"b.{quoted(value)} IS DISTINCT FROM a.{quoted(value)}" for value in values]
    where = " OR ".join(["b._number IS NULL", "a._number IS NULL", *differs])
    order = [
        f"coalesce(b.{name}, a.{name}) {'DESC NULLS LAST' if column.descending else 'ASC NULLS FIRST'}"
        for column, name in ((column, quoted(identity(column))) for column in relation.schema.row_key)
    ]
    return (
        f"SELECT b._number AS b, a._number AS a FROM ({nth} FROM before_rows) AS b FULL JOIN ({nth} FROM after_rows) AS a "
        f"ON {on} AND b._nth = a._nth WHERE {where} ORDER BY {', '.join(order)}, b._number IS NULL, coalesce(b._nth, a._nth)"
    )


def _differences(relation: Relation, before: pa.Table, after: pa.Table, pairs: list[_Pair]) -> Iterator[Difference]:
    columns = relation.schema.columns
    for pair in pairs:
        old, new = (
            None if number is None else next(iter(rows_of(relation, (), table.slice(number, 1))))
            for table, number in zip((before, after), pair, strict=True)
        )
        either = new if old is None else old
        assert either is not None
        key = {column.name: to_json(column.type, either[column.name]) for column in relation.schema.row_key}
        if old is None or new is None:
            objects = (row and json_object((c.name, to_json(c.type, row[c.name])) for c in columns) for row in (old, new))
            yield Difference(key, "", *(text or "" for text in objects))
            continue
        for column in columns:
            if comparison_key(column, old[column.name]) != comparison_key(column, new[column.name]):
                texts = (to_json(column.type, row[column.name]) for row in (old, new))
                yield Difference(key, column.name, *texts)
