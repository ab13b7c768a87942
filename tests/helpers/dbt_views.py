"""Real tables that dbt and SQLMesh build, and what Cassandra answered for them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from cdc_views.model.types import Kind, LogicalType, MapOf
from cdc_views.rules.codec.jsontext import quote, to_json
from helpers.command_line import table
from helpers.dbt_project import DbtProject
from helpers.dialect_cases import REAL, Friendly, Record, assert_same
from helpers.dialect_cases import Table as Case

MODELS = {"types3": "hid111__typed", "wide3": "hid211__orders", "names3": "hid311__x__4frder_49tems", "exotic3": "hid413__exotic"}

BATCHES = 3


def landing(folder: Path, case: str) -> list[list[str]]:
    """All lines of the three nodes in a random order, parted into batches: most of each batch is late."""
    lines = [line for n in (1, 2, 3) for line in (folder / case / f"node{n}.jsonl").read_text("utf-8").splitlines()]
    Random(f"dbt {case}").shuffle(lines)
    size = -(-len(lines) // BATCHES)
    return [lines[start : start + size] for start in range(0, len(lines), size)]


def land(dbt: DbtProject, case: str, lines: list[str]) -> None:
    file = dbt.folder / f"{case}.jsonl"
    file.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    assert dbt.project.table(REAL[case]).land(file).quarantined == 0


def plain(found: pa.Table) -> list[Record]:
    """Rows with instants as µs and days as numbers, whatever Python's calendar holds."""
    return found.cast(pa.schema([pa.field(f.name, plain_type(f.type)) for f in found.schema])).to_pylist()


def plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date(kind):
        return pa.int32()
    if pa.types.is_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, plain_type(f.type)) for f in kind])
    return kind


@dataclass(frozen=True)
class DuckDbView(Friendly):
    """What DuckDB's view shows: `max` of a struct makes 0.0 of -0.0. Arrow gives maps as pairs."""

    def _scalar(self, kind: Kind, value: Any) -> Any:
        return super()._scalar(kind, value) + 0.0 if isinstance(value, float) else super()._scalar(kind, value)

    def normal(self, kind: LogicalType, value: Any) -> Any:
        if isinstance(kind, MapOf) and value and isinstance(value[0], tuple):
            return super().normal(kind, [{"key": k, "value": v} for k, v in value])
        return value + 0.0 if isinstance(value, float) else super().normal(kind, value)


SHOWN = DuckDbView(range(-9 * 10**15, 9 * 10**15 + 1), range(-2 * 10**9, 2 * 10**9 + 1))


def check(case: Case, found: pa.Table, *, now: int) -> None:
    """Compare the rows of a model with the oracle's."""
    schema, show = case.relation.schema, SHOWN
    expected = [{c.name: show(c.type, row[c.name]) for c in schema.columns} for row in case.expected(now)]
    shown = [{c.name: show.normal(c.type, row[c.name]) for c in schema.columns} for row in plain(found)]
    assert_same(expected, shown)


def answered(folder: Path, case: str, which: str) -> tuple[int, list[str]]:
    """When Cassandra was asked, and its rows."""
    answer = json.loads((folder / case / f"expected_{which}.json").read_text("utf-8"))
    return answer["as_of"], sorted(answer["rows"])


def printed(case: Case, columns: list[str], *, now: int) -> list[str]:
    """The oracle's rows as `SELECT JSON` prints them."""
    kinds = {name: case.relation.schema.column(name).type for name in columns}
    rows = case.expected(now)
    return sorted("{" + ", ".join(f"{quote(n)}: {to_json(kind, row[n])}" for n, kind in kinds.items()) + "}" for row in rows)


def real(folder: Path, case: str) -> dict[str, Any]:
    """One of the real cases as a table of a project file."""
    return table(REAL[case], str(folder / case / "internals.cql"), "cassandra-mutation", replication_factor=3)
