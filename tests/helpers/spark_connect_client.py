"""A process that knows Spark by Connect alone: reads each given project's table, as `python -m helpers.spark_connect_client`.

It is given the server's URL, the instant of the reads, and folders. A folder has a project of one table, whose schema is in
`schema.pickle`; it gets what `Table.dataframe` shows of the table as `shown.arrow`, and what the engine reads as `read.arrow`.
"""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
from cdc_views_spark.engine import SparkEngine
from pyspark.sql import SparkSession

from cdc_views import Project
from cdc_views.engines.base import Read
from cdc_views.operations.sources import sources_for


def main(url: str, as_of: int, folders: list[str]) -> None:
    """Read the tables; prints the name of the session's class."""
    session: Any = SparkSession.builder.remote(url).getOrCreate()
    print(type(session).__module__)
    for folder in folders:
        os.chdir(folder)
        (table,) = Project.load().tables
        table.__dict__["schema"] = pickle.loads(Path("schema.pickle").read_bytes())
        _write("shown.arrow", table.dataframe(session, as_of=as_of).toArrow())
        read = Read(table.raw, as_of=as_of)
        read = Read(table.raw, as_of=as_of, sources=sources_for(table, read, as_of=as_of))
        _write("read.arrow", SparkEngine(session, stops=False).read(read))
    session.stop()


def _write(name: str, rows: pa.Table) -> None:
    feather.write_feather(rows, name)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
