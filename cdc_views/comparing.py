"""Two answers to one question, cell by cell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from cdc_views.codec.jsontext import to_json
from cdc_views.engines.duckdb_types import quoted
from cdc_views.engines.exact import rows_of
from cdc_views.plan.build import Ask, output_names
from cdc_views.relation import Relation

MOST_LISTED = 1_000


@dataclass(frozen=True, slots=True)
class Difference:
    """One cell that differs: the row's key, the column, and both values as JSON.

    `column` is empty where the whole row is only in one answer; `before` or `after` is then empty, too.
    """

    key: dict[str, str]
    column: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many rows are alike, differ, or are in one answer only; the first differences.

    Attributes:
        equal: Rows that are the same in both.
        changed: Rows of one key with other cells.
        gone: Rows that only the first has.
        new: Rows that only the second has.
        differences: Up to `MOST_LISTED` of them, by key.
    """

    equal: int
    changed: int
    gone: int
    new: int
    differences: tuple[Difference, ...]

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs."""
        return not (self.changed or self.gone or self.new)


def compare(relation: Relation, before: pa.Table, after: pa.Table) -> Comparison:
    """Compare two reads of all columns in exact form; a row key occurs once in each."""
    names = dict(output_names(Ask(relation, is_exact=True)))
    keys = [names[column.name] for column in relation.schema.row_key]
    values = [name for column, name in names.items() if name not in keys]
    with duckdb.connect() as connection:
        connection.register("before_rows", _numbered(before))
        connection.register("after_rows", _numbered(after))
        found: pa.Table = connection.sql(_statement(keys, values)).to_arrow_table()
    gone = sum(row is None for row in found["a"].to_pylist())
    new = sum(row is None for row in found["b"].to_pylist())
    changed = found.num_rows - gone - new
    first = found.slice(0, MOST_LISTED).to_pylist()
    listed = tuple(_differences(relation, before, after, first))[:MOST_LISTED]
    return Comparison(before.num_rows - gone - changed, changed, gone, new, listed)


def _numbered(table: pa.Table) -> pa.Table:
    return table.append_column("_number", pa.array(range(table.num_rows), pa.int64()))


def _statement(keys: list[str], values: list[str]) -> str:
    on = " AND ".join(f"b.{quoted(key)} IS NOT DISTINCT FROM a.{quoted(key)}" for key in keys)
    differs = [f"b.{quoted(value)} IS DISTINCT FROM a.{quoted(value)}" for value in values]
    where = " OR ".join(["b._number IS NULL", "a._number IS NULL", *differs])
    return (
        "SELECT b._number AS b, a._number AS a FROM before_rows AS b FULL JOIN after_rows AS a "
        f"ON {on} WHERE {where} ORDER BY coalesce(b._number, a._number), b._number IS NULL"
    )


def _differences(relation: Relation, before: pa.Table, after: pa.Table, pairs: list[dict[str, Any]]) -> Iterator[Difference]:
    for pair in pairs:
        old, new = (_row(relation, table, pair[side]) for table, side in ((before, "b"), (after, "a")))
        texts = new if old is None else old
        assert texts is not None
        key = {column.name: texts[column.name] for column in relation.schema.row_key}
        if old is None or new is None:
            yield Difference(key, "", _object(old), _object(new))
            continue
        for name, text in old.items():
            if text != new[name]:
                yield Difference(key, name, text, new[name])


def _object(row: dict[str, str] | None) -> str:
    return "" if row is None else "{" + ", ".join(f'"{name}": {text}' for name, text in row.items()) + "}"


def _row(relation: Relation, table: pa.Table, number: int | None) -> dict[str, str] | None:
    """One row as JSON texts by column."""
    if number is None:
        return None
    (row,) = rows_of(relation, (), table.slice(number, 1))
    return {column.name: to_json(column.type, row[column.name]) for column in relation.schema.columns}
