"""Queries of some rows: conditions, orders and limits over states, by `query` and by views that a plain DuckDB reads.

DuckDB answers a LIMIT by reading a file twice (late materialization), which fails on fields of structs: a view must not
let it, since nothing can be set in the sessions of those who read it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest
from deltalake import write_deltalake
from helpers.histories import NOW
from helpers.reading import SEED, Row, land
from helpers.schemas import BIGINT, INT, TEXT, Subject, table
from helpers.state_sizes import set_sizes

from cdc_views.engines.base import Read, Sources, ViewDefinition
from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.engines.exact import rows_of
from cdc_views.formats.base import WriteOrder
from cdc_views.rules.cells import Cell, Deletion, Liveness
from cdc_views.rules.codec.serialized import serialize
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.rules.oracle import latest_rows
from cdc_views.state import materialize, sources_of

REGULARS = {"a": INT, "b": INT, "n": BIGINT, "t": TEXT}
SUBJECTS = (
    Subject(table("by_cell", partition={"p": INT}, clustering={"c": INT}, regulars=REGULARS)),
    Subject(table("by_row", partition={"p": INT}, regulars=REGULARS), WriteOrder.LOG_POSITION),
)
ROWS = 300
FEW = 60
"""What is not at rest are the first rows, so that conditions on a key can rule it out by the statistics of its files."""
STAGES = ("plain", "some judged", "judged", "tail", "merge", "merge and tail")
QUERIES = 25
COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """One random query: SQL over the view's columns, and what it means."""

    columns: tuple[str, ...]
    tests: tuple[tuple[str, str, Any], ...]
    order: tuple[tuple[str, bool], ...]
    limit: int

    @property
    def where(self) -> str:
        """The condition as SQL; empty for none."""
        return " AND ".join(f"{c} {op} {_literal(value)}" for c, op, value in self.tests)

    def sql(self, view: str) -> str:
        """The query as a client writes it."""
        where = f" WHERE {self.where}" if self.tests else ""
        order = ", ".join(f"{c} {'DESC' if down else 'ASC'} NULLS LAST" for c, down in self.order)
        return f"SELECT {', '.join(self.columns)} FROM {view}{where}{f' ORDER BY {order}' if order else ''} LIMIT {self.limit}"

    def kept(self, rows: Sequence[Row]) -> list[Row]:
        """The rows that pass; a comparison with null does not."""
        return [r for r in rows if all(r[c] is not None and COMPARED[op](r[c], value) for c, op, value in self.tests)]


class Landed:
    """A table of `ROWS` rows at one of `STAGES`, its facts, and a view of it in a file."""

    def __init__(self, folder: Path, subject: Subject, stage: str) -> None:
        self.subject, self.facts = subject, list[Fact]()
        self.raw, self.state = land(folder, subject.relation, []), str(folder / "state")
        self.database = folder / "views.duckdb"
        with DuckDbEngine() as engine:
            judged = {"some judged": FEW, "judged": ROWS}.get(stage, 0)
            self.land([self.row(number, ttl=number < judged) for number in range(ROWS)])
            materialize(engine, self.raw, self.state)
            if "merge" in stage:
                self.land([self.row(number, again=True) for number in range(0, FEW, 7)])
                assert materialize(engine, self.raw, self.state).merged == "merge"
        if "tail" in stage:
            self.land([self.row(number, again=True) for number in range(3, FEW, 11)] + self.gone(range(5, FEW, 20)))
        with DuckDbEngine(self.database) as engine:
            engine.apply(ViewDefinition("shown", "rows", self.raw, sources=self.sources()))

    def sources(self) -> Sources:
        """The files there are."""
        found = sources_of(self.raw, self.state)
        assert found is not None
        return found

    def land(self, facts: Sequence[Fact]) -> None:
        """Append facts to raw."""
        write_deltalake(self.raw.location, self.subject.relation.rows(list(facts), landed_at=0), mode="append")
        self.facts += facts

    def key(self, number: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """A row's key."""
        return ((number % 5,), (number,)) if self.subject.schema.clustering else ((number,), ())

    def row(self, number: int, *, ttl: bool = False, again: bool = False) -> Fact:
        """An INSERT whose columns differ from each other; some are null."""
        at = 20 if again else 10
        values = {"a": number * 7 % ROWS, "b": number * 13 % 50 - 25, "n": number << 33, "t": f"t{number * 3 % 100:02}"}
        values |= {"b": values["b"] + 1000} if again else {}
        cells: dict[str, Cell] = {}
        for name, value in values.items():
            ends = {"ttl": 600_000_000, "expires_at": NOW + 600_000_000} if ttl else {}
            if number % 10 or name != "n":
                cells[name] = Cell(at, value, serialize(REGULARS[name], value), **ends)
        partition, clustering = self.key(number)
        return Fact(FactKind.ROW, partition, clustering, liveness=Liveness(at), cells=cells)

    def gone(self, numbers: range) -> list[Fact]:
        """DELETEs of rows."""
        return [Fact(FactKind.ROW, *self.key(n), deletion=Deletion(30, NOW)) for n in numbers]

    def rows(self) -> list[Row]:
        """What the oracle says, in the order that `query` prints."""
        return latest_rows(self.subject.schema, self.facts, now=NOW)


QUICK = ("by_row", "plain")


def _tier(number: int, what: tuple[str, str]) -> Any:
    """`make test-fast` has one of them, `make test` every third, `make test-long` all."""
    if what == QUICK:
        return []
    return pytest.mark.heavy if number % 3 == 1 else pytest.mark.slow


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((subject, stage), id=f"{subject.name}-{stage}", marks=_tier(number, (subject.name, stage)))
        for number, (subject, stage) in enumerate(product(SUBJECTS, STAGES))
    ],
)
def landed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Landed]:
    """Each table at each stage."""
    subject, stage = request.param
    with pytest.MonkeyPatch.context() as patch:
        set_sizes(patch, at_once_share=0)
        set_sizes(patch, merge_share=0)
        set_sizes(patch, rebase_share=100)
        yield Landed(tmp_path_factory.mktemp("landed"), subject, stage)


