"""Prints rows on standard output: for people as a table or vertically, else as json, jsonl or csv, from JSON texts by column."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdc_views.cli.log import log
from cdc_views.errors import UsageError, choose_one
from cdc_views.rules.codec.jsontext import JsonRow
from cdc_views.rules.codec.row_texts import csv_texts, json_texts, jsonl_texts, plain
from cdc_views.rules.codec.times import instant_text, second_text

if TYPE_CHECKING:
    from rich.table import Table

_UNBOUNDED = 1_000_000
MOST_SHOWN = 100_000
"""Rows of a table for people, which has to hold all of them for the widths of its columns."""


@dataclass(frozen=True, slots=True)
class Appearance:
    """How people see rows, in a table or vertically; the other formats print every column as it is.

    `micros` and `seconds` are columns of times since the epoch, shown as ISO 8601. `optional` columns are left out if all rows
    have null there. `copies` are lists, shown as each value once with its number. `null` is what a null looks like. A table cuts
    values after `longest` characters, and the log says so. `is_wide_vertical`: a terminal that is too narrow for the table shows
    the rows vertically.
    """

    micros: frozenset[str] = frozenset()
    seconds: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    copies: frozenset[str] = frozenset()
    null: str = "null"
    longest: int = _UNBOUNDED
    is_wide_vertical: bool = False

    def text(self, name: str, value: str) -> str:
        """Return the text of a JSON value."""
        if value == "null":
            return self.null
        if name in self.micros:
            return instant_text(int(value))
        if name in self.seconds:
            return second_text(int(value))
        if name in self.copies:
            return _one_line(", ".join(_counted(json.loads(value))))
        return _one_line(plain(value))

    def cut(self, name: str, value: str) -> str:
        """Return the text of a JSON value, not longer than people read in a table."""
        text = self.text(name, value)
        return text if len(text) <= self.longest or name in self.copies else f"{text[: self.longest]}… ({len(text):,} characters)"


PLAIN = Appearance()
ROWS = Appearance(longest=120, is_wide_vertical=True)
"""Rows of merged tables."""
WRITTEN = Appearance(micros=frozenset({"written", "purged_through"}), optional=frozenset({"path"}), null="")
"""Parts of facts, which only sources with write times have."""


def check_format(name: str) -> str:
    """Return `name` if it is a format for rows; raises `UsageError` with a suggestion."""
    if name not in _PRINTERS:
        if name == "parquet":
            raise UsageError("--format parquet is of files; name one with `query --out FILE`")
        raise UsageError(f"--format is {name!r}; {choose_one(name, _PRINTERS)}")
    return name


def print_rows(columns: Sequence[str], rows: Iterable[JsonRow], *, format: str, appearance: Appearance = PLAIN) -> None:
    """Print the rows; `columns` defines the order."""
    _PRINTERS[check_format(format)](columns, rows, appearance)


def fields_of(found: object, names: Iterable[str]) -> dict[str, Any]:
    """Return some attributes of an object as a record."""
    return {name: getattr(found, name) for name in names}


def as_json_rows(records: Iterable[Mapping[str, Any]]) -> list[JsonRow]:
    """Return plain values as JSON texts."""
    return [{name: json.dumps(value, ensure_ascii=False, default=str) for name, value in record.items()} for record in records]


def _print_jsonl(columns: Sequence[str], rows: Iterable[JsonRow], _: Appearance) -> None:
    sys.stdout.writelines(jsonl_texts(columns, rows))


def _print_json(columns: Sequence[str], rows: Iterable[JsonRow], _: Appearance) -> None:
    sys.stdout.writelines(json_texts(columns, rows))


def _print_csv(columns: Sequence[str], rows: Iterable[JsonRow], _: Appearance) -> None:
    # exact in a file or a pipe
    sys.stdout.writelines(csv_texts(columns, rows, shown=_one_line if sys.stdout.isatty() else str))


def _print_table(columns: Sequence[str], rows: Iterable[JsonRow], appearance: Appearance) -> None:
    from rich.console import Console
    from rich.measure import Measurement

    kept = _at_most(rows, MOST_SHOWN)
    names = [name for name in columns if name not in appearance.optional or any(row[name] != "null" for row in kept)]
    table = _table(names, kept, appearance)
    # a file has no edge to wrap at
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else _UNBOUNDED)
    wanted = Measurement.get(console, console.options.update(max_width=_UNBOUNDED), table).maximum
    if appearance.is_wide_vertical and wanted > console.width:
        sys.stdout.writelines(_vertical(names, kept, appearance.cut))
    else:
        console.print(table)
    _tell_of_cuts(names, kept, appearance)


def _tell_of_cuts(names: Sequence[str], rows: Iterable[JsonRow], appearance: Appearance) -> None:
    cut = [name for name in names if any(len(row[name]) > appearance.longest for row in rows)]
    if any(appearance.cut(name, row[name]) != appearance.text(name, row[name]) for name in cut for row in rows):
        log.info(
            f"values are cut after {appearance.longest} characters; `--format vertical`, jsonl, json and csv print them whole"
        )


def _counted(values: Sequence[object]) -> Iterator[str]:
    for value, count in Counter(map(str, values)).items():
        yield value if count == 1 else f"{value} ×{count}"


def _table(columns: Sequence[str], rows: Iterable[JsonRow], appearance: Appearance) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD if sys.stdout.isatty() else box.ASCII2)
    for name in columns:
        table.add_column(Text(_one_line(name)), overflow="fold")
    for row in rows:
        table.add_row(*(Text(appearance.cut(name, row[name]), style="dim" if row[name] == "null" else "") for name in columns))
    return table


def _at_most(rows: Iterable[JsonRow], most: int) -> list[JsonRow]:
    kept: list[JsonRow] = []
    for row in rows:
        if len(kept) == most:
            raise UsageError(
                f"more than {most:,} rows are too many to lay out as a table; take --format vertical, jsonl, json or csv, or "
                "fewer rows (--limit, --where); `query` also writes them to a file (--out rows.parquet) or a Delta table (--into)"
            )
        kept.append(row)
    return kept


def _print_vertical(columns: Sequence[str], rows: Iterable[JsonRow], appearance: Appearance) -> None:
    sys.stdout.writelines(_vertical(columns, rows, appearance.text))


def _vertical(columns: Sequence[str], rows: Iterable[JsonRow], text: Callable[[str, str], str]) -> Iterator[str]:
    """Yield the lines of each row: its number, then a line a column."""
    from rich.cells import cell_len, set_cell_size

    names = {name: _one_line(name) for name in columns}
    width = max(map(cell_len, names.values()), default=0)
    for number, row in enumerate(rows, start=1):
        yield f"-[ {number} ]".ljust(width + 1, "-") + "\n"
        yield from (f"{set_cell_size(shown, width)} | {text(name, row[name])}\n" for name, shown in names.items())


def _one_line(text: str) -> str:
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


_PRINTERS: dict[str, Callable[[Sequence[str], Iterable[JsonRow], Appearance], None]] = {
    "table": _print_table,
    "vertical": _print_vertical,
    "json": _print_json,
    "jsonl": _print_jsonl,
    "csv": _print_csv,
}
FORMATS = "|".join(_PRINTERS)
"""The names of the formats, for help texts."""
