"""A view over state and tail on Spark, read as any session reads it, and the oracle's rows in the forms of a view."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import write_deltalake

from cdc_views.engines.base import Engine, RawTable, ViewDefinition
from cdc_views.model.schema import TableSchema
from cdc_views.model.strategy import Strategy
from cdc_views.model.types import Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt, VectorOf
from cdc_views.rules.facts import Fact
from cdc_views.rules.oracle import latest_rows
from cdc_views.state import NOTHING, Forgetting, materialize
from cdc_views.state.bound import followed
from helpers.dialect_cases import Friendly, Record, assert_same
from helpers.histories import Histories, histories
from helpers.reading import land
from helpers.schemas import Subject

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

FRIENDLY = Friendly(range(-9 * 10**15, 9 * 10**15 + 1), range(-(1 << 31), 1 << 31))
"""Instants as Spark's views show them."""
SCHEMA = "followed"
"""Where views are made."""


def now() -> int:
    """The clock as landers stamp facts, in µs."""
    return time.time_ns() // 1_000


@dataclass(slots=True)
class Followed:
    """A raw table, its state, what landed, and a view over both. `overlap` is in seconds."""

    folder: Path
    subject: Subject
    raw: RawTable
    landed: list[Fact]
    overlap: int = 0
    forgets: bool = False
    strategy: Strategy = Strategy.AUTO

    @classmethod
    def of(cls, folder: Path, subject: Subject, *, overlap: int = 0, forgets: bool = False) -> Followed:
        """Return a table that is empty."""
        return cls(folder, subject, land(folder, subject.relation, []), [], overlap, forgets)

    @property
    def state(self) -> str:
        """The location of the state."""
        return str(self.folder / "state")

    def land(self, *facts: Fact, landed_at: int | None = None) -> None:
        """Land facts in one commit, by default stamped by now."""
        rows = self.subject.relation.rows(facts, landed_at=now() if landed_at is None else landed_at)
        write_deltalake(self.raw.location, rows, mode="append")
        self.landed += facts

    def materialize(self, engine: Engine, forgetting: Forgetting = NOTHING) -> None:
        """Bring the state up to date."""
        materialize(engine, self.raw, self.state, forgetting=forgetting)

    def apply(self, engine: SparkEngine) -> str:
        """Make the view over the state as it is now; returns its statement."""
        reads = followed(self.raw, self.state, overlap=self.overlap, forgets=self.forgets)
        assert reads is not None
        return engine.apply(ViewDefinition(SCHEMA, self.subject.name, self.raw, self.strategy, followed=reads))

    def rows(self, engine: SparkEngine) -> list[Record]:
        """The view's rows."""
        return shown(engine.session.sql(f"SELECT * FROM {SCHEMA}.{self.subject.name}"), self.subject.schema)

    def check(self, engine: SparkEngine, facts: Sequence[Fact] | None = None) -> list[Record]:
        """Compare the view's rows with the oracle's; return them."""
        landed, found = self.landed if facts is None else facts, self.rows(engine)
        assert_shows(self.subject.schema, found, landed, now=int(time.time()))
        return found


class RandomlyFollowed:
    """Random histories that land batch by batch, some of them again."""

    def __init__(self, table: Followed, *, cases: int, seed: int) -> None:
        self.table = table
        self.made: Histories = histories(table.subject, cases=cases, seed=seed)
        self._rng = Random(f"{seed} {table.subject.name} followed")
        self._waiting = list(self.made.facts)
        self._rng.shuffle(self._waiting)

    def land(self, share: float) -> None:
        """Land a share of all facts, with some that landed before."""
        count = int(len(self.made.facts) * share)
        fresh, self._waiting = self._waiting[:count], self._waiting[count:]
        again = self._rng.sample(self.table.landed, min(len(self.table.landed), count // 5))
        self.table.land(*fresh, *again)


def assert_shows(schema: TableSchema, found: list[Record], facts: Sequence[Fact], *, now: int) -> None:
    """Compare what a view shows with the oracle's rows of these facts."""
    expected = [friendly(schema, row) for row in latest_rows(schema, facts, now=now)]
    assert_same(*([_one_spelled(schema, row) for row in rows] for rows in (expected, found)))


def friendly(schema: TableSchema, row: Record) -> Record:
    """A row of the oracle as the view shows it."""
    return {column.name: FRIENDLY(column.type, row[column.name]) for column in schema.columns}


def _one_spelled(schema: TableSchema, row: Record) -> Record:
    """The row with equal numbers spelled alike: of equal keys a state has the spelling of a fact that it kept (rule K1), and
    DuckDB writes 0.0 for the value of -0.0 (its bytes tell).
    """

    def spelled(kind: LogicalType, value: Any) -> Any:
        if value is None:
            return None
        match kind:
            case Scalar(kind=Kind.DECIMAL):
                return str(Decimal(value).normalize())
            case Scalar(kind=Kind.FLOAT | Kind.DOUBLE):
                return value + 0.0
            case ListOf() | SetOf() | VectorOf():
                return [spelled(kind.element, item) for item in value]
            case MapOf():
                return [(spelled(kind.key, pair["key"]), spelled(kind.value, pair["value"])) for pair in value]
            case TupleOf():
                return [spelled(part, value[f"f{i}"]) for i, part in enumerate(kind.fields)]
            case Udt():
                return [spelled(part, value[name]) for name, part in kind.fields]
        return value

    return {column.name: spelled(column.type, row[column.name]) for column in schema.columns}


def shown(frame: Any, schema: TableSchema) -> list[Record]:
    """A DataFrame's rows in the same form."""
    return shown_rows(frame.toArrow(), schema)


def shown_rows(table: pa.Table, schema: TableSchema) -> list[Record]:
    """A view's rows in the same form."""
    plain = table.cast(pa.schema([pa.field(f.name, _plain(f.type)) for f in table.schema]))
    return [{c.name: FRIENDLY.normal(c.type, row[c.name]) for c in schema.columns} for row in map(_paired, plain.to_pylist())]


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type with numbers for times, which Python's own cannot hold all of."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date(kind):
        return pa.int32()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _plain(field.type)) for field in kind])
    if pa.types.is_map(kind):
        # as entries: keys may be structs
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    return pa.list_(_plain(kind.value_type)) if pa.types.is_list(kind) else kind


def _paired(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _paired(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_paired(part) for part in value]
    return {"key": _paired(value[0]), "value": _paired(value[1])} if isinstance(value, tuple) else value
