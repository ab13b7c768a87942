"""Mutations that three real Cassandra 5.0.9 nodes logged, against the rows that Cassandra itself answered.

Four tables with ties, expiries, deletions of every scope and hostile names, read before (early) and after (late)
most expiries. Rows are compared as the text `SELECT JSON` printed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest
from helpers.reading import SEED, STRATEGIES, land, read_rows
from helpers.timeline import read_versions, told, true_versions

from cdc_views.engines.base import Engine, RawTable, Strategy
from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.formats.base import SourceLine, WriteOrder
from cdc_views.formats.cassandra_mutation import CassandraMutation
from cdc_views.model.schema import TableSchema
from cdc_views.rules.codec.jsontext import quote, to_json
from cdc_views.rules.facts import Fact, Origin
from cdc_views.rules.oracle import latest_rows
from cdc_views.schemas import read_schema
from cdc_views.state import Forgetting, materialize, sources_of
from cdc_views.storage.relation import Relation

CASES = {"types3": "hid111.typed", "wide3": "hid211.orders", "names3": "hid311.OrderItems", "exotic3": "hid413.exotic"}
INSTANTS = ("early", "late")
NARROW = ("names3", "types3")
"""Tables that engines plan fast with every strategy."""
WIDEST = ("wide3", "exotic3")
"""Those that Spark takes many seconds to plan."""
SOME_PARTITIONS = 3
_READ_AT = re.compile(r'"(node|segment|position)": ?("[^"]*"|\d+),? ?')


@dataclass(frozen=True)
class RealCase:
    """One table's logged mutations, and what Cassandra answered."""

    folder: Path
    schema: TableSchema

    def lines(self) -> list[str]:
        """Return every node's lines."""
        return [line for n in (1, 2, 3) for line in (self.folder / f"node{n}.jsonl").read_text("utf-8").splitlines()]

    def facts(self, lines: list[str]) -> list[Fact]:
        """Return the facts of lines, in order."""
        return [fact for line in lines for fact in CassandraMutation().decode(SourceLine(line), self.schema)]

    def answer(self, instant: str) -> tuple[int, list[str]]:
        """Return when Cassandra was asked (epoch seconds), and its rows."""
        answer = json.loads((self.folder / f"expected_{instant}.json").read_text("utf-8"))
        return answer["as_of"], sorted(answer["rows"])

    def columns(self) -> list[str]:
        """Return the columns in the order Cassandra printed them."""
        return list(json.loads(self.answer("early")[1][0]))

    def some_replicas(self, rng: Random) -> list[str]:
        """Return each mutation as a random non-empty subset of its replicas logged it, shuffled, some of them twice."""
        copies: dict[str, list[str]] = {}
        for line in self.lines():
            copies.setdefault(_READ_AT.sub("", line), []).append(line)
        kept = [copy for same in copies.values() for copy in rng.sample(same, rng.randint(1, len(same)))]
        kept += rng.choices(kept, k=len(kept) // 5)
        rng.shuffle(kept)
        return kept


CaseOf = Callable[[str], RealCase]
RawOf = Callable[[str], RawTable]


@pytest.fixture(scope="module")
def case_of(cassandra_cases: Path) -> CaseOf:
    def make(name: str) -> RealCase:
        folder = cassandra_cases / name
        return RealCase(folder, read_schema(folder / "schema.cql", table=CASES[name]))

    return make


@pytest.fixture(scope="module")
def raw_of(case_of: CaseOf, tmp_path_factory: pytest.TempPathFactory) -> RawOf:
    """Raw tables of every line of all three nodes."""
    landed: dict[str, RawTable] = {}

    def make(name: str) -> RawTable:
        if name not in landed:
            case = case_of(name)
            landed[name] = land(tmp_path_factory.mktemp(name), Relation(case.schema), case.facts(case.lines()))
        return landed[name]

    return make


def printed(case: RealCase, rows: list[dict[str, Any]]) -> list[str]:
    """Return rows as `SELECT JSON` prints them, sorted."""
    kinds = {name: case.schema.column(name).type for name in case.columns()}
    return sorted("{" + ", ".join(f"{quote(n)}: {to_json(kind, row[n])}" for n, kind in kinds.items()) + "}" for row in rows)


def check(case: RealCase, engine: Engine, raw: RawTable, *, instant: str, strategy: Strategy) -> None:
    as_of, expected = case.answer(instant)
    found = printed(case, read_rows(engine, raw, as_of=as_of, strategy=strategy))
    assert list(differences(expected, found)) == []


def differences(expected: list[str], found: list[str]) -> Iterator[str]:
    """Yield rows that only one side has, in order."""
    yield from (f"only Cassandra: {row}" for row in expected if row not in found)
    yield from (f"only ours: {row}" for row in found if row not in expected)
    if len(expected) != len(found):
        yield f"{len(expected)} rows expected, {len(found)} found"


@pytest.mark.parametrize("instant", INSTANTS)
@pytest.mark.parametrize("name", CASES)
def test_the_oracle_answers_as_cassandra_did(case_of: CaseOf, name: str, instant: str) -> None:
    case = case_of(name)
    as_of, expected = case.answer(instant)
    assert list(differences(expected, printed(case, latest_rows(case.schema, case.facts(case.lines()), now=as_of)))) == []


DUCKDB_RUNS = [
    pytest.param(*run, marks=() if run[0] in NARROW or run[1:] == ("late", Strategy.AGGREGATE) else pytest.mark.heavy)
    for run in product(CASES, INSTANTS, STRATEGIES)
]


@pytest.mark.parametrize(("name", "instant", "strategy"), DUCKDB_RUNS, ids=lambda v: getattr(v, "value", v))
def test_duckdb_answers_as_cassandra_did(
    duckdb_engine: Engine, case_of: CaseOf, raw_of: RawOf, name: str, instant: str, strategy: Strategy
) -> None:
    check(case_of(name), duckdb_engine, raw_of(name), instant=instant, strategy=strategy)


@pytest.mark.parametrize("name", [n if n in NARROW else pytest.param(n, marks=pytest.mark.heavy) for n in CASES])
def test_any_replica_of_each_mutation_is_enough_in_any_order(
    duckdb_engine: Engine, case_of: CaseOf, tmp_path: Path, name: str
) -> None:
    case = case_of(name)
    lines = case.some_replicas(Random(f"{SEED} {name}"))
    assert 0 < len(set(lines)) < len(case.lines())
    third = len(lines) // 3
    batches = (case.facts(lines[:third]), case.facts(lines[third:]))
    raw = land(tmp_path, Relation(case.schema), *batches)
    for instant in INSTANTS:
        check(case, duckdb_engine, raw, instant=instant, strategy=Strategy.AUTO)


def test_a_lost_mutation_is_noticed(duckdb_engine: Engine, case_of: CaseOf, tmp_path: Path) -> None:
    case = case_of("wide3")
    half = case.lines()[: len(case.lines()) // 6]
    raw = land(tmp_path, Relation(case.schema), case.facts(half))
    as_of, expected = case.answer("early")
    assert list(differences(expected, printed(case, read_rows(duckdb_engine, raw, as_of=as_of))))


@pytest.mark.parametrize("instant", INSTANTS)
@pytest.mark.parametrize("name", [n if n in NARROW else pytest.param(n, marks=pytest.mark.heavy) for n in CASES])
def test_the_current_versions_of_a_history_are_what_cassandra_answered(
    duckdb_engine: Engine, case_of: CaseOf, raw_of: RawOf, name: str, instant: str
) -> None:
    case = case_of(name)
    as_of, expected = case.answer(instant)
    versions = read_versions(duckdb_engine, raw_of(name), as_of=as_of)
    assert len(versions) > len(expected)
    assert list(differences(expected, printed(case, [v.row for v in versions if v.is_current]))) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wide3", "exotic3"])
def test_a_real_history_is_what_the_oracle_shows_at_each_instant(
    duckdb_engine: Engine, case_of: CaseOf, raw_of: RawOf, name: str
) -> None:
    case = case_of(name)
    as_of, _ = case.answer("late")
    once = {repr(replace(fact, origin=Origin())): fact for fact in case.facts(case.lines())}
    partitions: dict[tuple[Any, ...], list[Fact]] = {}
    for fact in once.values():
        partitions.setdefault(fact.partition, []).append(fact)
    some = sorted(partitions, key=repr)[:SOME_PARTITIONS]
    order = WriteOrder.MICROS
    true = Counter(v for p in some for v in true_versions(case.schema, partitions[p], as_of=as_of, order=order))
    assert true
    size = len(case.schema.partition)
    found = read_versions(duckdb_engine, raw_of(name), as_of=as_of)
    assert Counter(told(v) for v in found if tuple(v.row.values())[:size] in set(some)) == true


SPARK_RUNS: list[Any] = [(name, "late", Strategy.AGGREGATE) for name in CASES]
SPARK_RUNS += [
    pytest.param(name, instant, strategy, marks=[] if (name, strategy) == (NARROW[0], Strategy.WINDOW) else pytest.mark.slow)
    for name, instant, strategy in [
        *((name, "early", Strategy.AGGREGATE) for name in CASES),
        *((name, "late", strategy) for name in NARROW for strategy in (Strategy.WINDOW, Strategy.SELF_JOIN)),
    ]
]


@pytest.mark.spark
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(("name", "instant", "strategy"), SPARK_RUNS, ids=lambda v: getattr(v, "value", v))
def test_spark_answers_as_cassandra_did(
    spark_engine: Engine, case_of: CaseOf, raw_of: RawOf, name: str, instant: str, strategy: Strategy
) -> None:
    check(case_of(name), spark_engine, raw_of(name), instant=instant, strategy=strategy)


@pytest.mark.spark
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("instant", INSTANTS)
@pytest.mark.parametrize("name", CASES)
def test_sparks_kernel_answers_as_cassandra_did(
    kernel_engine: Engine, case_of: CaseOf, raw_of: RawOf, name: str, instant: str
) -> None:
    check(case_of(name), kernel_engine, raw_of(name), instant=instant, strategy=Strategy.KERNEL)


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["names3", "wide3"])
def test_a_state_that_has_purged_shows_what_cassandra_answered(
    name: str, case_of: CaseOf, raw_of: RawOf, duckdb_engine: DuckDbEngine, tmp_path: Path
) -> None:
    """Everything that had ended when Cassandra was asked is gone from the state (rule M2); its answer is the same."""
    case, raw = case_of(name), raw_of(name)
    as_of, expected = case.answer("late")
    kept, purged = (
        materialize(duckdb_engine, raw, str(tmp_path / folder), forgetting=Forgetting(horizon))
        for folder, horizon in (("kept", None), ("purged", as_of))
    )
    assert purged.state_facts < kept.state_facts
    sources = sources_of(raw, str(tmp_path / "purged"))
    found = printed(case, read_rows(duckdb_engine, raw, as_of=as_of, sources=sources))
    assert list(differences(expected, found)) == []
