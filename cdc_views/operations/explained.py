"""An explanation as rows of JSON texts, one a candidate or deletion: what `explain` prints and a report shows."""

from __future__ import annotations

import json
from collections.abc import Iterator

from cdc_views.model.schema import TableSchema
from cdc_views.model.types import LogicalType, Udt
from cdc_views.operations.explaining import Candidate, CellPlace, Explanation
from cdc_views.operations.explaining_scope import DeletionSeen
from cdc_views.rules.cells import Cell, Liveness
from cdc_views.rules.codec.jsontext import JsonRow, quote, to_json
from cdc_views.rules.facts import Bound, Origin
from cdc_views.rules.oracle import path_type
from cdc_views.storage.relation import element_value_type

CANDIDATE_COLUMNS = (
    "column",
    "path",
    "what",
    "value",
    "written",
    "ttl",
    "expires_at",
    "deleted_at",
    "outcome",
    "rule",
    "origins",
)
KEYS_AND_VALUES = ("path", "value")
"""Those columns that tell what is in a row: an element's path may be its value, and a range's bounds are parts of keys."""

_NOTHING = dict.fromkeys(CANDIDATE_COLUMNS, "null")


def verdict(explanation: Explanation) -> str:
    """Return whether the row exists, and when, as words that follow its key."""
    does = "exists" if explanation.is_row else "does not exist"
    return f"the row {does} at {explanation.now}"


def candidate_rows(explanation: Explanation) -> Iterator[JsonRow]:
    """Yield one row a deletion in scope, then one a candidate; see `CANDIDATE_COLUMNS`."""
    for seen in explanation.deletions:
        yield _deletion_row(explanation.schema, seen)
    for place in explanation.places:
        for candidate in place.candidates:
            yield _candidate_row(place, candidate)


def _deletion_row(schema: TableSchema, seen: DeletionSeen) -> JsonRow:
    bounds = None
    if seen.start is not None and seen.end is not None:
        bounds = f"{bound_text(schema, seen.start, is_start=True)}, {bound_text(schema, seen.end, is_start=False)}"
    return {
        **_NOTHING,
        "column": quote(seen.column) if seen.column else "null",
        "what": quote(f"{seen.scope.value} deletion"),
        "value": quote(bounds) if bounds else "null",
        "written": str(seen.deletion.written),
        "deleted_at": str(seen.deletion.deleted_at),
        "rule": quote(seen.rule),
        "origins": _origins(seen.origins),
    }


def bound_text(schema: TableSchema, bound: Bound, *, is_start: bool) -> str:
    """Return one end of a range for people, its bracket round where the end is outside."""
    parts = [to_json(c.type, value) for c, value in zip(schema.clustering, bound.prefix, strict=False)]
    inside = ", ".join(parts) or "…"
    is_closed = bound.inclusive and bool(bound.prefix)
    brackets = ("[" if is_start else "]") if is_closed else ("(" if is_start else ")")
    return f"{brackets}{inside}" if is_start else f"{inside}{brackets}"


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
        row |= {"deleted_at": _number(cell.deleted_at)} | _value_and_path(place.column.type, place.path, cell)
    return row


def _value_and_path(kind: LogicalType, path: object, cell: Cell) -> dict[str, str]:
    if not kind.is_multicell:
        return {"value": to_json(kind, cell.value)}
    value = kind.field_type(str(path)) if isinstance(kind, Udt) else element_value_type(kind)
    shown = to_json(value, cell.value) if value is not None else "null"
    return {"path": to_json(path_type(kind), path), "value": shown}


def _number(value: int | None) -> str:
    return "null" if value is None else str(value)


def _origins(origins: tuple[Origin, ...]) -> str:
    return json.dumps([f"{origin.node} {origin.segment}:{origin.position}" for origin in origins], ensure_ascii=False)
