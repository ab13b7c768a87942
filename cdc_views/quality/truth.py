"""Compares the view with answers of the source itself, captured from production in a file, apart from delay."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from cdc_views.errors import ConfigError
from cdc_views.model.schema import TableSchema
from cdc_views.quality.checks import Check
from cdc_views.rules.codec.jsontext import quote, to_json
from cdc_views.rules.oracle import Row

_AGREES = Check("agrees_with_source", "each row is what the source answered", unit="rows")
Answer = Mapping[str, Any]
"""One row of the source: plain column name → JSON value, numbers exact."""


@dataclass(frozen=True, slots=True)
class CapturedTruth:
    """One answer of the source: all rows of a table or of some keys, at `as_of` (epoch seconds)."""

    as_of: int
    answers: tuple[Answer, ...]

    @classmethod
    def open(cls, path: Path, *, as_of: int | None) -> CapturedTruth:
        """Read a file of rows in the form of `SELECT JSON *`: one object per line, or `{"as_of": …, "rows": […]}`. Raises
        `ConfigError` for an invalid file, or if neither the file nor `as_of` gives the time of capture.
        """
        try:
            said, rows = _parsed(path.read_text("utf-8"))
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror}; name a file of rows") from error
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigError(f"{path}: is no file of JSON rows, one object a line: {error}") from error
        instant = said if as_of is None else as_of
        if not isinstance(instant, int):
            raise ConfigError(f"{path}: nothing says when the source answered; give `as_of`, in epoch seconds, beside `truth`")
        return cls(instant, tuple({_plain(name): value for name, value in row.items()} for row in rows))


def agreement(schema: TableSchema, source: CapturedTruth, shown: Iterable[Row]) -> Check:
    """Return whether the view's rows, read at the time of the source's answer, equal the source's as JSON. A place names key and
    column, and shows no value but the key's.
    """
    wanted = _keyed(schema, source.answers)
    texts = ({c.name: to_json(c.type, row[c.name]) for c in schema.columns} for row in shown)
    found = _keyed(schema, ({name: json.loads(text, parse_float=Decimal) for name, text in row.items()} for row in texts))
    places = [f"{key}: the view has no such row" for key in sorted(wanted.keys() - found.keys())]
    places += [f"{key}: the source has no such row" for key in sorted(found.keys() - wanted.keys())]
    broken = len(places)
    for key in sorted(wanted.keys() & found.keys()):
        columns = [name for name, value in found[key].items() if not _is_same(wanted[key].get(name), value)]
        broken += bool(columns)
        places += [f"{key}: column {name} differs" for name in columns]
    return _AGREES.found(places, broken=broken, note=f"{len(wanted):,} rows of the source")


def _parsed(text: str) -> tuple[Any, list[dict[str, Any]]]:
    """Return the rows and the time of the answer, None if the file does not give it."""
    lines = [line for line in text.splitlines() if line.strip()]
    if lines and lines[0].strip() in ("{", "["):  # one JSON text over all lines, otherwise one per line
        lines = [text]
    said, rows = None, [json.loads(line, parse_float=Decimal) for line in lines]
    if len(rows) == 1 and isinstance(rows[0], dict) and isinstance(rows[0].get("rows"), list):
        said, rows = rows[0].get("as_of"), rows[0]["rows"]
    found = [json.loads(row, parse_float=Decimal) if isinstance(row, str) else row for row in rows]
    strange = next((row for row in found if not isinstance(row, dict)), None)
    if strange is not None:
        raise ValueError(f"{str(strange)[:40]!r} is no object of column and value")
    return said, found


def _plain(name: str) -> str:
    """Remove the quotes that SELECT JSON puts around a name with capitals."""
    return name[1:-1].replace('""', '"') if len(name) > 1 and name[0] == name[-1] == '"' else name


def _keyed(schema: TableSchema, rows: Iterable[Answer]) -> dict[str, Answer]:
    def text(value: Any) -> str:
        return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False, default=str, sort_keys=True)

    def key(row: Answer) -> str:
        return "{" + ", ".join(f"{quote(c.name)}: {text(row.get(c.name))}" for c in schema.row_key) + "}"

    return {key(row): row for row in rows}


def _is_same(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        names = {_plain(name): value for name, value in left.items()}
        others = {_plain(name): value for name, value in right.items()}
        return names.keys() == others.keys() and all(_is_same(value, others[name]) for name, value in names.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_is_same, left, right))
    if all(isinstance(value, (int, Decimal)) and not isinstance(value, bool) for value in (left, right)):
        return bool(Decimal(left) == Decimal(right))
    return type(left) is type(right) and bool(left == right)
