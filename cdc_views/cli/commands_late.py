"""`late`: what landed after a table's lateness horizon, part by part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from cdc_views.cli.options import TableArgument
from cdc_views.cli.shared import Request, shared
from cdc_views.rules.codec.jsontext import JsonRow

if TYPE_CHECKING:
    from cdc_views.model.schema import TableSchema
    from cdc_views.operations.lateness import LatePart

_COLUMNS = ("key", "what", "column", "path", "written", "purged_through", "value", "landed_at", "node", "segment", "position")


@shared("project", "select", "format")
def late(
    asked: Request,
    *,
    table: TableArgument,
) -> None:
    """List the facts that landed after a table's lateness horizon, and are in quarantine: cell by cell."""
    target = asked.table(table)
    asked.print_json(_COLUMNS, _rows(target.schema, target.late()))


def _rows(schema: TableSchema, parts: Iterable[LatePart]) -> Iterator[JsonRow]:
    from cdc_views.rules.codec.jsontext import quote, to_json
    from cdc_views.rules.codec.times import timestamp_text

    for part in parts:
        key = ", ".join(f"{quote(name)}: {to_json(schema.column(name).type, value)}" for name, value in part.key.items())
        yield {
            "key": f"{{{key}}}",
            "what": quote(part.what),
            "column": "null" if part.column is None else quote(part.column.name),
            "path": _path(schema, part),
            "written": str(part.written),
            "purged_through": str(part.purged_through),
            "value": _value(part),
            "landed_at": quote(timestamp_text(part.landed_at // 1000)),
            "node": quote(part.origin.node),
            "segment": quote(part.origin.segment),
            "position": str(part.origin.position),
        }


def _value(part: LatePart) -> str:
    """As `query` prints it; null for what has no value."""
    from cdc_views.model.types import Udt
    from cdc_views.rules.codec.jsontext import to_json
    from cdc_views.storage.relation import element_value_type

    if part.column is None or part.value is None:
        return "null"
    kind = part.column.type
    if not kind.is_multicell:
        return to_json(kind, part.value)
    of_element = kind.field_type(part.path) if isinstance(kind, Udt) else element_value_type(kind)
    return "null" if of_element is None else to_json(of_element, part.value)


def _path(schema: TableSchema, part: LatePart) -> str:
    """The path of an element or a field; the bounds of a range."""
    from cdc_views.operations.explained import bound_text
    from cdc_views.rules.codec.jsontext import quote, to_json
    from cdc_views.rules.oracle import path_type

    if part.start is not None and part.end is not None:
        return quote(f"{bound_text(schema, part.start, is_start=True)}, {bound_text(schema, part.end, is_start=False)}")
    if part.path is None or part.column is None:
        return "null"
    return to_json(path_type(part.column.type), part.path)
