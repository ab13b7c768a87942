"""Table-map events of the binlog: the columns of a table at the time of its rows.

The event has names, character sets and labels if `binlog_row_metadata = FULL`; MySQL before 8.0 never writes them.

Source: of MariaDB 11.4 `Table_map_log_event`, of MySQL 9.7 `Table_map_event`, read as descriptions; checked against both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeVar

from cdc_producers.binlog.catalog import BinlogColumn
from cdc_producers.binlog.log_events import Event, packed_integer
from cdc_producers.binlog.values import BINARY, text_of

_T = TypeVar("_T")


class Code(IntEnum):
    """The types of columns; `STRING` is also the log's code of ENUM and SET, which its details distinguish."""

    TINY, SHORT, LONG, FLOAT, DOUBLE = 1, 2, 3, 4, 5
    OLD_TIMESTAMP, LONGLONG, INT24, DATE, OLD_TIME, OLD_DATETIME, YEAR = 7, 8, 9, 10, 11, 12, 13
    VARCHAR, BIT, TIMESTAMP, DATETIME, TIME = 15, 16, 17, 18, 19
    BLOB_COMPRESSED, VARCHAR_COMPRESSED, VECTOR, MYSQL_JSON = 140, 141, 242, 245
    DECIMAL, ENUM, SET, BLOB, VAR_STRING, STRING, GEOMETRY = 246, 247, 248, 252, 253, 254, 255


_DETAIL_BYTES = {
    **dict.fromkeys((Code.FLOAT, Code.DOUBLE, Code.BLOB, Code.GEOMETRY, Code.BLOB_COMPRESSED, Code.MYSQL_JSON, Code.VECTOR), 1),
    **dict.fromkeys((Code.TIMESTAMP, Code.DATETIME, Code.TIME), 1),
    **dict.fromkeys((Code.VARCHAR, Code.VARCHAR_COMPRESSED, Code.VAR_STRING, Code.STRING, Code.BIT, Code.DECIMAL), 2),
    **dict.fromkeys((Code.ENUM, Code.SET), 2),
}
_NUMERIC = frozenset(
    {Code.TINY, Code.SHORT, Code.INT24, Code.LONG, Code.LONGLONG, Code.FLOAT, Code.DOUBLE, Code.DECIMAL, Code.YEAR}
)
_LABELLED = frozenset({Code.ENUM, Code.SET})
_TEXTS = frozenset({Code.STRING, Code.VAR_STRING, Code.VARCHAR, Code.BLOB})
MYSQL_CHARACTER = _TEXTS | {Code.VECTOR}
"""Types with a character set in MySQL's log."""
MARIADB_CHARACTER = _TEXTS | {Code.BLOB_COMPRESSED, Code.VARCHAR_COMPRESSED, Code.GEOMETRY}
"""The same in MariaDB's; there a geometry has one, too (`binary`)."""
_SIGNEDNESS, _DEFAULT_CHARSET, _CHARSETS, _NAMES, _SET_LABELS, _ENUM_LABELS = 1, 2, 3, 4, 5, 6
_LABEL_DEFAULT_CHARSET, _LABEL_CHARSETS = 10, 11


@dataclass(frozen=True, slots=True)
class LoggedColumn:
    """A column in the log; `code` is the real type, also of ENUM and SET.

    `details` are the bytes of details, up to two, with a STRING's length first. `charset` is `binary` for bytes, and empty for
    types without characters.
    """

    name: str
    code: Code
    details: tuple[int, ...] = ()
    is_unsigned: bool = False
    charset: str = ""
    labels: tuple[str, ...] = ()


class TableName(NamedTuple):
    """The number and name of a table-map event's table: enough to skip the event."""

    number: int
    database: str
    table: str
    end: int

    @property
    def full_name(self) -> str:
        """`database.table`."""
        return f"{self.database}.{self.table}"


def read_name(event: Event) -> TableName:
    """Return a table-map event's number and names, and where they end."""
    body = event.body
    number, position = int.from_bytes(body[:6], "little"), 8
    end = position + 1 + body[position]
    database = body[position + 1 : end].decode()
    position = end + 1
    end = position + 1 + body[position]
    return TableName(number, database, body[position + 1 : end].decode(), end + 1)


