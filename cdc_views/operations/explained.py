"""Candidates, deletions and parts of facts as rows of JSON texts, for `explain`, `late`, `replicas` and reports."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cdc_views.model.schema import Column, TableSchema
from cdc_views.model.types import LogicalType, Udt
from cdc_views.operations.explaining import Candidate, CellPlace, DeletionSeen, Explanation
from cdc_views.operations.notebook import html_table, plain_row
from cdc_views.rules.cells import Cell, Liveness
from cdc_views.rules.codec.jsontext import JsonRow, quote, to_json
from cdc_views.rules.codec.times import second_text
from cdc_views.rules.facts import Bound, Origin
from cdc_views.rules.oracle import path_type
from cdc_views.storage.relation import element_value_type

CANDIDATE_COLUMNS = (
    "column", "path", "what", "value", "written", "ttl", "expires_at", "deleted_at", "outcome", "rule", "origins",
)  # fmt: skip
KEYS_AND_VALUES = ("path", "value")
"""Columns with content of rows: an element's path may be its value, and a range's bounds are parts of keys."""

_NOTHING = dict.fromkeys(CANDIDATE_COLUMNS, "null")


@dataclass(frozen=True, slots=True)
class FactPart:
    """One part of a fact: a cell, a row marker or a deletion.

    `key` has native values by column, of the row key or the partition key alone. `what` is cell, tombstone, row marker, or a
    deletion of a row, partition, range or column. `column` belongs to a cell or column deletion, `path` (native) to a cell of a
    multi-cell column, `start` and `end`, in clustering order, to a range; else they are None.
    """

    key: Mapping[str, Any]
    what: str
    column: Column | None
    path: Any
    start: Bound | None
    end: Bound | None
    written: int


def json_object(members: Iterable[tuple[str, str]]) -> str:
    """Return a JSON object; the members' values are JSON texts."""
    return "{" + ", ".join(f"{quote(name)}: {text}" for name, text in members) + "}"


def part_row(schema: TableSchema, part: FactPart) -> JsonRow:
    """Return a part of a fact as JSON texts; `path` is the path of an element or field, or the bounds of a range."""
    path = "null"
    if part.start is not None and part.end is not None:
        path = quote(_range_text(schema, part.start, part.end))
    elif part.path is not None and part.column is not None:
        path = to_json(path_type(part.column.type), part.path)
    return {
        "key": json_object((name, to_json(schema.column(name).type, value)) for name, value in part.key.items()),
        "what": quote(part.what),
        "column": "null" if part.column is None else quote(part.column.name),
        "path": path,
        "written": str(part.written),
    }


def verdict(explanation: Explanation) -> str:
    """Return a sentence: whether the row exists at the explanation's instant."""
    return f"the row {'exists' if explanation.is_row else 'does not exist'} at {second_text(explanation.now)}"


def summary(explanation: Explanation) -> str:
    """Return one line: the table, the key, and whether the row exists."""
    kinds = {column.name: column.type for column in explanation.schema.row_key}
    shown = ", ".join(f"{name} = {to_json(kinds[name], value)}" for name, value in explanation.key.items())
    return f"{explanation.schema.full_name}, {shown}: {verdict(explanation)}"


def explanation_html(explanation: Explanation) -> str:
    """Return the candidates as a table of a notebook."""
    rows = list(map(plain_row, candidate_rows(explanation)))
    used = [name for name in CANDIDATE_COLUMNS if any(row[name] is not None for row in rows)]
    return html_table(used, rows, title=summary(explanation))


def candidate_rows(explanation: Explanation) -> Iterator[JsonRow]:
    """Yield one row per candidate, of each place the winner first, then one per deletion in scope; see `CANDIDATE_COLUMNS`."""
    for place in explanation.places:
        for candidate in place.candidates:
            yield _candidate_row(place, candidate)
    for seen in explanation.deletions:
        yield _deletion_row(explanation.schema, seen)


def _deletion_row(schema: TableSchema, seen: DeletionSeen) -> JsonRow:
    return {
        **_NOTHING,
        "column": quote(seen.column) if seen.column else "null",
        "what": quote(f"{seen.scope.value} deletion"),
        "value": quote(_range_text(schema, seen.start, seen.end)) if seen.start is not None and seen.end is not None else "null",
        "written": str(seen.deletion.written),
        "deleted_at": str(seen.deletion.deleted_at),
        "rule": quote(seen.rule),
        "origins": _origins(seen.origins),
    }


def _range_text(schema: TableSchema, start: Bound, end: Bound) -> str:
    """Return a range for people: `[1, 2)`; a round bracket excludes its bound."""
    inside = []
    for bound in (start, end):
        inside.append(", ".join(to_json(c.type, value) for c, value in zip(schema.clustering, bound.prefix, strict=False)) or "…")
    opens = "[" if start.inclusive and start.prefix else "("
    closes = "]" if end.inclusive and end.prefix else ")"
    return f"{opens}{inside[0]}, {inside[1]}{closes}"


def value_text(kind: LogicalType, path: object, value: object) -> str:
    """Return, as JSON, a cell's value; in a multi-cell column, the value of the element at `path`."""
    of_cell: LogicalType | None = kind
    if kind.is_multicell:
        of_cell = kind.field_type(str(path)) if isinstance(kind, Udt) else element_value_type(kind)
    return "null" if of_cell is None else to_json(of_cell, value)


def _candidate_row(place: CellPlace, candidate: Candidate) -> JsonRow:
    cell = candidate.cell
    row = {
        **_NOTHING,
        "column": "null" if place.column is None else quote(place.column.name),
        "what": '"row marker"' if isinstance(cell, Liveness) else '"cell"',
        "written": str(cell.written),
        "ttl": _number(cell.ttl),
        "expires_at": _number(cell.expires_at),
        "outcome": quote(candidate.outcome.value),
        "rule": quote(candidate.rule),
        "origins": _origins(candidate.origins),
    }
    if place.column is not None and isinstance(cell, Cell):
        kind = place.column.type
        row |= {"deleted_at": _number(cell.deleted_at), "value": value_text(kind, place.path, cell.value)}
        row |= {"path": to_json(path_type(kind), place.path)} if kind.is_multicell else {}
    return row


def _number(value: int | None) -> str:
    return "null" if value is None else str(value)


def _origins(origins: tuple[Origin, ...]) -> str:
    return json.dumps([_origin_text(origin) for origin in origins], ensure_ascii=False)


def _origin_text(origin: Origin) -> str:
    """Return `node segment:position`, without what the source lacks: Debezium's relational connectors have no segments."""
    place = f"{origin.segment}:{origin.position}" if origin.segment else str(origin.position)
    return f"{origin.node} {place}" if origin.node else place
