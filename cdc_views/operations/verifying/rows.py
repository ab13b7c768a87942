"""The rows of a table in each place where `verify` compares them: the view, raw by the rules alone, and the serving table."""

from __future__ import annotations

import re
from collections.abc import Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.parquet as pq

from cdc_views.engines.base import ValueForm
from cdc_views.engines.duckdb.types import quoted
from cdc_views.engines.exact import rows_in
from cdc_views.landing.raw_table import is_delta
from cdc_views.model.schema import Column, TableSchema
from cdc_views.model.types import Kind, MapOf, Scalar
from cdc_views.operations.context import TableContext
from cdc_views.operations.querying import reading
from cdc_views.plan.serving import serving_names
from cdc_views.rules.codec.comparable import comparable
from cdc_views.rules.codec.serialized import serialize
from cdc_views.rules.oracle import Row, one_spelling
from cdc_views.state.serving import open_serving
from cdc_views.state.state_table import id_of
from cdc_views.storage.friendly import friendly_table
from cdc_views.storage.places import arrow_source
from cdc_views.storage.table_log import TableLog

Key = tuple[Hashable, ...]
"""The identity of a row key: equal iff the keys are (rule K1)."""
Keys = Mapping[Key, Mapping[str, Any]]
"""Row keys by identity, with native values by column."""
_LISTED = (Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.TEXT, Kind.ASCII)
_PLAIN = re.compile(r"[\w .:/@-]*", re.ASCII)
"""Texts that every dialect writes alike."""
_MOST_LISTED = 500


def cell_identity(column: Column, value: Any) -> Hashable:
    """Return what is equal iff two values of a column are: by their bytes, keys by the comparator (rules K1, K2)."""
    if value is None:
        return None
    spelled = one_spelling(column, value)
    if spelled is value:
        return serialize(column.type, value)
    if isinstance(column.type, MapOf) and not column.is_key:
        return tuple((key, serialize(column.type.value, element)) for key, element in spelled)
    return spelled if isinstance(spelled, Hashable) else comparable(column.type, value)


def key_of(schema: TableSchema, row: Mapping[str, Any]) -> Key:
    """Return the identity of a row's key."""
    return tuple(cell_identity(column, row[column.name]) for column in schema.row_key)


def key_values(schema: TableSchema, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row's key columns."""
    return {column.name: row[column.name] for column in schema.row_key}


def unlike(schema: TableSchema, source: Mapping[str, Any], shown: Mapping[str, Any]) -> list[str]:
    """Return the columns in which the view's row differs from the source's; columns that the source lacks are not compared."""
    wanted = (column for column in schema.columns if column.name in source)
    return [c.name for c in wanted if cell_identity(c, source[c.name]) != cell_identity(c, shown[c.name])]


def is_same(schema: TableSchema, source: Mapping[str, Any] | None, shown: Mapping[str, Any] | None) -> bool:
    """Whether the view's row is the source's; None: there is no row."""
    if source is None or shown is None:
        return source is shown
    return not unlike(schema, source, shown)


@dataclass(frozen=True)
class Shown:
    """Reads a table's rows as readers of the view see them; `engine` None: the project's."""

    table: TableContext
    engine: str | None = None

    def rows(self, keys: Sequence[Mapping[str, Any]] = (), *, raw_only: bool = False, as_of: int | None = None) -> Iterator[Row]:
        """Yield the view's rows, in no order; with `keys` at least those, and perhaps others."""
        where = self._condition(keys)
        with reading(self.table, engine=self.engine, raw_only=raw_only, as_of=as_of, where=where) as (engine, read, _):
            yield from rows_in(self.table.relation, read.columns, engine.batches(replace(read, is_ordered=False)))

    def of(self, keys: Keys) -> dict[Key, Row]:
        """Return the view's rows of these keys, those that there are."""
        schema = self.table.schema
        found = ((key_of(schema, row), row) for row in self.rows(list(keys.values())))
        return {key: row for key, row in found if key in keys}

    def held(self, keys: Sequence[Mapping[str, Any]] = (), *, as_of: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield the view's rows in names and types of a serving table; with `keys` at least those."""
        where = self._condition(keys)
        with reading(self.table, engine=self.engine, as_of=as_of, where=where) as (engine, read, _):
            for batch in engine.batches(replace(read, is_ordered=False, form=ValueForm.HELD)):
                yield from batch.to_pylist()

    def _condition(self, keys: Sequence[Mapping[str, Any]]) -> str | None:
        """Return a condition that few other rows meet, so that few rows leave the engine; None: read all."""
        if not keys or len(keys) > _MOST_LISTED:
            return None
        conditions = []
        for column in self.table.schema.row_key:
            is_listed = isinstance(column.type, Scalar) and column.type.kind in _LISTED
            values = {key[column.name] for key in keys}
            if column.name not in self.table.config.types and is_listed and all(map(_is_plain, values)):
                listed = (f"'{value}'" if isinstance(value, str) else str(value) for value in sorted(values))
                conditions.append(f"{quoted(column.name)} IN ({', '.join(listed)})")
        return " AND ".join(conditions) or None


def _is_plain(value: Any) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, str) and bool(_PLAIN.fullmatch(value)))


