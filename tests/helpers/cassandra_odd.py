"""Tables that are out of the ordinary, and random CQL on them: what other people's workloads may have."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from cassandra import InvalidRequest
from cassandra.cluster import Session

CQL = """\
CREATE TYPE {ks}.inside (a int, b frozen<list<text>>);
CREATE TYPE {ks}."Outer" ("X y" int, i frozen<inside>, m frozen<map<int, frozen<inside>>>, t tuple<int, text>);
CREATE TABLE {ks}."OddKinds" (
  "Key" frozen<tuple<int, text>>, c1 frozen<list<int>>, c2 boolean, c3 timeuuid,
  "S t" frozen<set<text>> static, sl list<int> static, so "Outer" static,
  v vector<float, 3>, vt vector<text, 2>, tp tuple<int, frozen<list<text>>, timeuuid>, o "Outer", fo frozen<"Outer">,
  lf list<frozen<inside>>, mm map<frozen<tuple<int, int>>, frozen<list<int>>>, ss set<frozen<set<int>>>, mt map<timeuuid, inet>,
  du duration, i inet, va varint, a ascii, sm smallint, ti tinyint, tm time, dt date, "_written" text, "value" int, "_kind" blob,
  PRIMARY KEY ("Key", c1, c2, c3)
) WITH CLUSTERING ORDER BY (c1 DESC, c2 ASC, c3 DESC) AND cdc = true;
CREATE TABLE {ks}.expiring (k int, c text, s int static, v int, l list<int>, m map<text, int>, PRIMARY KEY (k, c))
  WITH default_time_to_live = 30000 AND cdc = true;
CREATE TABLE {ks}.statics (p int, c int, s text static, sl list<int> static, sm map<int, text> static, v int, PRIMARY KEY (p, c))
  WITH cdc = true;
CREATE TABLE {ks}.lists (k int PRIMARY KEY, l list<int>, m list<frozen<list<text>>>) WITH cdc = true;
CREATE TABLE {ks}.large (k int PRIMARY KEY, b blob, t text, m map<int, text>) WITH cdc = true;
CREATE TABLE {ks}.keys_only (a int, b text, c date, PRIMARY KEY ((a, b), c)) WITH cdc = true;
CREATE TABLE {ks}.one_key (a text PRIMARY KEY) WITH cdc = true;
CREATE TABLE {ks}.times (k int, c int, v text, s set<int>, u "Outer", PRIMARY KEY (k, c)) WITH cdc = true;
CREATE TABLE {ks}.empties (k int, c int, i int, b bigint, u uuid, t text, l list<int>, bo boolean, PRIMARY KEY (k, c))
  WITH cdc = true;
CREATE TABLE {ks}.indexed (k int, c int, v int, w text, PRIMARY KEY (k, c)) WITH cdc = true;
"""
BESIDE = """\
CREATE INDEX ON {ks}.indexed (v);
CREATE CUSTOM INDEX ON {ks}.indexed (w) USING 'StorageAttachedIndex';
CREATE MATERIALIZED VIEW {ks}.by_v AS SELECT * FROM {ks}.indexed WHERE v IS NOT NULL AND k IS NOT NULL AND c IS NOT NULL
  PRIMARY KEY (v, k, c);