def read_types(event: Event, name: TableName) -> tuple[list[tuple[Code, tuple[int, ...]]], bytes]:
    """Return the types of a table-map event's columns, and what else it tells of them; raises ValueError for an unknown type."""
    body = event.body
    width, position = packed_integer(body, name.end)
    codes = [Code(code) for code in body[position : position + width]]
    size, position = packed_integer(body, position + width)
    return _types(codes, body[position : position + size]), body[position + size + (width + 7) // 8 :]


def read_columns(event: Event, name: TableName, collations: Mapping[int, str], character: frozenset[Code]) -> list[LoggedColumn]:
    """Return a table-map event's columns, if it names them; raises ValueError or KeyError for an unknown type or collation.

    `character` are the types that have a character set in the log of this flavour.
    """
    types, rest = read_types(event, name)
    facts, width = dict(_each(rest, _fact)), len(types)
    names = [text_of(one, "utf8") for one in _each(facts.get(_NAMES, b""), _sized)]
    if len(names) != width:
        return []
    unsigned = [bool(byte >> bit & 1) for byte in facts.get(_SIGNEDNESS, b"") for bit in range(7, -1, -1)]
    charsets = _charsets(types, facts, collations, character)
    label_lists = {
        code: list(_each(facts.get(fact, b""), _labels)) for code, fact in ((Code.SET, _SET_LABELS), (Code.ENUM, _ENUM_LABELS))
    }
    columns = []
    for column, (code, details), charset in zip(names, types, charsets, strict=True):
        labels: tuple[str, ...] = ()
        if code in _LABELLED:
            labels_in = "latin1" if charset in ("", BINARY) else charset
            labels = tuple(text_of(label, labels_in) for label in label_lists[code].pop(0))
        is_unsigned = code in _NUMERIC and bool(unsigned) and unsigned.pop(0)
        columns.append(LoggedColumn(column, code, details, is_unsigned, charset, labels))
    return columns


def _types(codes: list[Code], details: bytes) -> list[tuple[Code, tuple[int, ...]]]:
    found: list[tuple[Code, tuple[int, ...]]] = []
    position = 0
    for code in codes:
        size = _DETAIL_BYTES.get(code, 0)
        pair = tuple(details[position : position + size])
        position += size
        if code is Code.STRING:
            found.append(_string(*pair))
        elif code in (Code.VARCHAR, Code.VARCHAR_COMPRESSED, Code.VAR_STRING):
            found.append((code, (pair[0] | pair[1] << 8,)))
        else:
            found.append((code, pair))
    return found


def _string(first: int, second: int) -> tuple[Code, tuple[int, ...]]:
    """Distinguish CHAR, BINARY, ENUM and SET, which share a code: the first byte has the type and two bits of a longer length."""
    if first & 0x30 != 0x30:
        return Code(first | 0x30), (second | ((first & 0x30) ^ 0x30) << 4,)
    return Code(first), (second,)


def _each(content: bytes, read: Callable[[bytes, int], tuple[_T, int]]) -> Iterator[_T]:
    position = 0
    while position < len(content):
        one, position = read(content, position)
        yield one


def _sized(content: bytes, position: int) -> tuple[bytes, int]:
    size, start = packed_integer(content, position)
    return content[start : start + size], start + size


def _fact(content: bytes, position: int) -> tuple[tuple[int, bytes], int]:
    found, end = _sized(content, position + 1)
    return (content[position], found), end


def _labels(content: bytes, position: int) -> tuple[list[bytes], int]:
    count, position = packed_integer(content, position)
    found = []
    for _ in range(count):
        label, position = _sized(content, position)
        found.append(label)
    return found, position


def _charsets(
    types: list[tuple[Code, tuple[int, ...]]],
    facts: Mapping[int, bytes],
    collations: Mapping[int, str],
    character: frozenset[Code],
) -> list[str]:
    found = [""] * len(types)
    for family, default, listed in (
        (character, _DEFAULT_CHARSET, _CHARSETS),
        (_LABELLED, _LABEL_DEFAULT_CHARSET, _LABEL_CHARSETS),
    ):
        places = [place for place, (code, _) in enumerate(types) if code in family]
        if listed in facts:
            numbers = list(_each(facts[listed], packed_integer))
        else:
            usual, *others = list(_each(facts.get(default, b""), packed_integer)) or [0]
            exceptions = dict(zip(others[::2], others[1::2], strict=True))
            numbers = [exceptions.get(place, usual) for place in range(len(places))]
        for place, number in zip(places, numbers, strict=True):
            found[place] = collations[number] if number else ""
    return found


_CODES_OF = {
    "tinyint": Code.TINY, "smallint": Code.SHORT, "mediumint": Code.INT24, "int": Code.LONG, "bigint": Code.LONGLONG,
    "float": Code.FLOAT, "double": Code.DOUBLE, "decimal": Code.DECIMAL, "year": Code.YEAR, "date": Code.DATE, "bit": Code.BIT,
    "time": Code.TIME, "datetime": Code.DATETIME, "timestamp": Code.TIMESTAMP, "enum": Code.ENUM, "set": Code.SET,
    "char": Code.STRING, "binary": Code.STRING, "varchar": Code.VARCHAR, "varbinary": Code.VARCHAR, "json": Code.MYSQL_JSON,
    "vector": Code.VECTOR,
}  # fmt: skip
_OLD_TIMES = {Code.OLD_TIMESTAMP: Code.TIMESTAMP, Code.OLD_TIME: Code.TIME, Code.OLD_DATETIME: Code.DATETIME}
_LABEL = re.compile(r"'((?:[^']|'')*)'")


def described_columns(event: Event, name: TableName, described: Sequence[BinlogColumn]) -> list[LoggedColumn]:
    """Return a table-map event's columns by the catalog's description of them.

    Raises ValueError where the description is of other columns, as far as their types show.
    """
    types, _ = read_types(event, name)
    if len(types) != len(described):
        raise ValueError(f"it has {len(types)} columns, the catalog {len(described)}")
    return [_described(code, details, column) for (code, details), column in zip(types, described, strict=True)]


def _described(code: Code, details: tuple[int, ...], column: BinlogColumn) -> LoggedColumn:
    blob = Code.GEOMETRY if code is Code.GEOMETRY else Code.BLOB
    if _OLD_TIMES.get(code, code) is not _CODES_OF.get(column.type, blob):
        raise ValueError(f"{column.name} is a {column.type} in the catalog, and {code.name} in the log")
    labels: tuple[str, ...] = ()
    if code in _LABELLED:
        labels = tuple(label.replace("''", "'") for label in _LABEL.findall(column.full_type))
    charset = (column.charset or BINARY) if code in MYSQL_CHARACTER else ""
    return LoggedColumn(column.name, code, details, "unsigned" in column.full_type.lower(), charset, labels)
