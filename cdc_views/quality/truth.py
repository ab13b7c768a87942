"""What the source itself answered, in a file captured from production, and whether the view agrees with it, barring delay."""

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

_AGREES = Check("agrees_with_source", "each row is what the source answered, cell by cell, barring delay", unit="rows")
Answer = Mapping[str, Any]
"""One row of the source: plain column name → value as JSON has it, numbers exact."""


@dataclass(frozen=True, slots=True)
class CapturedTruth:
    """What the source answered once: all rows of a table or those of some keys; `as_of`: when, in epoch seconds."""

    as_of: int
    answers: tuple[Answer, ...]

    @classmethod
    def open(cls, path: Path, *, as_of: int | None) -> CapturedTruth:
        """Read a file of rows as `SELECT JSON *` gives them: one object a line, or `{"as_of": …, "rows": […]}`.

        Raises `ConfigError` for a file that is not there, is no such file, or does not say when it was captured where
        `as_of` does not either.
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
    """Return whether the view's rows, read as of when the source answered, are the source's.

    Values are compared as the JSON they are; a place names the key and the column, and no value but the key's.
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
    """When the source answered, None where the file does not say, and its rows."""
    lines = [line for line in text.splitlines() if line.strip()]
    if lines and lines[0].strip() in ("{", "["):  # one JSON text over all lines, else one a line
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
    """SELECT JSON puts quotes inside the key of a name with capitals."""
    return name[1:-1].replace('""', '"') if len(name) > 1 and name[0] == name[-1] == '"' else name


def _keyed(schema: TableSchema, rows: Iterable[Answer]) -> dict[str, Answer]:
    def text(value: Any) -> str:
        return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False, default=str, sort_keys=True)

    def key(row: Answer) -> str:
        return "{" + ", ".join(f"{quote(c.name)}: {text(row.get(c.name))}" for c in schema.row_key) + "}"

    return {key(row): row for row in rows}


def _is_same(left: Any, right: Any) -> bool:
    """Equal as JSON; numbers as the numbers they are, exactly."""
    if isinstance(left, dict) and isinstance(right, dict):
        names = {_plain(name): value for name, value in left.items()}
        others = {_plain(name): value for name, value in right.items()}
        return names.keys() == others.keys() and all(_is_same(value, others[name]) for name, value in names.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_is_same, left, right))
    if all(isinstance(value, (int, Decimal)) and not isinstance(value, bool) for value in (left, right)):
        return bool(Decimal(left) == Decimal(right))
    return type(left) is type(right) and bool(left == right)
