"""Tables of a Cassandra node with CDC, a random workload with many ties, and what SELECT JSON answers."""

from __future__ import annotations

import json
import random
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from cassandra import DriverException
from cassandra.cluster import NoHostAvailable, Session
from cassandra.query import SimpleStatement

from helpers.command_line import CommandLine
from helpers.comparing import only_one_has
from helpers.producing import eventually

KEYSPACE = "shop"
ORDERS, TYPED = f"{KEYSPACE}.orders", f"{KEYSPACE}.typed"
TABLES = (ORDERS, TYPED)
_BASE = 1_700_000_000_000_000
_MARKER = "marker"

SCHEMA = """\
CREATE TYPE shop.addr (street text, zip int);
CREATE TABLE shop.orders (
    tenant text, day date, seq int, kind text,
    st text static, sm map<text, int> static,
    amount decimal, big bigint, fa frozen<addr>, v int, w text,
    ad addr, l list<int>, m map<text, int>, se set<text>,
    PRIMARY KEY ((tenant, day), seq, kind)
) WITH CLUSTERING ORDER BY (seq DESC, kind ASC) AND cdc = true;
CREATE TABLE shop.typed (
    tenant text, day date, d double, f float,
    vi varint, de decimal, b blob, t timestamp, ti time, u uuid, tu timeuuid, i inet, bo boolean, du duration,
    fl frozen<list<text>>, fm frozen<map<int, text>>, tp tuple<int, text>, sd set<double>,
    PRIMARY KEY ((tenant, day), d)
) WITH cdc = true;
"""

PROJECT = """\
name: shop
engine: duckdb
warehouse: ./warehouse
tables:
  - {name: shop.orders, schema: shop.cql, raw: {format: cassandra-mutation}}
  - {name: shop.typed, schema: shop.cql, raw: {format: cassandra-mutation}}
"""


