"""A raw table in BigQuery that facts land in, the tables that its script keeps, and the model of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from typing import Any

from cdc_views_bigquery.merging import Merging, run_script, setup_script
from cdc_views_bigquery.merging.columns import FACT, LEFT_OUT, ROW, leaves_out, shown_columns

from cdc_views.engines.exact import rows_of
from cdc_views.model.schema import Column, Role
from cdc_views.model.types import EMPTY, SetOf, TupleOf
from cdc_views.plan.build import Ask
from cdc_views.rules.facts import Fact
from cdc_views.rules.oracle import latest_rows
from cdc_views.sql import query_sql
from cdc_views.storage.relation import Relation
from helpers.bigquery_scripts import Bench
from helpers.bigquery_values import Evaluator, Table, table_of
from helpers.dialect_cases import Answer, Friendly, assert_same
from helpers.lateness import Ages
from helpers.schemas import DECIMAL, Subject

SECOND = 1_000_000
RAW = "project.raw.orders"
FRIENDLY = Friendly(range(-62_135_596_800_000_000, 253_402_300_800_000_000), range(-719_162, 2_932_897), nulls_are_empty=True)
STRICT = Friendly(FRIENDLY.micros, FRIENDLY.days)
Rows = list[dict[str, Any]]


@dataclass
class Loop:
    """Lands, runs, and compares; `mutate` changes a script's text before it runs."""

    engine: Evaluator
    subject: Subject
    lateness: int | None = None
    serving: str = "orders"
    overlap: int = 3600
    mutate: Mapping[str, str] = field(default_factory=dict)
    ages: Ages = field(init=False)
    bench: Bench = field(init=False)
    merging: Merging = field(init=False)

    def __post_init__(self) -> None:
        self.merging = Merging(
            f"`{RAW}`", "project.shop", "orders", serving=self.serving, lateness=self.lateness, overlap=self.overlap, buckets=3
        )
        self.ages, self.bench = Ages(self.subject.schema, self.subject.order), Bench(self.engine)
        self.bench.tables[RAW] = table_of(self.subject.relation.rows([], landed_at=0))
        self.bench.run(setup_script(self.subject.relation, self.merging))

    def land(self, *facts: Fact, at: int) -> None:
        """Facts become visible, stamped `at` (epoch seconds)."""
        self.bench.tables[RAW].rows += table_of(self.subject.relation.rows(facts, landed_at=at * SECOND)).rows
        self.ages.land(facts)

    def run(self, now: int, *, settles: bool = False, kill_at: int | None = None) -> dict[str, Any]:
        """Run the script at `now` (epoch seconds); returns what it says of itself."""
        self.bench.now = now * SECOND
        answer = self.bench.run(self.script(settles=settles), kill_at=kill_at)
        if settles and self.lateness is not None:
            self.ages.purge(horizon=now - self.lateness)
        assert answer is not None
        return answer.records()[0]

    def script(self, *, settles: bool) -> str:
        """Return the script that a run runs."""
        script = _script(self.subject.relation, self.merging, settles)
        for old, new in self.mutate.items():
            assert old in script, f"nothing to mutate: {old}"
            script = script.replace(old, new)
        return script

    def check(self, *, now: int, source: str = "") -> None:
        """State and tail, or another source of facts, show what the oracle shows of the facts that counted."""
        ask = Ask(self.subject.relation, as_of=now, is_exact=True)
        sql = query_sql(ask, dialect_name="bigquery", strategy="aggregate", table=source or self.merging.facts)
        found = rows_of(self.subject.relation, (), Answer(self.bench.query(sql).records()))  # type: ignore[arg-type]
        assert_same(self._spelled(self.expected(now=now)), self._spelled(found))

    def check_served(self, *, now: int) -> None:
        """The serving table holds what the oracle shows at the last run's clock, as friendly values."""
        columns = self.subject.schema.columns
        shown = {name: column.name for name, column in shown_columns(self.subject.relation)}
        rows, served = self.expected(now=now), self.table("").records()
        expected = [{c.name: _storable(c, row[c.name]) for c in columns} for row in rows]
        found = [{c.name: FRIENDLY.normal(c.type, row[shown[c.name]]) for c in columns} for row in served]
        if leaves_out(self.subject.relation):
            for one, row in zip(expected, rows, strict=True):
                one[LEFT_OUT] = sum(_nulls(STRICT(c.type, row[c.name])) for c in columns)
            for one, kept in zip(found, served, strict=True):
                one[LEFT_OUT] = kept[LEFT_OUT]
        assert_same(self._spelled(expected), self._spelled(found))

    def check_once(self) -> None:
        """Each fact is in the state once, and each row in the serving table."""
        for suffix, name in (("__state", FACT), ("", ROW)):
            table = self.table(suffix)
            place = table.index(name)
            found = [row[place].bytes_value for row in table.rows]
            assert len(set(found)) == len(found), f"{name} is twice in {suffix or 'the serving table'}"

    def _spelled(self, rows: Iterable[dict[str, Any]]) -> Rows:
        """Rows whose equal keys are spelled alike: a state has the spellings of the facts that it kept (rule K1)."""
        return [row | {c.name: _alike(c, row[c.name]) for c in self.subject.schema.columns} for row in rows]

    def expected(self, *, now: int) -> Rows:
        """The oracle's rows of the facts that were not late."""
        return latest_rows(self.subject.schema, self.ages.counted, now=now)

    def table(self, suffix: str) -> Table:
        """A table that the script keeps."""
        return self.bench.tables[f"project.shop.orders{suffix}"]

    def quarantined(self) -> Counter[str]:
        """The late facts, as texts without their landing time."""
        return _texts(self.table("__late"))

    def late(self) -> Counter[str]:
        """Those of the model."""
        return _texts(table_of(self.subject.relation.rows(self.ages.late, landed_at=0)))

    def kept(self) -> dict[str, Any]:
        """What all tables hold, but for the number of runs."""
        held = {name: sorted(map(repr, table.rows)) for name, table in self.bench.tables.items() if "watermark" not in name}
        mark = self.table("__watermark").records()[0]
        return held | {"since": mark["since"], "landed": mark["landed"], "clock": mark["clock"]}