CREATE TABLE {ks}.plain (k int PRIMARY KEY, v int);
CREATE TABLE {ks}.unasked (k int PRIMARY KEY, v int) WITH cdc = true;
CREATE TABLE {ks}.hits (k int PRIMARY KEY, n counter) WITH cdc = true;
CREATE KEYSPACE {ks}_other WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}};
CREATE TABLE {ks}_other.orders (k int PRIMARY KEY, v int) WITH cdc = true
"""
"""What no project asks for: indexes, a view, a table without CDC, a counter, another keyspace."""
TABLES = ("OddKinds", "expiring", "statics", "lists", "large", "keys_only", "one_key", "times", "empties", "indexed")
_FLOATS = {("OddKinds", "v")}
_TIMES = (-(2**62), -1, 0, 1, 1_700_000_000_000_000, 1_700_000_000_000_001, 2**62, 2**63 - 1)
"""Write times from before 1970 to the last there is."""
_UUIDS = ("50554d6e-29bb-11e5-b345-feff819cdc9f", "00000000-0000-1000-8080-808080808080", "ffffffff-ffff-1fff-bfff-7f7f7f7f7f7f")


def create(session: Session, keyspace: str) -> None:
    """Make the keyspace, its tables, and what stands beside them."""
    session.execute(f"CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
    for text in (CQL + BESIDE).split(";\n"):
        if text.strip():
            session.execute(text.format(ks=keyspace))


def project(folder: Path, keyspace: str) -> None:
    """Write a project of the tables."""
    (folder / "schema.cql").write_text(CQL.format(ks=keyspace), encoding="utf-8")
    tables = [{"name": f"{keyspace}.{name}", "schema": "schema.cql", "raw": {"format": "cassandra-mutation"}} for name in TABLES]
    (folder / "cdc_views.yml").write_text(json.dumps({"name": "odd", "engine": "duckdb", "tables": tables}))


def canonical(table: str, text: str) -> str:
    """A row's JSON as SELECT JSON or `query` print it, so that equal rows are equal texts."""
    row = json.loads(text, parse_float=Decimal)
    plain = {_unquoted(name): value for name, value in row.items()}
    made = {name: _float32(value) if (table, name) in _FLOATS else value for name, value in plain.items()}
    return json.dumps(made, sort_keys=True, default=str)


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _float32(value: Any) -> Any:
    return None if value is None else [struct.pack(">f", float(item)).hex() for item in value]


