"""Facts in one line each, for reports of failures."""

from __future__ import annotations

from typing import Any

from cdc_views.rules.cells import Cell, Deletion, Liveness
from cdc_views.rules.facts import Bound, Elements, Fact


def fact_text(fact: Fact) -> str:
    """Return the fact in one line: what it is about, then `name=value@written` for each cell."""
    parts = [fact.kind.value, *map(repr, fact.partition)]
    if fact.clustering:
        parts.append("/ " + " ".join(map(repr, fact.clustering)))
    if fact.start is not None and fact.end is not None:
        parts.append(f"from {_bound(fact.start)} to {_bound(fact.end)}")
    if fact.deletion is not None:
        parts.append(_deletion(fact.deletion))
    if fact.liveness is not None:
        parts.append(f"marker@{_times(fact.liveness)}")
    parts += [f"{name}={_cell(cell)}" for name, cell in fact.cells.items()]
    parts += [f"{name}={_elements(elements)}" for name, elements in fact.elements.items()]
    return " ".join(parts)


def _bound(bound: Bound) -> str:
    return f"{bound.prefix}{'' if bound.inclusive else ' exclusive'}"


def _deletion(deletion: Deletion) -> str:
    return f"deleted@{deletion.written} ({deletion.deleted_at})"


def _times(fact: Cell | Liveness) -> str:
    return f"{fact.written}" + (f" (ttl {fact.ttl} until {fact.expires_at})" if fact.expires_at is not None else "")


def _cell(cell: Cell) -> str:
    value: Any = f"tombstone ({cell.deleted_at})" if cell.is_tombstone else repr(cell.value)
    return f"{value}@{_times(cell)}"


def _elements(elements: Elements) -> str:
    parts = [_deletion(elements.deletion)] if elements.deletion else []
    return "{" + ", ".join(parts + [f"{path!r}: {_cell(cell)}" for path, cell in elements.cells]) + "}"
