"""The events of relational sources: Debezium's envelopes and unwrapped rows, and Kafka records of keys and whole rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cdc_views.formats.connect.hints import Hints, Unit
from cdc_views.formats.debezium.format import DebeziumOptions
from cdc_views.formats.debezium.notices import is_notice
from cdc_views.formats.debezium.order import MYSQL, POSITION_BITS, POSTGRES
from cdc_views.model.schema import Column, TableSchema
from cdc_views.model.types import Kind, Scalar
from cdc_views.plan.documents import Failure, HasMember, LastNumber, Member, ObjectMember, Physical
from cdc_views.plan.expr import (
    Call,
    Case,
    Expr,
    Lit,
    Named,
    Op,
    both,
    coalesce,
    col,
    either,
    equal,
    is_null,
    largest,
    literal,
    not_null,
    when,
)
from cdc_views.plan.nodes import Scan, Select, StepNote, noted
from cdc_views.sql.external.values import MEMBER, OBJECT, Found, Members, NotInSqlError
from cdc_views.sql.external.whole_rows import DELETE, OP, POSITION, ROW, TRUNCATE, WholeRows

_ORDINALS = 1 << 32
_OPS = ("c", "u", "r", DELETE, TRUNCATE)
_EVENT, _OLD, _KEY = "_event", "_old", "_key"
_OBJECTS = ("source", "before", "after", "transaction")
ORDERED = (
    "_log_position orders a row's changes: a place in the log · 2^32, and one within it (S2, S3); some tests stand twice, as "
    "engines may compute before they filter"
)
_FALSE = ("false", "")
_OF_NOTICES = ("ts_ms", "source")
_NO_EVENT = "a message is no change event of Debezium: set `raw: {reading: copy}`"
NO_POSITION = "an event has no position in the log, or comes from another source: set `raw: {reading: copy}`"


@dataclass(frozen=True, slots=True)
class Events:
    """The events of an external table.

    Attributes:
        event: Their members, over the columns of `step`, or of the table itself if that is None.
        step: What opens JSON.
        where: Which rows are events; None: all.
        key: The members of a record's key; None without one.
        names: The names of an event's members; empty if nothing shows them.
        connector: Debezium's name of the source, where only values have it.
    """

    event: Members
    step: Scan | Select | None = None
    where: Expr | None = None
    key: Members | None = None
    names: frozenset[str] = frozenset()
    connector: str = ""

    @classmethod
    def of(cls, columns: pa.Schema, *, value: str = "", key: str = "", sample: Sequence[Any] = ()) -> Events:
        """Return the events in column `value`, or whose members are columns if it is empty; `key` is the column of their keys.

        `sample` has parsed values of some events, if they are JSON. Raises `NotInSqlError`.
        """
        whole = Members.columns(columns)
        beside = whole.member(key) if key else None
        keyed = Members(beside.value, beside.kind) if beside is not None and beside.is_of(pa.types.is_struct) else None
        if not value:
            return cls(whole, key=keyed, names=frozenset(columns.names))
        event = whole.object(value)
        assert event is not None, "the shape of the table has the column"
        if event.kind is not None:
            return cls(event, where=not_null(col(value)), key=keyed, names=event.names or frozenset())
        return cls._of_json(event, not_null(col(value)), sample)

    @classmethod
    def _of_json(cls, message: Members, where: Expr, sample: Sequence[Any]) -> Events:
        assert message.of is not None, "JSON is the value of an expression"
        # Connect's JSON with schemas has the event as its member `payload`
        has_schemas = any(isinstance(one, dict) and one.keys() == {"schema", "payload"} for one in sample)
        opened = [one["payload"] if has_schemas else one for one in sample if not has_schemas or "payload" in one]
        changes = [one for one in opened if isinstance(one, dict) and not is_notice(one)]
        if not changes:
            raise NotInSqlError("no event shows how they look")
        parsed = ObjectMember(message.of, "payload") if has_schemas else message.of
        messages = Scan("messages", "message", ((_EVENT, parsed),), where)
        names = frozenset().union(*changes)
        sources = [one["source"] for one in changes if isinstance(one.get("source"), dict)]
        if not sources:
            return cls(Members(col(_EVENT)), messages, names=names)
        objects = [name for name in _OBJECTS if name in names]
        clock = ("ts_ms", Member(col(_EVENT), "ts_ms"))
        parts = (("op", _op_of_json()), clock, *((name, ObjectMember(col(_EVENT), name)) for name in objects))
        kinds = pa.schema([("op", pa.string()), ("ts_ms", MEMBER), *((name, OBJECT) for name in objects)])
        connectors = {str(source.get("connector")) for source in sources}
        connector = connectors.pop() if len(connectors) == 1 else ""
        return cls(Members.columns(kinds), Select("opened", "message", messages, parts), names=names, connector=connector)

    @property
    def is_envelope(self) -> bool:
        """Whether events have images of a row, and are no rows themselves."""
        return "source" in self.names and bool({"before", "after"} & self.names)

    def select(
        self, name: str, grain: str, columns: Named, where: Expr | None, *, notes: tuple[StepNote, ...] = ()
    ) -> Scan | Select:
        """Return a step of the events that fulfil `where`."""
        kept = both(self.where, where)
        if self.step is None:
            return Scan(name, grain, columns, kept, notes=notes)
        return Select(name, grain, self.step, columns, kept, notes=notes)


def _op_of_json() -> Expr:
    """The operation; null for a heartbeat, a transaction's end or a change of the schema. Fails for what is no event."""
    op, is_notice = Member(col(_EVENT), "op"), either(*(HasMember(col(_EVENT), name) for name in _OF_NOTICES))
    # a null is no message; its rows are left out, but Spark may look at them first
    is_notice = either(is_null(col(_EVENT)), is_notice)
    return Case(((either(not_null(op), is_notice), op),), Failure(_NO_EVENT, Physical.TEXT))


