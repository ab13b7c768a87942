"""The seam between a plan and where it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from cdc_views.relation import RawTable
from cdc_views.strategy import Strategy


@dataclass(frozen=True, slots=True)
class Read:
    """One read of a merged table.

    `as_of` (epoch seconds) is the clock of rule C4 and drops nothing; `landed_as_of` and `written_as_of` (µs)
    drop facts landed or written later. `columns` are user names in the wanted order, empty for all; `where` is a
    boolean expression over the view's columns in DuckDB's dialect. `is_ordered` sorts rows as `query` prints them.
    """

    raw: RawTable
    as_of: int
    columns: tuple[str, ...] = ()
    where: str | None = None
    limit: int | None = None
    strategy: Strategy = Strategy.AUTO
    landed_as_of: int | None = None
    written_as_of: int | None = None
    is_ordered: bool = True


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """A view to create: its name where it will live, and the table it shows."""

    schema: str
    """Namespace (DuckDB schema, Spark database); created when missing."""
    name: str
    raw: RawTable
    strategy: Strategy = Strategy.AUTO


class Engine(Protocol):
    """Somewhere plans run. Close it when done; it is a context manager too."""

    name: str

    def read(self, read: Read) -> pa.Table:
        """Return the rows in exact form: what `engines.exact.rows_of` turns into native values."""

    def sql(self, read: Read) -> str:
        """Return the SQL text that `read` runs."""

    def apply(self, view: ViewDefinition) -> str:
        """Create or replace a view with friendly types; returns the statement that did it."""

    def close(self) -> None:
        """Release what the engine holds."""

