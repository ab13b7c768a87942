"""What the tests of dialects share: histories and real cases, answers as rows, friendly values as plain Python."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdc_views.engines.exact import rows_of
from cdc_views.formats.base import SourceLine
from cdc_views.formats.registry import raw_format
from cdc_views.model.naming import physical_name
from cdc_views.model.types import EMPTY, Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt, VectorOf
from cdc_views.plan.build import Ask, of_raw, output_names
from cdc_views.rules.facts import Fact
from cdc_views.rules.oracle import latest_rows
from cdc_views.schemas import read_schema
from cdc_views.sql import ViewSql, generate, query_sql
from cdc_views.storage.relation import Relation
from helpers.histories import NOW, histories
from helpers.reading import canonical
from helpers.schemas import Subject

REAL = {"types3": "hid111.typed", "wide3": "hid211.orders", "names3": "hid311.OrderItems", "exotic3": "hid413.exotic"}
"""Real cases: folder → table."""
Record = dict[str, Any]
Run = Callable[[str], list[Record]]


@dataclass(frozen=True)
class Table:
    """Facts of one table, and the instants worth reading it at."""

    relation: Relation
    facts: Sequence[Fact]
    instants: tuple[int, ...] = (NOW,)

    def expected(self, now: int) -> list[Record]:
        """The oracle's rows."""
        return latest_rows(self.relation.schema, self.facts, now=now)


def random_table(subject: Subject, *, cases: int, seed: int = 1) -> Table:
    """Return random histories as a table."""
    return Table(subject.relation, histories(subject, cases=cases, seed=seed).facts)


def real_table(folder: Path, case: str) -> Table:
    """Return one of the real cases, the events of all three replicas."""
    schema = read_schema(folder / case / "internals.cql", table=REAL[case], keyspace=REAL[case].split(".")[0])
    adapter = raw_format("cassandra-mutation")
    lines = [line for n in (1, 2, 3) for line in (folder / case / f"node{n}.jsonl").read_text().splitlines()]
    facts = [fact for line in lines for fact in adapter.decode(SourceLine(line), schema)]
    instants = [json.loads((folder / case / f"expected_{when}.json").read_text())["as_of"] for when in ("early", "late")]
    return Table(Relation(schema), facts, tuple(instants))


class Answer:
    """Records in the little of Arrow's interface that `rows_of` reads."""

    def __init__(self, records: list[Record]) -> None:
        self.records, self.num_rows = records, len(records)

    def to_batches(self, **_: int) -> list[Answer]:
        return [self]

    def column(self, name: str) -> _Column:
        return _Column([record[name] for record in self.records])


@dataclass(frozen=True)
class _Column:
    values: list[Any]

    def to_pylist(self) -> list[Any]:
        return self.values


def assert_exact(table: Table, run: Run, *, dialect: str, strategy: str, source: str) -> None:
    """Run the plan of exact values and compare every value with the oracle's."""
    for now in table.instants:
        sql = query_sql(
            of_raw(Ask(table.relation, as_of=now, is_exact=True)), dialect_name=dialect, strategy=strategy, table=source
        )
        found = list(rows_of(table.relation, (), Answer(run(sql))))  # type: ignore[arg-type]
        assert_same(table.expected(now), found)


def assert_view(table: Table, run: Run, friendly: Friendly, *, dialect: str, strategy: str, source: str) -> None:
    """Run what the generated CREATE VIEW selects, with the engine's own clock, and compare friendly values."""
    statement = generate(table.relation, dialect_name=dialect, strategy=strategy, view=ViewSql("", "v"), table=source)
    found = run(statement.split(" AS\n", 1)[1])
    schema = table.relation.schema
    expected = [{c.name: friendly(c.type, row[c.name]) for c in schema.columns} for row in table.expected(int(time.time()))]
    assert_same(expected, [{c.name: friendly.normal(c.type, row[c.name]) for c in schema.columns} for row in found])


def assert_shown(table: Table, run: Run, friendly: Friendly, *, dialect: str, strategy: str, source: str) -> None:
    """Run the plan of friendly values at the table's instants and compare them with the oracle's."""
    schema = table.relation.schema
    for now in table.instants:
        ask = of_raw(Ask(table.relation, as_of=now))
        found = run(query_sql(ask, dialect_name=dialect, strategy=strategy, table=source))
        outputs = dict(output_names(ask))
        expected = [{c.name: friendly(c.type, row[c.name]) for c in schema.columns} for row in table.expected(now)]
        shown = [{c.name: friendly.normal(c.type, row[outputs[c.name]]) for c in schema.columns} for row in found]
        assert_same(expected, shown)


