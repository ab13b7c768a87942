"""Facts as a raw table in GoogleSQL's reference implementation, and what BigQuery's SQL shows of them.

Each strategy is run in both forms: the exact one, which `query` reads, and the view's. What BigQuery does to results and
stored rows is done by `services.bigquery_values` and `cdc_views_bigquery.storable`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from cdc_views_bigquery.merging.columns import check_shown

from cdc_views.engines.base import Read, Strategy, ask_of
from cdc_views.engines.exact import rows_of
from cdc_views.errors import UnsupportedError
from cdc_views.model.schema import TableSchema
from cdc_views.plan.build import Ask, of_raw, output_names
from cdc_views.rules.facts import Fact
from cdc_views.rules.oracle import latest_rows
from cdc_views.sql import query_sql
from cdc_views.storage.relation import RawTable, Relation
from helpers.dialect_cases import Answer, Friendly, assert_same
from helpers.reading import Row, canonical_row

if TYPE_CHECKING:
    from helpers.dialect_zetasql import GoogleSql

RAW = "raw_case"
FRIENDLY = Friendly(range(-62_135_596_800_000_000, 253_402_300_800_000_000), range(-719_162, 2_932_897), nulls_are_empty=True)
"""What a view of BigQuery shows of a value; as a result has it, in which null arrays are empty."""
STRICT = Friendly(FRIENDLY.micros, FRIENDLY.days)
"""As a query has it."""


@dataclass
class GoogleSqlCases:
    """Shows facts; says how many reads there were, and of how many rows BigQuery would not print an array."""

    engine: GoogleSql
    strategies: tuple[Strategy, ...]
    reads: int = 0
    unprintable: int = 0
    refused: list[UnsupportedError] = field(default_factory=list)
    mutate: tuple[str, str] | None = None
    """A text of the SQL and what stands in its place, to see that the comparison notices."""

    def show(self, relation: Relation, facts: Iterable[Fact], *, now: int) -> list[Row]:
        """Return the oracle's rows once GoogleSQL gave the same in the same order; raises what BigQuery cannot hold."""
        from cdc_views_bigquery.storable import check_storable
        from cdc_views_bigquery.types import fields_of

        facts = list(facts)
        expected = latest_rows(relation.schema, facts, now=now)
        rows = relation.rows(facts, landed_at=0)
        try:
            fields_of(rows.schema, table=relation.schema.full_name)
            check_storable(rows, table=relation.schema.full_name)
        except UnsupportedError as error:
            self.refused.append(error)
            return expected
        self.engine.register(RAW, rows)
        for strategy in self.strategies:
            self._check_exact(relation, expected, now=now, strategy=strategy)
        try:
            check_shown(relation)
        except UnsupportedError as error:
            self.refused.append(error)
            return expected
        for strategy in self.strategies:
            self._check_view(relation, expected, now=now, strategy=strategy)
        return expected

    def _check_exact(self, relation: Relation, expected: list[Row], *, now: int, strategy: Strategy) -> None:
        answer = Answer(self.engine.query(self._text(_exact_sql(relation, now, strategy))))
        found = list(rows_of(relation, (), answer))  # type: ignore[arg-type]
        self.reads += 1
        assert [*map(canonical_row, found)] == [*map(canonical_row, expected)], f"{strategy.value}: {found}"

    def _check_view(self, relation: Relation, expected: list[Row], *, now: int, strategy: Strategy) -> None:
        sql, outputs = _view_sql(relation, now, strategy)
        columns, answer = self.engine.evaluate(self._text(sql), reads=[RAW])
        self.reads += 1
        unprinted = sum(not _is_printed(columns, row.cell) for row in answer)
        self.unprintable += unprinted
        schema = relation.schema
        records = self.engine.records_of(columns, answer)
        shown = [{c.name: FRIENDLY.normal(c.type, row[outputs[c.name]]) for c in schema.columns} for row in records]
        assert_same([_friendly(schema, row, FRIENDLY) for row in expected], shown)
        foreseen = sum(any(None in array for array in _arrays(_friendly(schema, row, STRICT))) for row in expected)
        assert foreseen == unprinted, "of arrays that hold null BigQuery prints none"

    def _text(self, sql: str) -> str:
        if self.mutate is None:
            return sql
        assert self.mutate[0] in sql, f"nothing to mutate: {self.mutate[0]}"
        return sql.replace(*self.mutate)


@cache
def _exact_sql(relation: Relation, now: int, strategy: Strategy) -> str:
    ask = ask_of(Read(RawTable("", relation), as_of=now))
    return query_sql(ask, dialect_name="bigquery", strategy=strategy.value, table=RAW)


@cache
def _view_sql(relation: Relation, now: int, strategy: Strategy) -> tuple[str, dict[str, str]]:
    ask = of_raw(Ask(relation, as_of=now))
    return query_sql(ask, dialect_name="bigquery", strategy=strategy.value, table=RAW), dict(output_names(ask))


def _friendly(schema: TableSchema, row: Row, friendly: Friendly) -> dict[str, Any]:
    return {c.name: friendly(c.type, row[c.name]) for c in schema.columns}


def _is_printed(columns: Any, cells: Any) -> bool:
    """Whether BigQuery puts such a row into a result."""
    from services import bigquery_values as values

    try:
        values.row(columns, cells, micros=True)
    except values.ResultError:
        return False
    return True


def _arrays(value: Any) -> Iterator[list[Any]]:
    """Every array in a friendly value, at any level."""
    if isinstance(value, list):
        yield value
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in parts:
        yield from _arrays(part)
