"""`make bench`'s second half: the view of whole rows beside what people write by hand, in turns, on each engine.

Every subject reads the same raw facts, and shows the same columns in the same types. `read` is what `query` runs, and views on
DuckDB, whose files are known; `aggregate` is the text of a view that follows its table. Ratios of medians are to `row_number`,
wall and CPU. Answers by hand are equal only where no event leaves a column out (rule S4): they lose its older value.
`deduplicate` also loses rows that hold a null, by its natural join.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relational_data import FACTS, build
from spent import Spent, spent
from subjects import RUNNERS, TOTALS

from cdc_views.engines.footers import with_footers
from cdc_views.engines.snapshot import snapshot_of
from cdc_views.model.types import Kind, Scalar
from cdc_views.plan.build import Ask, of_raw
from cdc_views.sql import query_sql
from cdc_views.storage.relation import RawTable

OUT = Path(__file__).parent / "out"
ENGINES = ("duckdb", "spark", "clickhouse")
TABLES = ((4, 0), (4, 2), (12, 0), (12, 2))
"""The number of columns, and the percentage of events that leave one out."""
EXACT = ("read", "aggregate")
BY_HAND = ("row_number", "arg_max", "deduplicate")
NOT_IN = {"clickhouse": ("read", "deduplicate")}
"""`query` does not run in ClickHouse, and ClickHouse has no natural join."""
WRITTEN = "coalesce(_live.written, _deleted.written)"
INSTANTS = {
    "duckdb": "make_timestamptz({})",
    "spark": "timestamp_micros({})",
    "clickhouse": "fromUnixTimestamp64Micro({}, 'UTC')",
}
PRICES = {"clickhouse": "CAST({} AS Nullable(Decimal(12, 2)))"}
NEWEST = {"duckdb": "arg_max", "spark": "max_by", "clickhouse": "argMax"}
STRUCTS: Mapping[str, Callable[[list[str]], str]] = {
    "duckdb": lambda names: f"struct_pack({', '.join(f'{n} := {n}' for n in names)})",
    "spark": lambda names: f"struct({', '.join(names)})",
    "clickhouse": lambda names: f"tuple({', '.join(names)})",
}


@dataclass(frozen=True)
class ByHand:
    """What people write over one raw table."""

    engine: str
    raw: RawTable
    table: str

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.raw.relation.schema.regulars]

    def shown(self, prefix: str = "") -> str:
        """The key and the columns in the types that the view shows."""
        return ", ".join([f"{prefix}id AS _view_id", *(f"{self._friendly(f'{prefix}{n}')} AS {n}" for n in self.names)])

    def _friendly(self, name: str) -> str:
        kind = self.raw.relation.schema.column(name.rpartition(".")[2]).type
        if kind == Scalar(Kind.INSTANT):
            return INSTANTS[self.engine].format(name)
        price = PRICES.get(self.engine, "CAST({} AS DECIMAL(12, 2))")
        return price.format(name) if kind == Scalar(Kind.DECIMAL, 2, 12) else name

    @property
    def plain(self) -> str:
        """The facts as a table of plain columns."""
        values = ", ".join(f"{name}.value AS {name}" for name in self.names)
        return f"(SELECT id, {WRITTEN} AS written, _deleted.written IS NOT NULL AS gone, {values} FROM {self.table})"

    def row_number(self) -> str:
        """The newest event of each key."""
        latest = "row_number() OVER (PARTITION BY id ORDER BY written DESC) AS latest"
        return (
            f"SELECT {self.shown()} FROM (SELECT *, {latest} FROM {self.plain} AS facts) AS ranked WHERE latest = 1 AND NOT gone"
        )

    def arg_max(self) -> str:
        """The same by an aggregate of one struct."""
        columns = ["gone", *self.names]
        newest = f"{NEWEST[self.engine]}({STRUCTS[self.engine](columns)}, written) AS newest"
        grouped = f"(SELECT id, {newest} FROM {self.plain} AS facts GROUP BY id) AS latest"
        part = "tupleElement(newest, {})" if self.engine == "clickhouse" else "newest.{1}"
        parts = ", ".join(f"{part.format(n, name)} AS {name}" for n, name in enumerate(columns, start=1))
        return f"SELECT {self.shown()} FROM (SELECT id, {parts} FROM {grouped}) AS facts WHERE NOT gone"

    def deduplicate(self) -> str:
        """The text of dbt_utils.deduplicate(facts, partition_by='id', order_by='written desc') on DuckDB and Spark.

        Source: dbt-utils 1.3, macros/sql/deduplicate.sql, `default__deduplicate`.
        """
        return f"""WITH facts AS {self.plain}, row_numbered AS (
          SELECT _inner.*, row_number() OVER (PARTITION BY id ORDER BY written DESC) AS rn FROM facts AS _inner
        ), deduplicated AS (
          SELECT DISTINCT data.* FROM facts AS data NATURAL JOIN row_numbered WHERE row_numbered.rn = 1
        ) SELECT {self.shown()} FROM deduplicated WHERE NOT gone"""


def queries(engine: str, raw: RawTable, table: str) -> dict[str, str]:
    """Return the text of each subject."""
    ask, by_hand = of_raw(Ask(raw.relation)), ByHand(engine, raw, table)
    asked = {"auto": with_footers(ask, snapshot_of(raw).files), "aggregate": ask}
    read, view = (query_sql(asked[how], dialect_name=engine, strategy=how, table=table) for how in asked)
    found = {"read": read, "aggregate": view, **{name: getattr(by_hand, name)() for name in BY_HAND}}
    return {name: text for name, text in found.items() if name not in NOT_IN.get(engine, ())}


def measure(engine: str, folder: Path, *, columns: int, percent_absent: int, facts: int, runs: int) -> list[dict[str, Any]]:
    """Return what each subject cost, in turns after one run that tells its answer."""
    raw = build(folder, facts=facts, columns=columns, percent_absent=percent_absent)
    run, table, hash_of = RUNNERS[engine](raw)
    sums = ", ".join(TOTALS[engine].format(f"{hash_of}({name})") for name in ("_view_id", *ByHand(engine, raw, table).names))
    texts = {n: f"SELECT count(*), {sums} FROM ({query}) AS merged" for n, query in queries(engine, raw, table).items()}
    answers = {name: [str(value) for value in run(text)[0]] for name, text in texts.items()}
    costs: dict[str, list[Spent]] = {name: [] for name in texts}
    for _ in range(runs):
        for name, text in texts.items():
            costs[name].append(spent(lambda text=text: run(text))[0])
    unit = Spent.median(costs["row_number"])
    return [
        {
            "engine": engine,
            "columns": columns,
            "percent_absent": percent_absent,
            "subject": name,
            "wall": cost.wall,
            "cpu": cost.cpu,
            "wall_ratio": cost.wall / unit.wall,
            "cpu_ratio": cost.cpu / (unit.cpu or 0.01),  # a tiny run may take no tick of the clock
            "rows": int(answers[name][0]),
            "is_equal": answers[name] == answers["aggregate"],
        }
        for name, cost in ((name, Spent.median(each)) for name, each in costs.items())
    ]


def wrong(results: list[dict[str, Any]]) -> list[str]:
    """Name the subjects whose answers should be equal and are not."""
    equal = [r for r in results if r["subject"] in EXACT or (r["percent_absent"] == 0 and r["subject"] != "deduplicate")]
    return [f"{r['engine']} {r['subject']}" for r in equal if not r["is_equal"]]


def _line(result: dict[str, Any]) -> str:
    told = f"{result['engine']:7} {result['columns']:3} columns {result['percent_absent']:2} % absent {result['subject']:12}"
    costs = f"{result['wall']:7.2f} s {result['wall_ratio']:5.2f} x  CPU {result['cpu']:7.2f} s {result['cpu_ratio']:5.2f} x"
    return f"{told} {costs}{'' if result['is_equal'] else '  other rows'}"


def main() -> int:
    """Measure each engine in a process of its own; 1 if answers that should be equal are not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=ENGINES)
    parser.add_argument("--facts", type=int, default=FACTS)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    if options.engine is None:
        given = ["--facts", str(options.facts), "--runs", str(options.runs)]
        commands = [[sys.executable, __file__, "--engine", engine, *given] for engine in ENGINES]
        return max([subprocess.run(command, check=False).returncode for command in commands])
    results: list[dict[str, Any]] = []
    for columns, absent in TABLES:
        found = measure(options.engine, OUT, columns=columns, percent_absent=absent, facts=options.facts, runs=options.runs)
        print("\n".join(map(_line, found)), flush=True)
        results += found
        (OUT / f"relational_{options.engine}.json").write_text(json.dumps(results, indent=1))
    if wrong(results):
        print(f"answers differ: {', '.join(wrong(results))}")
    return bool(wrong(results))


if __name__ == "__main__":
    sys.exit(main())
