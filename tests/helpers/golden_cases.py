"""Small tables, each with one more thing a view must do, and names that hurt."""

from __future__ import annotations

from cdc_views.formats.base import WriteOrder
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import Kind, ListOf, LogicalType, MapOf, Scalar, Udt
from cdc_views.storage.relation import Relation

INT, TEXT, DECIMAL, TIMESTAMP, UUID = map(Scalar, (Kind.INT, Kind.TEXT, Kind.DECIMAL, Kind.TIMESTAMP, Kind.UUID))
PRICE = Scalar(Kind.DECIMAL, 2, 12)
ADDRESS = (("street", TEXT), ("Zip Code", INT))


def relation(
    *columns: Column, name: str = "orders", order: WriteOrder = WriteOrder.MICROS, is_positioned: bool = False
) -> Relation:
    """Return the relation of a table of these columns."""
    return Relation(TableSchema("shop", name, columns), order, is_positioned=is_positioned)


def key(name: str, kind: LogicalType, role: Role = Role.PARTITION, *, descending: bool = False) -> Column:
    """Return a key column."""
    return Column(name, kind, role, descending)


CASES = {
    "scalars": relation(key("id", UUID), Column("state", TEXT), Column("amount", DECIMAL), Column("at", TIMESTAMP)),
    "frozen": relation(key("id", INT), Column("tags", ListOf(TEXT)), Column("home", Udt("shop", "address", ADDRESS))),
    "clustered": relation(
        key("shop", TEXT),
        key("day", INT, Role.CLUSTERING, descending=True),
        Column("title", TEXT, Role.STATIC),
        Column("total", INT),
    ),
    "collections": relation(
        key("id", INT), Column("lines", ListOf(INT, frozen=False)), Column("prices", MapOf(TEXT, DECIMAL, frozen=False))
    ),
    "fields": relation(key("id", INT), Column("home", Udt("shop", "address", ADDRESS, frozen=False))),
    "events": relation(
        key("id", INT), Column("state", TEXT), Column("price", PRICE), order=WriteOrder.LOG_POSITION, is_positioned=True
    ),
    "logged": relation(key("id", INT), Column("state", TEXT), Column("price", PRICE), order=WriteOrder.LOG_POSITION),
}

HOSTILE = (
    'a"b',
    '"',
    "a`b",
    "`",
    "a.b",
    "a'b",
    "it's; DROP TABLE orders; --",
    "-- comment",
    "/* comment",
    "*/",
    "# comment",
    "a\nb",
    "a\r\n-- b",
    "\t",
    " ",
    "a\\b",
    "\\",
    "a\\",
    "a\\nb",
    "a\\'b",
    "a\\`b",
    'a\\"b',
    "\U0001f600",
    "naïve",
    "日本",
    "select",
    "SELECT",
    "from",
    "_live",
    "_kind",
    "_raw",
    "_item",
    "_view_id",
    "merged",
    "l",
    "r",
    "latest_rows",
    "row_facts",
    "written",
    "a b,c;d{e}(f)=g",
    "{{ jinja }}",
    "{% raw %}",
    "${HOME}",
    "%s",
    "%(x)s",
    ":x",
    "?",
    "$1",
    "@x",
    "[x]",
    "x" * 60,
)
"""Names that some engine, printer or template treats as something else."""

LONG = "long_name_" * 40
