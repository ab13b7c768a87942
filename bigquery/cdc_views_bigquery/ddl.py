"""Writes the statements that make a project's datasets, raw tables, views and table functions; nothing runs here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from cdc_views.engines.base import ViewDefinition
from cdc_views.engines.view_text import EVENTS_NOTE
from cdc_views.errors import UnsupportedError
from cdc_views.model.naming import physical_name
from cdc_views.model.schema import Column, Role
from cdc_views.model.style import Style
from cdc_views.plan.build import Ask, of_raw
from cdc_views.plan.nodes import Node
from cdc_views.plan.rewrites import note_on
from cdc_views.sql import check_names, events_sql, rows_sql, shared_sql
from cdc_views.sql.statements import envelope
from cdc_views.storage.relation import LAYOUT_VERSION, RawTable, Relation
from cdc_views_bigquery import limits
from cdc_views_bigquery.config import SCHEME, BigQueryConfig
from cdc_views_bigquery.merging.columns import check_shown, clustered_by, raw_columns
from cdc_views_bigquery.types import Fields, fields_of, one_line, quoted, text_literal
from cdc_views_bigquery.wide import part_query, parts_of, whole_query

DIALECT = "bigquery"
LONGEST_VIEW = limits.VIEW_CHARACTERS
"""In characters; a view with a longer query is cut into parts."""
MOST_ALIGNED = 400
"""In columns; an aligned statement of more columns is too long for a view, and takes seconds to write."""
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
    """What a statement makes; statements must run in this order."""

    DATASET = "dataset"
    RAW = "raw table"
    SHARED = "shared function"
    PART = "part of a view"
    VIEW = "view"
    FUNCTION = "table function"


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: the kind and full name of what it makes, and its text without a semicolon."""

    kind: Kind
    name: str
    sql: str


@dataclass(frozen=True, slots=True)
class Target:
    """Full names of one table's raw table and view, and its strategy.

    Instead of raw, the view reads `facts`, if given, or by the plan `events` the external table that is `raw` then.
    """

    relation: Relation
    raw: str
    view: str
    strategy: str = "auto"
    facts: str = ""
    events: Node | None = None
    style: Style = Style.PLAIN

    @property
    def function(self) -> str:
        """Full name of the table function beside the view."""
        return f"{self.view}_landed"

    @property
    def shown(self) -> str:
        """The table in the view's FROM."""
        return self.facts or quoted(self.raw)


def target_of(view: ViewDefinition, *, facts: str = "") -> Target:
    """Return the places of a view and its raw table; `facts` is the full name of a view of state and tail to read instead."""
    name = f"{view.schema}.{view.name}"
    if view.events is not None:
        found = view.events.location.removeprefix(SCHEME)
        return Target(view.raw.relation, found, name, view.strategy.value, events=view.events.plan, style=view.style)
    return Target(
        view.raw.relation, full_name(view.raw), name, view.strategy.value, quoted(facts) if facts else "", style=view.style
    )


def full_name(raw: RawTable) -> str:
    """Return the full name of a raw table in BigQuery."""
    return raw.location.removeprefix(SCHEME)


def dataset(name: str, config: BigQueryConfig) -> Statement:
    """Return the statement that makes a dataset."""
    location = text_literal(config.location) if config.location else ""
    sql = envelope("bigquery_dataset.sql.j2", name=quoted(name), location=location, labels=_labels(config))
    return Statement(Kind.DATASET, name, sql.rstrip())


def raw_fields(relation: Relation) -> Fields:
    """Return the columns of a raw table in the canonical layout."""
    return fields_of(relation.arrow_schema(), table=relation.schema.full_name)


def raw_table(target: Target, config: BigQueryConfig) -> Statement:
    """Return the statement that makes the raw table: partitioned by landing time, clustered by the key."""
    relation = target.relation
    found = raw_fields(relation)
    limits.check_columns(found, what=f"the raw table of {relation.schema.full_name}")
    users = {physical_name(column.name): described(column) for column in relation.schema.columns}
    said = {f.name: users.get(f.name) or _OURS.get(f.name) or "of the key: its order, or its bytes" for f in found}
    sql = envelope(
        "bigquery_table.sql.j2",
        table=one_line(relation.schema.full_name),
        layout=LAYOUT_VERSION,
        name=quoted(target.raw),
        columns=[{"name": quoted(f.name), "type": f.text, "description": text_literal(said[f.name])} for f in found],
        partition=f"TIMESTAMP_TRUNC(`_landed_at`, {config.partition_by.value.upper()})",
        cluster=clustered_by(raw_columns(relation), [physical_name(column.name) for column in relation.schema.row_key]),
        # the layout's version is read back from here
        description=text_literal(
            f"raw events of {relation.schema.full_name}, one row per fact (cdc-views, raw layout {LAYOUT_VERSION})"
        ),
        labels=_labels(config),
    )
    return _checked(Kind.RAW, target.raw, sql, target)


def rows_query(target: Target, *, source: str = "", most: int = limits.VIEW_CHARACTERS) -> str:
    """Return the SELECT of all columns; aligned, unless the text then has more than `most` characters."""
    table = source or target.shown
    if target.events is not None:
        return events_sql(target.relation, target.events, dialect_name=DIALECT, table=table)
    with not_too_deep(target):
        if len(target.relation.schema.columns) < MOST_ALIGNED:
            text = _rows_text(target.relation, target.strategy, table, is_pretty=True)
            if len(text) <= most:
                return text
        return _rows_text(target.relation, target.strategy, table, is_pretty=False)


