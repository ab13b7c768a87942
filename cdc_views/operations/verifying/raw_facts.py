"""What raw has of some keys, and the rows that the rules make of it.

Raw may hold thousands of facts about a row that is written again and again, so they are reconciled while they are read: in memory
stay one cell a column and, of the facts since the source's position, each. What a finding says about its candidates is read again
for that key alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import reduce
from operator import or_
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from cdc_views.errors import CdcViewsError
from cdc_views.landing.raw_table import open_raw
from cdc_views.model.naming import physical_name
from cdc_views.model.schema import TableSchema
from cdc_views.operations.context import TableContext
from cdc_views.operations.explaining import CellPlace, explain
from cdc_views.operations.ingest import check_landed, check_raw_is_whole
from cdc_views.operations.keyed import facts_about
from cdc_views.operations.reading import file_errors
from cdc_views.operations.verifying.rows import Key, Keys, cell_identity, key_of
from cdc_views.plan.names import LANDED
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.rules.oracle import Reconciled, Row
from cdc_views.storage.delta_tables import opened
from cdc_views.storage.relation_read import KeyFacts, facts_of

_WHAT = "what `verify` reads of raw"
_AT_ONCE = 100
"""Keys whose raw facts are read together."""
_BATCH = 500
"""Rows that are Python objects at the same time."""
_NOT_AHEAD = {"batch_readahead": 1, "fragment_readahead": 1}
"""To read files ahead, as Arrow does, takes twice the memory and no second less: Python's objects take the time."""


def newest(fact: Fact) -> int:
    """Return the newest write time in a fact; of a log's event, all are one."""
    parts = [fact.liveness, fact.deletion, *fact.cells.values()]
    for elements in fact.elements.values():
        parts += [elements.deletion, *(cell for _, cell in elements.cells)]
    return max((part.written for part in parts if part is not None), default=0)


def _later(known: int | None, written: int) -> int:
    return written if known is None else max(known, written)


@dataclass(slots=True)
class KeyHistory:
    """What raw has of one key: `earlier`, written before `since`, is reconciled, `later` is not (None: all is reconciled).

    `count` is the number of facts, `newest` their newest write time, `deleted` that of their deletions (None: there is none);
    `has_writes`: one of them writes the row.
    """

    schema: TableSchema
    key: Key
    since: int | None
    earlier: Reconciled
    later: list[Fact] = field(default_factory=list)
    count: int = 0
    newest: int | None = None
    deleted: int | None = None
    has_writes: bool = False

    def add(self, fact: Fact) -> None:
        """Add a fact that concerns the key."""
        written = newest(fact)
        if self.since is None or written < self.since:
            self.earlier.add(fact)
        else:
            self.later.append(fact)
        self.count, self.newest = self.count + 1, _later(self.newest, written)
        self.has_writes |= fact.kind is FactKind.ROW and bool(fact.cells or fact.elements or fact.liveness)
        if fact.deletion is not None:
            self.deleted = _later(self.deleted, fact.deletion.written)

    def row(self, *, as_of: int, before: int | None = None) -> Row | None:
        """Return the row that the rules make of the facts, only of those written before `before`, which is `since` or later."""
        assert before is None or (self.since is not None and before >= self.since)
        known = self.earlier
        more = [fact for fact in self.later if before is None or newest(fact) < before]
        if more:
            known = known.copy()
            for fact in more:
                known.add(fact)
        return next((row for row in known.rows(now=as_of) if key_of(self.schema, row) == self.key), None)

    def positions(self, low: int, high: int) -> list[int]:
        """Return the positions from `low` to `high` at which another row may show."""
        return sorted({low, high, *(at + 1 for at in map(newest, self.later) if low <= at < high)})


