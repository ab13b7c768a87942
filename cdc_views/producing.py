"""A project's tables as a producer sees them: where events go, by the project file and the schema as they are now."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from cdc_views.api import Project
from cdc_views.errors import ConfigError, EngineError, UnsupportedError
from cdc_views.raw_places import check_lands, forgotten_of

if TYPE_CHECKING:
    from cdc_views.landing.streams import StreamLander
    from cdc_views.landing.targets import Produce
    from cdc_views.schema import TableSchema
    from cdc_views.table import Table

GROUP = "cdc_views.producers"
"""The entry points that are producers, by the source's name; each is a `Produce`."""


def open_producer(source: str) -> Produce:
    """Return the producer of a source; raises `UnsupportedError` where none is installed."""
    for entry in entry_points(group=GROUP, name=source):
        found: Produce = entry.load()
        return found
    raise UnsupportedError(
        f"no producer of {source} is installed", remedy="install cdc-views itself (a checkout is not enough): make install"
    )


@dataclass
class ProjectTarget:
    """One table of a project, for `cdc_views.landing.targets.StreamTarget`."""

    project_file: Path
    name: str
    format_name: str
    _table: Table | None = None
    _version: object = None
    _files: tuple[Path, ...] = field(default=())

    @property
    def schema(self) -> TableSchema:
        """See `StreamTarget.schema`."""
        return self._current().schema

    def lander(self, stream: str) -> StreamLander:
        """See `StreamTarget.lander`."""
        from cdc_views.landing import StreamLander

        table = self._current()
        return StreamLander(table.raw, table.format, stream, forgotten_of(table))

    def version(self) -> object:
        """See `StreamTarget.version`."""
        return tuple(map(_stamp, self._files or (self.project_file,)))

    def follow(self) -> None:
        """See `StreamTarget.follow`."""
        self._current().refresh()

    def _current(self) -> Table:
        version = self.version()
        if self._table is None or version != self._version:
            project = Project.load(self.project_file)
            table = project.table(self.name)
            check_lands(table)
            if table.config.raw.format.value != self.format_name:
                raise ConfigError(
                    f"{self.project_file}: {self.name} has `raw: {{format: {table.config.raw.format.value}}}`; "
                    f"this source's events are {self.format_name}"
                )
            table.schema  # noqa: B018  (a schema file that cannot be read is told of now)
            self._files = (self.project_file, project.root / table.config.schema_)
            self._table, self._version = table, self.version()
        return self._table


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError as error:
        raise EngineError(f"{path}: {error.strerror}; a producer needs it while it runs, for it follows its changes") from error
    return found.st_mtime_ns, found.st_size


def targets_of(project_file: Path, names: Sequence[str], *, format_name: str) -> list[ProjectTarget]:
    """Return the tables to land into, checked: those named, else all of that raw format."""
    project = Project.load(project_file)
    chosen = [table.name for table in project.select(names) if names or table.config.raw.format.value == format_name]
    if not chosen:
        raise ConfigError(f"{project_file}: has no table with `raw: {{format: {format_name}}}`, which this source's events are")
    targets = [ProjectTarget(project_file, name, format_name) for name in chosen]
    for target in targets:
        _ = target.schema
    return targets


__all__ = ["GROUP", "ProjectTarget", "open_producer", "targets_of"]
