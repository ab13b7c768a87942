"""Counts on how many nodes each cell fact was seen, and lists facts that only some nodes have.

A *cell fact* is the least that a replica has or lacks: one cell, row marker or deletion, with its key and path, write time, rank
and value. A mutation that a read repair or a hint composed again holds the same cell facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deltalake import write_deltalake

from cdc_views.engines.duckdb.types import quoted, type_text
from cdc_views.errors import UnsupportedError, UsageError, did_you_mean
from cdc_views.landing import create_raw
from cdc_views.landing.delta import delta_errors
from cdc_views.operations.context import TableContext
from cdc_views.operations.explained import FactPart
from cdc_views.operations.ingest import check_raw_is_whole, landed
from cdc_views.operations.replication.counting import Expected, NodeReport, NodeStatus, Reader, ReplicaReport, count
from cdc_views.operations.replication.places import CellStructs
from cdc_views.operations.replication.statements import NODES, OWNERS, field_name
from cdc_views.plan import names
from cdc_views.plan.order import RANK, WRITTEN
from cdc_views.rules.cells import unrank
from cdc_views.rules.facts import FactKind
from cdc_views.rules.instants import span_seconds
from cdc_views.rules.oracle import path_type
from cdc_views.storage.relation import RawTable
from cdc_views.storage.relation_read import Record, bound_of, key_of, path_of

__all__ = ["NodeReport", "ReplicaReport", "NodeStatus", "confirmed_only", "expected_of", "list_partial", "replicas"]


def expected_of(
    table: TableContext, *, factor: int | None = None, nodes: Sequence[str] = (), silent_after: str = "1d"
) -> Expected:
    """Return the expectation that `replicas` compares the copies of a table with.

    Args:
        table: A table whose raw format names nodes.
        factor: How many replicas hold each mutation; default: `replication_factor` in the project file.
        nodes: Names of nodes to expect besides those that landed.
        silent_after: `<int>(s|m|h|d)`: a node is silent if it landed nothing for this long before the newest landing.

    Raises:
        UsageError: No factor is known, or it is below 1, or `silent_after` is invalid.
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
    """Return on how many nodes each cell fact was seen, and each node's status; raises `UsageError` if nothing has landed."""
    return count(_landed(table), expected)


def list_partial(
    table: TableContext, expected: Expected, *, only_on: str | None = None, incomplete: bool = False
) -> Iterator[PartialFact]:
    """Yield the cell facts that only node `only_on` has shown, or that too few nodes have shown (`incomplete`), or both. Raises
    `UsageError` if nothing has landed yet, or there is no such node.
    """
    reader = Reader(_landed(table))
    known = tuple(sorted({*reader.landed, *expected.nodes}))
    if only_on is not None and only_on not in reader.landed:
        raise UsageError(f"{table.name}: no event of a node {only_on!r} has landed{did_you_mean(only_on, reader.landed)}")
    fewer_than = expected.factor if incomplete else None
    return partial_facts(reader, fewer_than=fewer_than, only_on=only_on, known=known, factor=expected.factor)


@dataclass(frozen=True, slots=True)
class PartialFact(FactPart):
    """A cell fact that not every node has shown: `nodes` have, `lacking` should hold it and have not. Write times are µs."""

    nodes: tuple[str, ...]
    lacking: tuple[str, ...]


def partial_facts(
    reader: Reader, *, fewer_than: int | None = None, only_on: str | None = None, known: tuple[str, ...], factor: int
) -> Iterator[PartialFact]:
    """Yield facts seen on fewer nodes than `fewer_than`, or on `only_on` alone; closes the reader at the end. Goes place by place
    (markers, deletions, columns in schema order), within a place in the order of keys.
    """
    with_owners = len(known) > factor
    with reader:
        for place in reader.places():
            sql = reader.statements.listing(place, fewer_than=fewer_than, only_on=only_on, with_owners=with_owners)
            for batch in reader.rows(sql).to_batches(max_chunksize=10_000):
                for record in batch.to_pylist():
                    yield _fact(reader, place, record, known)


def _fact(reader: Reader, place: CellStructs, record: Record, known: tuple[str, ...]) -> PartialFact:
    relation = reader.raw.relation
    schema = relation.schema
    columns = schema.row_key if place.kind is FactKind.ROW else schema.partition
    start, end = record.get(names.FROM), record.get(names.TO)
    nodes = reader.members(record[NODES])
    owners = reader.members(record[OWNERS]) if OWNERS in record else known
    path: Any = place.field
    if place.column is not None and place.is_array:
        path = path_of(path_type(place.column.type), {name: record[field_name(name)] for name in place.fields})
    return PartialFact(
        dict(zip((column.name for column in columns), key_of(columns, record), strict=True)),
        _what(place, record),
        place.column,
        path,
        None if start is None else bound_of(relation, start),
        None if end is None else bound_of(relation, end),
        int(record[field_name(WRITTEN)]),
        nodes,
        tuple(node for node in owners if node not in nodes),
    )


def _what(place: CellStructs, record: Record) -> str:
    rank = record.get(field_name(RANK))
    if rank is None:
        return "column deletion" if place.column is not None else f"{place.kind.value} deletion"
    if place.column is None:
        return "row marker"
    return "cell" if unrank(rank)[2] is None else "tombstone"


def confirmed_only(table: TableContext, raw: RawTable, *, landed_as_of: int | None = None) -> AbstractContextManager[RawTable]:
    """Open a raw table of the cell facts that a quorum of the replicas has shown; see `confirmed_raw`, `expected_of`."""
    table.project.check_raw_tables_are_local()
    factor = expected_of(table).factor
    return confirmed_raw(raw, factor=factor, format_name=table.format.name, landed_as_of=landed_as_of)


def _landed(table: TableContext) -> RawTable:
    landed(table)
    check_raw_is_whole(table, what="a count of copies")
    return table.raw


@contextmanager
def confirmed_raw(raw: RawTable, *, factor: int, format_name: str, landed_as_of: int | None = None) -> Iterator[RawTable]:
    """Yield a temporary raw table of the cell facts that a quorum of nodes has shown. Grain: one row per cell fact.

    Its rows have landed at the start of time, so that every read `landed_as_of` sees them; facts that landed later than
    `landed_as_of` (µs) do not count here. The read itself can apply `written_as_of`.
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
    schema, layout = reader.raw.relation.schema, reader.raw.relation.arrow_schema()
    struct = f"STRUCT_PACK({', '.join(f'{quoted(f)} := {quoted(field_name(f))}' for f in place.fields)})"
    nested = f"[{struct}]" if place.is_array else struct
    for step in reversed(place.steps[1:]):
        nested = f"STRUCT_PACK({quoted(step)} := {nested})"
    given = {name: quoted(name) for name in (*place.keys(schema), *place.shown(schema))}
    given |= {names.KIND: f"'{place.kind.value}'", names.LANDED: "make_timestamptz(0)", place.steps[0]: nested}
    # columns without a value in this place are null; the cast completes a struct with nulls
    columns = (f"CAST({given.get(f.name, 'NULL')} AS {type_text(f.type)}) AS {quoted(f.name)}" for f in layout)
    facts = reader.statements.confirmed(place, quorum=factor // 2 + 1)
    return f"SELECT {', '.join(columns)} FROM ({facts}) AS _confirmed"
