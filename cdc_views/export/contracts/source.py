"""A table's schema in its source, inside a contract, in the form of our YAML schemas, so that their reader reads it. A contract's
properties describe the view, where a decimal may be a text; this describes the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt, VectorOf, children

PROPERTY = "sourceSchema"
"""The custom property of a schema object."""


def source_form(schema: TableSchema) -> dict[str, Any]:
    """Return a table's schema in the form that `schemas.yaml_schema` reads."""
    kinds = [*(column.type for column in schema.columns), *(d.type for d in schema.dropped if d.type is not None)]
    types = {udt: {name: written(part) for name, part in kind.fields} for udt, kind in _user_types(kinds).items()}
    dropped = [
        {"name": d.name, "at": d.dropped_at, **({"type": written(d.type)} if d.type is not None else {})} for d in schema.dropped
    ]
    found: dict[str, Any] = {"keyspace": schema.keyspace, "table": schema.name}
    found |= {"types": types} if types else {}
    found["columns"] = {column.name: _column(column) for column in schema.columns}
    return found | ({"dropped": dropped} if dropped else {})


def source_schema(form: Mapping[str, Any], *, where: str) -> TableSchema:
    """Return the schema from the form that `source_form` wrote; raises `SchemaError` for another form."""
    from cdc_views.schemas.yaml_schema import read_yaml

    (found,) = read_yaml(yaml.safe_dump(dict(form), sort_keys=False, allow_unicode=True), where=where).tables.values()
    columns = {column.name: column for column in found.columns}
    return TableSchema(found.keyspace, found.name, tuple(columns[name] for name in form["columns"]), found.dropped)


def written(kind: LogicalType) -> str:
    """Return a type in CQL, a decimal with its size.

    >>> from cdc_views.model.types import Kind
    >>> written(ListOf(Scalar(Kind.DECIMAL, 2), frozen=False))
    'list<decimal(*, 2)>'
    """
    match kind:
        case Scalar():
            return str(kind) if kind.scale is None else f"{kind}({kind.precision or '*'}, {kind.scale})"
        case ListOf() | SetOf() | MapOf():
            name = {ListOf: "list", SetOf: "set", MapOf: "map"}[type(kind)]
            text = f"{name}<{', '.join(map(written, children(kind)))}>"
            return f"frozen<{text}>" if kind.frozen else text
        case TupleOf():
            return f"frozen<tuple<{', '.join(map(written, kind.fields))}>>"
        case VectorOf():
            return f"vector<{written(kind.element)}, {kind.size}>"
    return str(kind)


def _column(column: Column) -> str | dict[str, str]:
    if column.role is Role.REGULAR:
        return written(column.type)
    order = {"order": "desc"} if column.descending else {}
    return {"type": written(column.type), "role": column.role.value, **order}


def _user_types(kinds: Iterable[LogicalType]) -> dict[str, Udt]:
    """Return each user type once, by name; types inside others come first."""
    found: dict[str, Udt] = {}
    for kind in kinds:
        inside = _user_types(children(kind))
        found |= {name: inside[name] for name in inside if name not in found}
        if isinstance(kind, Udt):
            found.setdefault(kind.name, kind)
    return found
