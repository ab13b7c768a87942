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
from cdc_views.plan.expr import (
    TRUE,
    Agg,
    Expr,
    Fold,
    Friendly,
    Lit,
    Named,
    RowNumber,
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
from cdc_views.plan.nodes import Aggregate, Node, Scan, Select, StepNote, beside, noted
from cdc_views.plan.order import VALUE, WRITTEN, shows_null, survives
from cdc_views.sql.external.decimals import is_exact_number, shown_number, unscaled
from cdc_views.sql.external.values import Found, Members, NotInSqlError, is_unit_guessed, is_uuid, physical_of, stored_value

OP, POSITION, ROW = "_op", "_position", "_row"
"""Columns of an event: `DELETE`, `TRUNCATE` or another letter if it writes its row; its write time, an order in the source's
log (S2); the row, as written or as deleted."""
DELETE, TRUNCATE = "d", "t"
_MARKED = frozenset({Kind.TEXT, Kind.ASCII, Kind.JSON, Kind.BLOB, Kind.DECIMAL})
"""Kinds of values that PostgreSQL may store out of line; Debezium does not send them if they stay (rule S4)."""
_TEXTS = frozenset({Kind.TEXT, Kind.ASCII, Kind.JSON})
_EXISTS = "a row exists if its last write is newer than _cutoff (S1)"
_OLDER = "values that were written before _cutoff become null (D1)"
_GUESSED = "{} counts ms where it is below 10^14, else µs (S1): `units` of the project file says which"
_NOT_DELETED = "keys whose last change is no deletion"
_COVERED = "_cutoff is when it was last deleted or truncated (D2, S6)"
_NEWEST = "_newest"
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
        keyed = self._keyed()
        rows = self._latest(keyed) if self._single else self._newest(keyed)
        covered = self._covered(rows) if self.has_truncates else _renamed(rows)
        return Select("result", "visible row", self._read(covered), self._shown(), notes=self._notes)

    def _covered(self, rows: Node) -> Node:
        """The rows with the largest deletion that covers each."""
        is_truncate, last = equal(col(OP), TRUNCATE), (names.TABLE_DELETED, Agg(Fold.MAX, col(POSITION)))
        table = Aggregate("latest_table", "table", self.events, (), (last,), is_truncate, notes=noted("the last truncate (S6)"))
        kept = tuple((name, col(name)) for name in rows.output() if name != names.DELETED)
        own = (col(names.DELETED),) if names.DELETED in rows.output() else ()
        scope = (names.SCOPE, largest(*own, col(names.TABLE_DELETED)))
        note = _COVERED if own else "_cutoff is the last truncate (S6)"
        return Select("covered_rows", "row key", beside("rows_and_table", rows, table, ()), (*kept, scope), notes=noted(note))

    @property
    def _whole(self) -> list[Column]:
        """The columns that every event has."""
        return [c for c in self.schema.regulars if self._is_sent(c) is None]

    @property
    def _single(self) -> list[Column]:
        """The columns that an event may lack."""
        return [c for c in self.schema.regulars if self._is_sent(c) is not None]

    @property
    def _notes(self) -> tuple[StepNote, ...]:
        unknown = sorted(n for n in self.row.names or () if not self._is_known(n))
        return noted(f"the schema file lacks {', '.join(unknown)}" if unknown else "")

    def _is_known(self, name: str) -> bool:
        # metadata of an unwrapped row begins so
        return self.schema.has(name) or self.schema.drop_time(name) is not None or name.startswith("__")

    def _keyed(self) -> Select:
        """The events with their keys, without truncations."""
        keys = tuple((physical_name(column.name), self._key(column)) for column in self.schema.row_key)
        columns = {**{name: col(name) for name in self.events.output()}, **dict(keys)}
        is_row = ~equal(col(OP), TRUNCATE) if self.has_truncates else None
        return Select("keyed", "change of a row", self.events, tuple(columns.items()), is_row)

    def _latest(self, events: Node) -> Aggregate:
        is_write, written = ~equal(col(OP), DELETE), (WRITTEN, col(POSITION))
        keys = tuple(physical_name(column.name) for column in self.schema.row_key)
        whole = tuple((physical_name(column.name), self._found(column).value) for column in self._whole)
        folds: list[tuple[str, Expr]] = [(names.LIVE, Agg(Fold.MAX, Struct((written, *whole)), is_write))]
        for column in self._single:
            cell = Struct((written, (VALUE, self._found(column).value)))
            folds.append((physical_name(column.name), Agg(Fold.MAX, cell, both(is_write, self._is_sent(column)))))
        folds.append((names.DELETED, Agg(Fold.MAX, col(POSITION), equal(col(OP), DELETE))))
        note = "_live: the latest event that writes the row (S1)"
        return Aggregate("latest_rows", "row key", events, keys, tuple(folds), notes=noted(note))

    def _newest(self, events: Node) -> Select:
        """The newest event of each key, if it is no deletion: it has every column."""
        keys = [col(physical_name(column.name)) for column in self.schema.row_key]
        columns = tuple((name, col(name)) for name in events.output())
        number = (_NEWEST, RowNumber(tuple(keys), (col(POSITION),)))
        last = "_newest: 1 for the last change of a row (S1)"
        numbered = Select("numbered", "change of a row", events, (*columns, number), notes=noted(last))
        whole = ((physical_name(column.name), self._found(column).value) for column in self._whole)
        is_there = both(equal(col(_NEWEST), 1), ~equal(col(OP), DELETE))
        shown: list[tuple[str, Expr]] = [*((key.name, key) for key in keys), (POSITION, col(POSITION)), *whole]
        return Select("newest_rows", "row key", numbered, tuple(shown), is_there, notes=noted(_NOT_DELETED))

    def _read(self, covered: Node) -> Select:
        """The rows that exist, with stored values."""
        columns: dict[str, Expr] = {name: col(name) for name in (physical_name(c.name) for c in self.schema.row_key)}
        singles = {column.name for column in self._single}
        for column in self.schema.regulars:
            name, is_single = physical_name(column.name), column.name in singles
            place = col(name)[VALUE] if is_single else col(names.LIVE)[name] if singles else col(name)
            value = self._value(column, replace(self._found(column), value=place))
            columns[name] = when(survives(col(name)[WRITTEN], col(names.SCOPE)), value) if is_single else value
        is_covered = names.SCOPE in covered.output()
        last = col(names.LIVE)[WRITTEN] if singles else col(POSITION)
        written = survives(last, col(names.SCOPE)) if is_covered else None
        regulars = self.schema.regulars
        guessed = [c.name for c in regulars if is_unit_guessed(c.type, self._found(c), self.hints_of(c))]
        notes = noted(
            _EXISTS if is_covered else "",
            _OLDER if singles and is_covered else "",
            _GUESSED.format(", ".join(guessed)) if guessed else "",
        )
        return Select("read_rows", "visible row", covered, tuple(columns.items()), written, notes=notes)

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

    def _is_sent(self, column: Column) -> Expr | None:
        """Whether an event that writes the row has the column's value; None if every event has."""
        found, kind = self._found(column), column.type
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


def _renamed(rows: Node) -> Node:
    """The rows, of which no deletion covers more than one."""
    columns = tuple((names.SCOPE if name == names.DELETED else name, col(name)) for name in rows.output())
    return Select("covered_rows", "row key", rows, columns)
