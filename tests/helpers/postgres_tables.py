"""Tables of 27 types, random work on them, and what PostgreSQL itself then answers, in the form that `query` prints."""

from __future__ import annotations

import json
import random
import struct
from contextlib import AbstractContextManager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from services.postgres import Postgres

from helpers.producing import repeating

DDL = """
CREATE TABLE public.t_types (
 id int PRIMARY KEY, big bigint, small smallint, n numeric(12,4), n_unb numeric, n_whole numeric(20), r real, d double precision,
 b bool, t text, vc varchar(20), ch char(5), ts timestamp(6), tstz timestamptz, dt date, tm time, tmtz timetz, iv interval,
 j json, jb jsonb, by bytea, ai int[], at text[], u uuid, ip inet, mood text, toast text, hs bit(8));
CREATE TABLE public.t_full (a text, b int, v text, toast text, PRIMARY KEY (b, a));
"""
STORAGE = """
ALTER TABLE public.t_types ALTER toast SET STORAGE EXTERNAL;
ALTER TABLE public.t_full REPLICA IDENTITY FULL;
ALTER TABLE public.t_full ALTER toast SET STORAGE EXTERNAL;
"""
TABLES = ("public.t_types", "public.t_full")

_MONTH, _DAY = 2_629_800_000_000, 86_400_000_000
_FORMS = {
    "ts": "CASE WHEN isfinite(ts) THEN to_char(ts, 'YYYY-MM-DD HH24:MI:SS.US') ELSE ts::text END",
    "tstz": "to_char(tstz AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')",
    "tm": "rpad(tm::text || CASE WHEN tm::text LIKE '%.%' THEN '' ELSE '.' END, 18, '0')",
    "tmtz": "(tmtz AT TIME ZONE 'UTC')::time::text || 'Z'",
    "iv": f"((extract(year FROM iv) * 12 + extract(month FROM iv)) * {_MONTH} + extract(day FROM iv) * {_DAY} + "
    "(extract(hour FROM iv) * 3600 + extract(minute FROM iv) * 60 + extract(second FROM iv)) * 1000000)::bigint::text",
    "by": "'0x' || encode(by, 'hex')",
    "hs": "'0x' || lpad(to_hex(hs::int), 2, '0')",
    "ip": "abbrev(ip)",
}


def source_rows(server: Postgres, table: str) -> list[str]:
    """What the source's own SELECT gives, each row canonical, sorted."""
    namespace, name = table.split(".")
    columns = "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s"
    named = server.sql(columns, (namespace, name))
    parts = [f"'{column}', {_FORMS.get(column, column)}" for (column,) in named]
    server_rows = server.sql(f"SELECT json_build_object({', '.join(parts)})::text FROM {table}")
    return sorted(canonical(json.loads(row, parse_float=Decimal)) for (row,) in server_rows)


def canonical(row: dict[str, Any]) -> str:
    """One text a row: equal for equal values, whatever their printed form."""
    return repr(sorted((name, _value(name, value)) for name, value in row.items()))


def _value(name: str, value: Any) -> Any:
    if value in ("NaN", "Infinity", "-Infinity") and name in ("r", "d"):
        return None
    if value is None:
        return None
    if name == "toast":
        return f"{len(value)} of {value[:1]}"
    if name in ("r", "d"):
        form = ">f" if name == "r" else ">d"
        return struct.pack(form, float(value)).hex()
    if name in ("ts", "tstz"):
        return str(value).removesuffix("Z").removesuffix(".000000")
    return str(Decimal(value)) if isinstance(value, int | Decimal) and not isinstance(value, bool) else value


