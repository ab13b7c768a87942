"""Columns of state and serving tables: names, BigQuery's types, and digests that identify a row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

import pyarrow as pa
from sqlglot import exp

from cdc_views.engines.serving import column_types
from cdc_views.model.naming import held_name, physical_name
from cdc_views.model.schema import TableSchema
from cdc_views.plan import names
from cdc_views.plan.serving import CHANGES_AT
from cdc_views.rules.facts import FactKind
from cdc_views.sql.dialects.bigquery import BigQuery
from cdc_views.sql.dialects.writing import Sql, function, identifier
from cdc_views.storage.relation import LAYOUT_VERSION, Relation
from cdc_views.storage.shown_relation import casts_of
from cdc_views_bigquery.limits import CLUSTERED
from cdc_views_bigquery.merging.arrays import stored
from cdc_views_bigquery.types import CLUSTERABLE, field_of, quoted

PART, OWNER, FACT, ROW = "_part", "_owner", "_fact", "_row"
"""Of a fact or a row: the bucket and the digest of its partition key; the digest of its identity."""
LEFT_OUT = "_left_out"
"""Of a row: how many elements of its arrays BigQuery cannot store (`arrays`); only tables with such arrays have this column."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column in DDL; `type` is GoogleSQL's."""

    name: str
    type: str

    @property
    def quoted(self) -> str:
        """The name in backquotes."""
        return quoted(self.name)


@dataclass(frozen=True, slots=True)
class DescribedColumn(Column):
    """A column with its description, a literal."""

    description: str = "''"


def literal(text: str) -> str:
    """Return a string literal in single quotes."""
    return exp.Literal.string(text).sql(dialect="bigquery")


def raw_columns(relation: Relation) -> tuple[Column, ...]:
    """Return the columns of the raw layout."""
    return tuple(Column(field.name, _type(field.type, field.name)) for field in relation.arrow_schema())


def state_columns(relation: Relation) -> tuple[Column, ...]:
    """Return the columns of a state: the raw layout's, and ours."""
    return (*raw_columns(relation), Column(PART, "INT64"), Column(OWNER, "BYTES"), Column(FACT, "BYTES"))


def shown_columns(relation: Relation) -> tuple[tuple[str, Column], ...]:
    """Return the user's name and the serving table's column of each column that the view shows."""
    kinds, shown = column_types(relation, field_name=held_name), shown_names(relation.schema)
    casts = casts_of(relation)
    return tuple(
        (name, Column(shown[name], casts[name].sql(dialect="bigquery") if name in casts else _type(kind, name)))
        for name, kind in kinds.items()
    )


def check_shown(relation: Relation) -> None:
    """Raise `UnsupportedError` if BigQuery has no type for a column's shown form: a set of lists shows as an ARRAY of ARRAYs."""
    for name, kind in column_types(relation, field_name=held_name).items():
        _type(kind, name)


def serving_columns(relation: Relation) -> tuple[Column, ...]:
    """Return the columns of a serving table: the view's, and ours."""
    ours = (Column(CHANGES_AT, "INT64"), Column(PART, "INT64"), Column(OWNER, "BYTES"), Column(ROW, "BYTES"))
    more = (Column(LEFT_OUT, "INT64"),) if leaves_out(relation) else ()
    return (*(column for _, column in shown_columns(relation)), *ours, *more)


def leaves_out(relation: Relation) -> bool:
    """Return whether a row's arrays may have elements that BigQuery cannot store."""
    return any(stored(exp.column("_"), column.type)[1] for column in relation.schema.columns)


def shown_names(schema: TableSchema) -> dict[str, str]:
    """Return the serving table's name of each of the users' columns: the own name if BigQuery takes it, else an encoded one."""
    held = [held_name(column.name).casefold() for column in schema.columns]

    def shown(name: str) -> str:
        mine = held_name(name)
        is_own = held.count(mine.casefold()) == 1 and BigQuery.column_name.match(mine) and len(mine) <= BigQuery.max_name_bytes
        return mine if is_own else physical_name(name)

    return {column.name: shown(column.name) for column in schema.columns}


def clustered_by(columns: Iterable[Column], wanted: Iterable[str]) -> list[str]:
    """Return the columns of `wanted` that BigQuery can cluster by, in order, in backquotes."""
    kinds = {column.name: column for column in columns}
    return [kinds[name].quoted for name in wanted if kinds[name].type in CLUSTERABLE][:CLUSTERED]


def owner_of(relation: Relation) -> Sql:
    """Return the digest of a fact's partition key (rule K1)."""
    return digest(_columns(names.identity(c) for c in relation.schema.partition))


def fact_of(relation: Relation) -> Sql:
    """Return the digest of a fact's identity: kind, keys, a range's bounds; without clustering, a partition is its row."""
    schema = relation.schema
    kind: Sql = exp.column(identifier(names.KIND))
    if not schema.clustering:
        is_partition = exp.EQ(this=kind.copy(), expression=exp.Literal.string(FactKind.PARTITION.value))
        kind = function("IF", is_partition, exp.Literal.string(FactKind.ROW.value), kind)
    bounds = (names.FROM, names.TO) if schema.clustering else ()
    keys = _columns((*(names.identity(c) for c in schema.row_key), *bounds))
    return digest([exp.alias_(kind, identifier(names.KIND)), *keys])


def row_of(relation: Relation) -> Sql:
    """Return the digest of what identifies a view's row: its keys, and whether only static columns show (W3)."""
    return digest(_columns((names.IS_ROW, *(names.identity(c) for c in relation.schema.row_key))))


def digest(parts: Iterable[Sql]) -> Sql:
    """Return the MD5 of values as JSON, which keeps names, order and nulls."""
    return function("MD5", function("TO_JSON_STRING", function("STRUCT", *parts)))


def setting_of(relation: Relation) -> str:
    """Return a digest of what a serving table's rows depend on besides facts: columns, types, drop times."""
    casts = sorted((name, kind.sql()) for name, kind in casts_of(relation).items())
    told = (LAYOUT_VERSION, relation.schema, relation.order, casts, serving_columns(relation))
    return sha256(repr(told).encode()).hexdigest()


def identity_of(relation: Relation) -> str:
    """Return a digest, fit for a label, of what a state cannot change: its key, and the order of its write times."""
    key = [(column.role, column.name, repr(column.type), column.descending) for column in relation.schema.row_key]
    return sha256(repr((LAYOUT_VERSION, relation.order, key)).encode()).hexdigest()[:40]


def _columns(wanted: Iterable[str]) -> list[Sql]:
    return [exp.column(identifier(name)) for name in wanted]


def _type(kind: pa.DataType, column: str) -> str:
    return field_of(column, kind, where=f"column {column!r}").text


WATERMARK = tuple(
    DescribedColumn(name, kind, literal(said))
    for name, kind, said in (
        ("since", "TIMESTAMP", "the next run reads what landed at or after it; null: everything"),
        ("landed", "TIMESTAMP", "newest landing time that was merged"),
        ("clock", "INT64", "epoch second that the served rows are as of"),
        ("setting", "STRING", "digest of the schema that the served rows show"),
        ("facts_read", "INT64", "facts that the last run merged"),
        ("facts_late", "INT64", "facts that the last run found late"),
        ("unsettled", "INT64", "facts merged since the state was written anew"),
        ("horizon", "INT64", "epoch second: what ended at or before it may have left the state; null: nothing has"),
        ("runs", "INT64", "runs that were committed"),
        ("ran_at", "TIMESTAMP", "when the last one was"),
    )
)
"""The columns of the table whose one row has the state's progress."""