class ServedRows:
    """The rows of a table's serving table; `raw_version` is the version of raw that they show, `clock` as of when (None: nobody
    knows).
    """

    def __init__(self, table: TableContext, shown: Shown) -> None:
        location = table.serving_location
        assert location is not None
        names = serving_names(table.schema)
        self.table, self.shown, self.location = table, shown, location
        self.columns = [names[column.name] for column in table.schema.columns]
        self.key_columns = [names[column.name] for column in table.schema.row_key]
        self.user_names = {held: name for name, held in names.items()}
        found = open_serving(location, table.relation, state_id=id_of(table.state_location))
        self.raw_version, self.clock = found.raw_version, None if found.note is None else found.note.clock

    @staticmethod
    def exists(table: TableContext) -> bool:
        """Whether the table has a serving table, and the state that it shows."""
        location = None if table.project.is_remote else table.serving_location
        return location is not None and is_delta(location) and is_delta(table.state_location)

    def differing(self, keys: Keys) -> dict[Key, dict[str, str]]:
        """Return, by key, the columns in which the serving table differs from the view, with its values as text (`""`: only one
        of them has the row). What landed since it was written differs, too.
        """
        if self.raw_version is None or self.clock is None or not keys:
            return {}
        named = {self._key_text(values): key for key, values in keys.items()}
        served = self._served(named)
        held = self.shown.held(list(keys.values()), as_of=self.clock)
        expected = {text: row for row in held if (text := self._key(row)) in named}
        found = {}
        for text, key in named.items():
            there, wanted = served.get(text), expected.get(text)
            if there is None or wanted is None:
                if there is not wanted:
                    found[key] = {"": "" if there is None else str({self.user_names[n]: there[n] for n in self.columns})}
            elif columns := [name for name in self.columns if _plain_value(wanted[name]) != _plain_value(there[name])]:
                found[key] = {self.user_names[name]: str(there[name]) for name in columns}
        return found

    def _key(self, row: Mapping[str, Any]) -> str:
        return repr([row[name] for name in self.key_columns])

    def _key_text(self, values: Mapping[str, Any]) -> str:
        schema, overrides = self.table.schema, self.table.config.types
        names = [column.name for column in schema.row_key]
        (row,) = friendly_table(schema, [values], columns=names, overrides=overrides).to_pylist()
        return repr([row[name] for name in names])

    def _served(self, wanted: Container[str]) -> dict[str, dict[str, Any]]:
        found = {}
        for path in TableLog.open(self.location).paths:
            for batch in pq.ParquetFile(arrow_source(path)).iter_batches(columns=self.columns):
                found.update({text: row for row in batch.to_pylist() if (text := self._key(row)) in wanted})
        return found


def _plain_value(value: Any) -> Hashable:
    """Return what is equal for equal values of a serving table: -0.0 is 0.0 there, and NaN is NaN."""
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    if isinstance(value, list | tuple):
        return tuple(map(_plain_value, value))
    if isinstance(value, dict):
        return tuple((name, _plain_value(item)) for name, item in value.items())
    return value if isinstance(value, Hashable) else repr(value)