@dataclass
class Workload:
    """Random transactions on the tables of `DDL`, in one thread."""

    server: Postgres
    seed: int
    transactions: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.connection = self.server.connect()

    def run(self, transactions: int) -> None:
        """Commit so many transactions, one to four statements each; some are rolled back."""
        cursor = self.connection.cursor()
        for _ in range(transactions):
            cursor.execute("BEGIN")
            for _ in range(self.random.choice((1, 1, 1, 2, 4))):
                cursor.execute(*self._statement())
            cursor.execute("ROLLBACK" if self.random.random() < 0.05 else "COMMIT")
            self.transactions += 1

    def running(self, *, pause: float = 0.01) -> AbstractContextManager[None]:
        """Commit transactions in a thread of their own; what fails there fails here."""
        return repeating(lambda: self.run(1), pause=pause, ends_within=30)

    def _statement(self) -> tuple[str, dict[str, Any]]:
        pick = self.random.random()
        if pick < 0.003:
            return f"TRUNCATE {self.random.choice(('public.t_full', 'public.t_full, public.t_types'))}", {}
        return self._types(pick) if self.random.random() < 0.6 else self._full(pick)

    def _types(self, pick: float) -> tuple[str, dict[str, Any]]:
        number = self.random.randrange(40)
        if pick < 0.35:
            row = {"id": number, **self._values(0.8)}
            names = ", ".join(row)
            update = ", ".join(f"{name} = excluded.{name}" for name in row)
            marks = ", ".join(f"%({name})s" for name in row)
            return f"INSERT INTO public.t_types ({names}) VALUES ({marks}) ON CONFLICT (id) DO UPDATE SET {update}", row
        if pick < 0.75:
            row = self._values(0.12) or {"t": "x"}
            return f"UPDATE public.t_types SET {', '.join(f'{n} = %({n})s' for n in row)} WHERE id %% 5 = {number % 5}", row
        if pick < 0.9:
            # to a key nobody has; a value that is kept out of line goes with it
            text = "UPDATE public.t_types SET id = (SELECT max(id) + 1 FROM public.t_types) WHERE id = %(id)s"
            return text, {"id": number}
        return "DELETE FROM public.t_types WHERE id = %(id)s OR id > 200", {"id": number}

    def _full(self, pick: float) -> tuple[str, dict[str, Any]]:
        row = {"a": self.random.choice("xyz☃"), "b": self.random.randrange(12), "v": self._text(), "toast": self._large()}
        if pick < 0.4:
            values = "VALUES (%(a)s, %(b)s, %(v)s, %(toast)s) ON CONFLICT (b, a) DO UPDATE SET v = excluded.v"
            return f"INSERT INTO public.t_full {values}", row
        if pick < 0.75:
            return "UPDATE public.t_full SET v = %(v)s WHERE b = %(b)s", row
        if pick < 0.88:
            free = "NOT EXISTS (SELECT FROM public.t_full WHERE b = %(b)s + 100 AND a = %(a)s)"
            return f"UPDATE public.t_full SET b = b + 100 WHERE b = %(b)s AND a = %(a)s AND {free}", row
        return "DELETE FROM public.t_full WHERE (b = %(b)s AND a = %(a)s) OR b >= 100", row

    def _values(self, share: float) -> dict[str, Any]:
        made = {name: make() for name, make in self._makers().items() if self.random.random() < share}
        return {name: None if self.random.random() < 0.1 else value for name, value in made.items()}

    def _makers(self) -> dict[str, Any]:
        pick = self.random.choice
        return {
            "big": lambda: pick((9007199254740993, -(2**63), 2**63 - 1, 0)),
            "small": lambda: self.random.randrange(-32768, 32768),
            "n": lambda: Decimal(self.random.randrange(-(10**11), 10**11)).scaleb(-4),
            "n_unb": lambda: pick(("1e20", "0.10", "-123456789012345678901234567890.123456789", "0", "1.500")),
            "n_whole": lambda: self.random.randrange(-(10**19), 10**19),
            "r": lambda: pick((1.5, 0.1, -0.0, "NaN", 3.4e38)),
            "d": lambda: pick((2.5, 0.1, -0.0, "NaN", "Infinity", 1e-300)),
            "b": lambda: pick((True, False)),
            "t": self._text,
            "vc": lambda: pick(("vc", "", "NULL", "\\N")),
            "ch": lambda: pick(("ch", "", "12345")),
            "ts": lambda: pick(("2024-01-02 03:04:05.123456", "infinity", "1970-01-01", "1970-01-01 00:00:00.000001")),
            "tstz": lambda: pick(("2024-01-02 03:04:05.1+02", "1969-12-31 23:59:59.999999+00", "1971-05-05 00:00+14")),
            "dt": lambda: pick(("2024-02-29", "1970-01-01", "0001-01-01", "9999-12-31")),
            "tm": lambda: pick(("12:34:56.789", "24:00:00", "00:00:00.000001", "00:00:01")),
            "tmtz": lambda: pick(("12:34:56+02", "00:00:00-08", "23:59:59.5+05:30")),
            "iv": lambda: pick(("1 day 02:03:04", "-1 mons +1 day", "2 years -0.5 s", "-00:00:00.25", "0")),
            "j": lambda: pick(('{"a": 1.10}', "[]", '"x"', '{"b": null, "a": "\\u2603"}')),
            "jb": lambda: pick(('{"b":[1,2]}', "1.50", '{"x": {"y": "z"}}')),
            "by": lambda: self.random.randbytes(self.random.randrange(4)),
            "ai": lambda: pick(([1, 2, None], [], [2**31 - 1])),
            "at": lambda: pick((["x", "y,z"], ["NULL", None, "", 'q"\\'], ["a;b", "{c}", " d "], [])),
            "u": lambda: pick(("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000000")),
            "ip": lambda: pick(("10.0.0.1", "::1", "10.1.0.0/16")),
            "mood": lambda: pick(("ok", "sad")),
            "toast": self._large,
            "hs": lambda: pick(("10101010", "00000001")),
        }

    def _text(self) -> str:
        return self.random.choice(('ins ☃ "q"', "", "a\nb\tc\\d", "%s %", "x" * self.random.randrange(50), "\U0001f600"))

    def _large(self) -> str:
        return self.random.choice("TUV") * self.random.choice((3000, 9000))


def project(folder: Path) -> None:
    """Write a project of both tables."""
    (folder / "schema.sql").write_text(DDL)
    tables = [{"name": name, "schema": "schema.sql", "raw": {"format": "debezium"}} for name in TABLES]
    (folder / "cdc_views.yml").write_text(json.dumps({"name": "shop", "engine": "duckdb", "tables": tables}))
