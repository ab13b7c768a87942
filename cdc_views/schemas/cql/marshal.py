"""Types written as Java class names, `'org.apache.cassandra.db.marshal.…'`, as old tables and dropped columns show.

Source: Apache Cassandra 5.0, db/marshal/TypeParser.java: `Name(arg, …)`; a user type is
`UserType(keyspace,hex name,hex field:type, …)`; package `org.apache.cassandra.db.marshal` may be left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from cdc_views.errors import SchemaError
from cdc_views.schemas.tokens import Token
from cdc_views.schemas.written_types import WrittenType

PACKAGE = "org.apache.cassandra.db.marshal."
"""The package of Cassandra's own types."""

_NATIVE = {
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
_COLLECTIONS = {"FrozenType": ("frozen", 1), "ListType": ("list", 1), "SetType": ("set", 1), "MapType": ("map", 2)}
_PIECE = re.compile(r"\s*([\w.]+|[(),:])")


def read_marshal(text: str, *, start: Token, where: str) -> WrittenType:
    """Return the type that the class name in `text` stands for.

    Raises:
        SchemaError: The text is not a class name, or the class has no CQL type.
    """
    reader = _Reader(text, start=start, where=where)
    found = reader.type()
    if reader.piece:
        raise reader.error(f"unexpected {reader.piece!r} after the type")
    return found


class _Reader:
    """Recursive descent over the pieces of one class name."""

    def __init__(self, text: str, *, start: Token, where: str) -> None:
        self.text, self.start, self.where = text, start, where
        if re.sub(_PIECE, "", text).strip():
            raise self.error("expected the name of a Java class")
        self.pieces = iter(_PIECE.findall(text))
        self.piece = next(self.pieces, "")

    def error(self, message: str) -> SchemaError:
        """Return the error to raise for this text."""
        full = f"custom type {self.text!r}: {message}"
        return SchemaError(full, where=self.where, line=self.start.line, column=self.start.column)

    def advance(self) -> str:
        """Read one piece; empty at the end."""
        piece, self.piece = self.piece, next(self.pieces, "")
        return piece

    def expect(self, piece: str) -> None:
        """Read exactly this piece."""
        if self.piece != piece:
            raise self.error(f"expected {piece!r}, found {self.piece or 'the end'!r}")
        self.advance()

    def type(self) -> WrittenType:
        """Read one type."""
        name = self.advance().removeprefix(PACKAGE)
        if name in _NATIVE:
            return self._written(_NATIVE[name])
        if name in _COLLECTIONS:
            word, count = _COLLECTIONS[name]
            parts = self._arguments(self.type)
            if len(parts) != count:
                raise self.error(f"{name} takes {count} types, not {len(parts)}")
            return replace(self._written(word), parts=parts)
        special = {
            "ReversedType": self._reversed,
            "TupleType": self._tuple,
            "UserType": self._user_type,
            "VectorType": self._vector,
        }
        if name not in special:
            raise self.error(f"{name or 'nothing'!r} is no class this reader knows; use the CQL type it stands for")
        return special[name]()

    def _reversed(self) -> WrittenType:
        parts = self._arguments(self.type)
        if len(parts) != 1:
            raise self.error(f"ReversedType takes 1 type, not {len(parts)}")
        return replace(parts[0], reversed=True)

    def _tuple(self) -> WrittenType:
        return replace(self._written("tuple"), parts=self._arguments(self.type))

    def _vector(self) -> WrittenType:
        self.expect("(")
        element = self.type()
        self.expect(",")
        size = self.advance()
        if not (size.isascii() and size.isdigit() and int(size) > 0):
            raise self.error(f"a vector's size is a whole number above 0, not {size!r}")
        self.expect(")")
        return replace(self._written("vector"), parts=(element,), size=int(size))

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

    def _arguments(self, read: Callable[[], WrittenType]) -> tuple[WrittenType, ...]:
        self.expect("(")
        found = [read()]
        while self.piece == ",":
            self.advance()
            found.append(read())
        self.expect(")")
        return tuple(found)

    def _written(self, name: str) -> WrittenType:
        return WrittenType(self.start, name)
