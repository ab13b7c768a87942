"""Rows that BigQuery cannot store: no array there holds NULL, at any level.

Source: BigQuery, Data types, Array type, "Nulls and the array type"; a load job refuses the whole file for one of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from cdc_views.errors import UnsupportedError


def check_storable(rows: pa.Table, *, table: str) -> None:
    """Raise `UnsupportedError` for facts whose arrays hold null; it names the column and the number of facts, but no value.

    Such an array is a frozen list, set or vector with a null or 0-byte element. Elements of multi-cell collections are STRUCTs in
    raw tables, and may hold anything.
    """
    for name, found in rows_with_null(rows).items():
        raise UnsupportedError(
            f"{table}: {len(found):,} of {rows.num_rows:,} facts hold a null within an array of column {name!r}, "
            "and BigQuery stores none",
            remedy="leave the column out of the schema file, or land into Delta tables",
        )


def rows_with_null(rows: pa.Table) -> dict[str, set[int]]:
    """Return, by column, the numbers of rows with an array that holds null; columns without such rows are left out."""
    numbers = pa.array(range(rows.num_rows), pa.int64())
    found = {name: set(_with_null(rows.column(name).combine_chunks(), numbers)) for name in rows.column_names}
    return {name: held for name, held in found.items() if held}


def _with_null(array: pa.Array, row_of: pa.Array) -> Iterator[int]:
    """Yield the rows in which an array holds null; `row_of` has the row of each value."""
    kind = array.type
    if pa.types.is_list(kind):
        parents, items = row_of.take(pc.list_parent_indices(array)), pc.list_flatten(array)
        yield from parents.filter(items.is_null()).to_pylist()
        yield from _with_null(items, parents)
    elif pa.types.is_struct(kind):
        for part in array.flatten():  # a part of a null struct is null
            yield from _with_null(part, row_of)
