"""The rows of a state's base that its overlay replaces: one bit per row of each file, written with the overlay.

In a full read, looking up the overlay's keys for every row of the base adds a quarter of a plain scan; testing a bit adds almost
nothing. The bits hold while the base has exactly these files. Other engines, and reads of other files, look up the keys.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa

from cdc_views.engines.base import Sources, StateWrite
from cdc_views.engines.duckdb.types import literal, quoted
from cdc_views.engines.state_plan import covered_part, name_in_state
from cdc_views.plan import names
from cdc_views.plan.compact import PART
from cdc_views.plan.parts import COVERS, Source
from cdc_views.plan.reduction import Reduction
from cdc_views.rules.facts import FactKind

_KIND = "covered"
_TYPE = pa.struct([pa.field("file", pa.string()), pa.field("rows", pa.binary())])
"""A file of the base by its name in the state, and the bits of its rows, first row first, padded to at least a whole byte."""
_KEYS = "overlay_keys"


def with_covered(connection: duckdb.DuckDBPyConnection, write: StateWrite, rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return the facts of an overlay, and after them the lists of the base's rows that they replace."""
    schema = rows.schema.append(pa.field(COVERS, _TYPE))
    return pa.RecordBatchReader.from_batches(schema, _and_covered(connection.cursor(), write, rows, schema))


def _and_covered(
    connection: duckdb.DuckDBPyConnection, write: StateWrite, rows: pa.RecordBatchReader, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    keys = Reduction(write.sources.raw.relation).identities(FactKind.ROW)
    found = [rows.schema.empty_table().select([names.KIND, *keys])]
    for batch in rows:
        found.append(pa.Table.from_batches([batch]).select([names.KIND, *keys]))
        nothing = pa.nulls(batch.num_rows, _TYPE)
        yield pa.RecordBatch.from_arrays([*batch.columns, nothing], schema=schema)
    base = sorted(write.sources.paths(Source.BASE), key=name_in_state)
    connection.register(_KEYS, pa.concat_tables(found))
    covers = [{"file": name_in_state(base[number]), "rows": bits} for number, bits in _places(connection, base, keys)]
    count = len(covers)
    values = {names.KIND: [_KIND] * count, PART: [covered_part(base)] * count, COVERS: covers}
    columns = [pa.array(values.get(field.name, [None] * count), field.type) for field in schema]
    yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _places(connection: duckdb.DuckDBPyConnection, base: list[str], keys: tuple[str, ...]) -> list[tuple[int, bytes]]:
    files = _reading(base)
    (last,) = connection.sql(f"SELECT max(file_row_number) FROM {files}").fetchall()[0]
    size = (int(last or 0) // 8 + 1) * 8
    same = " AND ".join(f"stored.{quoted(key)} IS NOT DISTINCT FROM overlay.{quoted(key)}" for key in keys)
    kind = f"{quoted(names.KIND)} = '{FactKind.ROW.value}'"
    sql = f"""
        WITH covered AS (
            SELECT file_index AS number, bitstring_agg(CAST(file_row_number AS INTEGER), 0, {size - 1}) AS bits
            FROM {files} AS stored SEMI JOIN (SELECT * FROM {_KEYS} WHERE {kind}) AS overlay ON {same}
            WHERE stored.{kind} GROUP BY number)
        SELECT every.number, CAST(COALESCE(bits, bitstring('0', {size})) AS BLOB)
        FROM range({len(base)}) AS every(number) LEFT JOIN covered ON covered.number = every.number ORDER BY every.number
    """
    return connection.sql(sql).fetchall()


def uncovered(sources: Sources, files: tuple[str, ...]) -> str:
    """Return a FROM clause for some files of the base (of plain rows, or the others) without the covered rows."""
    base = sorted(sources.paths(Source.BASE), key=name_in_state)
    some = sorted(files, key=name_in_state)
    first = base.index(some[0])
    assert base[first : first + len(some)] == some, "files of plain rows and others are apart"
    bits = f"SELECT list(CAST({COVERS}.rows AS BIT) ORDER BY {COVERS}.file) FROM {_reading([sources.covered])}"
    of_file = f"({bits})[CAST(file_index + {first + 1} AS BIGINT)]"
    is_left = f"get_bit({of_file}, CAST(file_row_number AS INTEGER)) = 0"
    return f"(SELECT * FROM {_reading(some)} WHERE {is_left}) AS uncovered"


def _reading(files: list[str]) -> str:
    return f"read_parquet([{', '.join(map(literal, files))}])"
