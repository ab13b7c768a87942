"""Statements that make a project's datasets, raw tables, views and table functions: text alone, nothing runs here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache

from cdc_views.engines.base import ViewDefinition
from cdc_views.errors import UnsupportedError
from cdc_views.model.naming import physical_name
from cdc_views.model.schema import Column, Role
from cdc_views.plan.build import Ask
from cdc_views.plan.rewrites import choose
from cdc_views.sql import check_names, rows_sql
from cdc_views.sql.statements import envelope
from cdc_views.storage.relation import LAYOUT_VERSION, RawTable, Relation
from cdc_views_bigquery.config import SCHEME, BigQueryConfig, Datasets, Granularity
from cdc_views_bigquery.limits import check_columns, check_statement, check_view
from cdc_views_bigquery.merging import limits
from cdc_views_bigquery.merging.columns import check_shown
from cdc_views_bigquery.merging.types import CLUSTERABLE
from cdc_views_bigquery.types import Fields, fields_of, quoted, text_literal
from cdc_views_bigquery.wide import part_query, parts_of, whole_query

DIALECT = "bigquery"
LONGEST_VIEW = limits.VIEW_CHARACTERS
"""Characters; a view whose query is longer is cut into parts."""
MOST_ALIGNED = 400
"""Columns; a statement of more is too long for a view when it is aligned, and takes seconds to write."""
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
    PART = "part of a view"
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

    `source` is what stands after FROM, where that is not all of the raw table; `facts` is what does in the view alone: a
    state and what landed since, in the raw layout.
    """

    relation: Relation
    raw: str
    view: str
    strategy: str = "auto"
    source: str = ""
    facts: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def function(self) -> str:
        """Full name of the table function beside the view."""
        return f"{self.view}_landed"

    @property
    def events(self) -> str:
        """What stands after FROM to read every fact that landed, with its landing time."""
        return self.source or reference(self.raw)

    @property
    def shown(self) -> str:
        """What stands after FROM in the view."""
        return self.facts or self.events


def reference(name: str) -> str:
    """Return a full name as SQL takes it, in one pair of backquotes.

    >>> reference("my-project.shop.orders")
    '`my-project.shop.orders`'
    """
    return quoted(name)


def target_of(view: ViewDefinition, *, facts: str = "") -> Target:
    """Return the places of a view and its raw table; `facts`: what it reads in place of that, a full name."""
    shown = reference(facts) if facts else ""
    return Target(view.raw.relation, full_name(view.raw), f"{view.schema}.{view.name}", view.strategy.value, facts=shown)


def full_name(raw: RawTable) -> str:
    """Return the full name of a raw table in BigQuery."""
    return raw.location.removeprefix(SCHEME)


def dataset(name: str, config: BigQueryConfig) -> Statement:
    """Return the statement that makes a dataset."""
    location = text_literal(config.location) if config.location else ""
    sql = envelope("bigquery_dataset.sql.j2", name=reference(name), location=location, labels=labels(config.labels))
    return Statement(Kind.DATASET, name, sql.rstrip())


def datasets(place: Datasets, config: BigQueryConfig) -> list[Statement]:
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
        columns=[{"name": quoted(f.name), "type": f.text, "description": text_literal(described[f.name])} for f in found],
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
    return [key for key in keys if kinds[key].kind in CLUSTERABLE and not kinds[key].repeats][: limits.CLUSTERED]


def rows_query(target: Target, *, source: str = "", most: int = limits.VIEW_CHARACTERS) -> str:
    """Return the SELECT of all columns; aligned, and short where that would have more than `most` characters."""
    table = source or target.shown
    with not_too_deep(target):
        if len(target.relation.schema.columns) < MOST_ALIGNED:
            text = _rows_text(target.relation, target.strategy, table, is_pretty=True)
            if len(text) <= most:
                return text
        return _rows_text(target.relation, target.strategy, table, is_pretty=False)


@lru_cache(maxsize=4)
def _rows_text(relation: Relation, strategy: str, table: str, *, is_pretty: bool) -> str:
    """The SELECT of all columns; remembered, since `plan` needs it three times and one of 1,000 columns takes seconds."""
    return rows_sql(Ask(relation), dialect_name=DIALECT, strategy=strategy, table=table, clock="", is_pretty=is_pretty)


@contextmanager
def not_too_deep(target: Target) -> Iterator[None]:
    """A plan whose steps nest too deeply for Python as an `UnsupportedError`: self_join has one step for each column."""
    try:
        yield
    except RecursionError:
        raise UnsupportedError(
            f"{target.relation.schema.full_name} has too many columns for strategy {target.strategy}",
            remedy="use strategy aggregate or window",
        ) from None


def view_queries(target: Target) -> list[tuple[str, str]]:
    """Return (full name, SELECT) of the view, the last, and of its parts, where it is too long to be one."""
    query = rows_query(target)
    if len(query) <= LONGEST_VIEW:
        return [(target.view, query)]
    table = target.shown
    parts = parts_of(target.relation)
    views = [f"{target.view}__part{number}" for number in range(1, len(parts) + 1)]
    queries = [part_query(part, table=table, dialect_name=DIALECT, strategy=target.strategy) for part in parts]
    return [*zip(views, queries, strict=True), (target.view, whole_query(target.relation, parts, views))]


def views(target: Target, config: BigQueryConfig) -> list[Statement]:
    """Return the statements that make the view's parts, if it has any, and the view.

    Raises `UnsupportedError` where BigQuery cannot hold them.
    """
    schema = target.relation.schema
    check_names(target.relation, DIALECT, others=tuple(target.view.split(".")[-2:]))
    check_shown(target.relation)
    queries = view_queries(target)
    for name, query in queries:
        check_view(query, columns=len(schema.columns), what=f"view {name} of {schema.full_name}")
    return [*(_part(target, *part) for part in queries[:-1]), _view(target, queries[-1][1], config)]


def view(target: Target, config: BigQueryConfig) -> Statement:
    """Return the statement that makes the view itself."""
    return views(target, config)[-1]


def _part(target: Target, name: str, query: str) -> Statement:
    whole = _line(f"{target.relation.schema.full_name}: some of its columns, for view {target.view} (cdc-views)")
    described = f"OPTIONS (description = {text_literal(whole)})"
    return Statement(Kind.PART, name, f"-- {whole}\nCREATE OR REPLACE VIEW {reference(name)}\n{described} AS\n{query}")


def _view(target: Target, query: str, config: BigQueryConfig) -> Statement:
    schema = target.relation.schema
    sql = envelope(
        "bigquery_view.sql.j2",
        table=_line(schema.full_name),
        grain=_line(", ".join(column.name for column in schema.row_key)),
        has_statics=bool(schema.statics),
        layout=LAYOUT_VERSION,
        notes=[choose(target.strategy).why, *target.notes],
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
    source = f"(SELECT * FROM {target.events} WHERE {span})"
    query = rows_query(target, source=source, most=limits.QUERY_BYTES // 2)
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
    text = _line(f"{column.type}, {role}" if role else str(column.type))
    return limits.shortened(text, most=limits.COLUMN_DESCRIPTION)


def labels(given: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return labels as literals, in order."""
    return [(text_literal(key), text_literal(value)) for key, value in sorted(given.items())]


def _line(text: str) -> str:
    """Text that cannot end a line comment early."""
    return " ".join(text.split())
