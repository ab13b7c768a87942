"""Where a snapshot that stopped half way goes on: the raw table's own rows say how far it came, nothing else is kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from cdc_views.formats.base import order_key
from cdc_views.landing.delta import delta_errors
from cdc_views.model.naming import KIND, physical_name
from cdc_views.storage.relation import RawTable


def last_read_keys(raw: RawTable, *, position: int, names: Sequence[str], most: int) -> list[tuple[Any, ...]]:
    """Return key columns of rows that landed last of a snapshot at a log position, at most so many.

    Args:
        raw: The raw table, of a source whose write times are log positions; it is there.
        position: Where in the log the snapshot was taken.
        names: Columns of the row key, in the order wanted.
        most: How many rows; the last of the batch that landed last.

    Values are as raw tables store them. Grain: one tuple a row; none where nothing of that snapshot is in the table.
    """
    columns = [physical_name(name) for name in names]
    written = pa.scalar(Decimal(order_key(position)), raw.relation.written)
    is_read = (ds.field(KIND) == "row") & (ds.field("_live", "written") == written)
    landed_at: Any = None
    found: deque[tuple[Any, ...]] = deque(maxlen=most)
    with delta_errors(raw.location):
        stored = DeltaTable(raw.location).to_pyarrow_dataset()
        for batch in stored.to_batches(columns=[*columns, "_landed_at"], filter=is_read):
            for *key, landed in zip(*(batch.column(i).to_pylist() for i in range(batch.num_columns)), strict=True):
                if landed_at is None or landed > landed_at:
                    landed_at = landed
                    found.clear()
                if landed == landed_at:
                    found.append(tuple(key))
    return list(found)


__all__ = ["last_read_keys"]
