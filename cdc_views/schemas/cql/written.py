"""CQL types as written, before user types are looked up: CQL text or, in old tables and dropped columns, a Java class,
`'org.apache.cassandra.db.marshal.…'`. A class is `Name(arg, …)`; a user type is `UserType(keyspace,hex name,hex field:type, …)`.
Source: Apache Cassandra 5.0, db/marshal/TypeParser.java.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from cdc_views.errors import SchemaError, did_you_mean
from cdc_views.model.types import Kind
from cdc_views.schemas.cql.lexer import tokenize
from cdc_views.schemas.tokens import Cursor, Token, TokenKind


@dataclass(frozen=True, slots=True)
class WrittenType:
    """One type of the text. `name` is a native type, a user type, `frozen`, `list`, `set`, `map`, `tuple` or `vector` (with
    `parts`, and `size`). `is_user_type` is set if the text can only mean a user type (quoted or qualified). Only class names have
    `fields`, which spell a user type out, and `reversed`. `decimal_size` is the precision and scale of `decimal(p, s)`.
    `fault` is why a class cannot be read: that refuses the tables that use it, not the file.
    """

    start: Token
    name: str
    keyspace: str = ""
    parts: tuple[WrittenType, ...] = ()
    size: int = 0
    is_user_type: bool = False
    fields: tuple[tuple[str, WrittenType], ...] | None = None
    reversed: bool = False
    decimal_size: tuple[int | None, int] | None = None
    fault: SchemaError | None = None


_PART_COUNTS = {"frozen": 1, "list": 1, "set": 1, "map": 2}


def read_type(cursor: Cursor) -> WrittenType:
    """Read one type; raises `SchemaError` if none starts here, or its brackets or the number of its parts are wrong. A class that
    is not known has a `fault`.
    """
    start = cursor.token
    if start.kind is TokenKind.STRING:
        try:
            return _JavaClass(cursor.advance(), where=cursor.where).whole()
        except SchemaError as error:
            return WrittenType(start, start.text, is_user_type=True, fault=error)
    quoted = start.kind is TokenKind.QUOTED
    name = cursor.name("a type")
    if not quoted and cursor.accept("<"):
        return _read_parts(cursor, name=name, start=start)
    if cursor.accept("."):
        return WrittenType(start, cursor.name("a type's name"), keyspace=name, is_user_type=True)
    if name == Kind.DECIMAL.value and not quoted and cursor.accept("("):
        return WrittenType(start, name, decimal_size=_read_decimal_size(cursor))
    return WrittenType(start, name, is_user_type=quoted)


def read_type_text(text: str, where: str, line: int, column: int) -> WrittenType:
    """Return the type that all of `text` is, else raise `SchemaError`; the other arguments are as in `parse_type`."""
    cursor = Cursor(tokenize(text, where=where, line=line, column=column), where=where)
    written = read_type(cursor)
    if not cursor.at_end:
        raise cursor.error(f"expected the end of the type, found {cursor.token}")
    return written


def _read_parts(cursor: Cursor, *, name: str, start: Token) -> WrittenType:
    if name == "vector":
        element = read_type(cursor)
        cursor.expect(",")
        size = _read_size(cursor, "the vector's size, a whole number above 0", least=1)
        cursor.expect(">")
        return WrittenType(start, name, parts=(element,), size=size)
    if name not in {*_PART_COUNTS, "tuple"}:
        hint = did_you_mean(name, [*_PART_COUNTS, "tuple", "vector"])
        raise cursor.error(f"{name!r} takes no types in brackets{hint}", at=start)
    parts = cursor.list_of(lambda: read_type(cursor))
    cursor.expect(">")
    wanted = _PART_COUNTS.get(name, len(parts))
    if len(parts) != wanted:
        raise cursor.error(f"{name} takes {wanted} type{'s' * (wanted > 1)}, not {len(parts)}", at=start)
    return WrittenType(start, name, parts=tuple(parts))


def _read_decimal_size(cursor: Cursor) -> tuple[int | None, int]:
    """Read the rest of `decimal(p)` or `decimal(p, s)`; the default scale is 0. `*` is an unknown precision: `decimal(*, 2)`."""
    precision = None if cursor.accept("*") else _read_size(cursor, "the precision, a whole number")
    scale = _read_size(cursor, "the scale, a whole number") if cursor.accept(",") else 0
    cursor.expect(")")
    return precision, scale


def _read_size(cursor: Cursor, what: str, *, least: int = 0) -> int:
    token = cursor.token
    if token.kind is not TokenKind.NUMBER or not _is_size(token.text, least=least):
        raise cursor.error(f"expected {what}, found {token}")
    return int(cursor.advance().text)


def _is_size(text: str, *, least: int) -> bool:
    return text.isascii() and text.isdigit() and int(text) >= least


_CLASSES = {
    "AsciiType": "ascii",
    "BooleanType": "boolean",
    "ByteType": "tinyint",
    "BytesType": "blob",
    "CounterColumnType": "counter",
    "DateType": "timestamp",
    "DecimalType": "decimal",
    "DoubleType": "double",
    "DurationType": "duration",
    "EmptyType": "blob",  # a compact table's unused column: its values have 0 bytes
    "FloatType": "float",
    "InetAddressType": "inet",
    "Int32Type": "int",
    "IntegerType": "varint",
    "LongType": "bigint",
    "ShortType": "smallint",
    "SimpleDateType": "date",
    "TimeType": "time",
    "TimeUUIDType": "timeuuid",
    "TimestampType": "timestamp",
    "UTF8Type": "text",
    "UUIDType": "uuid",
}
_COLLECTIONS = {"FrozenType": "frozen", "ListType": "list", "SetType": "set", "MapType": "map"}
_PIECE = re.compile(r"\s*([\w.]+|[(),:])")


class _JavaClass:
    """A recursive-descent reader of one class name; the package of Cassandra's own types is optional."""

    def __init__(self, written: Token, *, where: str) -> None:
        self.start, self.where = written, where
        if re.sub(_PIECE, "", written.text).strip():
            raise self.error("expected the name of a Java class")
        self.pieces = iter(_PIECE.findall(written.text))
        self.piece = next(self.pieces, "")

    def error(self, message: str) -> SchemaError:
        return self.start.error(f"custom type {self.start.text!r}: {message}", where=self.where)

    def advance(self) -> str:
        """Read one piece; empty at the end."""
        piece, self.piece = self.piece, next(self.pieces, "")
        return piece

    def expect(self, piece: str) -> None:
        if self.piece != piece:
            raise self.error(f"expected {piece!r}, found {self.piece or 'the end'!r}")
        self.advance()

    def whole(self) -> WrittenType:
        found = self.type()
        if self.piece:
            raise self.error(f"unexpected {self.piece!r} after the type")
        return found

    def type(self) -> WrittenType:
        name = self.advance().removeprefix("org.apache.cassandra.db.marshal.")
        if name in _CLASSES:
            return WrittenType(self.start, _CLASSES[name])
        if name in _COLLECTIONS:
            collection = _COLLECTIONS[name]
            return WrittenType(self.start, collection, parts=self._parts(name, count=_PART_COUNTS[collection]))
        match name:
            case "ReversedType":
                return replace(self._parts(name, count=1)[0], reversed=True)
            case "TupleType":
                return WrittenType(self.start, "tuple", parts=self._parts(name))
            case "UserType":
                return self._user_type()
            case "VectorType":
                return self._vector()
        raise self.error(f"{name or 'nothing'!r} is no class this reader knows; use the CQL type it stands for")

    def _parts(self, name: str, *, count: int | None = None) -> tuple[WrittenType, ...]:
        self.expect("(")
        found = [self.type()]
        while self.piece == ",":
            self.advance()
            found.append(self.type())
        self.expect(")")
        if count not in (None, len(found)):
            raise self.error(f"{name} takes {count} type{'s' * (count != 1)}, not {len(found)}")
        return tuple(found)

    def _vector(self) -> WrittenType:
        self.expect("(")
        element = self.type()
        self.expect(",")
        size = self.advance()
        if not _is_size(size, least=1):
            raise self.error(f"a vector's size is a whole number above 0, not {size!r}")
        self.expect(")")
        return WrittenType(self.start, "vector", parts=(element,), size=int(size))

    def _user_type(self) -> WrittenType:
        self.expect("(")
        keyspace = self.advance()
        self.expect(",")
        name = self._hex_name()
        fields = []
        while self.piece == ",":
            self.advance()
            field = self._hex_name()
            self.expect(":")
            fields.append((field, self.type()))
        self.expect(")")
        return WrittenType(self.start, name, keyspace=keyspace, is_user_type=True, fields=tuple(fields))

    def _hex_name(self) -> str:
        coded = self.advance()
        try:
            return bytes.fromhex(coded).decode()
        except ValueError:
            raise self.error(f"expected a name in hexadecimal, found {coded!r}") from None