class RawFacts:
    """Reads what raw has of some keys."""

    def __init__(self, table: TableContext) -> None:
        self.table, self.schema = table, table.schema

    def about(self, keys: Keys, *, since: int | None = None) -> dict[Key, KeyHistory]:
        """Return what raw has of each key; facts from `since` on stay apart. Raises `UsageError` if raw is not whole."""
        found = {key: KeyHistory(self.schema, key, since, Reconciled(self.schema)) for key in keys}
        self._each(keys, lambda key, fact: found[key].add(fact))
        return found

    def counts(self, keys: Keys) -> dict[Key, int]:
        """Return how many facts raw has of each key; raises as `about`."""
        found = dict.fromkeys(keys, 0)

        def count(key: Key, _: Fact) -> None:
            found[key] += 1

        self._each(keys, count, columns=())
        return found

    def places(self, key: Mapping[str, Any], columns: Collection[str], *, now: int) -> tuple[CellPlace, ...]:
        """Return what competes for some columns of a row (empty: for all, and for the row itself), of all facts of raw now."""
        schema, facts = self.schema, list[Fact]()
        self._each({key_of(schema, key): key}, lambda _, fact: facts.append(fact), columns=columns or None)
        return explain(schema, facts, key=self._parts(key), now=now, columns=columns).places

    def count_at(self, key: Mapping[str, Any], version: int | None) -> int | None:
        """Return how many facts about a row raw had at a version; None if the version can no longer be read."""
        if version is None or self.table.project.is_remote:
            return None
        try:
            stored = opened(self.table.raw.location, version=version).to_pyarrow_dataset()
            return int(stored.count_rows(filter=self._wanted(key).filter))
        except (CdcViewsError, OSError):
            return None

    def _each(self, keys: Keys, take: Callable[[Key, Fact], None], *, columns: Collection[str] | None = None) -> None:
        """Give each fact of raw with each key that it concerns; with `columns` facts have only cells of these."""
        if self.table.project.is_remote:
            for key, values in keys.items():
                for fact in facts_of(self.table.relation, facts_about(self.table, self._wanted(values), what=_WHAT)):
                    take(key, fact)
            return
        check_landed(self.table)
        check_raw_is_whole(self.table, what=_WHAT)
        listed = list(keys.items())
        for start in range(0, len(listed), _AT_ONCE):
            some = dict(listed[start : start + _AT_ONCE])
            facts = self._stored([self._wanted(values).filter for values in some.values()], columns)
            for fact, concerned in self._concerned(some, facts):
                for key in concerned:
                    take(key, fact)

    def _stored(self, filters: Sequence[ds.Expression], columns: Collection[str] | None) -> Iterator[Fact]:
        schema = self.schema
        wanted = (*schema.statics, *schema.regulars) if columns is not None else ()
        left_out = {physical_name(column.name) for column in wanted if column.name not in (columns or ())}
        for rows in _batches(self.table, reduce(or_, filters), left_out=left_out):
            yield from facts_of(self.table.relation, rows)

    def _concerned(self, keys: Keys, facts: Iterable[Fact]) -> Iterator[tuple[Fact, Iterable[Key]]]:
        """Yield each fact with the keys that it concerns."""
        size = len(self.schema.partition)
        of_partition: dict[Key, list[Key]] = {}
        for key in keys:
            of_partition.setdefault(key[:size], []).append(key)
        for fact in facts:
            yield fact, keys if fact.kind is FactKind.TABLE else self._of_partition(fact, of_partition)

    def _of_partition(self, fact: Fact, of_partition: Mapping[Key, list[Key]]) -> Iterable[Key]:
        schema = self.schema
        partition = tuple(cell_identity(c, value) for c, value in zip(schema.partition, fact.partition, strict=True))
        mine = of_partition.get(partition, ())
        if fact.kind is not FactKind.ROW:
            return mine
        clustering = tuple(cell_identity(c, value) for c, value in zip(schema.clustering, fact.clustering, strict=True))
        alone = (None,) * len(clustering)
        return [key for key in mine if key[len(partition) :] in (clustering, alone)]

    def _wanted(self, key: Mapping[str, Any]) -> KeyFacts:
        partition, clustering = self._parts(key)
        if clustering is None:
            # a row of static columns alone shows only where no row of the partition does (W3)
            return KeyFacts.of_partition(self.schema, partition)
        return KeyFacts.of_row(self.schema, partition, clustering)

    def _parts(self, key: Mapping[str, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...] | None]:
        """Return the partition's key and the clustering key; None for a row of static columns alone."""
        partition = tuple(key[column.name] for column in self.schema.partition)
        clustering = tuple(key[column.name] for column in self.schema.clustering)
        is_alone = bool(clustering) and all(value is None for value in clustering)
        return partition, None if is_alone else clustering


def landed_since(table: TableContext, clock: int) -> Iterator[tuple[Fact, int]]:
    """Yield the facts of raw that landed at a second or later, each with the instant (µs since the epoch)."""
    since = datetime.fromtimestamp(clock, timezone.utc)
    for rows in _batches(table, ds.field(LANDED) >= pa.scalar(since, pa.timestamp("us", tz="UTC"))):
        yield from zip(facts_of(table.relation, rows), rows[LANDED].cast(pa.int64()).to_pylist(), strict=True)


def _batches(table: TableContext, where: ds.Expression, *, left_out: Container[str] = ()) -> Iterator[pa.Table]:
    """Yield few rows at a time of those that meet a condition."""
    with file_errors(table.raw.location):
        stored = open_raw(table.raw).to_pyarrow_dataset()
        known = [n for n in table.relation.arrow_schema().names if n in stored.schema.names and n not in left_out]
        for batch in stored.to_batches(known, filter=where, batch_size=_BATCH, use_threads=False, **_NOT_AHEAD):
            yield pa.Table.from_batches([batch])
