"""`cassandra-mutation/1`: one partition update per line, exactly as in a replica's commit log."""

from __future__ import annotations

from typing import Any

from cdc_views.errors import MalformedEventError, did_you_mean
from cdc_views.formats.base import Fidelity, RawFormat, SourceLine, Verdict
from cdc_views.formats.mutation_redacting import redacted_mutation
from cdc_views.formats.redaction import EventColumns
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import EMPTY, Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, Udt, carries_comparable
from cdc_views.rules.cells import MAX_TTL, Cell, Deletion, Liveness
from cdc_views.rules.codec.jsonread import from_json, parse_json
from cdc_views.rules.codec.serialized import deserialize, serialize
from cdc_views.rules.facts import Bound, Elements, Fact, FactKind, Origin
from cdc_views.rules.oracle import path_type

FORMAT = "cassandra-mutation/1"
_MICROS = range(-(1 << 63), 1 << 63)
_SERVER_SECONDS = range(1 << 32)
_EVENT = {"format", "node", "segment", "position", "keyspace", "table", "partition", "partition_deletion", "rows", "unreadable"}
_ROW = {"kind", "clustering", "liveness", "deletion", "cells"}
_RANGE = {"kind", "start", "end", "deletion"}
_CELL = {"column", "path", "written", "ttl", "expires_at", "deleted_at", "value", "bytes"}


class CassandraMutation(RawFormat):
    """The exact format: every cell with its own write time, expiry and bytes, every deletion with its scope."""

    name = "cassandra-mutation"
    is_positioned = True
    carries_node = True

    def decode(self, event: SourceLine, schema: TableSchema) -> list[Fact]:
        body = _members(parse_json(event.text), _EVENT, "the event")
        _check_table(body, schema)
        if "unreadable" in body:
            reason = _required(_members(body["unreadable"], {"reason", "bytes"}, "unreadable"), "reason")
            raise MalformedEventError(f"the mutation could not be read: {reason}")
        origin = Origin(_string(body, "node"), str(_required(body, "segment")), _integer(body, "position", range(1 << 63)))
        partition = _partition(schema, _required(body, "partition"))
        facts = []
        if "partition_deletion" in body:
            deletion = _deletion(body["partition_deletion"])
            facts.append(Fact(FactKind.PARTITION, partition, deletion=deletion, origin=origin))
        for row in _list(body.get("rows", []), "rows"):
            facts.append(_row(row, schema, partition, origin))
        return facts  # empty for an empty update; commit logs do hold these

    def redact(self, document: Any, columns: EventColumns) -> Any:
        return redacted_mutation(document, columns)

    def fidelity(self, schema: TableSchema) -> list[Fidelity]:
        every = [Fidelity("*", Verdict.EXACT, "markers and deletions of every scope with their own write times", "D1-D3, W1")]
        return every + [
            Fidelity(c.name, Verdict.EXACT, "each cell with its write time, expiry and serialized bytes", "C1-C5")
            for c in schema.columns
        ]


def _check_table(body: dict[str, Any], schema: TableSchema) -> None:
    if _required(body, "format") != FORMAT:
        raise MalformedEventError(f"format is {body['format']!r} where {FORMAT!r} was expected")
    found = f"{_string(body, 'keyspace')}.{_string(body, 'table')}"
    if found != schema.full_name:
        raise MalformedEventError(f"an event of table {found}, where {schema.full_name} was expected")


def _row(row: Any, schema: TableSchema, partition: tuple[Any, ...], origin: Origin) -> Fact:
    kind = _required(_members(row, _ROW | _RANGE, "a row"), "kind")
    if kind == "range_deletion":
        _members(row, _RANGE, "a range_deletion")
        start, end = (_bound(schema, _required(row, side)) for side in ("start", "end"))
        deletion = _deletion(_required(row, "deletion"))
        return Fact(FactKind.RANGE, partition, deletion=deletion, start=start, end=end, origin=origin)
    if kind not in ("row", "static"):
        raise MalformedEventError(f"a row's kind is {kind!r} where row, static or range_deletion was expected")
    _members(row, _ROW, f"a {kind} row")
    role = Role.STATIC if kind == "static" else Role.REGULAR
    cells, elements = _cells(row.get("cells", []), schema, role)
    if kind == "static":
        if "liveness" in row or "deletion" in row:
            raise MalformedEventError("a static row has neither liveness nor deletion (rule D2)")
        return Fact(FactKind.STATIC, partition, cells=cells, elements=elements, origin=origin)
    return Fact(
        FactKind.ROW,
        partition,
        clustering=_key(schema.clustering, row.get("clustering", {}), "clustering"),
        liveness=_liveness(row["liveness"]) if "liveness" in row else None,
        deletion=_deletion(row["deletion"]) if "deletion" in row else None,
        cells=cells,
        elements=elements,
        origin=origin,
    )


