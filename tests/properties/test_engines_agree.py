"""Engines and strategies against the oracle, over random histories: the same rows, in the same order.

One raw table holds every history of a schema, a case each, so that a schema costs one query a strategy and engine.
CDC_VIEWS_HISTORIES says how many histories (200), CDC_VIEWS_SEED which ones (1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from helpers.histories import LATE_LANDING, NOW, Histories, histories
from helpers.reading import CASES, SEED, STRATEGIES, Row, assert_same, land, read_rows
from helpers.schemas import FIELDS, KEYS, LOGGED, NARROW, PLAIN, READDED, SUBJECTS, WIDE, Subject
from helpers.timeline import written_by
from helpers.values import GREATEST, LEAST

from cdc_views.engines.base import Engine, RawTable, Read, Strategy
from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.engines.exact import rows_of
from cdc_views.formats.base import WriteOrder, order_key
from cdc_views.model.types import EMPTY
from cdc_views.rules.facts import Fact
from cdc_views.rules.oracle import latest_rows

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

TrialOf = Callable[[Subject], "Trial"]


def name_of(value: Any) -> str | None:
    """Return a subject's name, for pytest's ids."""
    return value.name if isinstance(value, Subject) else None


def run_name(value: Any) -> str | None:
    """Return a subject's or a strategy's name, for pytest's ids."""
    return value.value if isinstance(value, Strategy) else name_of(value)


QUICK = (NARROW, LOGGED)
"""Of each kind of run, `make test-fast` does those of these schemas at least."""


def quick_if(runs: Iterable[Any], is_quick: Callable[..., bool]) -> list[Any]:
    """Mark the runs as heavy for which `is_quick`, called with a run's values, does not hold."""
    values = [run if isinstance(run, tuple) else (run,) for run in runs]
    return [pytest.param(*run, marks=() if is_quick(*run) else pytest.mark.heavy) for run in values]


@dataclass
class Trial:
    """A landed table of histories, and what it shows."""

    histories: Histories
    raw: RawTable
    _known: dict[int, list[Row]] = field(default_factory=dict)

    def at(self, now: int) -> list[Row]:
        """The oracle's rows at an instant."""
        if now not in self._known:
            self._known[now] = self.of(self.histories.facts, now=now)
        return self._known[now]

    def of(self, facts: tuple[Fact, ...] | list[Fact], *, now: int = NOW) -> list[Row]:
        """The oracle's rows of other facts."""
        return latest_rows(self.histories.subject.schema, facts, now=now)


@pytest.fixture(scope="session")
def trial_of(tmp_path_factory: pytest.TempPathFactory) -> TrialOf:
    known: dict[str, Trial] = {}

    def make(subject: Subject) -> Trial:
        if subject.name not in known:
            made = histories(subject, cases=CASES, seed=SEED)
            raw = land(tmp_path_factory.mktemp(subject.name), subject.relation, made.early, made.late)
            known[subject.name] = Trial(made, raw)
        return known[subject.name]

    return make


def check(trial: Trial, engine: Engine, expected: list[Row], **asked: Any) -> None:
    found = read_rows(engine, trial.raw, **{"as_of": NOW, **asked})
    assert_same(expected, found, of=trial.histories, how=f"{engine.name}, {asked}")


def only(rows: list[Row], columns: tuple[str, ...]) -> list[Row]:
    """Return rows of some columns."""
    return [{name: row[name] for name in columns} for row in rows]


def write_times(subject: Subject) -> tuple[int, ...]:
    """Return write times that lie in the middle of histories."""
    if subject.order is WriteOrder.LOG_POSITION:
        return order_key(2, ordinal=1), order_key(2, epoch=1)
    return LEAST + 3, 4, 1_700_000_000_000_003, GREATEST


def column_choices(subject: Subject, *, count: int = 2) -> list[tuple[str, ...]]:
    """Return some random choices of columns, in random order, `case` among them."""
    rng = Random(f"{SEED} {subject.name} columns")
    others = [c.name for c in subject.schema.columns if c.name != "case"]
    return [("case", *rng.sample(others, rng.randint(0, min(5, len(others))))) for _ in range(count)]


# DuckDB


RUNS = quick_if(product(SUBJECTS, STRATEGIES), lambda subject, how: how is Strategy.AGGREGATE or subject not in (PLAIN, FIELDS))


@pytest.mark.parametrize(("subject", "strategy"), RUNS, ids=run_name)
def test_duckdb_shows_what_the_oracle_shows(
    duckdb_engine: DuckDbEngine, trial_of: TrialOf, subject: Subject, strategy: Strategy
) -> None:
    trial = trial_of(subject)
    check(trial, duckdb_engine, trial.at(NOW), strategy=strategy)


