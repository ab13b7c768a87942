"""Histories by the book: what the oracle shows at every instant at which anything may change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from cdc_views.engines.base import Engine, RawTable, Read
from cdc_views.formats.base import WriteOrder
from cdc_views.model.schema import TableSchema
from cdc_views.operations.history import History, Version
from cdc_views.rules.codec.comparable import comparable, partition_identity
from cdc_views.rules.facts import Elements, Fact
from cdc_views.rules.oracle import latest_rows
from helpers.reading import Row, canonical_row

MICROS = 1_000_000
Told = tuple[tuple[Any, ...], int, int | None]
"""A version that can be compared: the row, valid from, valid to."""


def written_by(facts: Iterable[Fact], limit: int) -> list[Fact]:
    """Return the facts without what was written after `limit`."""

    def kept(stamped: Any) -> Any:
        return stamped if stamped is not None and stamped.written <= limit else None

    def kept_elements(elements: Elements) -> Elements:
        return Elements(kept(elements.deletion), tuple((p, c) for p, c in elements.cells if c.written <= limit))

    return [
        replace(
            fact,
            liveness=kept(fact.liveness),
            deletion=kept(fact.deletion),
            cells={name: cell for name, cell in fact.cells.items() if cell.written <= limit},
            elements={name: kept_elements(elements) for name, elements in fact.elements.items()},
        )
        for fact in facts
    ]


def true_versions(schema: TableSchema, facts: Iterable[Fact], *, as_of: int, order: WriteOrder) -> list[Told]:
    """Return the versions of `facts` in no order, by asking the oracle at each instant there is."""
    kept = list(facts)
    told: dict[Any, list[tuple[int, tuple[Any, ...] | None]]] = {}
    instants = sorted({instant for fact in kept for instant in instants_of(fact, as_of=as_of, order=order)})
    for instant in instants:
        now = min(instant // MICROS, as_of) if order is WriteOrder.MICROS else as_of
        rows = {_identity(schema, row): canonical_row(row) for row in latest_rows(schema, written_by(kept, instant), now=now)}
        for identity in told.keys() | rows.keys():
            known = told.setdefault(identity, [])
            if (known[-1][1] if known else None) != rows.get(identity):
                known.append((instant, rows.get(identity)))
    return [version for changes in told.values() for version in _versions(changes)]


def _versions(changes: list[tuple[int, tuple[Any, ...] | None]]) -> Iterator[Told]:
    ends = [instant for instant, _ in changes[1:]]
    for (start, row), end in zip(changes, [*ends, None], strict=True):
        if row is not None:
            yield row, start, end


def instants_of(fact: Fact, *, as_of: int, order: WriteOrder) -> Iterator[int]:
    """Yield the write times of a fact's parts, and when they expire, up to `as_of`."""
    elements = list(fact.elements.values())
    cells = [*fact.cells.values(), *(cell for e in elements for _, cell in e.cells)]
    stamped: list[Any] = [fact.liveness, fact.deletion, *cells, *(e.deletion for e in elements)]
    for one in stamped:
        if one is None:
            continue
        yield one.written
        expires_at = getattr(one, "expires_at", None)
        if expires_at is not None and expires_at <= as_of and order is WriteOrder.MICROS:
            yield expires_at * MICROS


def _identity(schema: TableSchema, row: Row) -> tuple[Any, ...]:
    partition = tuple(partition_identity(c.type, row[c.name]) for c in schema.partition)
    return partition, tuple(None if row[c.name] is None else comparable(c.type, row[c.name]) for c in schema.clustering)


def read_versions(engine: Engine, raw: RawTable, *, as_of: int, **asked: Any) -> list[Version]:
    """Return an engine's versions, in its order; `asked` are further fields of `Read`."""
    read = Read(raw, as_of, is_history=True, **asked)
    columns = read.columns or tuple(c.name for c in raw.relation.schema.columns)
    return list(History(raw.relation, columns, engine.read(read), as_of).versions())


def told(version: Version) -> Told:
    """Return a version as it can be compared."""
    return canonical_row(version.row), version.valid_from, version.valid_to
