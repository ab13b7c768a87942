"""Rows of JSON texts as json, jsonl or csv, piece by piece."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from cdc_views.rules.codec.jsontext import JsonRow, quote

_UNSEEN = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
"""Characters that JSON allows in texts, but terminals act on: DEL, C1 controls, direction marks, line separators."""


def jsonl_texts(columns: Sequence[str], rows: Iterable[JsonRow]) -> Iterator[str]:
    """Yield one line a row."""
    for row in rows:
        yield _object(columns, row) + "\n"


def json_texts(columns: Sequence[str], rows: Iterable[JsonRow]) -> Iterator[str]:
    """Yield the parts of one array."""
    separator = "\n  "
    yield "["
    for row in rows:
        yield separator + _object(columns, row)
        separator = ",\n  "
    yield "]\n" if separator == "\n  " else "\n]\n"


def csv_texts(columns: Sequence[str], rows: Iterable[JsonRow], *, shown: Callable[[str], str] = str) -> Iterator[str]:
    """Yield the lines of RFC 4180, names first; null is an empty field, and an empty text is `""`. `shown` is called with each
    text: CSV has no escapes.
    """
    yield ",".join(_csv_field(shown(name)) for name in columns) + "\r\n"
    for row in rows:
        fields = ["" if row[name] == "null" else _csv_field(shown(plain(row[name]))) for name in columns]
        yield ",".join(fields) + "\r\n"


TEXTS: Mapping[str, Callable[[Sequence[str], Iterable[JsonRow]], Iterator[str]]] = {
    "json": json_texts,
    "jsonl": jsonl_texts,
    "csv": csv_texts,
}
"""The format of each name."""


def plain(text: str) -> str:
    """Return the text of a JSON string; other JSON stays."""
    return str(json.loads(text)) if text.startswith('"') else text


def _object(columns: Sequence[str], row: JsonRow) -> str:
    line = "{" + ", ".join(f"{quote(name)}: {row[name]}" for name in columns) + "}"
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def _csv_field(text: str) -> str:
    needs_quotes = not text or any(letter in text for letter in ',"\r\n') or text != text.strip()
    return '"' + text.replace('"', '""') + '"' if needs_quotes else text
