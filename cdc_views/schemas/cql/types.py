"""Logical types from written CQL types, in a second step: a file may use a user type before it creates or alters it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cdc_views.errors import SchemaError, did_you_mean
from cdc_views.model.types import Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt, VectorOf
from cdc_views.schemas.cql.written import WrittenType, read_type_text

RELATIONAL_KINDS = frozenset({Kind.DATETIME, Kind.INSTANT, Kind.JSON})  # in CQL, their names mean user types

NATIVE_KINDS = {kind.value: kind for kind in Kind if kind not in RELATIONAL_KINDS} | {"varchar": Kind.TEXT}
"""CQL name → native type."""

Fields = tuple[tuple[str, WrittenType], ...]  # name and type of each field of a user type


@dataclass(frozen=True, slots=True)
class TypeScope:
    """The user types in scope, by (keyspace, name). With `allows_relational` (YAML schemas), `datetime`, `instant` and `json` are
    our own types, unless user types have these names.
    """

    keyspace: str
    written: Mapping[tuple[str, str], Fields] = field(default_factory=dict)
    resolved: Mapping[str, Udt] = field(default_factory=dict)
    where: str = ""
    allows_relational: bool = False
    _within: tuple[tuple[str, str], ...] = ()

    def resolve(self, written: WrittenType) -> LogicalType:
        """Return the logical type; raises `SchemaError` for a user type that is unknown or contains itself, or a class."""
        if written.fault is not None:
            raise written.fault.with_traceback(None)
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
                if written.decimal_size is not None and not self.allows_relational:
                    raise self._error(written, "Cassandra's decimal takes no precision and scale; write `decimal`")
                precision, scale = written.decimal_size or (None, None)
                return Scalar(NATIVE_KINDS[native], scale, precision)
        return self._user_type(written)

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
            return replace(known, frozen=False)
        if self.allows_relational and not written.is_user_type:
            for kind in RELATIONAL_KINDS:
                if kind.value == written.name:
                    return Scalar(kind)
        raise self._unknown(written)

    def _udt(self, place: tuple[str, str], *, fields: Fields) -> Udt:
        inner = replace(self, keyspace=place[0], _within=(*self._within, place))
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
        return written.start.error(message, where=self.where)


def parse_type(
    text: str, *, udts: Mapping[str, Udt] | None = None, keyspace: str = "", where: str = "", line: int = 1, column: int = 1
) -> LogicalType:
    """Return the type that CQL text means; the inverse of `str(type)`.

    Top-level collections and user types are multi-cell unless `frozen<…>`; nested ones are frozen. `datetime`, `instant` and
    `json` are our own types, unless user types have these names. `udts` has user types by `name` or `keyspace.name`; those of
    `keyspace` come first. In error messages, the text begins at `where`, `line` and `column`. Raises `SchemaError` if the text is
    no type, or names a user type that `udts` lacks.

    >>> str(parse_type("map<varchar, list<int>>"))
    'map<text, frozen<list<int>>>'
    """
    where = where or f"type {text!r}"
    scope = TypeScope(keyspace, resolved=udts or {}, where=where, allows_relational=True)
    return scope.resolve(read_type_text(text, where, line, column))
