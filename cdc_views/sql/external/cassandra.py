"""The events of Debezium's Cassandra connector as facts of the canonical relation, so that the plan of a raw table reads them.

They are what `formats.debezium_cassandra` decodes: one write time a row, an expiry a cell, a row marker for what is no UPDATE.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

from cdc_views.formats.connect.hints import Hints
from cdc_views.formats.debezium_cassandra.format import SNAPSHOT_SHIFT, UNITS
from cdc_views.model.naming import bound_name, key_name, physical_name
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import TEXT_KINDS, Kind, Scalar, carries_comparable, carries_order_bytes, is_text
from cdc_views.plan import names
from cdc_views.plan.documents import ArraySize, As, Failure, ItemAt, Physical
from cdc_views.plan.expr import (
    Call,
    Case,
    Expr,
    Lit,
    Named,
    Op,
    Struct,
    both,
    coalesce,
    col,
    either,
    equal,
    is_null,
    largest,
    not_null,
    when,
)
from cdc_views.plan.nodes import Node, Scan, Select, noted
from cdc_views.plan.order import RANK, SHIFT, VALUE, WRITTEN
from cdc_views.rules.cells import RANK_FLOOR, TTL_BITS
from cdc_views.rules.facts import FactKind
from cdc_views.sql.external.relational import Events, is_set
from cdc_views.sql.external.values import Found, Members, NotInSqlError, is_uuid, physical_of, stored_value

_WRITES, _MARKS, _AT, _SECONDS, _AFTER = "_writes", "_marks", "_at", "_seconds", "_after"
"""Columns of an event: whether it writes a row, and its marker; its write time; the connector's clock; its cells."""
_OPS = ("i", "u", "d", "r")
_ETERNAL = Lit(RANK_FLOOR + 1)
"""The rank of a cell with bytes that does not expire."""
_EXPIRING = RANK_FLOOR + 2 * ((1 << TTL_BITS) - 2) + 1
"""The rank of a cell with bytes that expires in 1970, and lived for a second (`rules.cells.rank`)."""
_MILLION = 1_000_000
_NO_TIME = "an event has no `source.ts_us`: set `raw: {reading: copy}`"
_NO_KEY = "an event has no value of key column {}: set `raw: {{reading: copy}}`"
_NOTE = "_at: the latest write time of its cells"
_HINTS = Hints(default_units=UNITS)
_BOUNDS = ("_range_start", "_range_end")
_OF_BOUNDS = {Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, *TEXT_KINDS}
"""Kinds of clustering columns whose values in a range's end are their text."""


