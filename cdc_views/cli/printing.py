"""Prints rows on standard output, as a table for people, or as json, jsonl or csv, from JSON texts by column."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cdc_views.errors import UsageError, did_you_mean
from cdc_views.rules.codec.jsontext import JsonRow, quote

_UNBOUNDED = 1_000_000
_UNSEEN = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
"""Characters that JSON allows in texts, but terminals act on: DEL, C1 controls, direction marks, line separators."""


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


def _object(columns: Sequence[str], row: JsonRow) -> str:
    line = "{" + ", ".join(f"{quote(name)}: {row[name]}" for name in columns) + "}"
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def _print_jsonl(columns: Sequence[str], rows: Iterable[JsonRow]) -> None:
    for row in rows:
        sys.stdout.write(_object(columns, row) + "\n")


def _print_json(columns: Sequence[str], rows: Iterable[JsonRow]) -> None:
    separator = "\n  "
    sys.stdout.write("[")
    for row in rows:
        sys.stdout.write(separator + _object(columns, row))
        separator = ",\n  "
    sys.stdout.write("]\n" if separator == "\n  " else "\n]\n")


def _print_csv(columns: Sequence[str], rows: Iterable[JsonRow]) -> None:
    """Print RFC 4180; null is an empty field, and an empty text is `""`. Exact in a file or a pipe, since CSV has no escapes; on
    a terminal, escapes control characters.
    """
    shown = _one_line if sys.stdout.isatty() else str
    sys.stdout.write(",".join(_csv_field(shown(name)) for name in columns) + "\r\n")
    for row in rows:
        fields = ["" if row[name] == "null" else _csv_field(shown(_plain(row[name]))) for name in columns]
        sys.stdout.write(",".join(fields) + "\r\n")


def _csv_field(text: str) -> str:
    needs_quotes = not text or any(letter in text for letter in ',"\r\n') or text != text.strip()
    return '"' + text.replace('"', '""') + '"' if needs_quotes else text


def _plain(text: str) -> str:
    """Return the text of a JSON string; other JSON stays."""
    return str(json.loads(text)) if text.startswith('"') else text


def _print_table(columns: Sequence[str], rows: Iterable[JsonRow]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD if sys.stdout.isatty() else box.ASCII2)
    for name in columns:
        table.add_column(Text(_one_line(name)), overflow="fold")
    for row in rows:
        table.add_row(*(Text(_one_line(_plain(row[name])), style="dim" if row[name] == "null" else "") for name in columns))
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