def envelope(schema: TableSchema, shown: TableSchema, events: Events, options: DebeziumOptions) -> WholeRows:
    """Return Debezium's envelopes, with images of the row before and after. Raises `NotInSqlError`."""
    event = events.event
    source, after, before = (event.object(name) for name in ("source", "after", "before"))
    op = _known(event.member("op"), "op").text
    if source is None or after is None or after.of is None:
        raise NotInSqlError("the events have no source or no image after")
    if before is not None and before.kind != after.kind:
        raise NotInSqlError("the images before and after have different types")
    transaction = event.object("transaction") if "transaction" in (event.names or ()) else None
    total_order = None if transaction is None else transaction.member("total_order")
    is_snapshot = either(equal(op, "r"), *is_set(source.member("snapshot")))
    is_change, is_ours = Call(Op.IN, (op, *map(Lit, _OPS))), is_of_table(schema, source.member)
    at = log_position(source.member, is_snapshot, in_transaction(total_order), connector=events.connector)
    # an engine may compute columns before it leaves rows out, so a failure has the condition of its rows
    position = coalesce(at, when(is_change, Failure(NO_POSITION, Physical.POSITION)))
    of_table = when(is_ours, op) if is_ours is not None and source.names is None else op
    row = after.of if before is None or before.of is None else Case(((equal(op, DELETE), before.of),), after.of)
    old = () if before is None or before.of is None else ((_OLD, when(equal(op, "u"), before.of)),)
    key = () if events.key is None or events.key.of is None else ((_KEY, events.key.of),)
    columns: Named = ((OP, of_table), (POSITION, position), (ROW, row), *old, *key)
    # JSON that nobody looked at may be of either
    is_known = bool(events.connector) or source.names is not None
    is_mysql = events.connector in MYSQL if events.connector else is_known and "lsn" not in (source.names or ())
    return WholeRows(
        schema,
        shown,
        events.select("events", "change", columns, both(is_change, is_ours), notes=noted(ORDERED)),
        Members(col(ROW), after.kind),
        options_hints(options, is_mysql=is_mysql, is_known=is_known),
        marks=not is_mysql,
        old=Members(col(_OLD), after.kind) if old else None,
        key=Members(col(_KEY), events.key.kind) if key and events.key is not None else None,
    )