def _bound(schema: TableSchema, value: Any) -> Bound:
    bound = _members(value, {"clustering", "inclusive"}, "a bound")
    named = bound.get("clustering", {})
    columns = schema.clustering[: len(named)]
    inclusive = _required(bound, "inclusive")
    if not isinstance(inclusive, bool):
        raise MalformedEventError(f"a bound's inclusive is {inclusive!r} where true or false was expected")
    return Bound(_key(columns, named, "bound"), inclusive)


def _partition(schema: TableSchema, value: Any) -> tuple[Any, ...]:
    key = _key(schema.partition, value, "partition")
    for column, part in zip(schema.partition, key, strict=True):
        if part is EMPTY and not carries_comparable(column.type):
            # it would be stored as null, and null partition keys do not join; legal in Cassandra, never seen in practice
            raise MalformedEventError(f"partition key {column.name!r} is a {column.type} of 0 bytes, which is not supported")
    return key


def _key(columns: tuple[Column, ...], value: Any, what: str) -> tuple[Any, ...]:
    names = {c.name for c in columns}
    named = _members(value, names, what)
    missing = names - named.keys()
    if missing:
        raise MalformedEventError(f"{what} lacks {sorted(missing)[0]!r}")
    return tuple(_named(c.name, c.type, named[c.name]) for c in columns)


def _named(name: str, kind: LogicalType, value: Any) -> Any:
    try:
        if value is None and not (isinstance(kind, Scalar) and kind.kind in (Kind.FLOAT, Kind.DOUBLE)):
            raise MalformedEventError(f"null where a {kind} was expected")
        return from_json(kind, value)
    except MalformedEventError as error:
        raise MalformedEventError(f"{name!r}: {error}") from error


def _cells(entries: Any, schema: TableSchema, role: Role) -> tuple[dict[str, Cell], dict[str, Elements]]:
    simple: dict[str, Cell] = {}
    deletions: dict[str, Deletion] = {}
    paths: dict[str, list[tuple[Any, Cell]]] = {}
    for entry in _list(entries, "cells"):
        name = _string(entry if isinstance(entry, dict) else {}, "column")
        column = _cell_column(schema, name, role)
        if column is None:
            continue
        if "deletion" in entry:
            _check_multicell(column, entry)
            deletions[name] = _deletion(_members(entry, {"column", "deletion"}, "a complex deletion")["deletion"])
        elif column.type.is_multicell:
            _check_multicell(column, entry)
            paths.setdefault(name, []).append(_element(column, entry))
        elif name in simple:
            raise MalformedEventError(f"{name!r} occurs twice in one row")
        else:
            simple[name] = _cell(name, column.type, entry)
    elements = {name: Elements(deletions.get(name), tuple(paths.get(name, ()))) for name in deletions.keys() | paths.keys()}
    return simple, elements


def _cell_column(schema: TableSchema, name: str, role: Role) -> Column | None:
    """Return the column of a cell; None if it was dropped: its cells never show (rule W6)."""
    if schema.has(name):
        found = schema.column(name)
        if found.role is not role:
            raise MalformedEventError(f"{name!r} is a {found.role.value} column, found among a {role.value} row's cells")
        return found
    if schema.drop_time(name) is not None:
        return None
    known = [c.name for c in schema.of_role(role)]
    raise MalformedEventError(f"{schema.full_name} has no {role.value} column {name!r}{did_you_mean(name, known)}")


def _check_multicell(column: Column, entry: dict[str, Any]) -> None:
    if not column.type.is_multicell:
        raise MalformedEventError(f"{column.name!r} is one cell ({column.type}) and has no complex deletion")
    if "deletion" not in entry and "path" not in entry:
        raise MalformedEventError(f"a cell of {column.name!r} ({column.type}) has no path")


