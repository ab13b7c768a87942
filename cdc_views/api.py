"""The Python API: projects and tables. The command line is a thin layer over it.

    >>> from cdc_views import Project                                # doctest: +SKIP
    >>> orders = Project.load("cdc_views.yml")["shop.orders"]        # doctest: +SKIP
    >>> orders.query(where="state = 'open'").to_pandas()             # doctest: +SKIP

Arrow, Delta and the engines are imported when first used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cdc_views.errors import UsageError, did_you_mean
from cdc_views.operations.context import ProjectContext
from cdc_views.operations.fidelity import FidelityLine
from cdc_views.rules.instants import Instant
from cdc_views.table import Table

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from cdc_views.operations.reading import StatementOptions
    from cdc_views.operations.statements import StatementResult
    from cdc_views.operations.writing import RowsWritten
    from cdc_views.pages.report import RunReport


@dataclass(frozen=True, repr=False)
class Project(ProjectContext):
    """A project file, and the folder that its relative paths start from. It holds its tables: `project["shop.orders"]`."""

    @classmethod
    def load(cls, path: str | Path = "cdc_views.yml", *, environment: Mapping[str, str] | None = None) -> Project:
        """Return the project at `path`; raises `ConfigError` with the line of any mistake."""
        from cdc_views.project import load_project

        file = Path(path)
        return cls(load_project(file, environment=environment), file.absolute().parent, file)

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables, in the order of the file."""
        return tuple(Table(self, config) for config in self.config.tables)

    def table(self, name: str) -> Table:
        """Return the table of this name: `shop.orders`, or `orders` if no other table's name ends so; raises `UsageError`."""
        called = [table for table in self.tables if table.is_called(name)]
        found = [table for table in called if table.name == name] or called
        if len(found) == 1:
            return found[0]
        if found:
            several = " and ".join(table.name for table in found)
            raise UsageError(f"{self.file}: {name!r} may be {several}; give the whole name")
        known = [config.name for config in self.config.tables]
        raise UsageError(f"{self.file}: has no table {name!r}{did_you_mean(name, known)}")

    __getitem__ = table

    def __iter__(self) -> Iterator[Table]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.config.tables)

    def __repr__(self) -> str:
        count = f"{len(self)} {'table' if len(self) == 1 else 'tables'}"
        return f"Project({self.config.name!r}, {self.config.engine}, {count}, {str(self.file)!r})"

    def _ipython_key_completions_(self) -> list[str]:
        return [config.name for config in self.config.tables]

    def _repr_html_(self) -> str:
        from cdc_views.operations.notebook import html_table

        rows = [
            {"table": one.name, "format": one.raw.format, "schema": one.schema_place, "raw": one.raw.table or "in the warehouse"}
            for one in self.config.tables
        ]
        note = f"engine {self.config.engine}, warehouse {self.config.warehouse}"
        return html_table(("table", "format", "schema", "raw"), rows, title=self.config.name, note=note)

    def select(self, names: Sequence[str]) -> tuple[Table, ...]:
        """Return the tables of these names, in this order; all tables if no name is given."""
        return tuple(self.table(name) for name in dict.fromkeys(names)) if names else self.tables

    def sql(self, statement: str, **asked: Unpack[StatementOptions]) -> StatementResult:
        """Return the rows of one query over merged tables, as joins and aggregates; needs neither views nor states.

        The query is in the engine's own SQL, DuckDB's or Spark's, and runs as it is written. It names tables by their whole
        names, or by the last part where no other table ends so, and reads nothing else. Columns have the types of views.

        Args:
            statement: A query that begins with SELECT, WITH or FROM.
            asked: `as_of`, `landed_as_of`, `written_as_of`, `raw_only` and `engine`, as in `Table.query`, for all tables at once.

        Raises:
            UsageError: No single query, an unknown table, something else than tables to read, or the engine refuses it.
            UnsupportedError: The engine runs no such queries (BigQuery).
            EngineError: The engine failed.
        """
        from cdc_views.operations.statements import run_statement

        return run_statement(self, statement, **asked)

    def write(
        self,
        statement: str,
        *,
        out: str | Path | None = None,
        into: str | Path | None = None,
        format: str | None = None,
        overwrite: bool = False,
        **asked: Unpack[StatementOptions],
    ) -> RowsWritten:
        """Write the rows of a query of `sql` to a file (`out`) or a Delta table (`into`); the rest is as in `Table.write`.

        Columns have the engine's types. Memory does not grow with the rows, and on Spark this process writes them.

        Raises:
            UsageError: As `sql`, a type or a name that the format does not have, or something is there that must stay.
            ConflictError: Somebody else wrote the table meanwhile.
            EngineError: The engine or the target failed.
        """
        from cdc_views.operations.writing_statements import write_statement

        return write_statement(self, statement, out=out, into=into, format=format, overwrite=overwrite, **asked)

    def report(
        self,
        out: str | Path,
        *,
        tables: Sequence[Table] = (),
        now: Instant | None = None,
        as_of: Instant | None = None,
        engine: str | None = None,
        dialects: Sequence[str] = (),
        recent: int = 5,
        with_values: bool = False,
        results: Path | None = None,
    ) -> RunReport:
        """Write a static site of the project into a folder, and return its content; see `cdc_views.pages.report.report_of`."""
        from cdc_views.pages.report import report_of, write_site

        found = report_of(
            self, tables=tables, now=now, as_of=as_of, engine=engine, dialects=dialects, recent=recent,
            with_values=with_values, results=results,
        )  # fmt: skip
        write_site(found, Path(out))
        return found


__all__ = ["FidelityLine", "Project", "Table"]
