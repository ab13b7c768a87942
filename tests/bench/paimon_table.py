"""A Paimon table in pypaimon's own environment, driven by `paimon.py`: a command a line, its seconds back.

`write FILE` merges a Parquet file of rows into the table; `read FILE` writes its rows.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pypaimon import CatalogFactory, Schema  # type: ignore[import-not-found, unused-ignore]

KEYS = ["account", "item"]
OPTIONS = {"bucket": "4", "merge-engine": "partial-update"}


def keyed(rows: pa.Table) -> pa.Table:
    """The rows, whose key columns are not null, as Paimon asks for them."""
    return rows.cast(pa.schema([field.with_nullable(field.name not in KEYS) for field in rows.schema]))


def created(warehouse: str, rows: pa.Schema) -> Any:
    """A table of these columns."""
    catalog = CatalogFactory.create({"warehouse": warehouse})
    catalog.create_database("bench", True)
    catalog.create_table("bench.rows", Schema.from_pyarrow_schema(rows, primary_keys=KEYS, options=OPTIONS), False)
    return catalog.get_table("bench.rows")


def write(table: Any, rows: pa.Table) -> None:
    """Merge rows into the table: one commit."""
    builder = table.new_batch_write_builder()
    writing, commit = builder.new_write(), builder.new_commit()
    writing.write_arrow(rows)
    commit.commit(writing.prepare_commit())
    writing.close()
    commit.close()


def read(table: Any) -> pa.Table:
    """The rows as the table shows them now."""
    builder = table.new_read_builder()
    return builder.new_read().to_arrow(builder.new_scan().plan().splits())


def main() -> None:
    """Follow the commands of standard input."""
    warehouse, table = sys.argv[1], None
    for line in sys.stdin:
        command, path = line.split()
        rows = keyed(pq.read_table(path)) if command == "write" else None
        if rows is not None and table is None:
            table = created(warehouse, rows.schema)
        start = time.perf_counter()
        if rows is not None:
            write(table, rows)
        else:
            rows = read(table)
        seconds = time.perf_counter() - start
        if command == "read":
            pq.write_table(rows, path)
        print(seconds, flush=True)


if __name__ == "__main__":
    main()
