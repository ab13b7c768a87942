"""The replication factor as data: on how many nodes each cell fact was seen, and what only some nodes have.

A *cell fact* is the least that a replica has or lacks: one cell, row marker, or deletion, with its key and path, write
time, rank and value. A mutation that a read repair or a hint put together anew holds the same cell facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from deltalake import write_deltalake

from cdc_views.engines.duckdb.types import quoted, type_text
from cdc_views.errors import UnsupportedError, UsageError, did_you_mean
from cdc_views.landing import create_raw
from cdc_views.landing.delta import delta_errors
from cdc_views.operations.context import TableContext
from cdc_views.operations.ingest import check_raw_is_whole, landed
from cdc_views.operations.replication.counting import Expected, NodeReport, NodeStatus, Reader, ReplicaReport, count
from cdc_views.operations.replication.listing import PartialFact, partial_facts
from cdc_views.operations.replication.places import CellStructs
from cdc_views.operations.replication.statements import field_name
from cdc_views.plan import names
from cdc_views.rules.instants import span_seconds
from cdc_views.storage.relation import RawTable

__all__ = ["NodeReport", "ReplicaReport", "NodeStatus", "confirmed_only", "expected_of", "list_partial", "replicas"]


def expected_of(
    table: TableContext, *, factor: int | None = None, nodes: Sequence[str] = (), silent_after: str = "1d"
) -> Expected:
    """Return what to count the copies of a table against.

    Args:
        table: A table whose raw format names nodes.
        factor: How many replicas hold each mutation; default: `replication_factor` of the project file.
        nodes: Names of nodes to expect besides those that landed.
        silent_after: `<int>(s|m|h|d)`: a node is silent that landed nothing for so long before the newest landing.

    Raises:
        UsageError: No factor is known, or it is below 1, or `silent_after` is no span.
        UnsupportedError: Events of this raw format do not name their node.
    """
    if not table.format.carries_node:
        raise UnsupportedError(
            f"{table.name}: events of {table.format.name} do not say which replica they come from, so copies cannot be counted",
            remedy="only raw format cassandra-mutation does",
        )
    silence = span_seconds(silent_after, option="silent-after", example="1d", digits=9)
    found = table.config.replication_factor if factor is None else factor
    if found is None:
        raise UsageError(
            f"{table.name}: how many replicas hold each mutation is not known; set `replication_factor` "
            f"of the table in {table.project.file} (`replicas` also takes --replication-factor N)"
        )
    if found < 1:
        raise UsageError(f"replication-factor is {found}; a number of replicas, 1 or more, was expected")
    return Expected(found, tuple(nodes), silence * 1_000_000)


def replicas(table: TableContext, expected: Expected) -> ReplicaReport:
    """Return on how many nodes each cell fact of a table was seen, and each node's status.

    Raises `UsageError` if nothing has landed yet.
    """
    return count(_landed(table), expected)


def list_partial(
    table: TableContext, expected: Expected, *, only_on: str | None = None, incomplete: bool = False
) -> Iterator[PartialFact]:
    """Return one by one the cell facts that node `only_on` alone has shown, that too few nodes have (`incomplete`), or both.

    Raises `UsageError` if nothing has landed yet, or there is no such node.
    """
    reader = Reader(_landed(table))
    known = tuple(sorted({*reader.landed, *expected.nodes}))
    if only_on is not None and only_on not in reader.landed:
        raise UsageError(f"{table.name}: no event of a node {only_on!r} has landed{did_you_mean(only_on, reader.landed)}")
    fewer_than = expected.factor if incomplete else None
    return partial_facts(reader, fewer_than=fewer_than, only_on=only_on, known=known, factor=expected.factor)


def confirmed_only(table: TableContext, raw: RawTable, *, landed_as_of: int | None = None) -> AbstractContextManager[RawTable]:
    """Open a raw table of the cell facts that a quorum of the replicas has shown; see `confirmed_raw`.

    Raises as `expected_of` does.
    """
    factor = expected_of(table).factor
    return confirmed_raw(raw, factor=factor, format_name=table.format.name, landed_as_of=landed_as_of)


def _landed(table: TableContext) -> RawTable:
    """The raw table, brought up to date and checked."""
    landed(table)
    check_raw_is_whole(table, what="a count of copies")
    return table.raw


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
