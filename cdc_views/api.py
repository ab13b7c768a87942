"""The Python API: projects and tables. The command line is a thin layer over it.

    >>> from cdc_views import Project                                # doctest: +SKIP
    >>> orders = Project.load("cdc_views.yml").table("shop.orders")  # doctest: +SKIP
    >>> orders.query(where="state = 'open'").to_pandas()             # doctest: +SKIP

Arrow, Delta and the engines are imported when first used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc_views.errors import UsageError, did_you_mean
from cdc_views.operations.context import ProjectContext
from cdc_views.operations.fidelity import FidelityLine
from cdc_views.table import Table

if TYPE_CHECKING:
    from cdc_views.report import RunReport


@dataclass(frozen=True)
class Project(ProjectContext):
    """A project file, and the folder that its relative paths start from."""

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
        """Return the table of exactly this name; raises `UsageError` with a suggestion."""
        for config in self.config.tables:
            if config.name == name:
                return Table(self, config)
        known = [config.name for config in self.config.tables]
        raise UsageError(f"{self.file}: has no table {name!r}{did_you_mean(name, known)}")

    def select(self, names: Sequence[str]) -> tuple[Table, ...]:
        """Return the tables of these names, in this order; all tables if no name is given."""
        return tuple(self.table(name) for name in dict.fromkeys(names)) if names else self.tables

    def report(self, out: str | Path, **options: Any) -> RunReport:
        """Write a static site of the project into a folder, and return its content; see `cdc_views.report.report_of`."""
        from cdc_views.report import report_of, write_site

        found = report_of(self, **options)
        write_site(found, Path(out))
        return found


__all__ = ["FidelityLine", "Project", "Table"]
