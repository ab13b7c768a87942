"""Statements that make a project's datasets, raw tables, views and table functions: text alone, nothing runs here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from cdc_views.naming import physical_name
from cdc_views.plan.build import Ask
from cdc_views.plan.choose import choose
from cdc_views.project.bigquery import BigQueryConfig, Granularity, Place
from cdc_views.relation import LAYOUT_VERSION, Relation
from cdc_views.schema import Column, Role
from cdc_views.sql import check_names, rows_sql
from cdc_views.sql.statements import envelope
from cdc_views_bigquery.limits import check_columns, check_statement, check_view
from cdc_views_bigquery.types import Field, Fields, fields_of, quoted, text_literal

DIALECT = "bigquery"
_MOST_CLUSTERED = 4
"""Source: BigQuery, Clustered tables, Limitations."""
_CLUSTERABLE = frozenset({"INT64", "STRING", "BOOL", "TIMESTAMP", "BIGNUMERIC"})
"""Of the types that raw tables have. Source: BigQuery, Clustered tables, Cluster column types."""
_OURS = {
    "_kind": "what the fact is about: row, static, partition, range or table",
    "_live": "row marker: write time and packed expiry; null where the event carries none",
    "_deleted": "deletion of what `_kind` says: write time, and when",
    "_from": "lower bound of a range deletion, in clustering order",
    "_to": "upper bound of a range deletion, in clustering order",
    "_origin": "which node, segment and position the event came from",
    "_landed_at": "when the event landed; partitions go by it",
}


class Kind(str, Enum):
    """What a statement makes; also the order they have to run in."""

    DATASET = "dataset"
    RAW = "raw table"
    VIEW = "view"
    FUNCTION = "table function"


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: what it makes, under which full name, and its text without a semicolon."""

    kind: Kind
    name: str
    sql: str


@dataclass(frozen=True, slots=True)
class Target:
    """One table's places: full names of its raw table and view, and how it is read.

    `source` is what stands after FROM, where that is not all of the raw table.
    """

    relation: Relation
    raw: str
    view: str
    strategy: str = "auto"
    source: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def function(self) -> str:
        """Full name of the table function beside the view."""
        return f"{self.view}_landed"


def reference(name: str) -> str:
    """Return a full name as SQL takes it, in one pair of backquotes.

    >>> reference("my-project.shop.orders")
    '`my-project.shop.orders`'
    """
    return quoted(name)


def dataset(name: str, config: BigQueryConfig) -> Statement:
    """Return the statement that makes a dataset."""
    location = text_literal(config.location) if config.location else ""
    sql = envelope("bigquery_dataset.sql.j2", name=reference(name), location=location, labels=labels(config.labels))
    return Statement(Kind.DATASET, name, sql.rstrip())


def datasets(place: Place, config: BigQueryConfig) -> list[Statement]:
    """Return the statements that make the datasets that views and raw tables need."""
    return [dataset(place.dataset(name), config) for name in dict.fromkeys((place.views, place.raw))]


def raw_fields(relation: Relation) -> Fields:
    """Return the columns of a raw table in the canonical layout."""
    return fields_of(relation.arrow_schema(), table=relation.schema.full_name)


def raw_table(target: Target, config: BigQueryConfig) -> Statement:
    """Return the statement that makes the raw table: partitioned by landing time, clustered by the key."""
    relation = target.relation
    found = raw_fields(relation)
    check_columns(found, what=f"the raw table of {relation.schema.full_name}")
    described = raw_descriptions(relation)
    sql = envelope(
        "bigquery_table.sql.j2",
        table=_line(relation.schema.full_name),
        layout=LAYOUT_VERSION,
        name=reference(target.raw),
        columns=[
            {"name": quoted(f.name), "type": f.text, "description": text_literal(described[f.name])} for f in found
        ],
        partition=partition_of(config.partition_by),
        cluster=[quoted(name) for name in cluster_of(relation, found)],
        description=text_literal(raw_description(relation)),
        labels=labels(config.labels),
    )
    check_statement(sql, what=f"the statement that makes the raw table of {relation.schema.full_name}")
    return Statement(Kind.RAW, target.raw, sql.rstrip())


