"""A raw table and its state that tests of merges land facts in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from deltalake import write_deltalake

from cdc_views.engines.base import Engine, Sources
from cdc_views.rules.cells import Cell, Liveness
from cdc_views.rules.codec.serialized import serialize
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.rules.oracle import latest_rows
from cdc_views.state import Materialization, materialize, sources_of
from helpers.histories import NOW
from helpers.reading import canonical_row, land, read_rows
from helpers.schemas import BIGINT, INT, TEXT, Subject, table

ORDERS = Subject(table("orders", partition={"p": INT}, clustering={"c": INT}, regulars={"v": BIGINT, "t": TEXT}))
ROWS = 40


class Kept:
    """A raw table, its state, and all facts that landed."""

    def __init__(self, folder: Path, engine: Engine) -> None:
        self.engine, self.state, self.facts = engine, str(folder / "state"), list[Fact]()
        self.raw = land(folder, ORDERS.relation, [])

    def land(self, facts: Sequence[Fact]) -> Materialization:
        """Land facts and bring the state up to date."""
        write_deltalake(self.raw.location, self.raw.relation.rows(list(facts), landed_at=0), mode="append")
        self.facts += facts
        return materialize(self.engine, self.raw, self.state)

    def sources(self) -> Sources:
        """The files there are."""
        found = sources_of(self.raw, self.state)
        assert found is not None
        return found

    def is_right(self) -> bool:
        """Whether state and tail show what the oracle says of all facts."""
        found = read_rows(self.engine, self.raw, as_of=NOW, sources=self.sources())
        return [*map(canonical_row, found)] == [*map(canonical_row, latest_rows(ORDERS.schema, self.facts, now=NOW))]


def row(p: int, c: int, *, at: int, v: int = 0) -> Fact:
    """An INSERT."""
    cells = {"v": Cell(at, v, serialize(BIGINT, v)), "t": Cell(at, "x", serialize(TEXT, "x"))}
    return Fact(FactKind.ROW, (p,), (c,), liveness=Liveness(at), cells=cells)