INSTANTS = [(NARROW, now) for now in (-1, 0, NOW + 2, (1 << 32) - 2, 1 << 40)]
INSTANTS += [(subject, now) for subject in SUBJECTS for now in (NOW - 1, NOW + 1, (1 << 32) - 1)]


INSTANT_RUNS = quick_if(INSTANTS, lambda subject, now: subject in QUICK or (subject, now) == (KEYS, NOW + 1))


@pytest.mark.parametrize(("subject", "now"), INSTANT_RUNS, ids=name_of)
def test_duckdb_reads_as_of_any_instant(duckdb_engine: DuckDbEngine, trial_of: TrialOf, subject: Subject, now: int) -> None:
    trial = trial_of(subject)
    check(trial, duckdb_engine, trial.at(now), as_of=now)


FEWER_RUNS = [(subject, Strategy.AGGREGATE) for subject in SUBJECTS]
FEWER_RUNS += [(subject, strategy) for subject in (NARROW, READDED) for strategy in (Strategy.WINDOW, Strategy.SELF_JOIN)]
FEWER_RUNS = quick_if(FEWER_RUNS, lambda subject, _: subject in QUICK)
"""Where the strategies hardly differ: each with the schemas they plan fast."""


@pytest.mark.parametrize(("subject", "strategy"), FEWER_RUNS, ids=run_name)
def test_duckdb_reads_what_was_written_in_time(
    duckdb_engine: DuckDbEngine, trial_of: TrialOf, subject: Subject, strategy: Strategy
) -> None:
    trial = trial_of(subject)
    for limit in write_times(subject):
        expected = trial.of(written_by(trial.histories.facts, limit))
        check(trial, duckdb_engine, expected, written_as_of=limit, strategy=strategy)


@pytest.mark.parametrize("subject", quick_if(SUBJECTS, QUICK.__contains__), ids=name_of)
def test_duckdb_reads_what_had_landed(duckdb_engine: DuckDbEngine, trial_of: TrialOf, subject: Subject) -> None:
    trial = trial_of(subject)
    early = trial.of(trial.histories.early)
    check(trial, duckdb_engine, early, landed_as_of=LATE_LANDING - 1)
    if subject is NARROW:
        check(trial, duckdb_engine, early, landed_as_of=0)
        check(trial, duckdb_engine, trial.at(NOW), landed_as_of=LATE_LANDING)
        check(trial, duckdb_engine, [], landed_as_of=-1)


@pytest.mark.parametrize(("subject", "strategy"), FEWER_RUNS, ids=run_name)
def test_duckdb_shows_the_columns_asked_for(
    duckdb_engine: DuckDbEngine, trial_of: TrialOf, subject: Subject, strategy: Strategy
) -> None:
    trial = trial_of(subject)
    for columns in column_choices(subject):
        check(trial, duckdb_engine, only(trial.at(NOW), columns), columns=columns, strategy=strategy)


@pytest.mark.parametrize("subject", quick_if(SUBJECTS, QUICK.__contains__), ids=name_of)
def test_duckdb_cuts_after_ordering(duckdb_engine: DuckDbEngine, trial_of: TrialOf, subject: Subject) -> None:
    trial = trial_of(subject)
    for limit in (37, *((0, 1, 1_000_000) if subject is NARROW else ())):
        check(trial, duckdb_engine, trial.at(NOW)[:limit], limit=limit)


def known(value: Any) -> bool:
    """Whether SQL sees a value: null and the value of 0 bytes are both null to it."""
    return value is not None and value is not EMPTY


CONDITIONS: list[tuple[Subject, str, Callable[[Row], bool]]] = [
    (NARROW, "v > 0", lambda r: known(r["v"]) and r["v"] > 0),
    (NARROW, '"case" % 7 = 3 AND s IS NULL', lambda r: r["case"] % 7 == 3 and r["s"] is None),
    (NARROW, "c = 1 OR w IS NOT NULL", lambda r: r["c"] == 1 or known(r["w"])),
    (NARROW, "e IS NULL AND C IS NOT NULL", lambda r: r["e"] is None and known(r["c"])),
    (PLAIN, "R_boolean", lambda r: r["R_boolean"] is True),
    (PLAIN, "R_date = DATE '1969-12-31'", lambda r: r["R_date"] == -1),
    (PLAIN, "R_timestamp < TIMESTAMPTZ '1970-01-01 00:00:00+00'", lambda r: r["R_timestamp"] == -1),
    (PLAIN, "id = 'it''s' OR R_text = '日本'", lambda r: r["id"] == "it's" or r["R_text"] == "日本"),
    (WIDE, "q = 0 AND p <> '1.0'", lambda r: r["q"] == 0 and known(r["p"]) and str(r["p"]) != "1.0"),
    (WIDE, "l IS NOT NULL OR u IS NOT NULL", lambda r: r["l"] is not None or r["u"] is not None),
    (WIDE, "c1 < 0 AND s IS NULL", lambda r: known(r["c1"]) and r["c1"] < 0 and not known(r["s"])),
    (KEYS, "\"it's\" >= 0 AND size < 'b'", lambda r: known(r["it's"]) and r["it's"] >= 0 and known(s := r["size"]) and s < "b"),
    (KEYS, '"static col" IS NOT NULL', lambda r: known(r["Static Col"])),
    (READDED, "kept IS NULL AND l IS NULL", lambda r: not known(r["kept"]) and r["l"] is None),
    (LOGGED, "r_datetime = TIMESTAMP '1970-01-01'", lambda r: r["r_datetime"] == 0),
    (LOGGED, "r_text IS NULL", lambda r: r["r_text"] is None),
]


