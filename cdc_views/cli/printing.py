"""Prints rows on standard output, as a table for people, or as json, jsonl or csv, from JSON texts by column."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cdc_views.errors import UsageError, did_you_mean
from cdc_views.rules.codec.jsontext import JsonRow
from cdc_views.rules.codec.row_texts import csv_texts, json_texts, jsonl_texts, plain

_UNBOUNDED = 1_000_000
MOST_SHOWN = 100_000
"""Rows of a table for people, which has to hold all of them for the widths of its columns."""


def check_format(name: str) -> str:
    """Return `name` if it is a format for rows; raises `UsageError` with a suggestion."""
    if name not in _PRINTERS:
        raise UsageError(f"--format is {name!r}{did_you_mean(name, _PRINTERS)}")
    return name


def print_rows(columns: Sequence[str], rows: Iterable[JsonRow], *, format: str) -> None:
    """Print the rows; `columns` defines the order."""
    _PRINTERS[check_format(format)](columns, rows)


def fields_of(found: object, names: Iterable[str]) -> dict[str, Any]:
    """Return some attributes of an object as a record."""
    return {name: getattr(found, name) for name in names}


def as_json_rows(records: Iterable[Mapping[str, Any]]) -> list[JsonRow]:
    """Return plain values as JSON texts."""
    return [{name: json.dumps(value, ensure_ascii=False, default=str) for name, value in record.items()} for record in records]


def _print_jsonl(columns: Sequence[str], rows: Iterable[JsonRow]) -> None:
    sys.stdout.writelines(jsonl_texts(columns, rows))


def _print_json(columns: Sequence[str], rows: Iterable[JsonRow]) -> None:
    sys.stdout.writelines(json_texts(columns, rows))


def _print_csv(columns: Sequence[str], rows: Iterable[JsonRow]) -> None:
    # exact in a file or a pipe
    sys.stdout.writelines(csv_texts(columns, rows, shown=_one_line if sys.stdout.isatty() else str))


def _print_table(columns: Sequence[str], rows: Iterable[JsonRow]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD if sys.stdout.isatty() else box.ASCII2)
    for name in columns:
        table.add_column(Text(_one_line(name)), overflow="fold")
    for number, row in enumerate(rows):
        if number == MOST_SHOWN:
            raise UsageError(
                f"more than {MOST_SHOWN:,} rows are too many to lay out as a table; take --format jsonl, json or csv, or fewer "
                "rows (--limit, --where); `query` also writes them to a file (--out rows.parquet) or a Delta table (--into)"
            )
        table.add_row(*(Text(_one_line(plain(row[name])), style="dim" if row[name] == "null" else "") for name in columns))
    # a file has no edge to wrap at
    width = None if sys.stdout.isatty() else _UNBOUNDED
    Console(file=sys.stdout, highlight=False, width=width).print(table)


def _one_line(text: str) -> str:
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


_PRINTERS: dict[str, Callable[[Sequence[str], Iterable[JsonRow]], None]] = {
    "table": _print_table,
    "json": _print_json,
    "jsonl": _print_jsonl,
    "csv": _print_csv,
}
