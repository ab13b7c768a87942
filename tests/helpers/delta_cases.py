"""Tables as Delta's acceptance tests (DAT) have them, and more of what writers leave in a log: made by Spark, once, as files.

`PYTHONPATH=tests python -m helpers.delta_cases` writes `tests/data/delta_cases.tar.xz` anew: for each case the table, and the
rows that Spark showed, as Parquet. Source of names and descriptions: github.com/delta-incubator/dat at 5f12d45.
"""

from __future__ import annotations

import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ARCHIVE = Path(__file__).parents[1] / "data" / "delta_cases.tar.xz"
_LETTERS = "letter STRING, number INT, day DATE"
_SOME = "('a', 1, DATE'2001-01-01'), ('b', 2, DATE'2002-01-01'), (NULL, 3, DATE'2003-01-01'), ('a', 4, NULL)"
_MORE = "('c', 5, DATE'2005-01-01'), ('a', 6, DATE'2006-01-01')"
_VECTORS = "'delta.enableDeletionVectors' = 'true'"
_OFTEN = "'delta.checkpointInterval' = '2'"


def _table(*properties: str, columns: str = _LETTERS, by: str = "") -> str:
    told = f" TBLPROPERTIES ({', '.join(properties)})" if properties else ""
    return f"CREATE TABLE {{t}} ({columns}) USING delta{f' PARTITIONED BY ({by})' if by else ''}{told}"


_APPENDED = (f"INSERT INTO {{t}} VALUES {_SOME}", f"INSERT INTO {{t}} VALUES {_MORE}")
_OVERWRITTEN = tuple(f"INSERT OVERWRITE {{t}} VALUES {rows}" for rows in (_SOME, _MORE, _SOME))
_HIDDEN = (*_APPENDED, "DELETE FROM {t} WHERE letter = 'a'", "DELETE FROM {t} WHERE number = 2")
_TYPES = (
    "utf8 STRING, int64 BIGINT, int32 INT, int16 SMALLINT, int8 TINYINT, float32 FLOAT, float64 DOUBLE, bool BOOLEAN, "
    "bytes BINARY, amount DECIMAL(5, 3), day DATE, at TIMESTAMP"
)
_ONE_OF_EACH = "('1', 1, 1, 1, 1, 1, 1, true, X'01', 10.001, DATE'1970-01-02', TIMESTAMP'1970-01-01 01:00:00.000001')"
_NESTED = "pk INT, s STRUCT<f: DOUBLE, b: BOOLEAN>, a ARRAY<SMALLINT>, m MAP<STRING, INT>"
_V2 = "'delta.checkpointPolicy' = 'v2'"
CASES: Mapping[str, tuple[str, ...]] = {
    # those of DAT
    "basic_append": (_table(), *_APPENDED),
    "basic_partitioned": (_table(by="letter"), f"INSERT INTO {{t}} VALUES {_MORE}"),
    "partitioned_with_null": (_table(by="letter"), *_APPENDED),
    "multi_partitioned": (
        _table(columns="letter STRING, day DATE, data BINARY, number INT", by="letter, day, data"),
        "INSERT INTO {t} VALUES ('a', NULL, X'78', 4), (NULL, NULL, NULL, 5)",
        "INSERT INTO {t} VALUES ('/%20%f', DATE'1970-01-01', X'68', 6), ('b', DATE'1970-01-01', X'69', 7)",
    ),
    "multi_partitioned_2": (
        _table(columns="bool BOOLEAN, time TIMESTAMP, amount DECIMAL(5, 2), number INT", by="bool, time, amount"),
        "INSERT INTO {t} VALUES (true, TIMESTAMP'1970-01-01 12:30:00', 200.00, 2), (false, TIMESTAMP'1970-01-02', 12.00, 3)",
    ),
    "with_schema_change": (_table(), *_APPENDED, "overwrite"),
    "all_primitive_types": (_table(columns=_TYPES), f"INSERT INTO {{t}} VALUES {_ONE_OF_EACH}"),
    "nested_types": (
        _table(columns=_NESTED),
        "INSERT INTO {t} VALUES (1, named_struct('f', 1.5D, 'b', true), array(1S, 2S), map('a', 1)), (2, NULL, array(), map())",
    ),
    "with_checkpoint": (_table(_OFTEN), *_OVERWRITTEN),
    "no_replay": (_table(_OFTEN), *_OVERWRITTEN, "cut"),
    "stats_as_struct": (_table(_OFTEN, "'delta.checkpoint.writeStatsAsStruct' = 'true'",
                               "'delta.checkpoint.writeStatsAsJson' = 'false'"), *_OVERWRITTEN, "cut"),
    "no_stats": (_table(_OFTEN, "'delta.checkpoint.writeStatsAsStruct' = 'false'",
                        "'delta.checkpoint.writeStatsAsJson' = 'false'", "'delta.dataSkippingNumIndexedCols' = '0'"),
                 "SET spark.databricks.delta.stats.collect = false", *_OVERWRITTEN),
    "deletion_vectors": (_table(_VECTORS), *_HIDDEN),
    "check_constraints": (_table(_VECTORS), *_APPENDED, "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (number > 0)"),
    "cdf": (_table("'delta.enableChangeDataFeed' = 'true'"), *_APPENDED, "UPDATE {t} SET letter = 'a' WHERE letter = 'c'",
            "DELETE FROM {t} WHERE letter = 'a'"),
    "generated_columns": (_table(columns="number INT, next INT GENERATED ALWAYS AS (number + 1)"),
                          "INSERT INTO {t} (number) VALUES (1), (2)"),
    "column_mapping": (_table("'delta.columnMapping.mode' = 'name'"), *_APPENDED, "ALTER TABLE {t} RENAME COLUMN number TO n"),
    "timestamp_ntz": (_table(columns="number INT, at TIMESTAMP_NTZ"),
                      "INSERT INTO {t} VALUES (1, TIMESTAMP_NTZ'2001-01-01 01:02:03')"),
    "iceberg_compat_v1": (_table("'delta.columnMapping.mode' = 'name'", "'delta.enableIcebergCompatV1' = 'true'",
                                 "'delta.minReaderVersion' = '2'", "'delta.minWriterVersion' = '7'"), *_APPENDED),
    # what else writers leave
    "deletion_vectors_checkpointed": (_table(_VECTORS, _OFTEN), *_HIDDEN, "cut"),
    "deletion_vectors_of_a_prefix": (_table(_VECTORS, "'delta.randomizeFilePrefixes' = 'true'"), *_HIDDEN),
    "v2_checkpoint_parquet": ("SET spark.databricks.delta.checkpointV2.topLevelFileFormat = parquet",
                              _table(_VECTORS, _OFTEN, _V2), *_HIDDEN, "cut"),
    "v2_checkpoint_json": ("SET spark.databricks.delta.checkpointV2.topLevelFileFormat = json",
                           _table(_VECTORS, _OFTEN, _V2), *_HIDDEN, "cut"),
    "multi_part_checkpoint": ("SET spark.databricks.delta.checkpoint.partSize = 1", _table(_VECTORS, _OFTEN), *_HIDDEN, "cut"),
    "type_widening": (_table("'delta.enableTypeWidening' = 'true'"), *_APPENDED,
                      "ALTER TABLE {t} ALTER COLUMN number TYPE BIGINT"),
    "row_tracking": (_table("'delta.enableRowTracking' = 'true'"), *_APPENDED),
    "in_commit_timestamps": (_table("'delta.enableInCommitTimestamps' = 'true'"), *_APPENDED),
}  # fmt: skip
"""SQL on a table `{t}`; `cut` deletes the log before its last checkpoint, `overwrite` gives the table another schema."""


