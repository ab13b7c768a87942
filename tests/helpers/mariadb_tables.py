"""Tables of 40 types, random work on them, and what MariaDB itself then answers, in the form that `query` prints."""

from __future__ import annotations

import json
import random
import struct
import uuid
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

import pymysql

from helpers.producing import repeating

DDL = """
CREATE TABLE shop.t_types (
 id int PRIMARY KEY, big bigint, ubig bigint unsigned, small smallint, tiny tinyint, utiny tinyint unsigned, flag tinyint(1),
 med mediumint, umed mediumint unsigned, uint int unsigned zerofill, n decimal(20,6), n0 decimal(10), nb decimal(65,30),
 r float, d double, b1 bit(1), b10 bit(10), b64 bit(64),
 t text, vc varchar(50) CHARACTER SET utf8mb4, uca varchar(20) COLLATE utf8mb4_uca1400_ai_ci,
 lat varchar(20) CHARACTER SET latin1, ch char(5), ucs varchar(9) CHARACTER SET ucs2, cyr varchar(9) CHARACTER SET cp1251,
 bin binary(5), vb varbinary(300), bl blob, dt date, tm time(6), t0 time, dtm datetime(6), d3 datetime(3), d0 datetime,
 ts timestamp(6) NULL, ts0 timestamp NULL, y year, en enum('a','b','ü'), st set('x','y','z'), js json, uu uuid, ip inet6,
 ip4 inet4, pt point, gm geometry, cmp text COMPRESSED, large longtext, stored int AS (tiny * 2) STORED,
 virt int AS (tiny * 3) VIRTUAL);
CREATE TABLE shop.t_keys (
 a varchar(10) COLLATE utf8mb4_general_ci NOT NULL, b int NOT NULL, v text, w varchar(20) DEFAULT 'w', PRIMARY KEY (b, a));
"""
TABLES = ("shop.t_types", "shop.t_keys")
RETYPING = ("ALTER TABLE shop.t_types MODIFY small text", "UPDATE shop.t_types SET small = 'five' WHERE id = 900")
"""What makes a `smallint` a text that is no number."""


class Server(Protocol):
    """A MariaDB or MySQL of the tests."""

    def connect(self, **options: Any) -> Any: ...

    def sql(self, *statements: str, values: Any = None) -> list[tuple[Any, ...]]: ...


_FORMS = {
    "r": "r * 1e0",
    "b1": "CAST(b1 AS UNSIGNED)",
    **{name: f"LOWER(HEX({name}))" for name in ("bin", "vb", "bl", "vec")},
    **{name: f"LOWER(HEX(ST_AsWKB({name})))" for name in ("pt", "gm")},
    "b10": "LPAD(LOWER(HEX(b10)), 4, '0')",
    "b64": "LPAD(LOWER(HEX(b64)), 16, '0')",
}
_HEX = ("bin", "vb", "bl", "vec", "pt", "gm")
_BITS = ("b10", "b64")
_NUMBERS = frozenset(
    {"big", "ubig", "small", "tiny", "utiny", "flag", "med", "umed", "uint", "n", "n0", "nb", "y", "stored", "virt", "unseen"}
)

_EXPECTED = (1062, 1205, 1213, 1305)
"""A key that is there; a lock that was waited for in vain, or a deadlock with DDL; a savepoint before TRUNCATE."""


def statements(ddl: str) -> list[str]:
    """The statements of DDL, one each."""
    return [part for part in ddl.split(";\n") if part.strip()]


def source_rows(server: Server, table: str) -> list[str]:
    """What the source's own SELECT gives, each row canonical, sorted."""
    database, name = table.split(".")
    asked = (
        "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position"
    )
    names = [str(column) for (column,) in server.sql(asked, values=(database, name))]
    selected = ", ".join(_FORMS.get(column, f"`{column}`") for column in names)
    connection = server.connect(conv={kind: encode for kind, encode in pymysql.converters.conversions.items() if kind is str})
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
            cursor.execute(f"SELECT {selected} FROM {table}")
            found = cursor.fetchall()
    finally:
        connection.close()
    return sorted(canonical({n: _printed(n, v) for n, v in zip(names, row, strict=True)}) for row in found)


def _printed(name: str, value: Any) -> Any:
    """What `query` prints of what MariaDB prints."""
    if value is None:
        return None
    value = value.decode() if isinstance(value, bytes) else value
    if name in _NUMBERS:
        return Decimal(value)
    if name in _HEX:
        return f"0x{value}"
    if name in _BITS:
        return f"0x{bytes.fromhex(value)[::-1].hex()}"
    if name == "b1":
        return value == "1"
    if name == "js":
        return json.loads(value, parse_float=Decimal)
    return value


def canonical(row: dict[str, Any]) -> str:
    """One text a row: equal for equal values, whatever their printed form; a column that is null is as one that is not there."""
    return repr(sorted((name, _value(name, value)) for name, value in row.items() if value is not None))


