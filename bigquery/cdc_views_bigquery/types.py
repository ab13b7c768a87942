"""Arrow types of raw tables as BigQuery's, and whether what is deployed fits them."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from cdc_views_bigquery.merging.types import refuse_lists_in_lists, scalar_type


@dataclass(frozen=True, slots=True)
class Field:
    """A column or a member of a STRUCT; `kind` is GoogleSQL's name of the type, STRUCT where there are `fields`."""

    name: str
    kind: str
    repeats: bool = False
    fields: tuple[Field, ...] = ()

    @property
    def text(self) -> str:
        """The type as DDL takes it."""
        inner = f"STRUCT<{', '.join(f'{quoted(f.name)} {f.text}' for f in self.fields)}>" if self.fields else self.kind
        return f"ARRAY<{inner}>" if self.repeats else inner

    @property
    def size(self) -> int:
        """How many columns BigQuery counts: itself and everything below."""
        return 1 + sum(field.size for field in self.fields)

    @property
    def depth(self) -> int:
        """How many levels of STRUCT there are."""
        return 1 + max(field.depth for field in self.fields) if self.fields else 0


Fields = tuple[Field, ...]

_LEGACY = {"INTEGER": "INT64", "FLOAT": "FLOAT64", "BOOLEAN": "BOOL", "RECORD": "STRUCT"}
"""The names that the API answers with."""


def standard(name: str) -> str:
    """Return GoogleSQL's name of a type that the API calls `name`."""
    return _LEGACY.get(name, name)


def fields_of(schema: pa.Schema, *, table: str) -> Fields:
    """Return the columns that hold what `schema` holds; raises `UnsupportedError` for what BigQuery has no type for."""
    return tuple(_field(field, where=f"{table}: column {field.name!r}") for field in schema)


def _field(field: pa.Field, *, where: str) -> Field:
    kind = field.type
    if pa.types.is_list(kind):
        if pa.types.is_list(kind.value_type):
            raise refuse_lists_in_lists(where)
        element = _field(pa.field(field.name, kind.value_type), where=where)
        return Field(field.name, element.kind, repeats=True, fields=element.fields)
    if pa.types.is_struct(kind):
        return Field(field.name, "STRUCT", fields=tuple(_field(part, where=where) for part in kind))
    return Field(field.name, scalar_type(kind))


def differences(found: Fields, wanted: Fields, *, path: str = "") -> tuple[list[str], list[str]]:
    """Return (additions, conflicts) that bring what is deployed to what is wanted, a line each; more columns do no harm."""
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
    """Return what is deployed, with what is missing added at the ends."""
    has = {field.name.casefold(): field for field in found}
    needs = {field.name.casefold(): field for field in wanted}
    kept = tuple(
        Field(f.name, f.kind, repeats=f.repeats, fields=merged(f.fields, needs[f.name.casefold()].fields))
        if f.name.casefold() in needs
        else f
        for f in found
    )
    return kept + tuple(field for field in wanted if field.name.casefold() not in has)


def quoted(name: str) -> str:
    """Return an identifier in backquotes."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def text_literal(text: str) -> str:
    r"""Return a string literal.

    >>> text_literal("it's")
    '"it\'s"'
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'
