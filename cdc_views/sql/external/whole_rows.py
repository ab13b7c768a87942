"""The plan of a view over events that each write a whole row (rules S1 to S6): no step makes facts or cells of them.

What every event has comes from the row's latest event as one value. Only what an event may lack has a latest value of its own.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, replace

from cdc_views.formats.connect.hints import Hints
from cdc_views.formats.unavailable import MARK
from cdc_views.model.naming import physical_name
from cdc_views.model.schema import Column, TableSchema
from cdc_views.model.types import Kind, LogicalType, Scalar, carries_comparable
from cdc_views.plan import names
from cdc_views.plan.documents import As, Differs, Failure, Member, Physical
from cdc_views.plan.events import EXISTS, GONE, SINCE_TRUNCATE, EventColumn, newest_of
from cdc_views.plan.expr import (
    TRUE,
    Agg,
    Col,
    Expr,
    Fold,
    Friendly,
    Lit,
    Named,
    both,
    coalesce,
    col,
    either,
    equal,
    is_null,
    not_null,
    when,
)
from cdc_views.plan.nodes import Aggregate, Node, Scan, Select, StepNote, beside, noted
from cdc_views.plan.order import shows_null
from cdc_views.sql.external.decimals import is_exact_number, shown_number, unscaled
from cdc_views.sql.external.values import Found, Members, NotInSqlError, is_unit_guessed, is_uuid, physical_of, stored_value

OP, POSITION, ROW = "_op", names.LOG_POSITION, "_row"
"""Columns of an event: `DELETE`, `TRUNCATE` or another letter if it writes its row; its write time, an order in the source's
log (S2); the row, as written or as deleted."""
DELETE, TRUNCATE = "d", "t"
_MARKED = frozenset({Kind.TEXT, Kind.ASCII, Kind.JSON, Kind.BLOB, Kind.DECIMAL})
"""Kinds of values that PostgreSQL may store out of line; Debezium does not send them if they stay (rule S4)."""
_TEXTS = frozenset({Kind.TEXT, Kind.ASCII, Kind.JSON})
_GUESSED = "size tells whether {} counts ms or µs (S1), unless `units` of the project file does"
_LAST_TRUNCATE = "the last truncate (S6)"
_MOVES = "an event has no value of key column {name}, or moves its row to another key: set `raw: {{reading: copy}}`"


@dataclass(frozen=True, slots=True)
class WholeRows:
    """The events of an external table, each about one row, or a truncation.

    Attributes:
        schema: The source table's.
        shown: The same with the types that the view shows.
        events: A step with the columns `OP`, `POSITION`, and those that `row`, `old` and `key` read.
        row: The row's members.
        hints_of: What is known about a column's values.
        marks: Whether events have Debezium's mark in the place of values that they do not send.
        old: The row before an update, which may have another key; None if events do not have it.
        key: The members of the record's key; None without one.
        key_is_first: Whether the key's own columns count before those of the row.
        has_truncates: Whether an event may be a truncation.
    """

    schema: TableSchema
    shown: TableSchema
    events: Scan | Select
    row: Members
    hints_of: Callable[[Column], Hints]
    marks: bool
    old: Members | None = None
    key: Members | None = None
    key_is_first: bool = False
    has_truncates: bool = True

    def plan(self) -> Node:
        """Return the view's rows, with the output names of `plan.build`. Raises `NotInSqlError`."""
        keys = [physical_name(column.name) for column in self.schema.row_key]
        rows = newest_of(self._keyed(), keys, self._told(), position=POSITION)
        return Select("result", "visible row", self._read(rows), self._shown(), notes=self._notes)

    def _keyed(self) -> Select:
        """The changes of rows, with their keys, since the last truncation."""
        keys = ((physical_name(column.name), self._key(column)) for column in self.schema.row_key)
        own = ((POSITION, col(POSITION)), (GONE, equal(col(OP), DELETE)))
        columns = (*keys, *self._row(), *own)
        if not self.has_truncates:
            return Select("changes", "change of a row", self.events, columns)
        is_truncate, last = equal(col(OP), TRUNCATE), (names.TABLE_DELETED, Agg(Fold.MAX, col(POSITION)))
        table = Aggregate("latest_table", "table", self.events, (), (last,), is_truncate, notes=noted(_LAST_TRUNCATE))
        both_sides = beside("events_and_table", self.events, table, ())
        counts = both(~is_truncate, coalesce(col(POSITION) > col(names.TABLE_DELETED), TRUE))
        return Select("changes", "change of a row", both_sides, columns, counts, notes=noted(SINCE_TRUNCATE))

    def _row(self) -> Named:
        """What holds the row: one column with its members, or a column of each."""
        row: Named = tuple((physical_name(column.name), self._found(column).value) for column in self.schema.regulars)
        if isinstance(self.row.of, Col):
            row = ((self.row.of.name, self.row.of),)
        # some deletions have the row as it was before
        return tuple((name, when(~equal(col(OP), DELETE), value)) for name, value in row)

    def _told(self) -> list[EventColumn]:
        """The row, and what events may leave out on its own."""
        told = {name: EventColumn(name, col(name)) for name, _ in self._row()}
        for column in self.schema.regulars:
            sent, name = self._is_sent(column), physical_name(column.name)
            if sent is not None:
                told[name] = EventColumn(name, self._place(column).value, sent)
        return list(told.values())

    @property
    def _notes(self) -> tuple[StepNote, ...]:
        unknown = sorted(n for n in self.row.names or () if not self._is_known(n))
        return noted(f"the schema file lacks {', '.join(unknown)}" if unknown else "")

    def _is_known(self, name: str) -> bool:
        # metadata of an unwrapped row begins so
        return self.schema.has(name) or self.schema.drop_time(name) is not None or name.startswith("__")

    def _read(self, rows: Node) -> Select:
        """The rows that exist, with stored values."""
        columns: dict[str, Expr] = {name: col(name) for name in (physical_name(c.name) for c in self.schema.row_key)}
        for column in self.schema.regulars:
            name, found = physical_name(column.name), self._place(column)
            columns[name] = self._value(column, found if self._is_sent(column) is None else replace(found, value=col(name)))
        regulars = self.schema.regulars
        guessed = [c.name for c in regulars if is_unit_guessed(c.type, self._found(c), self.hints_of(c))]
        notes = noted(EXISTS, _GUESSED.format(", ".join(guessed)) if guessed else "")
        return Select("read_rows", "visible row", rows, tuple(columns.items()), ~col(GONE), notes=notes)

    def _shown(self) -> Named:
        # a value is written twice in some friendly forms: so it has a column first, unless that is all it is
        columns: list[tuple[str, Expr]] = []
        for column in self.schema.row_key + self.schema.regulars:
            name, is_key = physical_name(column.name), column.is_key
            is_number = not is_key and is_exact_number(self._found(column), self._kind(column))
            value: Expr = col(name) if is_number else Friendly(col(name), self._kind(column))
            value = value if shows_null(self._kind(column)) else when(not_null(col(name)), value)
            columns.append((names.view_key(column) if is_key else name, value))
        return tuple(columns)

    def _kind(self, column: Column) -> LogicalType:
        """The type that the view shows."""
        return self.shown.column(column.name).type

    def _found(self, column: Column) -> Found:
        found = self.row.member(column.name)
        if found is None:
            raise NotInSqlError(f"column {column.name!r}: the events have it not")
        if isinstance(found.value, Member) and isinstance(column.type, Scalar) and column.type.kind in _TEXTS:
            return replace(found, value=replace(found.value, is_scalar=False))
        return unscaled(column.type, found, self._kind(column), self.hints_of(column))

    def _place(self, column: Column) -> Found:
        """Where a change has the column's value."""
        found = self._found(column)
        return found if isinstance(self.row.of, Col) else replace(found, value=col(physical_name(column.name)))

    def _is_sent(self, column: Column) -> Expr | None:
        """Whether an event that writes the row has the column's value; None if every event has."""
        found, kind = self._place(column), column.type
        has = self.row.has(column.name)
        sent = None if has == TRUE else has
        if not self.marks or not isinstance(kind, Scalar) or kind.kind not in _MARKED or kind.decimal_size is not None:
            return sent
        is_bytes = kind.kind is Kind.BLOB
        mark = Lit((base64.b64encode(MARK) if is_bytes and found.is_text else MARK).decode())
        return both(sent, Differs(found.value, As(mark, Physical.BYTES) if is_bytes and not found.is_text else mark))

    def _value(self, column: Column, found: Found) -> Expr:
        try:
            if is_exact_number(found, self._kind(column)):
                return shown_number(found, self._kind(column))
            return stored_value(column.type, found, self.hints_of(column))
        except NotInSqlError as error:
            raise NotInSqlError(f"column {column.name!r}: {error}") from error

    def _key(self, column: Column) -> Expr:
        """The value of a key column; fails without one, and for an update that changes it."""
        name = column.name
        if carries_comparable(column.type) and not is_uuid(column.type):
            raise NotInSqlError(f"key column {name!r}: equal values of {column.type} may be written differently")
        parts = (self.key, self.row) if self.key_is_first else (self.row, self.key)
        found = [place for part in parts if part is not None and (place := part.member(name)) is not None]
        if not found:
            raise NotInSqlError(f"key column {name!r}: the events have it not")
        values = [stored_value(column.type, place, self.hints_of(column)) for place in found]
        failure: Expr = Failure(_MOVES.format(name=name), physical_of(column.type))
        # an engine may look at truncations, and at other tables' events, before it leaves them out
        missing = when(~equal(col(OP), TRUNCATE), failure) if self.has_truncates else failure
        former = None if self.old is None else self.old.member(name)
        if former is None:
            return coalesce(*values, missing)
        stays = either(is_null(former.value), equal(former.value, found[0].value))
        return coalesce(when(stays, values[0]), *values[1:], missing)
