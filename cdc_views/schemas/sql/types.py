"""Column types of Postgres, MySQL and MariaDB into logical types.

A type's name decides, not the printer of some SQL library: names nobody listed here (Postgres enums and domains,
extension types) are read as text, the form every change-data-capture tool sends them in.
"""

from __future__ import annotations

from dataclasses import dataclass

from cdc_views.model.types import Kind, ListOf, LogicalType, Scalar


@dataclass(frozen=True, slots=True)
class SqlType:
    """A type as DDL writes it: lower-case `name` (several words joined by a space), and what follows it."""

    name: str
    arguments: tuple[str, ...] = ()
    is_unsigned: bool = False
    has_zone: bool = False
    dimensions: int = 0


_COMMON = {
    "bigint": Kind.BIGINT,
    "binary": Kind.BLOB,
    "blob": Kind.BLOB,
    "bool": Kind.BOOLEAN,
    "boolean": Kind.BOOLEAN,
    "date": Kind.DATE,
    "dec": Kind.DECIMAL,
    "decimal": Kind.DECIMAL,
    "double": Kind.DOUBLE,
    "double precision": Kind.DOUBLE,
    "fixed": Kind.DECIMAL,
    "int": Kind.INT,
    "integer": Kind.INT,
    "json": Kind.JSON,
    "numeric": Kind.DECIMAL,
    "serial": Kind.INT,
    "smallint": Kind.SMALLINT,
    "time": Kind.TIME,
    "uuid": Kind.UUID,
    "varbinary": Kind.BLOB,
    # geometric values travel as well-known binary
    "geography": Kind.BLOB,
    "geometry": Kind.BLOB,
    "linestring": Kind.BLOB,
    "path": Kind.BLOB,
    "point": Kind.BLOB,
    "polygon": Kind.BLOB,
}
_POSTGRES = _COMMON | {
    "bigserial": Kind.BIGINT,
    "box": Kind.BLOB,
    "bytea": Kind.BLOB,
    "circle": Kind.BLOB,
    "float": Kind.DOUBLE,
    "float4": Kind.FLOAT,
    "float8": Kind.DOUBLE,
    "int2": Kind.SMALLINT,
    "int4": Kind.INT,
    "int8": Kind.BIGINT,
    "jsonb": Kind.JSON,
    "line": Kind.BLOB,
    "lseg": Kind.BLOB,
    "oid": Kind.BIGINT,
    "real": Kind.FLOAT,
    "serial2": Kind.SMALLINT,
    "serial4": Kind.INT,
    "serial8": Kind.BIGINT,
    "smallserial": Kind.SMALLINT,
    "timestamp": Kind.DATETIME,
    "timestamptz": Kind.INSTANT,
}
_MYSQL = _COMMON | {
    "bool": Kind.TINYINT,
    "boolean": Kind.TINYINT,
    "char byte": Kind.BLOB,
    "datetime": Kind.DATETIME,
    "float": Kind.FLOAT,
    "geometrycollection": Kind.BLOB,
    "geomcollection": Kind.BLOB,
    "int1": Kind.TINYINT,
    "int2": Kind.SMALLINT,
    "int3": Kind.INT,
    "int4": Kind.INT,
    "int8": Kind.BIGINT,
    "longblob": Kind.BLOB,
    "mediumblob": Kind.BLOB,
    "mediumint": Kind.INT,
    "middleint": Kind.INT,
    "multilinestring": Kind.BLOB,
    "multipoint": Kind.BLOB,
    "multipolygon": Kind.BLOB,
    "real": Kind.DOUBLE,
    "serial": Kind.VARINT,  # an alias of BIGINT UNSIGNED
    "timestamp": Kind.INSTANT,
    "tinyblob": Kind.BLOB,
    "tinyint": Kind.TINYINT,
    "vector": Kind.BLOB,
    "year": Kind.INT,
}
_MYSQL_PRECISION = 10
"""Of DECIMAL without one. Source: MariaDB, DECIMAL."""
_UNSIGNED = {Kind.TINYINT: Kind.SMALLINT, Kind.SMALLINT: Kind.INT, Kind.INT: Kind.BIGINT, Kind.BIGINT: Kind.VARINT}
_ZONED = {Kind.DATETIME: Kind.INSTANT, Kind.TIME: Kind.TEXT}


def logical_type(written: SqlType, *, dialect: str) -> LogicalType:
    """Return the logical type of a column of `dialect` (`postgres` or `mysql`, MariaDB included).

    Unsigned integers are widened, `MEDIUMINT UNSIGNED` excepted, which fits. Arrays are frozen lists of their
    element, as deep as declared. `BIT(1)` is a boolean, as Debezium sends it; longer ones are bytes.
    """
    kind = _kind(written, dialect=dialect)
    element: LogicalType = _decimal(written.arguments, dialect=dialect) if kind is Kind.DECIMAL else Scalar(kind)
    for _ in range(written.dimensions):
        element = ListOf(element)
    return element


def _decimal(arguments: tuple[str, ...], *, dialect: str) -> Scalar:
    """A decimal: of scale 0 where only a precision is given; without either, PostgreSQL keeps each value's own.

    MySQL's bare DECIMAL is DECIMAL(10, 0). PostgreSQL 15 allows a negative scale, whose values print without it.
    """
    if not arguments:
        return Scalar(Kind.DECIMAL, 0, _MYSQL_PRECISION) if dialect == "mysql" else Scalar(Kind.DECIMAL)
    scale = _whole_number(arguments[1]) if len(arguments) > 1 else 0
    return Scalar(Kind.DECIMAL, scale, _whole_number(arguments[0]))


def _whole_number(text: str) -> int | None:
    return int(text) if text.lstrip("-").isdecimal() else None


def _kind(written: SqlType, *, dialect: str) -> Kind:
    if written.name in {"bit", "bit varying", "varbit"}:
        is_one_bit = written.name == "bit" and written.arguments in {(), ("1",)}
        return Kind.BOOLEAN if is_one_bit else Kind.BLOB
    if written.name == "float" and written.arguments:
        return Kind.FLOAT if len(written.arguments) > 1 or int(written.arguments[0]) <= 24 else Kind.DOUBLE
    kind = (_MYSQL if dialect == "mysql" else _POSTGRES).get(written.name, Kind.TEXT)
    if written.is_unsigned and written.name not in {"mediumint", "middleint", "int3"}:
        return _UNSIGNED.get(kind, kind)
    return _ZONED.get(kind, kind) if written.has_zone else kind