def assert_same(expected: Iterable[Mapping[str, Any]], found: Iterable[Mapping[str, Any]]) -> None:
    """Fail with the first rows that differ; the order does not matter."""
    ours, theirs = (sorted(repr(sorted((k, deep(v)) for k, v in row.items())) for row in rows) for rows in (found, expected))
    missing, extra = [r for r in theirs if r not in set(ours)], [r for r in ours if r not in set(theirs)]
    assert not missing, f"{len(missing)} of {len(theirs)} rows differ\nexpected {missing[0]}\nfound    {extra[:1]}"
    assert len(ours) == len(theirs)


def deep(value: Any) -> Any:
    """Return `canonical`, also of lists and dictionaries."""
    if isinstance(value, dict):
        return tuple((name, deep(part)) for name, part in value.items())
    return tuple(map(deep, value)) if isinstance(value, (list, tuple)) else canonical(value)


def _is_hollow(kind: LogicalType, value: Any) -> bool:
    """Whether a value is an empty array, or a struct of nothing."""
    if isinstance(value, dict) and not isinstance(kind, MapOf):
        return all(part is None or part == [] or (isinstance(part, dict) and _is_hollow(kind, part)) for part in value.values())
    return value == []


@dataclass(frozen=True)
class Friendly:
    """Native values as a dialect's view shows them: instants as µs, days as int, both null out of their ranges."""

    micros: range
    days: range
    nulls_are_empty: bool = False
    """The dialect does not tell a null array from an empty one, nor (ClickHouse) a null struct from one of nulls."""

    def __call__(self, kind: LogicalType, value: Any) -> Any:
        """Return what the view should show."""
        if value is None or value is EMPTY:
            return None
        match kind:
            case Scalar():
                return self._scalar(kind.kind, value)
            case ListOf() | SetOf() | VectorOf():
                return self._array([self(kind.element, item) for item in value])
            case MapOf():
                return self._array([{"key": self(kind.key, k), "value": self(kind.value, v)} for k, v in value])
            case TupleOf():
                return self._struct([(f"f{i}", part) for i, part in enumerate(kind.fields)], value)
            case Udt():
                return self._struct(kind.fields, value)
        raise TypeError(kind)

    def _struct(self, fields: Sequence[tuple[str, LogicalType]], value: Any) -> Any:
        shown = {name: self(part, item) for (name, part), item in zip(fields, value, strict=True)}
        return None if self.nulls_are_empty and all(part is None for part in shown.values()) else shown

    def _array(self, items: list[Any]) -> Any:
        return items if items or not self.nulls_are_empty else None

    def _scalar(self, kind: Kind, value: Any) -> Any:
        match kind:
            case Kind.TIMESTAMP:
                return value * 1000 if value * 1000 in self.micros else None
            case Kind.DATETIME | Kind.INSTANT:
                return value if value in self.micros else None
            case Kind.DATE:
                return value if value in self.days else None
            case Kind.TIME:
                seconds, nanos = divmod(value, 10**9)
                return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{nanos:09d}"
            case Kind.DECIMAL | Kind.VARINT | Kind.UUID | Kind.TIMEUUID | Kind.DURATION:
                from cdc_views.rules.codec.physical import to_physical

                return to_physical(Scalar(kind), value)
        return value

    def normal(self, kind: LogicalType, value: Any) -> Any:
        """Return what an engine gave, in the same form."""
        if self.nulls_are_empty and _is_hollow(kind, value):
            return None
        if value is None:
            return None
        match kind:
            case ListOf() | SetOf() | VectorOf():
                return [self.normal(kind.element, item) for item in value]
            case MapOf():
                pairs = value.items() if isinstance(value, dict) else [(entry["key"], entry["value"]) for entry in value]
                return [{"key": self.normal(kind.key, k), "value": self.normal(kind.value, v)} for k, v in pairs]
            case TupleOf():
                return {f"f{i}": self.normal(part, value[f"f{i}"]) for i, part in enumerate(kind.fields)}
            case Udt():
                # a multi-cell user type's fields go by their physical names
                stored = [value[name] if name in value else value[physical_name(name)] for name, _ in kind.fields]
                return {name: self.normal(part, v) for (name, part), v in zip(kind.fields, stored, strict=True)}
        return value


__all__ = ["REAL", "Friendly", "Record", "Table", "assert_exact", "assert_shown", "assert_view", "random_table", "real_table"]