def _element(column: Column, entry: dict[str, Any]) -> tuple[Any, Cell]:
    kind = column.type
    path = _named(f"{column.name}.path", path_type(kind), entry["path"])
    match kind:
        case SetOf():
            return path, _cell(column.name, None, entry)
        case ListOf():
            return path, _cell(column.name, kind.element, entry)
        case MapOf():
            return path, _cell(column.name, kind.value, entry)
        case Udt():
            field = kind.field_type(path)
            if field is None:
                raise MalformedEventError(f"type {kind.name} of {column.name!r} has no field {path!r}")
            return path, _cell(f"{column.name}.{path}", field, entry)
    raise MalformedEventError(f"{column.name!r} is one cell ({kind})")


def _cell(name: str, kind: LogicalType | None, entry: Any) -> Cell:
    """Return one cell; `kind` is None for a set's elements, which have no value."""
    _members(entry, _CELL, f"a cell of {name!r}")
    written = _integer(entry, "written", _MICROS)
    if "deleted_at" in entry:
        if entry.get("value") is not None or "ttl" in entry or "expires_at" in entry:
            raise MalformedEventError(f"{name!r}: a tombstone has neither value nor expiry")
        return Cell(written, deleted_at=_integer(entry, "deleted_at", _SERVER_SECONDS))
    ttl, expires_at = _expiry(entry)
    if kind is None:
        return Cell(written, b"", b"", ttl, expires_at)
    value, order_bytes = _value(name, kind, entry)
    return Cell(written, value, order_bytes, ttl, expires_at)


def _value(name: str, kind: LogicalType, entry: dict[str, Any]) -> tuple[Any, bytes]:
    stated, digits = entry.get("value"), entry.get("bytes")
    if "value" not in entry and digits is None:
        raise MalformedEventError(f"a cell of {name!r} has neither value nor deleted_at")
    if digits is None:
        value = _named(name, kind, stated)
        return value, serialize(kind, value)
    try:
        given = bytes.fromhex(digits)
    except (TypeError, ValueError) as error:
        raise MalformedEventError(f"bytes of {name!r} are not hex digits: {digits!r}") from error
    # rule C2.6 compares bytes, which also hold what JSON cannot (NaN, infinities); a stated value must still be of the type
    if stated is not None:
        _named(name, kind, stated)
    return deserialize(kind, given), given


def _expiry(entry: dict[str, Any]) -> tuple[int | None, int | None]:
    if ("ttl" in entry) != ("expires_at" in entry):
        raise MalformedEventError("ttl and expires_at come together")
    if "ttl" not in entry:
        return None, None
    return _integer(entry, "ttl", range(1, MAX_TTL + 1)), _integer(entry, "expires_at", _SERVER_SECONDS)


def _liveness(value: Any) -> Liveness:
    body = _members(value, {"written", "ttl", "expires_at"}, "liveness")
    return Liveness(_integer(body, "written", _MICROS), *_expiry(body))


def _deletion(value: Any) -> Deletion:
    body = _members(value, {"written", "deleted_at"}, "a deletion")
    return Deletion(_integer(body, "written", _MICROS), _integer(body, "deleted_at", _SERVER_SECONDS))


def _members(value: Any, known: set[str], what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MalformedEventError(f"{what} is {type(value).__name__} where an object was expected")
    unknown = value.keys() - known
    if unknown:
        name = sorted(unknown)[0]
        raise MalformedEventError(f"{what} has an unknown member {name!r}{did_you_mean(name, sorted(known))}")
    return value


def _required(body: dict[str, Any], name: str) -> Any:
    if name not in body:
        raise MalformedEventError(f"member {name!r} is missing")
    return body[name]


def _string(body: dict[str, Any], name: str) -> str:
    value = _required(body, name)
    if not isinstance(value, str):
        raise MalformedEventError(f"{name!r} is {value!r} where a string was expected")
    return value


def _integer(body: dict[str, Any], name: str, allowed: range) -> int:
    value: object = _required(body, name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise MalformedEventError(f"{name!r} is {value!r} where an integer was expected")
    if value not in allowed:
        raise MalformedEventError(f"{name!r} is {value}, out of range")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise MalformedEventError(f"{what} is {type(value).__name__} where an array was expected")
    return value