def asked(landed: Landed, *, seed: str) -> Iterator[Asked]:
    """Random queries; values of conditions are such that some rows pass, all do, or none."""
    random, rows = Random(f"{SEED} {seed} {landed.subject.name}"), landed.rows()
    names = [c.name for c in landed.subject.schema.columns]
    for _ in range(QUERIES):
        columns = tuple(random.sample(names, random.randint(1, len(names))))
        tests = tuple(_test(random, rows, name) for name in random.sample(names, random.choice((0, 1, 1, 1, 2))))
        order = tuple((name, random.random() < 0.5) for name in random.sample(names, random.choice((0, 1, 1, 2))))
        yield Asked(columns, tests, order, random.choice((1, 2, 7, 50, 51)))


def _test(random: Random, rows: list[Row], name: str) -> tuple[str, str, Any]:
    value = random.choice([row[name] for row in rows if row[name] is not None])
    return name, random.choice(sorted(COMPARED)), value


def _literal(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


def test_query_gives_the_first_rows_that_pass(landed: Landed) -> None:
    expected = landed.rows()
    with DuckDbEngine() as engine:
        for query in asked(landed, seed="query"):
            exact = engine.read(
                Read(
                    landed.raw,
                    as_of=NOW,
                    columns=query.columns,
                    where=query.where or None,
                    limit=query.limit,
                    sources=landed.sources(),
                )
            )
            found = [tuple(row.values()) for row in rows_of(landed.raw.relation, query.columns, exact)]
            assert found == [tuple(row[c] for c in query.columns) for row in query.kept(expected)[: query.limit]], query


def test_a_view_gives_a_plain_client_what_it_asks_for(landed: Landed) -> None:
    rows = landed.rows()
    with duckdb.connect(str(landed.database), read_only=True) as client:
        for query in asked(landed, seed="view"):
            found = client.sql(query.sql("shown.rows")).fetchall()
            kept = query.kept(rows)
            shown = [tuple(row[c] for c in query.columns) for row in kept]
            assert len(found) == min(len(kept), query.limit), query
            assert set(found) <= set(shown), query
            assert _ordered(query, found) == _first(query, kept), query


def _ordered(query: Asked, found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The values by which the answer is ordered, where it shows them."""
    places = [query.columns.index(c) for c in _shown_order(query)]
    return [tuple(row[place] for place in places) for row in found]


def _first(query: Asked, kept: list[Row]) -> list[tuple[Any, ...]]:
    for name, down in reversed(query.order):
        some = [row for row in kept if row[name] is not None]
        kept = sorted(some, key=lambda row: row[name], reverse=down) + [row for row in kept if row[name] is None]
    return [tuple(row[c] for c in _shown_order(query)) for row in kept[: query.limit]]


def _shown_order(query: Asked) -> list[str]:
    """The first of the columns of the order, up to one that is not shown; without an order, none."""
    shown: list[str] = []
    for name, _ in query.order:
        if name not in query.columns:
            break
        shown.append(name)
    return shown
