"""A raw table of only those cell facts that enough nodes have shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from deltalake import write_deltalake

from cdc_views.engines.duckdb.types import quoted, type_text
from cdc_views.landing import create_raw
from cdc_views.landing.delta import delta_errors
from cdc_views.operations.replication.counting import Reader
from cdc_views.operations.replication.places import CellStructs
from cdc_views.operations.replication.statements import field_name
from cdc_views.plan import names
from cdc_views.storage.relation import RawTable


def quorum(factor: int) -> int:
    """Return how many of so many replicas are more than half."""
    return factor // 2 + 1


@contextmanager
def confirmed_raw(raw: RawTable, *, factor: int, format_name: str, landed_as_of: int | None = None) -> Iterator[RawTable]:
    """A raw table, gone at the end, of the cell facts that at least a quorum of nodes have shown.

    Grain: one row a cell fact. It has landed at the start of time, so that a read `landed_as_of` finds it; what landed
    later than that (µs) does not count here. `written_as_of` may be left to the read.
    """
    with TemporaryDirectory(prefix="cdc-views-confirmed-") as folder, Reader(raw, landed_as_of=landed_as_of) as reader:
        confirmed = RawTable(str(Path(folder) / "raw"), raw.relation)
        create_raw(confirmed, format_name=format_name)
        for place in reader.places():
            rows = reader.rows(_in_layout(reader, place, factor))
            if rows.num_rows:
                with delta_errors(confirmed.location):
                    write_deltalake(confirmed.location, rows, mode="append")
        yield confirmed


def _in_layout(reader: Reader, place: CellStructs, factor: int) -> str:
    """SQL that puts the fields of a place's structs together again, as the raw layout has them."""
    schema, layout = reader.raw.relation.schema, reader.raw.relation.arrow_schema()
    struct = f"STRUCT_PACK({', '.join(f'{quoted(f)} := {quoted(field_name(f))}' for f in place.fields)})"
    nested = f"[{struct}]" if place.is_array else struct
    for step in reversed(place.steps[1:]):
        nested = f"STRUCT_PACK({quoted(step)} := {nested})"
    given = {name: quoted(name) for name in (*place.keys(schema), *place.shown(schema))}
    given |= {names.KIND: f"'{place.kind.value}'", names.LANDED: "make_timestamptz(0)", place.steps[0]: nested}
    # what the place has not is null; a cast completes a struct with nulls
    columns = (f"CAST({given.get(f.name, 'NULL')} AS {type_text(f.type)}) AS {quoted(f.name)}" for f in layout)
    facts = reader.statements.confirmed(place, quorum=quorum(factor))
    return f"SELECT {', '.join(columns)} FROM ({facts}) AS _confirmed"
