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
    from cdc_views.engines.warehouses import WarehouseEngine
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
        for config in self.config.tables:
            if config.name == name:
                return Table(self, config)
        known = [config.name for config in self.config.tables]
        raise UsageError(f"{self.file}: has no table {name!r}{did_you_mean(name, known)}")

    def select(self, names: Sequence[str]) -> tuple[Table, ...]:
        """Return the tables of those names, in that order; all of them where no name is given."""
        return tuple(self.table(name) for name in dict.fromkeys(names)) if names else self.tables

    @property
    def warehouse(self) -> Path:
        """The local folder of views and state."""
        from cdc_views.project.paths import is_url

        self.check_raw_tables_are_local()
        if is_url(self.config.warehouse):
            raise UnsupportedError(
                f"{self.file}: warehouse {self.config.warehouse} is not a local path", remedy="name a local folder for now"
            )
        folder = self.root / self.config.warehouse
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"{self.file}: warehouse {folder} is a file; name a folder")
        return folder

    def check_raw_tables_are_local(self) -> None:
        """Raise `UnsupportedError` where raw tables are in BigQuery, for what only works with Delta tables."""
        if self.is_remote:
            raise UnsupportedError(
                f"{self.file}: with `engine: bigquery` raw tables live in BigQuery, and this works on Delta tables alone",
                remedy="use engine duckdb or spark for it; docs/bigquery.md lists what runs in BigQuery",
            )

    @property
    def is_remote(self) -> bool:
        """Whether raw tables, views and state are in a warehouse that is not on this machine."""
        return self.config.engine.value == "bigquery"

    def report(self, out: str | Path, **options: Any) -> RunReport:
        """Write a static site of the project into a folder, and return what it tells; see `cdc_views.report.report_of`."""
        from cdc_views.report import report_of, write_site

        found = report_of(self, **options)
        write_site(found, Path(out))
        return found

    @contextmanager
    def engine(self, name: str | None = None) -> Iterator[Engine]:
        """Open an engine, by default the project's; closed at the end."""
        engine = self._opened(self.config.engine.value if name is None else name)
        try:
            yield engine
        finally:
            engine.close()

    @contextmanager
    def remote(self) -> Iterator[WarehouseEngine]:
        """Open the warehouse that keeps the raw tables; raises `UnsupportedError` where this machine does."""
        from cdc_views.engines.warehouses import warehouse

        if not self.is_remote:
            raise UnsupportedError(
                f"{self.file}: this is of engine bigquery, and the project's is {self.config.engine.value}",
                remedy="set `engine: bigquery` and `warehouse: project.dataset`",
            )
        engine = warehouse(self.config.engine.value).open(self.config)
        try:
            yield engine
        finally:
            engine.close()

    def _opened(self, name: str) -> Engine:
        from cdc_views.engines import ENGINES, open_engine
        from cdc_views.engines.warehouses import warehouse

        if self.is_remote and name == self.config.engine.value:
            return warehouse(name).open(self.config)
        if self.is_remote and name in ENGINES:
            raise UnsupportedError(
                f"{self.file}: the raw tables are in BigQuery, which engine {name} does not read", remedy="leave --engine out"
            )
        return open_engine(name, warehouse=self.root if self.is_remote else self.warehouse)


__all__ = ["FidelityLine", "Project", "Table"]
