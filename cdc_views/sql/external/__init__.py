"""Views on the events of an external table, in SQL alone: nothing is copied, and the view shows what lands as it lands.

`plan_of_events` is exact or raises `NotInSqlError`: then the copying adapter (`landing.external`) reads the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cdc_views.formats.base import RawFormat
from cdc_views.formats.debezium.format import Debezium
from cdc_views.formats.debezium_cassandra.format import DebeziumCassandra
from cdc_views.formats.key_value.format import KeyValue
from cdc_views.landing.external.shapes import Reading, Shape
from cdc_views.plan.build import Ask, build
from cdc_views.plan.nodes import Node
from cdc_views.plan.rewrites import lowered
from cdc_views.sql.dialects import dialect_class
from cdc_views.sql.external import records, relational
from cdc_views.sql.external.cassandra import CassandraEvents
from cdc_views.sql.external.values import NotInSqlError
from cdc_views.storage.relation import Relation

__all__ = ["EventsOf", "NotInSqlError", "plan_of_events"]


@dataclass(frozen=True, slots=True)
class EventsOf:
    """What an external table holds: events of a format, of the source's table that `relation` has, and how its rows hold them."""

    relation: Relation
    format: RawFormat
    reading: Reading
    dialect_name: str


def plan_of_events(of: EventsOf, columns: pa.Schema, *, key: str = "key", sample: Sequence[Any] = ()) -> Node:
    """Return the plan of a view of a table with these columns, of which `key` has the keys of records.

    `sample` has parsed values of some events, which show their form if they are JSON. The outputs are named as those of
    `plan.build`. Raises `NotInSqlError`.
    """
    if not dialect_class(of.dialect_name).reads_events:
        raise NotInSqlError(f"dialect {of.dialect_name} does not read events")
    schema, shown, format = of.relation.schema, of.relation.shown, of.format
    if isinstance(format, KeyValue):
        return records.keys_and_rows(schema, shown, columns, sample=sample).plan()
    if isinstance(format, DebeziumCassandra):
        events = relational.Events.of(columns, value="value" if of.reading.shape is Shape.LINE else "", key=key, sample=sample)
        return lowered(build(Ask(of.relation, facts_from=CassandraEvents.of(schema, events))))
    if not isinstance(format, Debezium):
        raise NotInSqlError(f"SQL does not read format {format.name}")
    events = relational.Events.of(columns, value="value" if of.reading.shape is Shape.LINE else "", key=key, sample=sample)
    read = relational.envelope if events.is_envelope else records.unwrapped
    return read(schema, shown, events, format.known).plan()