def _value(name: str, value: Any) -> Any:
    if name in ("r", "d"):
        form = ">f" if name == "r" else ">d"
        return struct.pack(form, float(value)).hex()
    if name in ("tm", "t0"):
        head, _, tail = str(value).partition(".")
        return f"{head}.{tail.ljust(9, '0')}"
    if name in ("dtm", "d3", "d0", "ts", "ts0"):
        head, _, tail = str(value).removesuffix("Z").partition(".")
        return f"{head}.{tail.ljust(6, '0')}"
    if name == "large":
        return f"{len(value)} of {value[:1]}"
    return str(Decimal(value)) if isinstance(value, int | Decimal) and not isinstance(value, bool) else value


@dataclass
class Workload:
    """Random transactions on the tables of `DDL`, in one thread."""

    server: Any
    seed: int
    transactions: int = 0
    replaces: bool = True
    random: random.Random = field(init=False)
    connection: Any = field(init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.connection = self.server.connect(autocommit=False)

    def run(self, transactions: int) -> None:
        """Commit so many transactions, one to four statements each; some are rolled back, wholly or in part."""
        with self.connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00', sql_mode = ''")
            for _ in range(transactions):
                for _ in range(self.random.choice((1, 1, 1, 2, 4))):
                    self._execute(cursor, *self._statement())
                if self.random.random() < 0.05:
                    cursor.execute("SAVEPOINT s")
                    self._execute(cursor, *self._statement())
                    self._execute(cursor, "ROLLBACK TO s", {})
                cursor.execute("ROLLBACK" if self.random.random() < 0.05 else "COMMIT")
                self.transactions += 1

    @staticmethod
    def _execute(cursor: Any, text: str, values: dict[str, Any]) -> None:
        try:
            cursor.execute(text, values)
        except (pymysql.IntegrityError, pymysql.OperationalError) as error:
            if error.args[0] not in _EXPECTED:
                raise

    def running(self, *, pause: float = 0.01) -> AbstractContextManager[None]:
        """Commit transactions in a thread of their own; what fails there fails here."""
        return repeating(lambda: self.run(1), pause=pause, ends_within=30)

    def _statement(self) -> tuple[str, dict[str, Any]]:
        pick = self.random.random()
        if pick < 0.003:
            return f"TRUNCATE {self.random.choice(TABLES)}", {}
        return self._types(pick) if self.random.random() < 0.6 else self._keys(pick)

    def _types(self, pick: float) -> tuple[str, dict[str, Any]]:
        number = self.random.randrange(40)
        if pick < 0.4:
            row = {"id": number, **self._values(0.8)}
            verb = self.random.choice(("REPLACE", "INSERT")) if self.replaces else "INSERT"
            end = "" if verb == "REPLACE" else " ON DUPLICATE KEY UPDATE t = 'there'"
            marks = ", ".join(self._mark(name) for name in row)
            return f"{verb} INTO shop.t_types ({', '.join(row)}) VALUES ({marks}){end}", row
        if pick < 0.75:
            row = self._values(0.12) or {"t": "x"}
            update = ", ".join(f"{name} = {self._mark(name)}" for name in row)
            return f"UPDATE shop.t_types SET {update} WHERE id % 5 = {number % 5}".replace("% 5", "%% 5"), row
        if pick < 0.9:
            text = "UPDATE shop.t_types SET id = (SELECT * FROM (SELECT max(id) + 1 FROM shop.t_types) AS m) WHERE id = %(id)s"
            return text, {"id": number}
        return "DELETE FROM shop.t_types WHERE id = %(id)s OR id > 200", {"id": number}

    @staticmethod
    def _mark(name: str) -> str:
        return f"ST_GeomFromText(%({name})s)" if name in ("pt", "gm") else f"%({name})s"

    def _keys(self, pick: float) -> tuple[str, dict[str, Any]]:
        row = {"a": self.random.choice("xXyz☃é"), "b": self.random.randrange(12), "v": self._text()}
        if pick < 0.4:
            verb = "REPLACE" if self.replaces else "INSERT"
            return f"{verb} INTO shop.t_keys (a, b, v) VALUES (%(a)s, %(b)s, %(v)s)", row
        if pick < 0.75:
            return "UPDATE shop.t_keys SET v = %(v)s, w = NULL WHERE b = %(b)s", row
        if pick < 0.82:
            return "UPDATE shop.t_keys SET a = upper(a) WHERE b = %(b)s AND a = 'x'", row
        if pick < 0.9:
            return "UPDATE shop.t_keys SET b = b + 100 WHERE b = %(b)s AND a = %(a)s AND b < 100", row
        return "DELETE FROM shop.t_keys WHERE (b = %(b)s AND a = %(a)s) OR b >= 100", row

    def _values(self, share: float) -> dict[str, Any]:
        made = {name: make() for name, make in self._makers().items() if self.random.random() < share}
        return {name: None if self.random.random() < 0.1 else value for name, value in made.items()}

    def _makers(self) -> dict[str, Any]:
        pick, whole = self.random.choice, self.random.randrange
        return {
            "big": lambda: pick((9007199254740993, -(2**63), 2**63 - 1, 0)),
            "ubig": lambda: pick((2**64 - 1, 2**63, 0)),
            "small": lambda: whole(-32768, 32768),
            "tiny": lambda: whole(-128, 128),
            "utiny": lambda: whole(256),
            "flag": lambda: pick((0, 1)),
            "med": lambda: pick((-(2**23), 2**23 - 1, -1)),
            "umed": lambda: pick((2**24 - 1, 0)),
            "uint": lambda: pick((2**32 - 1, 7, 0)),
            "n": lambda: Decimal(whole(-(10**19), 10**19)).scaleb(-6),
            "n0": lambda: whole(-(10**9), 10**9),
            "nb": lambda: pick(("0", "-0.000000000000000000000000000001", "9" * 35 + "." + "9" * 30, "-12345678901234567890.5")),
            "r": lambda: pick((1.5, 0.1, -0.0, 3.4e38, 1e-30)),
            "d": lambda: pick((2.5, 0.1, -0.0, 1e-300, 1.7976931348623157e308)),
            "b1": lambda: pick((0, 1)),
            "b10": lambda: whole(1024),
            "b64": lambda: pick((2**64 - 1, 2**63, 1, 0)),
            "t": self._text,
            "vc": self._text,
            "uca": self._text,
            "lat": lambda: pick(("é", "€", "\x81", "", "plain  ")),
            "ch": lambda: pick(("ch", "", "12345", "☃")),
            "ucs": lambda: pick(("日本", "", "a")),
            "cyr": lambda: pick(("Привет", "")),
            "bin": lambda: self.random.randbytes(whole(6)),
            "vb": lambda: self.random.randbytes(pick((0, 3, 300))),
            "bl": lambda: self.random.randbytes(whole(4)),
            "dt": lambda: pick(("2024-02-29", "1970-01-01", "1000-01-01", "9999-12-31")),
            "tm": lambda: pick(
                ("12:34:56.789", "-12:34:56.789012", "838:59:59.999999", "-838:59:59", "-00:00:00.000001", "24:00:00")
            ),
            "t0": lambda: pick(("00:00:01", "-00:00:01", "100:00:00")),
            "dtm": lambda: pick(
                ("2024-01-02 03:04:05.123456", "9999-12-31 23:59:59.999999", "1000-01-01", "1970-01-01 00:00:00.000001")
            ),
            "d3": lambda: pick(("2024-01-02 03:04:05.123", "1969-12-31 23:59:59.999")),
            "d0": lambda: pick(("2024-01-02 03:04:05", "1969-12-31 23:59:59")),
            "ts": lambda: pick(("2024-01-02 03:04:05.123456", "1970-01-01 00:00:01", "2038-01-19 03:14:07.999999")),
            "ts0": lambda: pick(("2024-07-02 03:04:05", "2001-09-09 01:46:40")),
            "y": lambda: pick((1901, 2155, 0, 2024)),
            "en": lambda: pick(("a", "b", "ü")),
            "st": lambda: pick(("", "x", "x,z", "x,y,z")),
            "js": lambda: pick(('{"a": 1.10}', "[]", '"x"', '{"b": null, "a": "☃"}', "1")),
            "uu": self._uuid,
            "ip": lambda: pick(
                ("::1", "::", "::ffff:1.2.3.4", "::1.2.3.4", "2001:db8::ff00:42:8329", "fe80::1:0:0:1", "1:0:0:2::3")
            ),
            "ip4": lambda: pick(("10.0.0.0", "255.255.255.255", "0.0.0.0")),
            "pt": lambda: pick(("POINT(1 2)", "POINT(-0.5 1e10)")),
            "gm": lambda: pick(("LINESTRING(0 0,1 1)", "POLYGON((0 0,1 0,1 1,0 0))", "POINT(3 4)")),
            "cmp": lambda: pick(("abc " * 100, "", "short", "☃" * 60)),
            "large": lambda: pick("TUV") * pick((3000, 70_000)),
        }

    def _uuid(self) -> str:
        made = bytearray(self.random.randbytes(16))
        made[6] = made[6] & 0x0F | self.random.randrange(9) << 4
        return str(uuid.UUID(bytes=bytes(made)))

    def _text(self) -> str:
        return self.random.choice(('ins ☃ "q"', "", "a\nb\tc\\d", "%s %", "x" * self.random.randrange(20), "\U0001f600 "))


def project(folder: Path, ddl: str = DDL) -> None:
    """Write a project of both tables."""
    (folder / "schema.sql").write_text(ddl)
    tables = [{"name": name, "schema": "schema.sql", "raw": {"format": "debezium"}} for name in TABLES]
    (folder / "cdc_views.yml").write_text(json.dumps({"name": "shop", "engine": "duckdb", "tables": tables}))