def made(session: Any, folder: Path) -> None:
    """Make all cases in `folder`."""
    for name, statements in CASES.items():
        place = folder / name / "table"
        for statement in statements:
            if statement == "cut":
                _cut(place / "_delta_log")
            elif statement == "overwrite":
                rows = session.createDataFrame([(22, 33), (44, 55)], "num1 INT, num2 INT")
                rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(str(place))
            else:
                session.sql(statement.format(t=f"delta.`{place}`"))
        session.sql("RESET")
        session._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        rows = pa.table(session.table(f"delta.`{place}`").toArrow())
        pq.write_table(rows, folder / name / "rows.parquet")
        for crc in place.rglob(".*.crc"):
            crc.unlink()


def _version(path: Path) -> int:
    return int(path.name[:20])


def _cut(log: Path) -> None:
    last = max(map(_version, log.glob("0*.checkpoint*")))
    for path in [*log.glob("0*"), *log.glob(".0*")]:
        if int(path.name.lstrip(".")[:20]) < last:
            path.unlink()


def main() -> int:
    """Write the archive."""
    from cdc_views_spark.session import open_session

    with TemporaryDirectory(prefix="cdc-views-delta-cases-") as folder:
        session = open_session(warehouse=Path(folder) / "warehouse")
        made(session, Path(folder) / "cases")
        with tarfile.open(ARCHIVE, "w:xz") as archive:
            archive.add(Path(folder) / "cases", arcname=".")
    return 0


if __name__ == "__main__":
    sys.exit(main())
