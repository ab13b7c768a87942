"""Records that are rows themselves: Debezium's unwrapped events, and keys with whole rows as values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from cdc_views.formats.connect.hints import Hints
from cdc_views.formats.debezium.format import DebeziumOptions
from cdc_views.formats.debezium.notices import split_metadata
from cdc_views.landing.external.texts import is_text
from cdc_views.model.schema import TableSchema
from cdc_views.plan.documents import Failure, JsonObject, Member, Physical
from cdc_views.plan.expr import Call, Case, Col, Expr, Lit, Named, Op, Struct, coalesce, col, cols, either, equal, is_null
from cdc_views.plan.nodes import Scan, noted
from cdc_views.sql.external.relational import (
    NO_POSITION,
    ORDERED,
    Events,
    in_transaction,
    is_of_table,
    is_set,
    log_position,
    options_hints,
)
from cdc_views.sql.external.values import MEMBER, Found, Members, NotInSqlError
from cdc_views.sql.external.whole_rows import DELETE, OP, POSITION, WholeRows

_WRITE = "u"
_BY_OFFSET = "_log_position is the place in the topic, which orders the writes of a key (S2)"
_KEY, _EVENT = "_record_key", "_event"
_OFFSETS = 1 << 32


def unwrapped(schema: TableSchema, shown: TableSchema, events: Events, options: DebeziumOptions) -> WholeRows:
    """Return Debezium's unwrapped events (`ExtractNewRecordState`), whose metadata has a position. Raises `NotInSqlError`."""
    places = split_metadata({name: name for name in sorted(events.names)}, schema)[1]

    def metadata(name: str) -> Found | None:
        return events.event.member(places[name]) if name in places else None

    op = metadata("op")
    is_snapshot = equal(op.text, "r") if op is not None else Lit(value=False)
    is_deleted = [*is_set(metadata("deleted")), *([equal(op.text, DELETE)] if op is not None else [])]
    if not is_deleted:
        raise NotInSqlError("the rows do not say which are deleted")
    at = log_position(metadata, is_snapshot, in_transaction(metadata("total_order")))
    position = coalesce(at, Failure(NO_POSITION, Physical.POSITION))
    what = Case(((either(*is_deleted), Lit(DELETE)),), Lit(_WRITE))
    columns: Named = ((OP, what), (POSITION, position), *_kept(events.event, schema))
    return WholeRows(
        schema,
        shown,
        events.select("events", "change of a row", columns, is_of_table(schema, metadata), notes=noted(ORDERED)),
        events.event,
        options_hints(options, is_mysql="lsn" not in places),
        marks="lsn" in places,
        has_truncates=False,
    )


def _kept(row: Members, schema: TableSchema) -> Named:
    """The columns that hold the row."""
    if row.of is None:
        return cols(name for name in sorted(row.names or ()) if schema.has(name))
    assert isinstance(row.of, Col)
    return ((row.of.name, row.of),)


def keys_and_rows(schema: TableSchema, shown: TableSchema, columns: pa.Schema, *, sample: Sequence[Any]) -> WholeRows:
    """Return records whose key names a row and whose value is the row, null if there is none. Raises `NotInSqlError`.

    `sample` has parsed values of some records, if they are JSON.
    """
    if any(isinstance(one, dict) and one.keys() == {"schema", "payload"} for one in sample):
        raise NotInSqlError("values have their schemas beside them")
    if any(isinstance(part, dict) for one in sample if isinstance(one, dict) for part in one.values()):
        raise NotInSqlError("values have objects as members, as Avro's unions are in JSON")
    whole = Members.columns(columns)
    key, value, offset = (whole.member(name) for name in ("key", "value", "offset"))
    assert key is not None
    assert value is not None
    assert offset is not None
    opened = whole.object("value")
    assert opened is not None
    assert opened.of is not None
    position = offset.as_type(Physical.POSITION) * _OFFSETS
    op = Case(((is_null(value.value), Lit(DELETE)),), Lit(_WRITE))
    named, kind = _key(schema, key)
    events = Scan(
        "events", "record", ((OP, op), (POSITION, position), (_EVENT, opened.of), (_KEY, named)), notes=noted(_BY_OFFSET)
    )
    return WholeRows(
        schema,
        shown,
        events,
        Members(col(_EVENT), opened.kind),
        lambda _: Hints(),
        marks=True,
        key=Members(col(_KEY), kind),
        key_is_first=True,
        has_truncates=False,
    )


def _key(schema: TableSchema, key: Found) -> tuple[Expr, pa.StructType]:
    """A record's key as a struct of the key columns."""
    if key.kind is not None and pa.types.is_struct(key.kind):
        return key.value, key.kind
    if key.kind is None or not is_text(key.kind) or len(schema.row_key) != 1:
        raise NotInSqlError(f"keys are {key.kind}; SQL reads structs, and texts if one column is the key")
    (column,) = schema.row_key
    text = key.value
    in_object = Member(JsonObject(text, is_lenient=True), column.name)
    unquoted = Member(JsonObject(Call(Op.CONCAT, (Lit('{"k":'), text, Lit("}"))), is_lenient=True), "k")
    starts = [Call(Op.LIKE, (text, Lit(start))) for start in ("{%", '"%')]
    found = Case(((starts[0], in_object), (starts[1], unquoted)), text)
    return Struct(((column.name, found),)), pa.struct([(column.name, MEMBER)])
