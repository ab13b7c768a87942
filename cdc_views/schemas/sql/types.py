"""Logical types from column types of Postgres, MySQL and MariaDB. Types that are not listed here (Postgres enums and domains,
types of extensions) are read as text, the form in which every change-data-capture tool sends them.
"""

from __future__ import annotations

from collections.abc import Mapping
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


def _by_name(names: Mapping[Kind, str]) -> dict[str, Kind]:
    return {name.replace("_", " "): kind for kind, listed in names.items() for name in listed.split()}


_COMMON = _by_name(
    {
        Kind.BIGINT: "bigint",
        # geometric values travel as well-known binary
        Kind.BLOB: "binary blob long_varbinary varbinary geography geometry linestring path point polygon",
        Kind.BOOLEAN: "bool boolean",
        Kind.DATE: "date",
        Kind.DECIMAL: "dec decimal fixed numeric",
        Kind.DOUBLE: "double double_precision",
        Kind.INT: "int integer serial",
        Kind.JSON: "json",
        Kind.SMALLINT: "smallint",
        Kind.TIME: "time",
        Kind.UUID: "uuid",
    }
)
_POSTGRES = _COMMON | _by_name(
    {
        Kind.BIGINT: "bigserial int8 oid serial8",
        Kind.BLOB: "box bytea circle line lseg",
        Kind.DATETIME: "timestamp",
        Kind.DOUBLE: "float float8",
        Kind.FLOAT: "float4 real",
        Kind.INSTANT: "timestamptz",
        Kind.INT: "int4 serial4",
        Kind.JSON: "jsonb",
        Kind.SMALLINT: "int2 serial2 smallserial",
    }
)
_MYSQL = _COMMON | _by_name(
    {
        Kind.BIGINT: "int8",
        Kind.BLOB: "char_byte geometrycollection geomcollection longblob mediumblob multilinestring multipoint multipolygon "
        "tinyblob vector",
        Kind.DATETIME: "datetime",
        Kind.DOUBLE: "real",
        Kind.FLOAT: "float",
        Kind.INSTANT: "timestamp",
        Kind.INT: "int3 int4 mediumint middleint year",
        Kind.SMALLINT: "int2",
        Kind.TINYINT: "bool boolean int1 tinyint",
        Kind.VARINT: "serial",  # an alias of BIGINT UNSIGNED
    }
)
_TEXTS = frozenset(
    name
    for line in (
        "bpchar char character text varchar varchar2 nchar nvarchar tinytext mediumtext longtext citext name xml",
        "cidr inet inet4 inet6 macaddr macaddr8 money interval timetz tsquery tsvector hstore ltree enum set",
    )
    for name in line.split(" ")
)
"""Types that are read as text, and are no slips."""
_MYSQL_PRECISION = 10  # the precision of a bare DECIMAL. Source: MariaDB, DECIMAL
_UNSIGNED = {Kind.TINYINT: Kind.SMALLINT, Kind.SMALLINT: Kind.INT, Kind.INT: Kind.BIGINT, Kind.BIGINT: Kind.VARINT}
_ZONED = {Kind.DATETIME: Kind.INSTANT, Kind.TIME: Kind.TEXT}


def known_types(dialect: str) -> frozenset[str]:
    """Return the names of the types of a dialect, in one word, that are read as what they are."""
    known = _MYSQL if dialect == "mysql" else _POSTGRES
    return frozenset(name for name in (*known, *_TEXTS, "bit", "varbit") if " " not in name)


def logical_type(written: SqlType, *, dialect: str) -> LogicalType:
    """Return the logical type of a column of `dialect` (`postgres`, or `mysql`, also for MariaDB). Unsigned integers are widened,
    except `MEDIUMINT UNSIGNED`, which fits. Arrays are frozen lists, as deep as declared. `BIT(1)` is a boolean, as Debezium
    sends it; longer ones are bytes.
    """
    kind = _kind(written, dialect=dialect)
    element: LogicalType = _decimal(written.arguments, dialect=dialect) if kind is Kind.DECIMAL else Scalar(kind)
    for _ in range(written.dimensions):
        element = ListOf(element)
    return element


def _decimal(arguments: tuple[str, ...], *, dialect: str) -> Scalar:
    """Return a decimal, by default of scale 0. MySQL's bare DECIMAL is DECIMAL(10, 0); each value of PostgreSQL's has its own
    scale. PostgreSQL 15 allows a negative scale, whose values print without it.
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
