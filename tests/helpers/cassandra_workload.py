"""Random CQL, the same for the same seed: statics, collections, user types, TTLs, deletions of every scope, LWT, ties."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from cassandra import ConsistencyLevel, InvalidRequest, OperationTimedOut, RequestExecutionException
from cassandra.cluster import NoHostAvailable, Session
from cassandra.query import SimpleStatement

from helpers.producing import repeating

TABLES = ("wide", "simple", "pairs")
"""Those of the project; `hits` has a counter, which no project may have (rule W5)."""
SHORT, LONG = 2, 20_000
"""Seconds that cells live: a comparison waits until the short ones are over, and is over before the long ones are."""
_TYPE = "CREATE TYPE {ks}.spot (x int, label text, tags frozen<set<text>>)"
_CREATED = {
    "wide": (
        "CREATE TABLE {ks}.wide (pk int, ck1 int, ck2 text, st int static, sm map<text, int> static, v text, n int, big bigint, "
        "d decimal, f double, ts timestamp, b blob, m map<text, int>, s set<int>, l list<text>, u spot, fu frozen<spot>, "
        'fl frozen<list<int>>, "Odd ""Name" int, PRIMARY KEY (pk, ck1, ck2)) '
        "WITH CLUSTERING ORDER BY (ck1 DESC, ck2 ASC) AND cdc = true"
    ),
    "simple": "CREATE TABLE {ks}.simple (k text PRIMARY KEY, a int, b text, c boolean, e duration) WITH cdc = true",
    "pairs": "CREATE TABLE {ks}.pairs (a int, b text, c int, PRIMARY KEY ((a, b), c)) WITH cdc = true",
}
_COUNTER = "CREATE TABLE {ks}.hits (k int PRIMARY KEY, n counter) WITH cdc = true"
_BASE = 1_700_000_000_000_000
_LEVELS = (ConsistencyLevel.ONE, ConsistencyLevel.QUORUM, ConsistencyLevel.QUORUM, ConsistencyLevel.ALL)
_MULTICELL = ("m", "s", "l", "u")
_MEANWHILE = ("undefined column", "unknown identifier", "unknown field", "unconfigured table", "does not exist", " list ")
"""What a statement is refused with because of an ALTER or DROP that came between, or of an element that a list lacks."""


def create(session: Session, keyspace: str, *, replicas: int, has_cdc: bool = True) -> None:
    """Make the keyspace and its tables, empty."""
    made = f"{{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}"
    session.execute(f"CREATE KEYSPACE {keyspace} WITH replication = {made}")
    for text in (_TYPE, *_CREATED.values(), _COUNTER):
        text = text if has_cdc else text.replace("cdc = true", "cdc = false")
        session.execute(text.format(ks=keyspace))


def create_again(session: Session, keyspace: str, table: str) -> None:
    """Make one of its tables as it was at first."""
    session.execute(_CREATED[table].format(ks=keyspace))


def project(folder: Path, keyspace: str) -> None:
    """Write a project of its tables, and their schema file."""
    ddl = ";\n".join(text.format(ks=keyspace) for text in (_TYPE, *_CREATED.values()))
    (folder / "schema.cql").write_text(ddl + ";\n", encoding="utf-8")
    project_file(folder, keyspace, {})


def project_file(folder: Path, keyspace: str, raws: Mapping[str, str]) -> None:
    """Write the project's file at once; `raws` are raw tables other than the usual ones."""
    tables = []
    for name in TABLES:
        raw = {"format": "cassandra-mutation"} | ({"table": raws[name]} if name in raws else {})
        tables.append({"name": f"{keyspace}.{name}", "schema": "schema.cql", "raw": raw})
    beside = folder / "cdc_views.yml.new"
    beside.write_text(json.dumps({"name": "shop", "engine": "duckdb", "tables": tables}))
    beside.replace(folder / "cdc_views.yml")


def _apart(number: int, ttl: int) -> int:
    """Return a write time for a TTL: of cells of one write time that expire early and late, compaction decides (rule C4)."""
    return number if not ttl else number & ~1 | (ttl != SHORT)


