"""A private PostgreSQL server in a temporary folder, spoken to through `psql`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

_BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name))
_SCALARS = [
    (pa.types.is_int8, "smallint"),
    (pa.types.is_int16, "smallint"),
    (pa.types.is_int32, "int"),
    (pa.types.is_int64, "bigint"),
    (pa.types.is_float32, "real"),
    (pa.types.is_float64, "double precision"),
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_string, "text"),
    (pa.types.is_binary, "bytea"),
    (pa.types.is_decimal, "numeric(38, 0)"),
    (pa.types.is_timestamp, "timestamptz"),
]


def is_available() -> bool:
    """Whether a server can be started here: its binaries are there, and it need not run as root."""
    return bool(_BINARIES) and shutil.which("psql") is not None and (os.geteuid() != 0 or shutil.which("su") is not None)


class Server:
    """One database of one server, in a collation that is not "C"; `stop` it at the end."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._types = folder, count()
        folder.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")
        collation = "--locale-provider=icu --icu-locale=en-US --locale=C.UTF-8"
        self._as_owner(f"initdb -D {folder}/data -U postgres -A trust -E UTF8 {collation}")
        options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
        self._as_owner(f'pg_ctl -D {folder}/data -w -l {folder}/log -o "{options}" start')

    def _as_owner(self, command: str) -> None:
        line = f"cd {self._folder} && {_BINARIES[-1]}/{command}"
        run = ["su", "postgres", "-s", "/bin/sh", "-c", line] if os.geteuid() == 0 else ["sh", "-c", line]
        # pg_ctl leaves a server behind that would keep a pipe open
        with (self._folder.parent / f"{self._folder.name}.log").open("ab") as log:
            subprocess.run(run, check=True, stdout=log, stderr=log, timeout=120)

    def stop(self) -> None:
        self._as_owner(f"pg_ctl -D {self._folder}/data -m immediate stop")

    def execute(self, sql: str) -> str:
        """Run statements and return psql's unaligned output; raises with PostgreSQL's words."""
        run = ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", str(self._folder), "-U", "postgres"]
        done = subprocess.run(run, input="SET TimeZone = 'UTC';\n" + sql, text=True, capture_output=True, timeout=300)
        if done.returncode:
            raise RuntimeError(done.stderr[:2000])
        return done.stdout

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a SELECT, as JSON tells them."""
        text = self.execute(f"SELECT row_to_json(_row) FROM (\n{sql}\n) AS _row;")
        return [json.loads(line, parse_int=_number) for line in text.split("\n") if line]

    def load(self, name: str, rows: pa.Table) -> None:
        """Make the rows a table, with a composite type for each struct."""
        types: list[str] = []
        columns = ", ".join(f'"{f.name}" {self._type(f.type, types)}' for f in rows.schema)
        self.execute(f"DROP TABLE IF EXISTS {name}; {' '.join(types)} CREATE TABLE {name} ({columns});")
        path = self._folder.parent / f"{name}.jsonl"
        path.write_text("".join(json.dumps(plain(row)) + "\n" for row in rows.to_pylist()))
        self.execute(
            "CREATE TEMP TABLE lines (line text);\n"
            f"\\copy lines FROM '{path}' WITH (FORMAT csv, QUOTE E'\\x01', DELIMITER E'\\x02')\n"
            f"INSERT INTO {name} SELECT r.* FROM lines, json_populate_record(NULL::{name}, line::json) AS r;"
        )

    def _type(self, arrow: pa.DataType, types: list[str]) -> str:
        if pa.types.is_list(arrow):
            return f"{self._type(arrow.value_type, types)}[]"
        if pa.types.is_struct(arrow):
            fields = ", ".join(f'"{f.name}" {self._type(f.type, types)}' for f in arrow)
            types.append(f"CREATE TYPE raw_{next(self._types)} AS ({fields});")
            return types[-1].split()[2]
        return next(kind for is_one, kind in _SCALARS if is_one(arrow))


def _number(text: str) -> int | float:
    return -0.0 if text == "-0" else int(text)


def plain(value: Any) -> Any:
    match value:
        case dict():
            return {name: plain(part) for name, part in value.items()}
        case list():
            return [plain(part) for part in value]
        case bytes():
            return "\\x" + value.hex()
        case float() if value != value or value in (float("inf"), float("-inf")):
            return str(value)
        case bool() | int() | float() | str() | None:
            return value
    return str(value)
