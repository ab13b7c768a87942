"""Views that read the events of an external table themselves, so that nothing is copied; and why a table's cannot."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cdc_views.engines.base import EventsRead
from cdc_views.engines.plugin import EnginePlugin
from cdc_views.errors import MalformedEventError, UsageError
from cdc_views.landing.denylist import Denylist
from cdc_views.landing.external.shapes import Reading
from cdc_views.landing.external.table import ExternalTable
from cdc_views.landing.external.texts import is_text, utf8
from cdc_views.operations.context import TableContext
from cdc_views.project.models import ReadBy
from cdc_views.rules.codec.jsonread import parse_json
from cdc_views.sql.external import EventsOf, NotInSqlError, plan_of_events
from cdc_views.storage.places import place_of

_SAMPLE = 100
"""The rows whose values show how JSON looks."""


@dataclass(frozen=True, slots=True)
class Directly:
    """How views of a table read its events: `read`, or a copy because of `why`. `why` is empty if nobody else lands the table."""

    read: EventsRead | None = None
    why: str = ""


def events_read(table: TableContext, engine: EnginePlugin | None) -> Directly:
    """Return how the views of a table on an engine (None: a dialect that none runs) read its events.

    Raises `UsageError` if there is no such table, or its rows are no events of the format.
    """
    if not table.is_external:
        return Directly()
    try:
        return Directly(_read(table, engine))
    except NotInSqlError as error:
        if table.config.raw.reading is ReadBy.SQL:
            raise UsageError(
                f"{table.project.file}: {table.name}: `reading: sql`, but its view needs a copy of the events: {error}; set "
                "`raw: {reading: copy}`, or leave `reading` out"
            ) from error
        return Directly(why=str(error))


def _read(table: TableContext, engine: EnginePlugin | None) -> EventsRead:
    if table.config.raw.reading is ReadBy.COPY:
        raise NotInSqlError("`reading: copy` is set")
    if table.config.policies:
        raise NotInSqlError("policies of columns are applied to a copy")
    if engine is None:
        raise NotInSqlError("no engine is known to run this dialect")
    if not table.project.is_remote and Denylist.read(table.forgotten_file).entries:
        raise NotInSqlError("keys were forgotten, and only the copy is without them")
    if engine.views_name_files and place_of(table.state_location).exists():
        raise NotInSqlError("it has a state, which is faster to read")
    if table.project.is_remote:
        return _remote(table)
    opened = ExternalTable.open(table.location)
    columns, partitions = _columns(opened, engine)
    reading = Reading.of(table.format.name, table.schema, columns=columns, partitions=partitions, where=table.location)
    sample, of = _sample(opened, columns), EventsOf(table.relation, table.format, reading, engine.name)
    return EventsRead(table.location, plan_of_events(of, columns, sample=sample))


def _sample(found: ExternalTable, columns: pa.Schema) -> list[Any]:
    """Return parsed values of the first events, none if the table has no column `value` of JSON."""
    if "value" not in columns.names or not is_text(columns.field("value").type):
        return []
    parsed: list[Any] = []
    for file in found.files:
        for batch, _ in found.batches(file, rows=_SAMPLE):
            for value in batch.column("value").to_pylist():
                with suppress(MalformedEventError):
                    parsed += [] if value is None else [parse_json(utf8("value", value))]
            if any(isinstance(one, dict) for one in parsed):
                return parsed
    return parsed


def _remote(table: TableContext) -> EventsRead:
    with table.project.remote() as warehouse:
        columns = warehouse.columns(table.location)
    config = table.config.raw
    own = {name for name in (config.kafka_key, config.kafka_data) if not table.schema.has(name)}
    texts = {pa.json_(pa.string()): pa.string()}
    events = pa.schema([pa.field(field.name, texts.get(field.type, field.type)) for field in columns if field.name not in own])
    reading = Reading.of(table.format.name, table.schema, columns=events, partitions=frozenset(), where=table.location)
    key = config.kafka_key if config.kafka_key in own else ""
    of = EventsOf(table.relation, table.format, reading, table.project.config.engine)
    return EventsRead(table.location, plan_of_events(of, columns, key=key))


def _columns(found: ExternalTable, engine: EnginePlugin) -> tuple[pa.Schema, frozenset[str]]:
    if not engine.views_name_files:
        return found.columns, found.partitions
    if not found.files:
        raise NotInSqlError("it has no files yet")
    if any(file.kept is not None for file in found.files):
        raise NotInSqlError("deletion vectors hide some of its rows, which are still in its files")
    # a partition column is in no file
    return pa.schema([field for field in found.columns if field.name not in found.partitions]), frozenset()
