"""The Python API: a project, its tables, and what can be asked of them. The command line is a thin layer over it.

    >>> from cdc_views import Project                                # doctest: +SKIP
    >>> orders = Project.load("cdc_views.yml").table("shop.orders")  # doctest: +SKIP
    >>> orders.query(where="state = 'open'").to_pandas()             # doctest: +SKIP

Arrow, Delta and the engines are imported when first used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc_views.errors import ConfigError, UnsupportedError, UsageError, did_you_mean
from cdc_views.table import FidelityLine, Table

if TYPE_CHECKING:
    from cdc_views.engines.base import Engine
    from cdc_views.project import ProjectConfig
    from cdc_views.report import RunReport


@dataclass(frozen=True)
class Project:
    """A project file and the folder that its relative paths start from."""

    config: ProjectConfig
    root: Path
    file: Path

    @classmethod
    def load(cls, path: str | Path = "cdc_views.yml", *, environment: Mapping[str, str] | None = None) -> Project:
        """Return the project at `path`; raises `ConfigError` with the line of any mistake."""
        from cdc_views.project import load_project

        file = Path(path)
        return cls(load_project(file, environment=environment), file.absolute().parent, file)

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables, in the file's order."""
        return tuple(Table(self, config) for config in self.config.tables)

    def table(self, name: str) -> Table:
        """Return the table of exactly that name; raises `UsageError` with a suggestion."""
        for table in self.tables:
            if table.name == name:
                return table
        known = [table.name for table in self.tables]
        raise UsageError(f"{self.file}: has no table {name!r}{did_you_mean(name, known)}")

    def select(self, names: Sequence[str]) -> tuple[Table, ...]:
        """Return the tables of those names, in that order; all of them where no name is given."""
        return tuple(self.table(name) for name in dict.fromkeys(names)) if names else self.tables

    @property
    def warehouse(self) -> Path:
        """The local folder of views and state."""
        from cdc_views.project.paths import is_url

        if is_url(self.config.warehouse):
            raise UnsupportedError(
                f"{self.file}: warehouse {self.config.warehouse} is not a local path", remedy="name a local folder for now"
            )
        folder = self.root / self.config.warehouse
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"{self.file}: warehouse {folder} is a file; name a folder")
        return folder

    def check_raw_tables_are_local(self) -> None:
        """Raise `UnsupportedError` where raw tables belong into BigQuery: landing beside it would mislead."""
        if self.config.engine.value == "bigquery":
            raise UnsupportedError(
                f"{self.file}: with `engine: bigquery` raw tables live in BigQuery, where events cannot be landed yet",
                remedy="use engine duckdb or spark",
            )

    def report(self, out: str | Path, **options: Any) -> RunReport:
        """Write a static site of the project into a folder, and return what it tells; see `cdc_views.report.report_of`."""
        from cdc_views.report import report_of, write_site

        found = report_of(self, **options)
        write_site(found, Path(out))
        return found

    @contextmanager
    def engine(self, name: str | None = None) -> Iterator[Engine]:
        """Open an engine, by default the project's; closed at the end."""
        from cdc_views.engines import open_engine

        engine = open_engine(self.config.engine.value if name is None else name, warehouse=self.warehouse)
        try:
            yield engine
        finally:
            engine.close()


__all__ = ["FidelityLine", "Project", "Table"]