def _known(found: Found | None, name: str) -> Found:
    if found is None:
        raise NotInSqlError(f"the events have no {name!r}")
    return found


def options_hints(options: DebeziumOptions, *, is_mysql: bool, is_known: bool = True) -> Callable[[Column], Hints]:
    """Return what is known about a column's values; `is_known`: whether `is_mysql` is known at all."""

    def hints_of(column: Column) -> Hints:
        if not is_known and column.type == Scalar(Kind.TIME) and column.name not in options.units:
            raise NotInSqlError("the unit of its numbers depends on the source: say it (`units`)")
        return Hints(
            scale=options.scales.get(column.name),
            unit=options.units.get(column.name),
            binary=options.binary,
            decimals=options.decimals,
            # MySQL and MariaDB send TIME in µs in every mode but `connect`
            default_units={Kind.TIME: Unit.MICROS} if is_mysql else {},
        )

    return hints_of


def is_of_table(schema: TableSchema, member: Callable[[str], Found | None]) -> Expr | None:
    """Return whether an event is of the table, by the members that `member` returns; what they do not show counts as right."""
    *outer, table = schema.full_name.split(".")
    namespaces = [part.text for part in map(member, ("schema", "db")) if part is not None]
    found = member("table")
    is_table = None if found is None else equal(found.text, table)
    if not outer or not namespaces:
        return is_table
    return both(is_table, equal(coalesce(*namespaces) if namespaces[1:] else namespaces[0], outer[-1]))


def is_set(flag: Found | None) -> tuple[Expr, ...]:
    """Return whether a flag is there and not false, or null; nothing if the events have none."""
    if flag is None:
        return ()
    if flag.is_of(pa.types.is_boolean):
        return (flag.value,)
    return (~Call(Op.IN, (flag.text, *map(Lit, _FALSE))),)


def in_transaction(order: Found | None) -> Expr:
    """Return the place of a streamed event of PostgreSQL among those of its position: 1, unless Debezium sends it."""
    return Lit(1) if order is None else largest(coalesce(order.whole, Lit(1)), Lit(1))


def log_position(member: Callable[[str], Found | None], is_snapshot: Expr, in_transaction: Expr, *, connector: str = "") -> Expr:
    """Return the write time of an event (`formats.debezium.order`) by its members, which `member` returns; null without one.

    `connector` is Debezium's name of the source, if it is known; else JSON shows it.
    """
    given = member("order")
    if given is not None and not given.is_json:
        raise NotInSqlError("the events have an order of their own, `source.order`")
    file, pos, row, lsn = (member(name) for name in ("file", "pos", "row", "lsn"))
    branches: list[tuple[Expr, Expr]] = []
    if lsn is not None and connector not in MYSQL:
        ordinal = Case(((is_snapshot, Lit(0)),), in_transaction)
        branches.append((_has(lsn, given, member, connector or POSTGRES), lsn.as_type(Physical.POSITION) * _ORDINALS + ordinal))
    if file is not None and pos is not None and connector not in POSTGRES:
        ordinal = Case(((is_snapshot, Lit(0)),), literal(1) if row is None else coalesce(row.whole, Lit(0)) + 1)
        number = LastNumber(file.text) * (1 << POSITION_BITS)
        at = (number + pos.as_type(Physical.POSITION)) * _ORDINALS + ordinal
        branches.append((both(_has(pos, given, member, connector or MYSQL), not_null(file.value)) or not_null(pos.value), at))
    if not branches:
        raise NotInSqlError("the events have no position in a log")
    return Case(tuple(branches))


def _has(place: Found, given: Found | None, member: Callable[[str], Found | None], connector: str | frozenset[str]) -> Expr:
    """Whether an event has its position in one member, and comes from one of these connectors, as far as it says."""
    own = member("connector")
    known = [connector] if isinstance(connector, str) else sorted(connector)
    of = None if own is None else equal(own.text, known[0]) if not known[1:] else Call(Op.IN, (own.text, *map(Lit, known)))
    found = both(of, None if given is None else is_null(given.value), not_null(place.value))
    assert found is not None
    return found
