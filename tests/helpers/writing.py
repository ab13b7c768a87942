"""Facts by hand: what statements write, in few words.

Values are native; a `None` is a tombstone and a column that is not named is absent (rule C5). `at` is the write time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cdc_views.model.schema import TableSchema
from cdc_views.model.types import LogicalType, SetOf, Udt
from cdc_views.rules.cells import Cell, Deletion, Liveness
from cdc_views.rules.codec.serialized import serialize
from cdc_views.rules.facts import Bound, Elements, Fact, FactKind
from cdc_views.storage.relation import element_value_type
from helpers.histories import NOW

Key = tuple[Any, ...]
Expiry = tuple[int, int]
"""Time to live and expiry, in seconds."""


def cell(kind: LogicalType, value: Any, *, at: int, expiry: Expiry | None = None, deleted_at: int = NOW) -> Cell:
    """Return the cell that writing `value` leaves; None leaves a tombstone."""
    if value is None:
        return Cell(at, deleted_at=deleted_at)
    return Cell(at, value, serialize(kind, value), *(expiry or (None, None)))


def element(*, at: int, expiry: Expiry | None = None) -> Cell:
    """Return the cell of a set's element, which has no value."""
    return Cell(at, b"", b"", *(expiry or (None, None)))


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes one table's facts."""

    schema: TableSchema

    def insert(self, *key: Any, at: int, expiry: Expiry | None = None, **values: Any) -> Fact:
        """INSERT: cells, and a row marker (rule W1)."""
        return self._row(key, Liveness(at, *(expiry or (None, None))), at=at, expiry=expiry, values=values)

    def update(self, *key: Any, at: int, expiry: Expiry | None = None, deleted_at: int = NOW, **values: Any) -> Fact:
        """UPDATE: cells alone."""
        return self._row(key, None, at=at, expiry=expiry, deleted_at=deleted_at, values=values)

    def static(self, *key: Any, at: int, expiry: Expiry | None = None, **values: Any) -> Fact:
        """UPDATE of static columns; the key is the partition's."""
        cells, elements = self._content(values, at=at, expiry=expiry, deleted_at=NOW)
        return Fact(FactKind.STATIC, key, cells=cells, elements=elements)

    def delete(self, *key: Any, at: int) -> Fact:
        """DELETE of one row."""
        partition, clustering = self._split(key)
        return Fact(FactKind.ROW, partition, clustering, deletion=Deletion(at, NOW))

    def delete_partition(self, *key: Any, at: int) -> Fact:
        """DELETE of a partition."""
        return Fact(FactKind.PARTITION, key, deletion=Deletion(at, NOW))

    def delete_range(self, *key: Any, at: int, start: Bound, end: Bound) -> Fact:
        """DELETE of a range of a partition's rows, in clustering order."""
        return Fact(FactKind.RANGE, key, deletion=Deletion(at, NOW), start=start, end=end)

    def truncate(self, *, at: int) -> Fact:
        """TRUNCATE (rule S6)."""
        return Fact(FactKind.TABLE, deletion=Deletion(at, 0))

    def _split(self, key: Key) -> tuple[Key, Key]:
        size = len(self.schema.partition)
        assert len(key) == len(self.schema.row_key)
        return key[:size], key[size:]

    def _row(
        self,
        key: Key,
        marker: Liveness | None,
        *,
        at: int,
        expiry: Expiry | None,
        values: Mapping[str, Any],
        deleted_at: int = NOW,
    ) -> Fact:
        partition, clustering = self._split(key)
        cells, elements = self._content(values, at=at, expiry=expiry, deleted_at=deleted_at)
        return Fact(FactKind.ROW, partition, clustering, marker, cells=cells, elements=elements)

    def _content(
        self, values: Mapping[str, Any], *, at: int, expiry: Expiry | None, deleted_at: int
    ) -> tuple[dict[str, Cell], dict[str, Elements]]:
        elements = {name: value for name, value in values.items() if isinstance(value, Elements)}
        plain = {name: value for name, value in values.items() if name not in elements}
        kinds = {name: self.schema.column(name).type for name in plain}
        cells = {n: cell(kinds[n], v, at=at, expiry=expiry, deleted_at=deleted_at) for n, v in plain.items()}
        return cells, elements

    def appended(self, name: str, values: Mapping[Any, Any], *, at: int, expiry: Expiry | None = None) -> Elements:
        """Return elements added to (or, None, removed from) a multi-cell column: path → value; a set's values are `True`."""
        return Elements(None, tuple((path, self._element(name, path, v, at=at, expiry=expiry)) for path, v in values.items()))

    def overwritten(self, name: str, values: Mapping[Any, Any], *, at: int) -> Elements:
        """Return a whole new value: a complex deletion one microsecond before its elements (rule D3)."""
        return Elements(Deletion(at - 1, NOW), self.appended(name, values, at=at).cells)

    def _element(self, name: str, path: Any, value: Any, *, at: int, expiry: Expiry | None) -> Cell:
        kind = self.schema.column(name).type
        if value is None:
            return Cell(at, deleted_at=NOW)
        if isinstance(kind, SetOf):
            return element(at=at, expiry=expiry)
        value_kind = kind.field_type(path) if isinstance(kind, Udt) else element_value_type(kind)
        assert value_kind is not None
        return cell(value_kind, value, at=at, expiry=expiry)


def removed(*, at: int) -> Elements:
    """Return the complex deletion that `SET c = null` writes."""
    return Elements(Deletion(at, NOW))


def inclusive(*prefix: Any) -> Bound:
    """Return a bound at a prefix, the prefix itself inside."""
    return Bound(prefix, True)


def exclusive(*prefix: Any) -> Bound:
    """Return a bound at a prefix, the prefix itself outside."""
    return Bound(prefix, False)


OPEN = Bound((), True)
"""No bound at all."""
