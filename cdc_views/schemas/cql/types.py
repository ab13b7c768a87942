"""CQL type text into logical types, in two steps: `read_type` keeps what is written, `TypeScope` looks names up.

The two are apart because a file may use a user type before it creates it, or alter it later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdc_views.errors import SchemaError, did_you_mean
from cdc_views.model.types import Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt, VectorOf
from cdc_views.schemas.cql.marshal import read_marshal
from cdc_views.schemas.tokens import Cursor, Token, TokenKind
from cdc_views.schemas.written_types import WrittenType

RELATIONAL_KINDS = frozenset({Kind.DATETIME, Kind.INSTANT, Kind.JSON})
"""Kinds that Cassandra does not have; a CQL file that names one means a user type."""

NATIVE_KINDS = {kind.value: kind for kind in Kind if kind not in RELATIONAL_KINDS} | {"varchar": Kind.TEXT}
"""The native types by the names CQL writes."""

_PART_COUNTS = {"frozen": 1, "list": 1, "set": 1, "map": 2}


def read_type(cursor: Cursor) -> WrittenType:
    """Read one type at the cursor.

    Raises:
        SchemaError: No type starts here, brackets do not match, or a type has the wrong number of parts.
    """
    start = cursor.token
    if start.kind is TokenKind.STRING:
        return read_marshal(cursor.advance().text, start=start, where=cursor.where)
    quoted = start.kind is TokenKind.QUOTED
    name = cursor.name("a type")
    if not quoted and cursor.sees_symbol("<"):
        return _read_parts(cursor, name=name, start=start)
    if cursor.accept_symbol("."):
        return WrittenType(start, cursor.name("a type's name"), keyspace=name, is_user_type=True)
    if name == Kind.DECIMAL.value and not quoted and cursor.accept_symbol("("):
        return WrittenType(start, name, decimal_size=_read_decimal_size(cursor))
    return WrittenType(start, name, is_user_type=quoted)


def _read_parts(cursor: Cursor, *, name: str, start: Token) -> WrittenType:
    cursor.expect_symbol("<")
    if name == "vector":
        return _read_vector(cursor, start=start)
    if name not in {*_PART_COUNTS, "tuple"}:
        hint = did_you_mean(name, [*_PART_COUNTS, "tuple", "vector"])
        raise cursor.error(f"{name!r} takes no types in brackets{hint}", at=start)
    parts = [read_type(cursor)]
    while cursor.accept_symbol(","):
        parts.append(read_type(cursor))
    cursor.expect_symbol(">")
    wanted = _PART_COUNTS.get(name, len(parts))
    if len(parts) != wanted:
        raise cursor.error(f"{name} takes {wanted} type{'s' * (wanted > 1)}, not {len(parts)}", at=start)
    return WrittenType(start, name, parts=tuple(parts))


def _read_decimal_size(cursor: Cursor) -> tuple[int | None, int]:
    """Read the rest of `decimal(p)` or `decimal(p, s)`: precision and scale; without `s` the scale is 0.

    `*` is a precision that nobody knows, as in `decimal(*, 2)`.
    """
    precision = None if cursor.accept_symbol("*") else _read_size(cursor, "the precision")
    scale = _read_size(cursor, "the scale") if cursor.accept_symbol(",") else 0
    cursor.expect_symbol(")")
    return precision, scale


def _read_size(cursor: Cursor, what: str) -> int:
    token = cursor.token
    if not (token.kind is TokenKind.NUMBER and token.text.isascii() and token.text.isdigit()):
        raise cursor.error(f"expected {what}, a whole number, found {token}")
    return int(cursor.advance().text)


def _read_vector(cursor: Cursor, *, start: Token) -> WrittenType:
    element = read_type(cursor)
    cursor.expect_symbol(",")
    size = cursor.token
    if not (size.kind is TokenKind.NUMBER and size.text.isascii() and size.text.isdigit() and int(size.text) > 0):
        raise cursor.error(f"expected the vector's size, a whole number above 0, found {size}")
    cursor.advance()
    cursor.expect_symbol(">")
    return WrittenType(start, "vector", parts=(element,), size=int(size.text))


@dataclass(frozen=True, slots=True)
class TypeScope:
    """The user types known where a type is written, by (keyspace, name).

    `allows_relational` lets `datetime`, `instant` and `json` name our own kinds (YAML schemas), after user types.
    """

    keyspace: str
    written: Mapping[tuple[str, str], tuple[tuple[str, WrittenType], ...]] = field(default_factory=dict)
    resolved: Mapping[str, Udt] = field(default_factory=dict)
    where: str = ""
    allows_relational: bool = False
    _within: tuple[tuple[str, str], ...] = ()

    def resolve(self, written: WrittenType) -> LogicalType:
        """Return the logical type; top-level collections and user types are multi-cell unless written frozen.

        Raises:
            SchemaError: A user type is unknown or contains itself.
        """
        match written.name if not written.is_user_type else "":
            case "frozen":
                return self._frozen(written.parts[0])
            case "list":
                return ListOf(self._frozen(written.parts[0]), frozen=False)
            case "set":
                return SetOf(self._frozen(written.parts[0]), frozen=False)
            case "map":
                return MapOf(self._frozen(written.parts[0]), self._frozen(written.parts[1]), frozen=False)
            case "tuple":
                return TupleOf(tuple(map(self._frozen, written.parts)))
            case "vector":
                return VectorOf(self._frozen(written.parts[0]), written.size)
            case native if native in NATIVE_KINDS:
                precision, scale = self._decimal_size(written)
                return Scalar(NATIVE_KINDS[native], scale, precision)
            case _:
                return self._user_type(written)

    def _decimal_size(self, written: WrittenType) -> tuple[int | None, int | None]:
        if written.decimal_size is None:
            return None, None
        if not self.allows_relational:
            raise self._error(written, "Cassandra's decimal takes no precision and scale; write `decimal`")
        return written.decimal_size

    def _frozen(self, written: WrittenType) -> LogicalType:
        return self.resolve(written).frozen_form()

    def _user_type(self, written: WrittenType) -> LogicalType:
        if written.fields is not None:
            return self._udt((written.keyspace, written.name), fields=written.fields)
        place = (written.keyspace or self.keyspace, written.name)
        if place in self._within:
            raise self._error(written, f"user type {written.name!r} contains itself")
        if place in self.written:
            return self._udt(place, fields=self.written[place])
        known = self.resolved.get(f"{place[0]}.{place[1]}") or self.resolved.get(written.name)
        if known is not None:
            return Udt(known.keyspace, known.name, known.fields, frozen=False)
        return self._relational(written)

    def _relational(self, written: WrittenType) -> LogicalType:
        if self.allows_relational and not written.is_user_type:
            for kind in RELATIONAL_KINDS:
                if kind.value == written.name:
                    return Scalar(kind)
        raise self._unknown(written)

    def _udt(self, place: tuple[str, str], *, fields: tuple[tuple[str, WrittenType], ...]) -> Udt:
        inner = TypeScope(
            keyspace=place[0],
            written=self.written,
            resolved=self.resolved,
            where=self.where,
            allows_relational=self.allows_relational,
            _within=(*self._within, place),
        )
        return Udt(*place, tuple((name, inner._frozen(kind)) for name, kind in fields), frozen=False)

    def _unknown(self, written: WrittenType) -> SchemaError:
        keyspace = written.keyspace or self.keyspace
        own = [name for place, name in self.written if place == keyspace] + list(self.resolved)
        user_type = f"{keyspace}.{written.name}" if keyspace else written.name
        hint = did_you_mean(written.name, own if written.is_user_type else [*NATIVE_KINDS, *own])
        return self._error(
            written,
            f"unknown type {written.name!r}: not a native type, and user type {user_type!r} is not defined{hint}; "
            "add its CREATE TYPE",
        )

    def _error(self, written: WrittenType, message: str) -> SchemaError:
        return SchemaError(message, where=self.where, line=written.start.line, column=written.start.column)