@lru_cache(maxsize=4)
def _rows_text(relation: Relation, strategy: str, table: str, *, is_pretty: bool) -> str:
    """Return the SELECT of all columns; cached, because `plan` needs it three times and 1,000 columns take seconds."""
    return rows_sql(of_raw(Ask(relation)), dialect_name=DIALECT, strategy=strategy, table=table, clock="", is_pretty=is_pretty)


@contextmanager
def not_too_deep(target: Target) -> Iterator[None]:
    """Raise `UnsupportedError` for a plan that nests too deeply for Python: self_join has one step for each column."""
    try:
        yield
    except RecursionError:
        raise UnsupportedError(
            f"{target.relation.schema.full_name} has too many columns for strategy {target.strategy}",
            remedy="use strategy aggregate or window",
        ) from None


def view_queries(target: Target) -> list[tuple[str, str]]:
    """Return (full name, SELECT) of the view's parts, if it is too long for one view, and of the view, which is the last."""
    query = rows_query(target)
    if len(query) <= LONGEST_VIEW or target.events is not None:
        return [(target.view, query)]
    parts = parts_of(target.relation)
    views = [f"{target.view}__part{number}" for number in range(1, len(parts) + 1)]
    queries = [part_query(part, table=target.shown, dialect_name=DIALECT, strategy=target.strategy) for part in parts]
    return [*zip(views, queries, strict=True), (target.view, whole_query(target.relation, parts, views))]


def shared_query(target: Target) -> tuple[str, list[Statement]]:
    """Return the SELECT of all columns by functions of the view's dataset, and the statements that make these."""
    place, relation = target.view.rpartition(".")[0], target.relation
    with not_too_deep(target):
        query, made = shared_sql(
            relation, dialect_name=DIALECT, strategy=target.strategy, table=target.shown, schema=place, events=target.events
        )
    return query, [Statement(Kind.SHARED, f"{place}.{name}", text) for name, text in made.items()]


def views(target: Target, config: BigQueryConfig) -> list[Statement]:
    """Return the statements that make the view and what it reads; raises `UnsupportedError` if BigQuery cannot hold them."""
    schema = target.relation.schema
    check_names(target.relation, DIALECT, others=tuple(target.view.split(".")[-2:]))
    check_shown(target.relation)
    query, shared = shared_query(target) if target.style is Style.MACROS else ("", [])
    # a view that is cut into parts stands without functions
    queries = [(target.view, query)] if shared and len(query) <= LONGEST_VIEW else view_queries(target)
    shared = shared if queries[-1][1] == query else []
    columns = len(schema.columns)
    remedy = "materialize the table and read its serving table, or split it: views of fewer columns at the schema file"
    for name, query in queries:
        what = f"view {name} of {schema.full_name}"
        limits.check_view(query, what=f"{what}, of {columns:,} columns,", remedy=remedy)
        limits.check_count(columns, what=what)
    return [*shared, *(_part(target, *part) for part in queries[:-1]), _view(target, queries[-1][1], config)]


def _part(target: Target, name: str, query: str) -> Statement:
    whole = one_line(f"{target.relation.schema.full_name}: some of its columns, for view {target.view} (cdc-views)")
    described = f"OPTIONS (description = {text_literal(whole)})"
    return Statement(Kind.PART, name, f"-- {whole}\nCREATE OR REPLACE VIEW {quoted(name)}\n{described} AS\n{query}")


def _view(target: Target, query: str, config: BigQueryConfig) -> Statement:
    schema = target.relation.schema
    sql = envelope(
        "bigquery_view.sql.j2",
        table=one_line(schema.full_name),
        grain=one_line(", ".join(column.name for column in schema.row_key)),
        has_statics=bool(schema.statics),
        layout=LAYOUT_VERSION if target.events is None else None,
        notes=[*filter(None, [note_on(target.strategy) if target.events is None else EVENTS_NOTE])],
        view=quoted(target.view),
        columns=[{"name": quoted(c.name), "description": text_literal(described(c))} for c in schema.columns],
        description=text_literal(f"{schema.full_name}: the latest cell of every column of every key (cdc-views)"),
        labels=_labels(config),
        query=query,
    )
    return _checked(Kind.VIEW, target.view, sql, target)


def function(target: Target) -> Statement:
    """Return the statement that makes the table function: the view of what landed in a span of time."""
    schema = target.relation.schema
    span = "`_landed_at` >= landed_from AND `_landed_at` <= landed_until"
    source = f"(SELECT * FROM {quoted(target.raw)} WHERE {span})"
    query = rows_query(target, source=source, most=limits.QUERY_BYTES // 2)
    sql = envelope(
        "bigquery_function.sql.j2",
        table=one_line(schema.full_name),
        function=quoted(target.function),
        description=text_literal(f"{schema.full_name} from what landed in a span of time (cdc-views)"),
        query=query,
    )
    return _checked(Kind.FUNCTION, target.function, sql, target)


def _checked(kind: Kind, name: str, sql: str, target: Target) -> Statement:
    limits.check_statement(sql, what=f"the statement that makes the {kind.value} of {target.relation.schema.full_name}")
    return Statement(kind, name, sql.rstrip())


def described(column: Column) -> str:
    """Return the description of a view's column: its type at the source and its role."""
    roles = {Role.PARTITION: ", partition key", Role.CLUSTERING: ", clustering key", Role.STATIC: ", static, of the partition"}
    text = one_line(f"{column.type}{roles.get(column.role, '')}")
    return limits.shortened(text, most=limits.COLUMN_DESCRIPTION)


def _labels(config: BigQueryConfig) -> list[tuple[str, str]]:
    return [(text_literal(key), text_literal(value)) for key, value in sorted(config.labels.items())]