def _storable(column: Column, value: Any) -> Any:
    """A native value as BigQuery stores what the view shows: an array holds no nulls."""
    return FRIENDLY.normal(column.type, _without_nulls(STRICT(column.type, value)))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(part) for name, part in value.items()}
    return [_without_nulls(item) for item in value if item is not None] if isinstance(value, list) else value


def _nulls(value: Any) -> int:
    """How many elements of a friendly value's arrays are null, at any level."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = sum(item is None for item in value) if isinstance(value, list) else 0
    return own + sum(map(_nulls, parts))


def _alike(column: Column, value: Any) -> Any:
    """A value in which decimals that are one clustering key, element or map key read alike."""
    kind = column.type
    if value is None:
        return None
    if column.role is Role.CLUSTERING and kind == DECIMAL:
        return _normal(value)
    if column.role is Role.CLUSTERING and isinstance(kind, TupleOf):
        parts = value.values() if isinstance(value, dict) else value
        return [_normal(part) if of == DECIMAL else part for part, of in zip(parts, kind.fields, strict=True)]
    if isinstance(kind, SetOf) and kind.is_multicell and kind.element == DECIMAL:
        return [_normal(item) for item in value]
    return value


def _normal(value: Any) -> str:
    return "" if value is None or value is EMPTY else str(Decimal(str(value)).normalize())


@cache
def _script(relation: Relation, merging: Merging, settles: bool) -> str:
    return run_script(relation, merging, settles=settles)


def _texts(table: Table) -> Counter[str]:
    return Counter(_text(record) for record in table.records())


def _text(record: dict[str, Any]) -> str:
    return repr(sorted((name, _bare(value)) for name, value in record.items() if name != "_landed_at"))


def _bare(value: Any) -> Any:
    """A value in which an empty array is null."""
    if isinstance(value, dict):
        return {name: _bare(part) for name, part in value.items()}
    return None if value == [] else value


def shuffled(facts: Iterable[Fact], *, into: int) -> list[list[Fact]]:
    """Return the facts dealt out, each batch with some that an earlier one has."""
    dealt: list[list[Fact]] = [[] for _ in range(into)]
    for n, fact in enumerate(facts):
        dealt[n % into].append(fact)
        if n % 5 == 0:
            dealt[-1].append(fact)
    return dealt