def create(session: Session, *, replication: int = 1) -> None:
    """Make the keyspace anew."""
    options = f"{{'class': 'SimpleStrategy', 'replication_factor': {replication}}}"
    session.execute(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
    session.execute(f"CREATE KEYSPACE {KEYSPACE} WITH replication = {options}")
    for statement in SCHEMA.split(";\n"):
        if statement.strip():
            session.execute(statement)


def project(folder: Path) -> None:
    """Write a project of the tables."""
    (folder / "shop.cql").write_text(SCHEMA)
    (folder / "cdc_views.yml").write_text(PROJECT)


@dataclass
class Workload:
    """Random statements over few keys and few write times; what fails is not tried again."""

    session: Session
    seed: int
    statements: int = 0
    failed: int = 0
    columns: list[str] = field(default_factory=list)
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def run(self, count: int) -> None:
        for _ in range(count):
            self.step()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Write in a thread of its own meanwhile."""
        stop = threading.Event()

        def write() -> None:
            while not stop.is_set():
                self.step()
                stop.wait(0.003)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def step(self) -> None:
        text = self._typed() if self._random.random() < 0.25 else self._orders()
        try:
            self.session.execute(text)
            self.statements += 1
        except (DriverException, NoHostAvailable):
            self.failed += 1
            time.sleep(0.2)

    def _time(self) -> int:
        return _BASE + self._random.randrange(60)

    def _partition(self) -> str:
        return f"tenant = 't{self._random.randrange(3)}' AND day = '2026-01-0{self._random.randrange(1, 4)}'"

    def _row(self) -> str:
        return f"{self._partition()} AND seq = {self._random.randrange(4)} AND kind = '{self._random.choice('xyz')}'"

    def _ttl(self) -> str:
        return f" AND TTL {self._random.choice((600, 900, 86_400))}" if self._random.random() < 0.3 else ""

    def _insert(self, using: str = "") -> str:
        r = self._random
        place = (f"'t{r.randrange(3)}'", f"'2026-01-0{r.randrange(1, 4)}'", str(r.randrange(4)), f"'{r.choice('xyz')}'")
        values = {
            "amount": r.choice(("1.10", "1E+3", "-0.00", "12345678901234567890.5", "null")),
            "big": str(r.choice((9007199254740993, -(2**63), 0))),
            "fa": "{street: 'a', zip: 1}",
            "v": str(r.randrange(5)),
            "w": r.choice(("'plain'", "'quo\"te'", "'é€😀'", "'back\\slash\n'", "''")),
            "ad": "{street: 's', zip: 3}",
            "l": "[1, 2]",
            "m": "{'a': 1, 'b': 2}",
            "se": "{'x', 'ü'}",
            **{name: str(r.randrange(5)) for name in self.columns},
        }
        chosen = {name: value for name, value in values.items() if r.random() < 0.5}
        names = ", ".join(["tenant", "day", "seq", "kind", *chosen])
        return f"INSERT INTO {ORDERS} ({names}) VALUES ({', '.join([*place, *chosen.values()])}){using}"

    def _orders(self) -> str:
        r, at = self._random, f"USING TIMESTAMP {self._time()}"
        choices = [
            (30, lambda: self._insert(f" {at}{self._ttl()}")),
            (
                15,
                lambda: (
                    f"UPDATE {ORDERS} {at}{self._ttl()} SET v = {r.randrange(9)}, m['k'] = 1, ad.zip = null WHERE {self._row()}"
                ),
            ),
            (8, lambda: f"UPDATE {ORDERS} {at} SET l = l + [7], se = se + {{'q'}}, m = m - {{'a'}} WHERE {self._row()}"),
            (6, lambda: f"UPDATE {ORDERS} {at} SET l = [5] + l, se = se - {{'x'}} WHERE {self._row()}"),
            (6, lambda: f"DELETE v, l, m['b'] FROM {ORDERS} {at} WHERE {self._row()}"),
            (6, lambda: f"DELETE FROM {ORDERS} {at} WHERE {self._row()}"),
            (4, lambda: f"DELETE FROM {ORDERS} {at} WHERE {self._partition()} AND seq >= {r.randrange(3)} AND seq < 3"),
            (3, lambda: f"DELETE FROM {ORDERS} {at} WHERE {self._partition()} AND seq = {r.randrange(4)} AND kind > 'x'"),
            (2, lambda: f"DELETE FROM {ORDERS} {at} WHERE {self._partition()}"),
            (8, lambda: f"UPDATE {ORDERS} {at}{self._ttl()} SET st = 's{r.randrange(9)}', sm['a'] = 1 WHERE {self._partition()}"),
            (2, lambda: f"DELETE st FROM {ORDERS} {at} WHERE {self._partition()}"),
            (5, self._batch),
            (
                2,
                lambda: self._insert(" IF NOT EXISTS").replace("'t0'", "'lwt'").replace("'t1'", "'lwt'").replace("'t2'", "'lwt'"),
            ),
        ]
        return r.choices([make for _, make in choices], [weight for weight, _ in choices])[0]()

    def _batch(self) -> str:
        parts = [f"{self._insert(f' USING TIMESTAMP {self._time()}')};" for _ in range(3)]
        partition = self._partition()
        # one mutation with updates of two tables
        parts += [f"DELETE FROM {ORDERS} USING TIMESTAMP {self._time()} WHERE {partition} AND seq = 1;"]
        parts += [f"UPDATE {TYPED} USING TIMESTAMP {self._time()} SET bo = true WHERE {partition} AND d = 1.5;"]
        return f"BEGIN BATCH {' '.join(parts)} APPLY BATCH"

    def _typed(self) -> str:
        r = self._random
        values = {
            "f": r.choice(("-0.0", "3.4e38", "NaN", "Infinity", "0.1")),
            "vi": str(r.choice((2**200, -1, 0))),
            "de": r.choice(("-0.000", "1E-9", "1E+20")),
            "b": r.choice(("0x", "0x00ff")),
            "t": r.choice(("'2026-01-01 00:00:00.123+0000'", "'1969-12-31 23:59:59.999+0000'")),
            "ti": "'23:59:59.999999999'",
            "u": "123e4567-e89b-42d3-a456-426614174000",
            "tu": "50554d6e-29bb-11e5-b345-feff819cdc9f",
            "i": r.choice(("'::1'", "'10.0.0.1'")),
            "bo": "false",
            "du": "1y2mo3d4h5m6s7ns",
            "fl": r.choice(("[]", "['a', 'b\"']")),
            "fm": "{1: 'a', -1: 'b'}",
            "tp": r.choice(("(1, 'x')", "(null, 'y')")),
            "sd": r.choice(("{0.0, -0.0, NaN}", "{1.5}")),
        }
        chosen = {name: value for name, value in values.items() if r.random() < 0.4}
        key = (f"'t{r.randrange(3)}'", f"'2026-01-0{r.randrange(1, 4)}'", r.choice(("0.0", "-0.0", "1.5", "1e300", "NaN")))
        if r.random() < 0.1:
            above = r.choice(("0.0", "-1.0"))
            return f"DELETE FROM {TYPED} USING TIMESTAMP {self._time()} WHERE {self._partition()} AND d > {above}"
        names = ", ".join(["tenant", "day", "d", *chosen])
        return (
            f"INSERT INTO {TYPED} ({names}) VALUES ({', '.join([*key, *chosen.values()])}) "
            f"USING TIMESTAMP {self._time()}{self._ttl()}"
        )


_WIDTHS = {"f": "f", "d": "d", "sd": "d"}


def canonical(text: str) -> str:
    """A row's JSON, so that equal rows are equal texts: numbers exact, floating ones by their bits."""
    row = json.loads(text, parse_float=Decimal)
    for name, width in _WIDTHS.items():
        if row.get(name) is not None:
            row[name] = _bits(row[name], width)
    return json.dumps(row, sort_keys=True, default=str)


def _bits(value: Any, width: str) -> Any:
    return (
        [_bits(item, width) for item in value]
        if isinstance(value, list)
        else None
        if value is None
        else struct.pack(width, value).hex()
    )


def source_rows(session: Session, table: str) -> Counter[str]:
    """What the source answers."""
    return Counter(canonical(row.json) for row in session.execute(SimpleStatement(f"SELECT JSON * FROM {table}")))


def mark(session: Session, number: int) -> None:
    """Write a row that is only there to be waited for."""
    session.execute(f"INSERT INTO {ORDERS} (tenant, day, seq, kind, v) VALUES ('{_MARKER}', '2026-01-01', {number}, 'x', 1)")
    session.execute(f"INSERT INTO {TYPED} (tenant, day, d) VALUES ('{_MARKER}', '2026-01-01', {number})")


def wait_until_landed(run: CommandLine, number: int, *, within: float = 40.0) -> None:
    """Until the views show the row that `mark` wrote; of one node, whose log has everything else before it."""

    def is_there() -> bool:
        found = [
            run("query", table, "--format", "jsonl", "--where", f"tenant = '{_MARKER}' AND {column} = {number}")
            for table, column in ((ORDERS, "seq"), (TYPED, "d"))
        ]
        return all(answer.code == 0 and answer.out.strip() for answer in found)

    eventually(is_there, within=within, every=0.5, what=f"marker {number} in the views")


def differences(session: Session, run: CommandLine, *options: str, tables: tuple[str, ...] = TABLES) -> list[str]:
    """The rows that only one of source and view has at one instant; empty where they are equal."""
    found: list[str] = []
    for table in tables:
        for _ in range(3):
            now = int(time.time())
            source = source_rows(session, table)
            answer = run("query", table, "--as-of", str(now), "--format", "jsonl", *options)
            assert answer.code == 0, answer.err
            view = Counter(canonical(line) for line in answer.out.splitlines())
            if source == view or int(time.time()) == now:
                break
        found += only_one_has(table, source.elements(), view.elements())
    return found