@dataclass(frozen=True, slots=True)
class CassandraEvents:
    """The events of an external table, as facts.

    Attributes:
        schema: The source table's.
        step: The events, with the columns `KIND`, `_WRITES`, `_MARKS`, `_AT`, `_SECONDS` and `_AFTER`.
        after: The members of `_AFTER`: an object for each column that is set, and the ends of a range deletion.
    """

    schema: TableSchema
    step: Scan | Select
    after: Members

    @classmethod
    def of(cls, schema: TableSchema, events: Events) -> CassandraEvents:
        """Return the events. Raises `NotInSqlError` if SQL cannot read them exactly."""
        _check(schema)
        source, after = events.event.object("source"), events.event.object("after")
        op, millis = events.event.member("op"), events.event.member("ts_ms")
        micros = None if source is None else source.member("ts_us")
        if source is None or after is None or after.of is None or op is None or millis is None or micros is None:
            raise NotInSqlError("the events have no `source.ts_us`, `ts_ms`, `op` or `after`")
        is_change = Call(Op.IN, (op.text, *map(Lit, _OPS)))
        # S5: a snapshot's read precedes every write
        read_at = Case(((either(*is_set(source.member("snapshot"))), micros.whole + -SNAPSHOT_SHIFT),), micros.whole)
        at = coalesce(read_at, when(is_change, Failure(_NO_TIME, Physical.INT64)))
        kind, writes = _kind_of(schema, after, op.text)
        marks = both(writes, ~equal(op.text, "u")) or writes
        seconds = (_SECONDS, millis.whole // 1000)
        columns: Named = ((names.KIND, kind), (_WRITES, writes), (_MARKS, marks), (_AT, at), seconds, (_AFTER, after.of))
        step = events.select("events", "change", columns, both(is_change, _is_of(schema, source)), notes=noted(_NOTE))
        found = cls(schema, step, Members(col(_AFTER), after.kind))
        found.canonical()  # raises for what SQL does not read
        return found

    def facts(self, name: str, *, kinds: Iterable[FactKind], columns: Named, where: Expr | None) -> Node:
        """Return the facts of some kinds, with `columns` over the columns of the canonical relation."""
        facts = Select(f"{name}_read", "fact", self.step, self.canonical())
        wanted = Call(Op.IN, (col(names.KIND), *(Lit(kind.value) for kind in kinds)))
        return Select(name, facts.grain, facts, columns, both(wanted, where))

    def canonical(self) -> Named:
        """Return the columns of the canonical relation, over an event. Raises `NotInSqlError`."""
        keys = tuple(part for column in self.schema.row_key for part in self._key(column))
        cells = tuple((physical_name(column.name), self._stored(column)) for column in self.schema.regulars)
        bounds = (self._bound(name, bound) for name, bound in zip((names.FROM, names.TO), _BOUNDS, strict=True))
        return (
            (names.KIND, col(names.KIND)),
            *keys,
            (names.LIVE, when(col(_MARKS), self._marker())),
            (names.DELETED, when(~col(_WRITES), Struct(((WRITTEN, col(_AT)),)))),
            *(bounds if self.schema.clustering else ()),
            *cells,
        )

    def _cell(self, column: Column) -> Found:
        return _value_of(self.after, column)

    def _key(self, column: Column) -> Named:
        value = stored_value(column.type, self._cell(column), _HINTS)
        if column.role is Role.PARTITION:
            value = coalesce(value, Failure(_NO_KEY.format(column.name), physical_of(column.type)))
        shown = ((physical_name(column.name), value),)
        return (*shown, (key_name(column.name), As(value, Physical.BYTES))) if carries_comparable(column.type) else shown

    def _stored(self, column: Column) -> Expr:
        """The cell of a column that the event set."""
        try:
            value = stored_value(column.type, self._cell(column), _HINTS)
        except NotInSqlError as error:
            raise NotInSqlError(f"column {column.name!r}: {error}") from error
        micros = self._expiry(column)
        size: Expr = Case(((equal(value, ""), Lit(-1)),), Lit(0)) if is_text(column.type) else Lit(0)
        ranks = ((is_null(self._cell(column).value), col(_SECONDS)), (is_null(micros), _ETERNAL))
        rank = Case(ranks, _expiring(micros))
        if is_text(column.type):  # of two live cells of one time, the one with bytes wins (C2.6)
            rank = Case((ranks[0],), Case((ranks[1],), _expiring(micros)) + size)
        return when(col(_WRITES) & self._is_set(column), Struct(((WRITTEN, col(_AT)), (RANK, rank), (VALUE, value))))

    def _is_set(self, column: Column) -> Expr:
        found = self.after.object(column.name)
        assert found is not None
        flag = found.member("set")
        if flag is None:
            raise NotInSqlError(f"column {column.name!r}: the events do not say whether it is set")
        return equal(flag.text, "true") if flag.is_json else flag.value

    def _expiry(self, column: Column) -> Expr:
        found = self.after.object(column.name)
        micros = None if found is None else found.member("deletion_ts")
        if micros is None:
            raise NotInSqlError(f"column {column.name!r}: the events have no `deletion_ts`")
        return micros.whole

    def _marker(self) -> Expr:
        """The row marker: it expires with the cell that expires last, unless one does not expire."""
        cells = [(self._is_set(c) & not_null(self._cell(c).value), self._expiry(c)) for c in self.schema.regulars]
        rank: Expr = _ETERNAL
        if cells:
            last = largest(*(when(is_live, micros) for is_live, micros in cells))
            is_eternal = either(*(both(is_live, is_null(micros)) or is_live for is_live, micros in cells))
            rank = coalesce(Case(((is_eternal, _ETERNAL),), _expiring(last)), _ETERNAL)
        return Struct(((WRITTEN, col(_AT)), (RANK, rank)))

    def _bound(self, name: str, bound: str) -> tuple[str, Expr]:
        end, side = self.after.object(bound), bound.rpartition("_")[2].upper()
        values, method = (None, None) if end is None or end.kind is None else (end.member("values"), end.member("method"))
        if end is None or values is None or method is None:
            raise NotInSqlError("the ends of range deletions are no structs")
        size = ArraySize(values.value)
        inclusive = either(Call(Op.LIKE, (method.text, Lit(f"%INCL_{side}%"))), equal(size, 0))
        parts: list[tuple[str, Expr]] = [("size", size), ("inclusive", inclusive)]
        for index, column in enumerate(self.schema.clustering):
            text = ItemAt(values.value, index)["value"]
            parts.append((bound_name(column.name), text if is_text(column.type) else As(text, physical_of(column.type))))
        assert end.of is not None
        return name, when(not_null(end.of), Struct(tuple(parts)))


def _check(schema: TableSchema) -> None:
    if schema.statics:
        raise NotInSqlError("static columns, which the connector does not send")
    for column in schema.columns:
        kind = column.type
        if kind.is_multicell:
            raise NotInSqlError(f"column {column.name!r}: SQL makes no elements of {kind}")
        if not column.is_key and carries_order_bytes(kind):
            raise NotInSqlError(f"column {column.name!r}: SQL orders values of {kind} in another way than their bytes (C3)")
        is_kept = is_uuid(kind) if column.role is Role.PARTITION else isinstance(kind, Scalar) and kind.kind in _OF_BOUNDS
        if column.is_key and not is_kept and (carries_comparable(kind) or column.role is Role.CLUSTERING):
            raise NotInSqlError(f"key column {column.name!r}: SQL does not order {kind} as Cassandra does")


def _kind_of(schema: TableSchema, after: Members, op: Expr) -> tuple[Expr, Expr]:
    """The kind of the fact that an event is, and whether it writes a row."""
    is_deletion = equal(op, "d")
    ends = [after.member(bound) for bound in _BOUNDS] if schema.clustering else []
    given = [not_null(end.value) for end in ends if end is not None]
    ranges = [(equal(op, "r") & either(*given), Lit(FactKind.RANGE.value))] if given else []
    keys = [is_null(_value_of(after, column).value) for column in schema.clustering]
    of_partition = both(is_deletion, *keys) or is_deletion
    kind = Case((*ranges, (of_partition, Lit(FactKind.PARTITION.value))), Lit(FactKind.ROW.value))
    return kind, both(~is_deletion, *(~is_range for is_range, _ in ranges)) or ~is_deletion


def _value_of(after: Members, column: Column) -> Found:
    """The value in the object of a column."""
    found = after.object(column.name)
    value = None if found is None else found.member("value")
    if value is None:
        raise NotInSqlError(f"column {column.name!r}: the events have it not")
    return value


def _expiring(micros: Expr) -> Expr:
    """The rank of a cell with bytes that expires; null for null.

    Of one write time, cells that expire in the same second have the same time to live, so that any stands for it (C2.5).
    """
    return (micros // _MILLION) * (1 << SHIFT) + _EXPIRING


def _is_of(schema: TableSchema, source: Members) -> Expr | None:
    found = ((source.member("keyspace"), schema.keyspace), (source.member("table"), schema.name))
    return reduce(both, (equal(part.text, name) for part, name in found if part is not None), None)