@dataclass
class Workload:
    """Random statements over few keys."""

    session: Session
    keyspace: str
    seed: int
    statements: int = 0
    refused: int = 0
    random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.makers: tuple[tuple[int, Callable[[], str]], ...] = (
            (30, self._kinds), (10, self._expiring), (15, self._statics), (15, self._lists), (2, self._large), (8, self._keys),
            (15, self._times), (10, self._empties), (10, self._indexed), (6, self._batch), (4, self._beside),
        )  # fmt: skip

    def run(self, count: int) -> None:
        """Run so many statements."""
        for _ in range(count):
            weights = [weight for weight, _ in self.makers]
            text = self.random.choices([make for _, make in self.makers], weights)[0]()
            self.statements += 1
            try:
                self.session.execute(text.replace("{ks}", self.keyspace))
            except InvalidRequest as error:
                if " list " not in str(error).lower():  # an element that it does not have
                    raise AssertionError(f"{text}: {error}") from error
                self.refused += 1

    def _pick(self, *of: str) -> str:
        return self.random.choice(of)

    def _number(self, end: int = 3) -> int:
        return self.random.randrange(end)

    def _at(self, *more: str) -> str:
        """USING with a write time, mostly."""
        parts = [f"TIMESTAMP {1_700_000_000_000_000 + self._number(6)}"] if self.random.random() < 0.7 else []
        parts += [part for part in more if self.random.random() < 0.3]
        return f" USING {' AND '.join(parts)}" if parts else ""

    def _inside(self) -> str:
        return self._pick("{a: 1, b: ['x', '']}", "{a: null, b: null}", "{b: []}", "{a: 2}")

    def _outer(self) -> str:
        return self._pick(
            f'{{"X y": {self._number()}, i: {self._inside()}, m: {{1: {self._inside()}}}, t: (1, null)}}',
            "{m: {}}", '{"X y": null, t: (null, \'☃\')}',
        )  # fmt: skip

    def _kinds(self) -> str:
        key = self._pick("(1, 'a')", "(1, '')", "(null, 'b')")
        clustering = self._pick("[]", "[1]", "[1, 2]", "[2]"), self._pick("true", "false"), self._pick(*_UUIDS)
        row = f'"Key" = {key} AND c1 = {clustering[0]} AND c2 = {clustering[1]} AND c3 = {clustering[2]}'
        table, pick = '{ks}."OddKinds"', self._number(20)
        if pick < 8:
            values = {name: make() for name, make in self._kind_makers().items() if self.random.random() < 0.4}
            names = "".join(f", {name}" for name in values)
            given = "".join(f", {'null' if self._number(8) == 0 else value}" for value in values.values())
            return (
                f'INSERT INTO {table} ("Key", c1, c2, c3{names}) VALUES ({key}, {", ".join(clustering)}{given})'
                f"{self._at('TTL 20000')}"
            )
        if pick < 13:
            change = self._pick(
                'o."X y" = 7', "o.i = {a: 5}", "o.t = null", "lf = lf + [{a: 9}]", "mm = mm + {(1, null): [3]}",
                "mm[(1, 2)] = []", "mm[(1, 2)] = null", "ss = ss + {{}, {1}}", "ss = ss - {{1}}", "mt[now()] = '::1'",
                'so."X y" = 3', "sl = [4] + sl", "so = null", "v = null", '"S t" = {}',
            )  # fmt: skip
            where = f'"Key" = {key}' if change.startswith(("so", "sl", '"S')) else row
            return f"UPDATE {table}{self._at('TTL 20000')} SET {change} WHERE {where}"
        if pick < 15:
            return f"DELETE {self._pick('o', 'v, tp', 'lf', 'o.i', 'mm[(1, 2)]', 'ss')} FROM {table}{self._at()} WHERE {row}"
        end = self._pick(
            "", " AND c1 > [1]", " AND c1 = [1] AND c2 = true", " AND (c1, c2) >= ([1], false)", " AND c1 < [2] AND c1 >= []",
            f" AND c1 = [1] AND c2 = false AND c3 <= {_UUIDS[0]}", " AND c1 IN ([1], [])",
        )  # fmt: skip
        return f'DELETE FROM {table}{self._at()} WHERE "Key" = {key}{end}'

    def _kind_makers(self) -> dict[str, Callable[[], str]]:
        pick = self._pick
        return {
            "v": lambda: pick("[0.1, -0.0, 3.4e38]", "[1, 2, 3]", "[0, 0, 1e-45]"),
            "vt": lambda: pick("['a', '']", "['☃', 'b']"),
            "tp": lambda: pick("(1, ['x'], null)", "(null, [], 50554d6e-29bb-11e5-b345-feff819cdc9f)", "(2, null, null)"),
            "o": self._outer,
            "fo": self._outer,
            "lf": lambda: f"[{self._inside()}, {self._inside()}]",
            "mm": lambda: pick("{(1, 2): [1], (1, null): []}", "{(0, 0): [0, 0]}", "{}"),
            "ss": lambda: pick("{{1, 2}, {}}", "{{3}}"),
            "mt": lambda: f"{{{pick(*_UUIDS)}: '10.0.0.1', {_UUIDS[1]}: '::ffff:1.2.3.4'}}",
            "du": lambda: pick("1mo", "-1y2mo3d4h5m6s7ms8us9ns", "0s", "P1Y2D"),
            "i": lambda: pick("'255.255.255.255'", "'fe80::1'"),
            "va": lambda: str(self.random.choice((2**300, -(2**63) - 1, 0, -128, 255))),
            "a": lambda: pick("'plain'", "''", "'~'"),
            "sm": lambda: pick("-32768", "32767"),
            "ti": lambda: pick("-128", "127"),
            "tm": lambda: pick("'00:00:00'", "'23:59:59.999999999'"),
            "dt": lambda: pick("'-5877641-06-23'", "'1969-12-31'", "'2024-02-29'", "'9999-12-31'"),
            '"_written"': lambda: pick("'w'", "'quo\"te'"),
            '"value"': lambda: pick("1", "-2147483648"),
            '"_kind"': lambda: pick("0x", "0x00", "0xffff"),
            '"S t"': lambda: pick("{'a', ''}", "{}"),
            "sl": lambda: "[1, 2]",
            "so": self._outer,
        }

    def _expiring(self) -> str:
        key, number = f"k = {self._number()} AND c = '{self._pick('a', '')}'", self._number(5)
        return self._pick(
            f"INSERT INTO {{ks}}.expiring (k, c, v, l) VALUES ({self._number()}, 'a', {number}, [1, 2]) USING TTL 0",
            f"INSERT INTO {{ks}}.expiring (k, c, v) VALUES ({self._number()}, '', {number})",
            f"UPDATE {{ks}}.expiring USING TTL 0 SET v = {number}, m['a'] = 1 WHERE {key}",
            f"UPDATE {{ks}}.expiring SET v = null, l = l + [3], m = m + {{'b': {number}}} WHERE {key}",
            f"UPDATE {{ks}}.expiring USING TTL {self._pick('1', '9000', '0')} SET s = {number} WHERE k = {self._number()}",
            f"UPDATE {{ks}}.expiring USING TTL 1 SET v = {number} WHERE {key}",
            f"DELETE FROM {{ks}}.expiring WHERE {key}",
        )

    def _statics(self) -> str:
        p, c, number = self._number(6), self._number(), self._number(9)
        return self._pick(
            f"UPDATE {{ks}}.statics{self._at(self._pick('TTL 20000', 'TTL 1'))} SET s = '{number}' WHERE p = {p}",
            f"UPDATE {{ks}}.statics{self._at()} SET sl = sl + [{number}], sm[{number}] = 'x' WHERE p = {p}",
            f"DELETE s FROM {{ks}}.statics{self._at()} WHERE p = {p}",
            f"DELETE sm[{number}], sl FROM {{ks}}.statics{self._at()} WHERE p = {p}",
            f"DELETE FROM {{ks}}.statics{self._at()} WHERE p = {p}",
            f"INSERT INTO {{ks}}.statics (p, c, s) VALUES ({p}, {c}, 'both'){self._at()}",
            f"UPDATE {{ks}}.statics{self._at()} SET v = {number} WHERE p = {p} AND c = {c}",
            f"DELETE FROM {{ks}}.statics{self._at()} WHERE p = {p} AND c = {c}",
            f"UPDATE {{ks}}.statics SET s = 'lwt' WHERE p = {p + 10} IF s = null",
            f"BEGIN BATCH INSERT INTO {{ks}}.statics (p, s) VALUES ({p + 10}, 'new') IF NOT EXISTS; "
            f"INSERT INTO {{ks}}.statics (p, c, v) VALUES ({p + 10}, {c}, {number}); APPLY BATCH",
        )

    def _lists(self) -> str:
        where = f"WHERE k = {self._number()}"
        change = self._pick(
            "l = l + [1, 2, 1]", "l = [0, 9] + l", "l[0] = 5", "l[1] = 6", "l[0] = null", "l = l - [1]", "l = [3, 4]", "l = []",
            "m = m + [['a'], []]", "m[0] = ['set']", "m = m - [[]]", "m = [['b']] + m",
        )  # fmt: skip
        if self._number(6) == 0:
            return f"DELETE {self._pick('l', 'l[0]', 'm[1]')} FROM {{ks}}.lists {where}"
        using = f" USING TTL {self._pick('20000', '1')}" if self._number(4) == 0 else ""
        return f"UPDATE {{ks}}.lists{using} SET {change} {where}"

    def _large(self) -> str:
        """Nearly as large as a commit log of 1 MiB segments takes."""
        size, digit = self.random.choice((100, 200_000, 480_000)), self._pick("a", "b")
        return self._pick(
            f"INSERT INTO {{ks}}.large (k, t) VALUES ({self._number()}, '{digit * size}')",
            f"INSERT INTO {{ks}}.large (k, b) VALUES ({self._number()}, 0x{(digit * 2) * (size // 2)})",
            f"UPDATE {{ks}}.large SET m[{self._number()}] = '{'☃' * (size // 20)}' WHERE k = {self._number()}",
        )

    def _keys(self) -> str:
        a, b, c = self._number(), self._pick("'x'", "''", "'☃'"), self._pick("'2024-01-01'", "'1969-01-01'")
        if self._number() == 0:
            a_text = self._pick("'x'", "'\n'", "'\"'")
            if self._number(2):
                return f"DELETE FROM {{ks}}.one_key WHERE a = {a_text}"
            return f"INSERT INTO {{ks}}.one_key (a) VALUES ({a_text}){self._pick('', ' IF NOT EXISTS')}"
        return self._pick(
            f"INSERT INTO {{ks}}.keys_only (a, b, c) VALUES ({a}, {b}, {c}){self._at('TTL 20000')}",
            f"DELETE FROM {{ks}}.keys_only{self._at()} WHERE a = {a} AND b = {b} AND c <= {c}",
        )  # fmt: skip

    def _times(self) -> str:
        at, early = self.random.choice(_TIMES), self.random.choice(_TIMES[:6])  # a late deletion leaves nothing ever after
        k, c, number = self._number(6), self._number(), self._number(9)
        row = f"k = {k} AND c = {c}"
        return self._pick(
            f"INSERT INTO {{ks}}.times (k, c, v, s) VALUES ({k}, {c}, 'x{number}', {{1, {number}}}) USING TIMESTAMP {at}",
            f"UPDATE {{ks}}.times USING TIMESTAMP {at} SET v = 'u{number}', u.t = ({number}, 'x') WHERE {row}",
            f"UPDATE {{ks}}.times USING TIMESTAMP {at} SET s = s + {{{number}}} WHERE {row}",
            f"DELETE v, s[{number}] FROM {{ks}}.times USING TIMESTAMP {early} WHERE {row}",
            f"DELETE FROM {{ks}}.times USING TIMESTAMP {early} WHERE {row}",
            f"DELETE FROM {{ks}}.times USING TIMESTAMP {early} WHERE k = {k} AND c > {c}",
            f"UPDATE {{ks}}.times USING TIMESTAMP {at} AND TTL 20000 SET v = null, u = {self._outer()} WHERE {row}",
        )

    def _empties(self) -> str:
        """Values of no byte, which old clients write for null."""
        k, c = self._number(), self._pick("blob_as_int(0x)", "1", "-1")
        values = {
            "i": self._pick("blob_as_int(0x)", "0"), "b": self._pick("blob_as_bigint(0x)", "7"), "t": self._pick("''", "'x'"),
            "u": self._pick("blob_as_uuid(0x)", _UUIDS[0]), "bo": self._pick("false", "true"),
            "l": self._pick("[]", "[1]"),
        }  # fmt: skip
        chosen = {name: value for name, value in values.items() if self._number(2)}
        if self._number(5) == 0:
            return f"DELETE FROM {{ks}}.empties{self._at()} WHERE k = {k} AND c {self._pick('=', '>=', '<')} {c}"
        names, given = "".join(f", {name}" for name in chosen), "".join(f", {value}" for value in chosen.values())
        return f"INSERT INTO {{ks}}.empties (k, c{names}) VALUES ({k}, {c}{given}){self._at('TTL 20000')}"

    def _indexed(self) -> str:
        k, c, number = self._number(6), self._number(), self._number(9)
        return self._pick(
            f"INSERT INTO {{ks}}.indexed (k, c, v, w) VALUES ({k}, {c}, {number}, 'w{number}')",
            f"UPDATE {{ks}}.indexed SET v = {number} WHERE k = {k} AND c = {c}",
            f"UPDATE {{ks}}.indexed SET v = null, w = 'x' WHERE k = {k} AND c = {c}",
            f"DELETE FROM {{ks}}.indexed WHERE k = {k}",
            f'INSERT INTO {{ks}}.indexed JSON \'{{"k": {k}, "c": {c}, "w": "json"}}\'',
        )

    def _batch(self) -> str:
        """Over tables that are asked for, tables that are not, and another keyspace."""
        parts = [self._statics_plain(), self._plain_indexed(), f"INSERT INTO {{ks}}.plain (k, v) VALUES (1, {self._number()})"]
        parts += ["INSERT INTO {ks}.unasked (k, v) VALUES (2, 3)", "INSERT INTO {ks}_other.orders (k, v) VALUES (1, 1)"]
        self.random.shuffle(parts)
        kind = self._pick("", "UNLOGGED ")
        return f"BEGIN {kind}BATCH USING TIMESTAMP {1_700_000_000_000_000 + self._number(6)} {'; '.join(parts)}; APPLY BATCH"

    def _statics_plain(self) -> str:
        return f"UPDATE {{ks}}.statics SET s = 'batch{self._number()}', v = {self._number()} WHERE p = {self._number()} AND c = 1"

    def _plain_indexed(self) -> str:
        return f"INSERT INTO {{ks}}.times (k, c, v) VALUES ({self._number()}, {self._number()}, 'batch')"

    def _beside(self) -> str:
        return self._pick(
            f"UPDATE {{ks}}.hits SET n = n + {self._number()} WHERE k = 1",
            f"INSERT INTO {{ks}}.plain (k, v) VALUES ({self._number()}, 1)",
            f"INSERT INTO {{ks}}.unasked (k, v) VALUES ({self._number()}, 1)",
            f"INSERT INTO {{ks}}_other.orders (k, v) VALUES ({self._number()}, 1)",
        )


__all__ = ["TABLES", "Workload", "canonical", "create", "project"]
