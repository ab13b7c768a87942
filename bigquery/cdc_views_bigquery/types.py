"""Arrow types as BigQuery's, names and texts in its SQL, and differences between deployed and wanted columns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from cdc_views.errors import UnsupportedError
from cdc_views.sql.dialects.bigquery import decimal_name
from cdc_views.sql.dialects.writing import identifier

_SCALARS = (
    (pa.types.is_integer, "INT64"),
    (pa.types.is_floating, "FLOAT64"),
    (pa.types.is_string, "STRING"),
    (pa.types.is_binary, "BYTES"),
    (pa.types.is_boolean, "BOOL"),
    (pa.types.is_date, "DATE"),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None, "TIMESTAMP"),
    (pa.types.is_timestamp, "DATETIME"),
)
CLUSTERABLE = frozenset({"INT64", "STRING", "BOOL", "NUMERIC", "BIGNUMERIC", "TIMESTAMP", "DATETIME", "DATE"})
"""Source: BigQuery, Introduction to clustered tables, Cluster column types; BYTES and FLOAT64 are none of them."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column or a member of a STRUCT; `kind` is GoogleSQL's name of the type, STRUCT if there are `fields`."""

    name: str
    kind: str
    repeats: bool = False
    fields: tuple[Field, ...] = ()

    @property
    def text(self) -> str:
        """The type in DDL."""
        inner = f"STRUCT<{', '.join(f'{quoted(f.name)} {f.text}' for f in self.fields)}>" if self.fields else self.kind
        return f"ARRAY<{inner}>" if self.repeats else inner

    @property
    def size(self) -> int:
        """How many columns BigQuery counts: this one and everything below it."""
        return 1 + sum(field.size for field in self.fields)

    @property
    def depth(self) -> int:
        """The number of STRUCT levels."""
        return 1 + max(field.depth for field in self.fields) if self.fields else 0


Fields = tuple[Field, ...]

_LEGACY = {"INTEGER": "INT64", "FLOAT": "FLOAT64", "BOOLEAN": "BOOL", "RECORD": "STRUCT"}


def standard(name: str) -> str:
    """Return GoogleSQL's name of a type that the API calls `name`."""
    return _LEGACY.get(name, name)


def fields_of(schema: pa.Schema, *, table: str) -> Fields:
    """Return the columns for an Arrow schema; raises `UnsupportedError` for a type that BigQuery lacks."""
    return tuple(field_of(field.name, field.type, where=f"{table}: column {field.name!r}") for field in schema)


def field_of(name: str, kind: pa.DataType, *, where: str) -> Field:
    """Return the column of that name and type; a map is an ARRAY of its entries. `where` begins the error for lists in lists."""
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        entry = pa.struct([("key", kind.key_type), ("value", kind.item_type)]) if pa.types.is_map(kind) else kind.value_type
        if pa.types.is_list(entry) or pa.types.is_map(entry):
            raise UnsupportedError(
                f"{where} holds lists within lists, and BigQuery has no ARRAY of ARRAY",
                remedy="leave the column out of the schema file",
            )
        return replace(field_of(name, entry, where=where), repeats=True)
    if pa.types.is_struct(kind):
        return Field(name, "STRUCT", fields=tuple(field_of(part.name, part.type, where=where) for part in kind))
    if pa.types.is_decimal(kind):
        return Field(name, decimal_name(kind.precision, kind.scale))
    return Field(name, next(of for fits, of in _SCALARS if fits(kind)))


def differences(found: Fields, wanted: Fields, *, path: str = "") -> tuple[list[str], list[str]]:
    """Return (additions, conflicts), a line each, between deployed and wanted columns; more columns do no harm."""
    has = {field.name.casefold(): field for field in found}
    additions, conflicts = [], []
    for field in wanted:
        place, deployed = f"{path}{field.name}", has.get(field.name.casefold())
        if deployed is None:
            additions.append(f"+ {place} {field.text}")
        elif (deployed.kind, deployed.repeats) != (field.kind, field.repeats):
            conflicts.append(f"! {place} is {deployed.text}, {field.text} was expected")
        else:
            more, worse = differences(deployed.fields, field.fields, path=f"{place}.")
            additions += more
            conflicts += worse
    return additions, conflicts


def merged(found: Fields, wanted: Fields) -> Fields:
    """Return the deployed columns, with missing ones added at the ends."""
    lacking = {field.name.casefold(): field for field in wanted}
    kept = []
    for field in found:
        more = lacking.pop(field.name.casefold(), field)
        kept.append(replace(field, fields=merged(field.fields, more.fields)))
    return (*kept, *lacking.values())


def quoted(name: str) -> str:
    """Return a name, or a table's full name, in one pair of backquotes.

    >>> quoted("my-project.shop.orders")
    '`my-project.shop.orders`'
    """
    return identifier(name).sql(dialect="bigquery")


def bare(name: str) -> str:
    """Return a table's full name without its backquotes; no table's name has one."""
    return name.strip("`")


def text_literal(text: str) -> str:
    r"""Return a string literal.

    >>> text_literal("it's")
    '"it\'s"'
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def one_line(text: str) -> str:
    """Return text that cannot end a line comment early."""
    return " ".join(text.split())