@dataclass
class Workload:
    """Statements on the tables of a keyspace.

    Attributes:
        session: Where they are run.
        keyspace: Whose tables.
        seed: Another one, another workload.
        inserts_only: Every row has a row marker that does not expire, lists only grow, and no write time is the client's:
            what a snapshot can tell.
        adds_only: Nothing is deleted, replaced or expires either: what a snapshot that is taken again can tell.
        levels: The consistency levels, one of which each statement has.
        field: What a field of the user type is called now.
        added: Columns that `wide` was given meanwhile, and their values. Only the server's write times go there: what
            Cassandra shows of a column that was dropped and added again depends on them (rule W6).
    """

    session: Session
    keyspace: str
    seed: int
    inserts_only: bool = False
    adds_only: bool = False
    levels: tuple[int, ...] = _LEVELS
    field: str = "label"
    statements: int = 0
    failed: int = 0
    added: dict[str, Callable[[], str]] = dataclasses.field(default_factory=dict)
    running_one: Lock = dataclasses.field(default_factory=Lock)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.columns = self._wide_columns()

    def run(self, statements: int) -> None:
        """Run so many statements, each at a consistency level of its own; one that failed may have happened or not."""
        for _ in range(statements):
            with self.running_one:
                self._execute(self._statement())

    def add_only(self, is_so: bool) -> None:
        """See `adds_only`: no other statement is on its way once this returns."""
        with self.running_one:
            self.inserts_only = self.adds_only = is_so

    def forget(self, column: str) -> None:
        """Write an added column no more, from now on: no statement that has it is on its way once this returns.

        Cassandra 5.0.9 cannot read a row whose cell of a dropped column is younger than the drop ("is not a subset of").
        """
        with self.running_one:
            self.added.pop(column, None)

    def _execute(self, text: str) -> None:
        level = self._pick(self.levels)
        if ".hits" in text or " IF " in text:
            level = ConsistencyLevel.QUORUM
        self.statements += 1
        try:
            self.session.execute(SimpleStatement(text, consistency_level=level))
        except InvalidRequest as error:
            if not any(part in f"{error} ".lower() for part in _MEANWHILE):
                raise
        except (RequestExecutionException, NoHostAvailable, OperationTimedOut):
            self.failed += 1

    def running(self, *, pause: float = 0.01) -> AbstractContextManager[None]:
        """Run statements in a thread of their own; what fails there fails here."""
        return repeating(lambda: self.run(1), pause=pause)

    def _pick(self, of: tuple[int, ...]) -> int:
        return self.random.choice(of)

    def _statement(self) -> str:
        pick = self.random.random()
        if pick < 0.70:
            return self._wide()
        if pick < 0.90:
            return self._simple()
        if pick < 0.97:
            return self._pairs()
        return f"UPDATE {self.keyspace}.hits SET n = n + {self.random.randrange(5)} WHERE k = {self.random.randrange(3)}"

    def _wide(self) -> str:
        """A statement on `wide`: partitions of odd number have write times of the client's, full of ties."""
        pk = self.random.randrange(8) & (6 if self.inserts_only else 7)
        if self.adds_only:
            return self.random.choice((self._insert, self._change_collection, self._conditional))(pk)
        made: list[tuple[float, Callable[[int], str]]] = [
            (0.30, self._insert), (0.25, self._update), (0.13, self._change_collection), (0.05, self._null_cells),
            (0.06, self._delete_row), (0.04, self._delete_range), (0.02, self._delete_partition), (0.06, self._static),
            (0.06, self._batch), (0.03, self._conditional),
        ]  # fmt: skip
        return self.random.choices([make for _, make in made], [weight for weight, _ in made])[0](pk)

    def _insert(self, pk: int) -> str:
        values = self._values(0.4, pk)
        names = "".join(f", {name}" for name in values)
        key = f"{pk}, {self._clustering()[0]}, {self._clustering()[1]}"
        given = "".join(f", {value}" for value in values.values())
        return f"INSERT INTO {self._name} (pk, ck1, ck2{names}) VALUES ({key}{given}){self._using(pk)}"

    def _update(self, pk: int) -> str:
        values = self._values(0.3, pk) or {"v": "'x'"}
        return self._updated(pk, ", ".join(f"{name} = {value}" for name, value in values.items()))

    def _change_collection(self, pk: int) -> str:
        text, number, one = self._text(), self.random.randrange(6), self.random.randrange(3)
        changes = [f"m = m + {{{text}: {number}}}", f"s = s + {{{number}}}", f"l = l + [{text}]", f"l = [{text}] + l"]
        changes += [f"m[{text}] = {number}", f"u.x = {number}", f"u.{self.field} = {text}"]
        if not self.inserts_only:
            changes += [f"l = l - [{text}]", f"l[{one}] = {text}"]
        if not self.adds_only:
            changes += self._removals(text, number)
        return self._updated(pk, self.random.choice(changes))

    def _removals(self, text: str, number: int) -> list[str]:
        return [f"m = m - {{{text}}}", f"s = s - {{{number}}}", "u.tags = null", f"m[{text}] = null"]

    def _null_cells(self, pk: int) -> str:
        names = self.random.sample(list(self.columns), min(3, len(self.columns)))
        return f"DELETE {', '.join(names)} FROM {self._name}{self._at(pk)} WHERE {self._row(pk)}"

    def _delete_row(self, pk: int) -> str:
        return f"DELETE FROM {self._name}{self._at(pk)} WHERE {self._row(pk)}"

    def _delete_range(self, pk: int) -> str:
        low, text = self.random.randrange(5), self._clustering()[1]
        where = self.random.choice((f"ck1 > {low}", f"ck1 >= {low} AND ck1 < {low + 2}", f"ck1 = {low}", f"ck1 <= {low}"))
        if where.startswith("ck1 =") and self.random.random() < 0.5:
            where += f" AND ck2 >= {text}"
        return f"DELETE FROM {self._name}{self._at(pk)} WHERE pk = {pk} AND {where}"

    def _delete_partition(self, pk: int) -> str:
        return f"DELETE FROM {self._name}{self._at(pk)} WHERE pk = {pk}"

    def _static(self, pk: int) -> str:
        number, text = self.random.randrange(9), self._text()
        change = self.random.choice(
            (f"st = {number}", "st = null", f"sm = sm + {{{text}: {number}}}", "sm = {}", f"sm[{text}] = 3")
        )
        return f"UPDATE {self._name}{self._using(pk, may_expire=not self.inserts_only)} SET {change} WHERE pk = {pk}"

    def _batch(self, pk: int) -> str:
        makers = (self._insert, self._update, self._delete_row, self._static)
        pk = pk if self.inserts_only else pk | 1
        parts = [self.random.choice(makers)(pk) for _ in range(3)]
        parts = [part for part in parts if not part.startswith("BEGIN")] or [self._insert(pk)]
        return f"BEGIN UNLOGGED BATCH {'; '.join(parts)}; APPLY BATCH"

    def _conditional(self, pk: int) -> str:
        even, (ck1, ck2) = pk & 6, self._clustering()
        if self.inserts_only or self.random.random() < 0.5:
            return f"INSERT INTO {self._name} (pk, ck1, ck2, v) VALUES ({even}, {ck1}, {ck2}, {self._text()}) IF NOT EXISTS"
        return f"UPDATE {self._name} SET n = {self.random.randrange(9)} WHERE {self._row(even)} IF v != {self._text()}"

    def _updated(self, pk: int, change: str) -> str:
        row, using = self._row(pk), self._using(pk, may_expire=not self.inserts_only)
        update = f"UPDATE {self._name}{using} SET {change} WHERE {row}"
        if not self.inserts_only:
            return update
        key = ", ".join(part.partition(" = ")[2] for part in row.split(" AND "))
        insert = f"INSERT INTO {self._name} (pk, ck1, ck2) VALUES ({key}){using}"
        return f"BEGIN UNLOGGED BATCH {insert}; {update}; APPLY BATCH"

    def _simple(self) -> str:
        name, key = f"{self.keyspace}.simple", self.random.choice(("''", "'a'", "'b☃'", "'c'", "'d'")).replace("''", "'z'")
        pick, number = self.random.random(), self.random.randrange(5)
        at = "" if self.inserts_only else f" USING TIMESTAMP {_BASE + number}"
        if pick < 0.45 or self.adds_only:
            c = "true" if self.adds_only else self.random.choice(("true", "null"))
            return f"INSERT INTO {name} (k, a, b, c, e) VALUES ({key}, {number}, {self._text()}, {c}, {number}h3ns){at}"
        if pick < 0.65 and not self.inserts_only:
            ttl = self._pick((SHORT, LONG))
            at = f" USING TIMESTAMP {_BASE + _apart(number, ttl)}"
            return f"UPDATE {name}{at} AND TTL {ttl} SET b = {self._text()} WHERE k = {key}"
        if pick < 0.85:
            return f"DELETE a, b FROM {name}{at} WHERE k = {key}"
        return f"DELETE FROM {name}{at} WHERE k = {key}"

    def _pairs(self) -> str:
        a, b, c = self.random.randrange(3), self._text(), self.random.randrange(4)
        name = f"{self.keyspace}.pairs"
        if self.adds_only or self.random.random() < 0.7:
            return f"INSERT INTO {name} (a, b, c) VALUES ({a}, {b}, {c})"
        return f"DELETE FROM {name} WHERE a = {a} AND b = {b} AND c >= {c}"

    @property
    def _name(self) -> str:
        return f"{self.keyspace}.wide"

    def _row(self, pk: int) -> str:
        ck1, ck2 = self._clustering()
        return f"pk = {pk} AND ck1 = {ck1} AND ck2 = {ck2}"

    def _clustering(self) -> tuple[int, str]:
        return self.random.randrange(5), self.random.choice(("''", "'a'", "'☃'"))

    def _at(self, pk: int) -> str:
        return f" USING TIMESTAMP {_BASE + self.random.randrange(12)}" if pk & 1 else ""

    def _using(self, pk: int, *, may_expire: bool = True) -> str:
        expires = may_expire and not self.inserts_only and self.random.random() < 0.25
        ttl, number = self._pick((SHORT, LONG, LONG + 7)) if expires else 0, self.random.randrange(12)
        parts = [f"TIMESTAMP {_BASE + _apart(number, ttl)}"] if pk & 1 else []
        parts += [f"TTL {ttl}"] if ttl else []
        return f" USING {' AND '.join(parts)}" if parts else ""

    def _text(self) -> str:
        return self.random.choice(("'a'", "'b'", "'☃ \"q\"'", "''", "'it''s'"))

    def _values(self, share: float, pk: int) -> dict[str, str]:
        columns = {**self.columns, **({} if pk & 1 else dict(self.added))}
        if self.adds_only:
            columns = {name: make for name, make in columns.items() if name not in _MULTICELL}
        made = {name: make() for name, make in columns.items() if self.random.random() < share}
        return {name: "null" if not self.adds_only and self.random.random() < 0.15 else value for name, value in made.items()}

    def _wide_columns(self) -> dict[str, Callable[[], str]]:
        number, pick, text = self.random.randrange, self.random.choice, self._text
        return {
            "v": text,
            "n": lambda: str(number(-3, 3)),
            "big": lambda: pick(("9007199254740993", "-9223372036854775808", "0")),
            "d": lambda: pick(("1.10", "1.1", "1E+3", "-0.000", "123456789012345678901234567890.5")),
            "f": lambda: pick(("0.1", "-0.0", "NaN", "Infinity", "1e300", "2.0")),
            "ts": lambda: pick(("'2024-01-02 03:04:05.678Z'", "0", "-1")),
            "b": lambda: pick(("0x", "0x00ff", "0x80")),
            "m": lambda: f"{{{text()}: {number(9)}, 'k': 1}}" if number(2) else "{}",
            "s": lambda: f"{{{number(6)}, {number(6)}}}",
            "l": lambda: f"[{text()}, {text()}, {text()}]",
            "u": lambda: f"{{x: {number(9)}, {self.field}: {text()}, tags: {{{text()}}}}}",
            "fu": lambda: f"{{x: {number(9)}, tags: {{'t'}}}}",
            "fl": lambda: f"[{number(9)}, {number(9)}]" if number(3) else "[]",
            '"Odd ""Name"': lambda: str(number(2)),
        }
