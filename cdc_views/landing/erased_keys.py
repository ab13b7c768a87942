"""The key that is forgotten: a row key or a whole partition, as stored columns, as a condition and as bytes to hash.

A row key takes with it the facts of that row. Facts about its partition or a range of it (deletions, static columns)
are about other rows too, and go only with the whole partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.dataset as ds

from cdc_views.model.naming import KIND
from cdc_views.model.schema import TableSchema
from cdc_views.rules.codec.comparable import comparable, partition_identity
from cdc_views.rules.codec.keys import parse_key
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.storage.relation_read import all_equal, stored_key


@dataclass(frozen=True, slots=True)
class ErasedKey:
    """Native values of a partition key and, for one row, of its clustering key; `clustering` None: the whole partition."""

    schema: TableSchema
    partition: tuple[Any, ...]
    clustering: tuple[Any, ...] | None = None

    @classmethod
    def parse(cls, schema: TableSchema, key: Mapping[str, Any] | str) -> ErasedKey:
        """Return the key that JSON names, as `explain --key` takes it; raises as `codec.keys.parse_key`."""
        partition, clustering = parse_key(schema, key)
        return cls(schema, partition, clustering or None)

    @property
    def is_partition(self) -> bool:
        """Whether all rows of the partition are meant."""
        return self.clustering is None

    def canonical(self) -> bytes:
        """Return bytes that are equal iff the keys are (rule K1)."""
        return row_bytes(self.schema, self.partition, self.clustering)

    def stored(self) -> dict[str, Any]:
        """Return, by name, the stored values of the columns that decide equality in the raw layout."""
        columns = self.schema.partition + (() if self.clustering is None else self.schema.clustering)
        return stored_key(columns, self.partition + (self.clustering or ()))

    def condition(self) -> ds.Expression:
        """Return the condition on rows of the raw layout that are about this key."""
        kind = ds.field(KIND)
        about = kind != FactKind.TABLE.value if self.is_partition else kind == FactKind.ROW.value
        return about & all_equal(self.stored())

    def is_about(self, fact: Fact) -> bool:
        """Whether a fact goes with this key."""
        if fact.kind is FactKind.TABLE or (fact.kind is not FactKind.ROW and not self.is_partition):
            return False
        clustering = None if self.is_partition else fact.clustering
        return row_bytes(self.schema, fact.partition, clustering) == self.canonical()

    def is_named_by(self, fact: Fact) -> bool:
        """Whether a range deletion, which stays, has this row's whole clustering key as a bound."""
        if self.clustering is None or fact.kind is not FactKind.RANGE:
            return False
        prefixes = [bound.prefix for bound in (fact.start, fact.end) if bound is not None]
        whole = [prefix for prefix in prefixes if len(prefix) == len(self.schema.clustering)]
        return any(row_bytes(self.schema, fact.partition, prefix) == self.canonical() for prefix in whole)


def row_bytes(schema: TableSchema, partition: tuple[Any, ...], clustering: tuple[Any, ...] | None) -> bytes:
    """Return bytes that are equal iff the keys are: partition keys by their bytes, clustering keys by comparator (K1)."""
    parts = [partition_identity(column.type, value) for column, value in zip(schema.partition, partition, strict=True)]
    if clustering is not None:
        parts += [comparable(column.type, value) for column, value in zip(schema.clustering, clustering, strict=True)]
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)
