"""Written CQL types into logical types: names of user types are looked up.

Apart from reading, because a file may use a user type before it creates it, or alter it later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cdc_views.errors import SchemaError, did_you_mean
from cdc_views.model.types import Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt, VectorOf
from cdc_views.schemas.cql.written import WrittenType, read_type_text

RELATIONAL_KINDS = frozenset({Kind.DATETIME, Kind.INSTANT, Kind.JSON})
"""Kinds that Cassandra does not have; a CQL file that names one means a user type."""

NATIVE_KINDS = {kind.value: kind for kind in Kind if kind not in RELATIONAL_KINDS} | {"varchar": Kind.TEXT}
"""The native types by the names CQL writes."""

Fields = tuple[tuple[str, WrittenType], ...]
"""A user type's fields: name and type."""


@dataclass(frozen=True, slots=True)
class TypeScope:
    """The user types known where a type is written, by (keyspace, name).

    `allows_relational` lets `datetime`, `instant` and `json` name our own kinds (YAML schemas), after user types.
    """

    keyspace: str
    written: Mapping[tuple[str, str], Fields] = field(default_factory=dict)
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

    Collections and user types at the top are multi-cell unless written `frozen<…>`; nested ones are frozen. Our own
    `datetime`, `instant` and `json` are understood where no user type has that name.

    `udts` are the user types by `name` or `keyspace.name`; those of `keyspace` are looked for first. Error messages call
    the file `where`, and `line` and `column` the place of the text's first character.

    Raises:
        SchemaError: The text is no type, or names a user type that `udts` lacks.

    >>> str(parse_type("map<varchar, list<int>>"))
    'map<text, frozen<list<int>>>'
    """
    where = where or f"type {text!r}"
    scope = TypeScope(keyspace, resolved=udts or {}, where=where, allows_relational=True)
    return scope.resolve(read_type_text(text, where, line, column))