CONDITION_RUNS = quick_if(CONDITIONS, lambda subject, *_: subject in (NARROW, LOGGED))


@pytest.mark.parametrize(("subject", "where", "holds"), CONDITION_RUNS, ids=lambda v: v if isinstance(v, str) else name_of(v))
def test_duckdb_filters_rows_not_facts(
    duckdb_engine: DuckDbEngine, trial_of: TrialOf, subject: Subject, where: str, holds: Callable[[Row], bool]
) -> None:
    trial = trial_of(subject)
    rows = [row for row in trial.at(NOW) if holds(row)]
    assert CASES < 100 or 0 < len(rows) < len(trial.at(NOW))
    check(trial, duckdb_engine, rows, where=where)
    columns = column_choices(subject, count=1)[0]
    check(trial, duckdb_engine, only(rows[:5], columns), where=where, columns=columns, limit=5)


# Spark

SPARK_RUNS = [(subject, Strategy.AGGREGATE) for subject in SUBJECTS]
SPARK_RUNS += [(NARROW, Strategy.WINDOW)]
LONGER_RUNS = [
    (NARROW, Strategy.SELF_JOIN),
    (WIDE, Strategy.WINDOW),
    (PLAIN, Strategy.WINDOW),
    (KEYS, Strategy.WINDOW),
    (LOGGED, Strategy.WINDOW),
    (READDED, Strategy.SELF_JOIN),
]
SPARK_RUNS += [pytest.param(*run, marks=pytest.mark.slow) for run in LONGER_RUNS]


@pytest.mark.spark
@pytest.mark.parametrize(("subject", "strategy"), SPARK_RUNS, ids=run_name)
def test_spark_shows_what_the_oracle_shows(
    spark_engine: SparkEngine, trial_of: TrialOf, subject: Subject, strategy: Strategy
) -> None:
    trial = trial_of(subject)
    check(trial, spark_engine, trial.at(NOW), strategy=strategy)


@pytest.mark.spark
@pytest.mark.parametrize("subject", [NARROW, KEYS, LOGGED], ids=name_of)
def test_spark_reads_back_in_time(spark_engine: SparkEngine, trial_of: TrialOf, subject: Subject) -> None:
    trial = trial_of(subject)
    limit = write_times(subject)[1]
    early = trial.of(written_by(trial.histories.early, limit), now=NOW + 1)
    check(trial, spark_engine, early, as_of=NOW + 1, landed_as_of=0, written_as_of=limit)


@pytest.mark.spark
def test_spark_reads_as_of_the_last_expiry_there_is(spark_engine: SparkEngine, trial_of: TrialOf) -> None:
    trial = trial_of(NARROW)
    check(trial, spark_engine, trial.at((1 << 32) - 1), as_of=(1 << 32) - 1)


@pytest.mark.spark
@pytest.mark.parametrize("subject", [NARROW, LOGGED], ids=name_of)
def test_spark_cuts_after_ordering_and_shows_the_columns_asked_for(
    spark_engine: SparkEngine, trial_of: TrialOf, subject: Subject
) -> None:
    trial = trial_of(subject)
    columns = column_choices(subject)[0]
    check(trial, spark_engine, only(trial.at(NOW)[:37], columns), limit=37, columns=columns)


@pytest.mark.spark
def test_spark_sql_text_gives_what_its_plan_gives(spark_engine: SparkEngine, trial_of: TrialOf) -> None:
    trial = trial_of(NARROW)
    found = list(rows_of(trial.raw.relation, (), spark_engine.read_sql(Read(trial.raw, as_of=NOW))))
    assert_same(trial.at(NOW), found, of=trial.histories, how="spark, the text of its SQL")
