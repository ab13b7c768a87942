"""Some partitions of a state and of raw, for `validate`: which ones, and their facts, chosen by a digest of the key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from cdc_views.plan import names
from cdc_views.plan.purge import PURGED_KIND
from cdc_views_bigquery.merging.columns import raw_columns
from cdc_views_bigquery.state import StateTables
from cdc_views_bigquery.types import quoted


@dataclass(frozen=True, slots=True)
class Sampling:
    """Draws partitions of a state, or of raw, so that what only one of them has is noticed.

    A partition is known by a digest of what tells its key apart (rule K1), so that no value of a key stands in a statement.
    """

    state: StateTables

    def draw(self, *, size: int, seed: int | None) -> list[str]:
        """Return digests of at most `size` partitions, the same for equal seeds and facts; none that purged anything (M2).

        `seed` None: others after each run of the state. Reads the columns of the key alone.
        """
        merging = self.state.merging
        drawn = (self.state.mark() or {}).get("ran_at") if seed is None else seed
        of_row = f"`_kind` NOT IN ('table', '{PURGED_KIND}')"
        sides = (f"SELECT {self._digest} AS p FROM {table} WHERE {of_row}" for table in (merging.facts, merging.raw))
        purged = f"SELECT {self._digest} FROM {merging.state} WHERE `_kind` = '{PURGED_KIND}'"
        text = (
            f"SELECT p FROM ({' UNION DISTINCT '.join(sides)}) WHERE p NOT IN ({purged}) "
            f"ORDER BY TO_HEX(MD5(CONCAT(p, '{drawn}'))) LIMIT {size:d}"
        )
        found = self.state.connection.rows(text, what=f"drawing partitions of {self.state.table}")
        return [str(digest) for digest in found["p"].to_pylist()]

    def landed(self, partitions: Sequence[str]) -> pa.Table:
        """Return all facts that raw has of partitions, and truncates, in the raw layout."""
        columns = ", ".join(column.quoted for column in raw_columns(self.state.relation))
        text = f"SELECT {columns} FROM {self._chosen(self.state.merging.raw, partitions)}"
        return self.state.connection.rows(text, what=f"reading partitions of {self.state.table} in raw")

    def of_state(self, partitions: Sequence[str]) -> str:
        """Return what stands after FROM to read these partitions of state and tail alone."""
        return self._chosen(self.state.merging.facts, partitions)

    def _chosen(self, table: str, partitions: Sequence[str]) -> str:
        listed = ", ".join(f"'{digest}'" for digest in partitions)
        return f"(SELECT * FROM {table} WHERE `_kind` = 'table' OR {self._digest} IN ({listed}))"

    @property
    def _digest(self) -> str:
        keys = ", ".join(quoted(names.identity(column)) for column in self.state.relation.schema.partition)
        return f"TO_HEX(MD5(TO_JSON_STRING(STRUCT({keys}))))"