def raw_description(relation: Relation) -> str:
    """Return what is said of a raw table; its layout version is read back from here."""
    return f"raw events of {relation.schema.full_name}, one row per fact (cdc-views, raw layout {LAYOUT_VERSION})"


def raw_descriptions(relation: Relation) -> dict[str, str]:
    """Return what is said of each column of a raw table."""
    users = {physical_name(column.name): described(column) for column in relation.schema.columns}
    return {f.name: users.get(f.name) or _OURS.get(f.name) or "of the key: its order, or its bytes" for f in raw_fields(relation)}


def partition_of(granularity: Granularity) -> str:
    """Return what raw tables are partitioned by."""
    return f"TIMESTAMP_TRUNC(`_landed_at`, {granularity.value.upper()})"


def cluster_of(relation: Relation, found: Fields) -> list[str]:
    """Return the columns that a raw table is clustered by: the key's, as far as BigQuery can."""
    kinds = {f.name: f for f in found}
    keys = [physical_name(column.name) for column in relation.schema.row_key]
    return [key for key in keys if kinds[key].kind in _CLUSTERABLE and not kinds[key].repeats][:_MOST_CLUSTERED]


def view_query(target: Target) -> str:
    """Return the SELECT of the view."""
    source = target.source or reference(target.raw)
    return rows_sql(Ask(target.relation), dialect_name=DIALECT, strategy=target.strategy, table=source, clock="")


def view(target: Target, config: BigQueryConfig) -> Statement:
    """Return the statement that makes the view; raises `UnsupportedError` where BigQuery cannot hold it."""
    schema = target.relation.schema
    check_names(target.relation, DIALECT, others=tuple(target.view.split(".")[-2:]))
    query = view_query(target)
    check_view(query, columns=len(schema.columns), what=f"the view of {schema.full_name}")
    sql = envelope(
        "bigquery_view.sql.j2",
        table=_line(schema.full_name),
        grain=_line(", ".join(column.name for column in schema.row_key)),
        has_statics=bool(schema.statics),
        layout=LAYOUT_VERSION,
        notes=[choose(target.strategy, engine=DIALECT).why, *target.notes],
        view=reference(target.view),
        columns=[{"name": quoted(c.name), "description": text_literal(described(c))} for c in schema.columns],
        description=text_literal(f"{schema.full_name}: the latest cell of every column of every key (cdc-views)"),
        labels=labels(config.labels),
        query=query,
    )
    check_statement(sql, what=f"the statement that makes the view of {schema.full_name}")
    return Statement(Kind.VIEW, target.view, sql.rstrip())


def function(target: Target) -> Statement:
    """Return the statement that makes the table function: the view over what landed in a span of time."""
    schema = target.relation.schema
    span = "`_landed_at` >= landed_from AND `_landed_at` <= landed_until"
    source = f"(SELECT * FROM {target.source or reference(target.raw)} WHERE {span})"
    query = rows_sql(Ask(target.relation), dialect_name=DIALECT, strategy=target.strategy, table=source, clock="")
    sql = envelope(
        "bigquery_function.sql.j2",
        table=_line(schema.full_name),
        function=reference(target.function),
        description=text_literal(f"{schema.full_name} from what landed in a span of time (cdc-views)"),
        query=query,
    )
    check_statement(sql, what=f"the statement that makes the table function of {schema.full_name}")
    return Statement(Kind.FUNCTION, target.function, sql.rstrip())


def described(column: Column) -> str:
    """Return what is said of a column of the view: its type at the source and its role."""
    roles = {Role.PARTITION: "partition key", Role.CLUSTERING: "clustering key", Role.STATIC: "static, of the partition"}
    role = roles.get(column.role)
    return _line(f"{column.type}, {role}" if role else str(column.type))


def labels(given: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return labels as literals, in order."""
    return [(text_literal(key), text_literal(value)) for key, value in sorted(given.items())]


def _line(text: str) -> str:
    """Text that cannot end a line comment early."""
    return " ".join(text.split())


__all__ = ["Field", "Kind", "Statement", "Target", "datasets", "function", "raw_fields", "raw_table", "reference", "view"]
