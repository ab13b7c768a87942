"""A ClickHouse in this process (PyPI `chdb`): tables as Parquet, and answers as plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class ClickHouse:
    """One session, and the files that it reads."""

    def __init__(self, session: Any, folder: Path) -> None:
        self._session, self._folder = session, folder

    def load(self, rows: pa.Table) -> str:
        """Write the rows; return the FROM clause that reads them."""
        pq.write_table(rows, self._folder / "raw.parquet")
        return f"file('{self._folder / 'raw.parquet'}')"

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a query; text as str where it is valid, instants as µs, days as int."""
        asked = f"SELECT * FROM (\n{sql}\n) SETTINGS output_format_arrow_string_as_string = 0"
        table: pa.Table = self._session.query(asked, "ArrowTable")
        return [{name: _plain(value) for name, value in row.items()} for row in table.to_pylist()]

    def keywords(self) -> list[str]:
        """The words of ClickHouse's own keywords, some of which are phrases."""
        phrases = self.query("SELECT keyword AS phrase FROM system.keywords")
        return sorted({word for row in phrases for word in row["phrase"].decode().split()})

    def view_rows(self, statement: str, name: str) -> list[dict[str, Any]]:
        """Create the view `d.name`; return its rows."""
        self._session.query("CREATE DATABASE IF NOT EXISTS d ENGINE = Atomic")  # the default one looks for files, with globs
        self._session.query(statement)
        escaped = name.replace("\\", "\\\\").replace("`", "\\`")
        rows: list[dict[str, Any]] = self._session.query(f"SELECT * FROM d.`{escaped}`", "ArrowTable").to_pylist()
        return rows


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            since = (value if value.tzinfo else value.replace(tzinfo=timezone.utc)) - _EPOCH
            return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        case date():
            return (value - _EPOCH.date()).days
        case dict():
            return {name: _plain(part) for name, part in value.items()}
        case list():
            return [_plain(part) for part in value]
    return value


@contextmanager
def clickhouse(folder: Path) -> Iterator[ClickHouse]:
    """A session without tables of its own."""
    from chdb.session import Session

    session = Session()
    try:
        yield ClickHouse(session, folder)
    finally:
        session.close()
