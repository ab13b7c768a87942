"""Histories against the oracle asked at every instant, over random facts of every kind and over real mutations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from helpers import reading
from helpers.histories import NOW, Histories, histories
from helpers.reading import SEED, canonical_row, land, read_rows
from helpers.schemas import KEYS, LOGGED, NARROW, READDED, SUBJECTS, WIDE, Subject
from helpers.telling import fact_text
from helpers.timeline import Told, read_versions, told, true_versions, written_by
from helpers.values import LEAST

from cdc_views.engines.base import Engine, RawTable, Strategy
from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.operations.history import Version
from cdc_views.plan import history as plan
from cdc_views.plan.expr import Expr, Lit, Over, Window
from cdc_views.plan.order import now_rank
from cdc_views.plan.timeline import Timeline
from cdc_views.rules.facts import Fact

if TYPE_CHECKING:
    from pathlib import Path

    from cdc_views_spark.engine import SparkEngine

pytestmark = pytest.mark.heavy

CASES = max(reading.CASES // 5, 40)
"""Fewer than of a query: the oracle is asked at each of their instants."""
LandedOf = Callable[[Subject], tuple[Histories, RawTable]]
QUICK = (NARROW, LOGGED)


def subjects(*chosen: Subject) -> list[object]:
    """The subjects as parameters, heavy where `make test-fast` has a quicker one."""
    return [pytest.param(s, id=s.name, marks=() if s in QUICK else pytest.mark.heavy) for s in chosen or SUBJECTS]


@pytest.fixture(scope="module")
def landed_of(tmp_path_factory: pytest.TempPathFactory) -> LandedOf:
    known: dict[str, tuple[Histories, RawTable]] = {}

    def make(subject: Subject) -> tuple[Histories, RawTable]:
        if subject.name not in known:
            made = histories(subject, cases=CASES, seed=SEED)
            raw = land(tmp_path_factory.mktemp(subject.name), subject.relation, made.early, made.late)
            known[subject.name] = made, raw
        return known[subject.name]

    return make


def truth(made: Histories, *, as_of: int) -> dict[int, Counter[Told]]:
    """The versions of each case, by the oracle."""
    schema, order = made.subject.schema, made.subject.order
    return {case: Counter(true_versions(schema, made.of_case(case), as_of=as_of, order=order)) for case in range(CASES)}


def by_case(versions: Iterable[Version]) -> dict[int, Counter[Told]]:
    """The versions of each case, as an engine gave them."""
    cases: dict[int, Counter[Told]] = {case: Counter() for case in range(CASES)}
    for version in versions:
        cases[version.row["case"]][told(version)] += 1
    return cases


def differing(made: Histories, expected: dict[int, Counter[Told]], found: dict[int, Counter[Told]]) -> list[str]:
    """What to say of the cases that differ, the first in detail."""
    wrong = [case for case in expected if expected[case] != found[case]]
    if not wrong:
        return []
    lines = [f"{made.subject.name}: {len(wrong)} of {CASES} cases differ (seed {SEED}): {wrong[:20]}"]
    lines += [f"  missing: {version}" for version in (expected[wrong[0]] - found[wrong[0]])]
    lines += [f"  invented: {version}" for version in (found[wrong[0]] - expected[wrong[0]])]
    return [*lines, *(f"  {fact_text(fact)}" for fact in made.of_case(wrong[0]))]


def check(landed: tuple[Histories, RawTable], engine: Engine, *, as_of: int = NOW, **asked: Any) -> None:
    made, raw = landed
    found = read_versions(engine, raw, as_of=as_of, **asked)
    lines = differing(made, truth(made, as_of=as_of), by_case(found))
    if lines:
        pytest.fail("\n".join(lines), pytrace=False)


@pytest.mark.parametrize("subject", subjects())
def test_versions_are_what_the_oracle_shows_at_each_instant(
    duckdb_engine: DuckDbEngine, landed_of: LandedOf, subject: Subject
) -> None:
    check(landed_of(subject), duckdb_engine)


@pytest.mark.heavy
@pytest.mark.parametrize("as_of", [-5, 0, NOW - 1, NOW + 1, (1 << 32) - 1, 1 << 41])
def test_the_clock_ends_where_it_is_told_to(duckdb_engine: DuckDbEngine, landed_of: LandedOf, as_of: int) -> None:
    check(landed_of(NARROW), duckdb_engine, as_of=as_of)


@pytest.mark.heavy
@pytest.mark.parametrize("strategy", [Strategy.WINDOW, Strategy.SELF_JOIN])
@pytest.mark.parametrize("subject", [NARROW, READDED], ids=lambda s: s.name)
def test_every_strategy_gives_the_same_versions(
    duckdb_engine: DuckDbEngine, landed_of: LandedOf, subject: Subject, strategy: Strategy
) -> None:
    check(landed_of(subject), duckdb_engine, strategy=strategy)


@pytest.mark.parametrize("subject", subjects())
def test_current_versions_are_what_a_query_shows(duckdb_engine: DuckDbEngine, landed_of: LandedOf, subject: Subject) -> None:
    _, raw = landed_of(subject)
    current = [canonical_row(v.row) for v in read_versions(duckdb_engine, raw, as_of=NOW) if v.is_current]
    assert current == [*map(canonical_row, read_rows(duckdb_engine, raw, as_of=NOW))]


@pytest.mark.parametrize("subject", subjects(NARROW, KEYS, LOGGED))
def test_versions_come_row_by_row_and_in_time_order(duckdb_engine: DuckDbEngine, landed_of: LandedOf, subject: Subject) -> None:
    _, raw = landed_of(subject)
    names = [c.name for c in subject.schema.row_key]
    ended: dict[object, int | None] = {}
    last: object = None
    for version in read_versions(duckdb_engine, raw, as_of=NOW):
        key = canonical_row({name: version.row[name] for name in names})
        assert key == last or key not in ended, "a row's versions stand together"
        end = ended.get(key, version.valid_from)
        assert end is not None
        assert end <= version.valid_from
        assert version.valid_to is None or version.valid_from < version.valid_to
        ended[key], last = version.valid_to, key


@pytest.mark.parametrize("subject", subjects(NARROW, WIDE, LOGGED))
def test_late_data_gives_the_same_versions_as_data_in_order(
    duckdb_engine: DuckDbEngine, landed_of: LandedOf, tmp_path: Path, subject: Subject
) -> None:
    made, raw = landed_of(subject)
    shuffled = list(made.facts)
    Random(SEED).shuffle(shuffled)
    thirds = (shuffled[::3], shuffled[1::3], shuffled[2::3])
    other = land(tmp_path, subject.relation, *thirds)
    expected, found = (read_versions(duckdb_engine, one, as_of=NOW) for one in (raw, other))
    assert [*map(told, expected)] == [*map(told, found)]


def test_columns_and_limits_are_those_asked_for(duckdb_engine: DuckDbEngine, landed_of: LandedOf) -> None:
    _, raw = landed_of(NARROW)
    every = read_versions(duckdb_engine, raw, as_of=NOW)
    columns = ("case", "c", "v")
    fewer = read_versions(duckdb_engine, raw, as_of=NOW, columns=columns)
    joined: list[Told] = []
    for version in every:  # neighbours that differ in other columns alone are one version of these
        row = canonical_row({name: version.row[name] for name in columns})
        if joined and joined[-1][0] == row and joined[-1][2] == version.valid_from:
            joined[-1] = (row, joined[-1][1], version.valid_to)
        else:
            joined.append((row, version.valid_from, version.valid_to))
    assert [*map(told, fewer)] == joined
    assert len(joined) < len(every)
    assert [*map(told, read_versions(duckdb_engine, raw, as_of=NOW, limit=7))] == [*map(told, every[:7])]
    kept = [v for v in every if isinstance(v.row["v"], int) and v.row["v"] > 0]
    assert [*map(told, read_versions(duckdb_engine, raw, as_of=NOW, where="v > 0"))] == [*map(told, kept)]
    tested = read_versions(duckdb_engine, raw, as_of=NOW, columns=("case", "c"), where="v > 0")
    spans = [
        (version.valid_from, version.valid_to) for version in fewer if isinstance(version.row["v"], int) and version.row["v"] > 0
    ]
    assert [(version.valid_from, version.valid_to) for version in tested] == spans, "a column that is tested begins versions"


@pytest.mark.heavy
@pytest.mark.parametrize("limit", [LEAST + 3, 4, 1_700_000_000_000_003])
def test_what_was_written_or_landed_later_can_be_left_out(duckdb_engine: DuckDbEngine, landed_of: LandedOf, limit: int) -> None:
    made, raw = landed_of(NARROW)
    facts = written_by(made.early, limit)
    expected = true_versions(NARROW.schema, facts, as_of=NOW, order=NARROW.order)
    found = read_versions(duckdb_engine, raw, as_of=NOW, landed_as_of=0, written_as_of=limit)
    assert Counter(map(told, found)) == Counter(expected)


def _frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Timeline, "clock_at_instant", lambda self: now_rank(Lit(self.clock)))


def _forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_so_far", lambda source, *_, **__: source)


def _without_scopes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_untouched", lambda request, own, *_, **__: own)


def _statics_always(monkeypatch: pytest.MonkeyPatch) -> None:
    def over(what: Window, *more: Any) -> Expr:
        return Lit(0) if what is Window.TOTAL else Over(what, *more)

    monkeypatch.setattr(plan, "Over", over)


def _elements_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "is_null", lambda _: Lit(True))


@pytest.mark.parametrize("corrupt", [_frozen, _forgetful, _without_scopes, _statics_always, _elements_stay])
def test_a_wrong_plan_is_noticed(
    monkeypatch: pytest.MonkeyPatch, landed_of: LandedOf, corrupt: Callable[[pytest.MonkeyPatch], None]
) -> None:
    corrupt(monkeypatch)
    made, raw = landed_of(NARROW)
    with DuckDbEngine() as engine:
        found = by_case(read_versions(engine, raw, as_of=NOW))
    assert differing(made, truth(made, as_of=NOW), found)


def test_a_lost_fact_is_noticed(duckdb_engine: DuckDbEngine, landed_of: LandedOf, tmp_path: Path) -> None:
    made, raw = landed_of(NARROW)
    seen = read_versions(duckdb_engine, raw, as_of=NOW)[0].row["case"]
    fewer: list[Fact] = [fact for fact in made.facts if fact.partition != (seen,)]
    found = by_case(read_versions(duckdb_engine, land(tmp_path, NARROW.relation, fewer), as_of=NOW))
    assert differing(made, truth(made, as_of=NOW), found)


@pytest.mark.slow
@pytest.mark.spark
def test_spark_gives_the_same_versions(spark_engine: SparkEngine, landed_of: LandedOf) -> None:
    check(landed_of(NARROW), spark_engine)
