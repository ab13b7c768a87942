"""A project's tables for producers: the targets of events, by the current project file and schema."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from cdc_views.api import Project
from cdc_views.errors import CdcViewsError, ConfigError, UnsupportedError
from cdc_views.landing.targets import ProducerProject
from cdc_views.model.extras import load
from cdc_views.operations.ingest import check_lands
from cdc_views.project.paths import is_live_source

if TYPE_CHECKING:
    from cdc_views.formats.base import RawFormat
    from cdc_views.landing.producers import Producer
    from cdc_views.landing.streams import StreamLander
    from cdc_views.landing.targets import ProducerLog, ProducerOrder, Publish
    from cdc_views.model.schema import TableSchema
    from cdc_views.storage.relation import RawTable
    from cdc_views.table import Table

GROUP = "cdc_views.producers"
"""Entry points of producers, by source; each is a `Producer`."""

TARGETS = "cdc_views.targets"
"""Entry points of destinations, by the scheme of their address; each is a `Publish`."""


def producer_names() -> list[str]:
    """Return the sources with an installed producer; raises `UnsupportedError` if there are none."""
    names = sorted({entry.name for entry in entry_points(group=GROUP)})
    if not names:
        raise UnsupportedError(
            "no producer is installed", remedy="install cdc-views itself (a checkout is not enough): make install"
        )
    return names


def find_producer(source: str) -> Producer | None:
    """Return the producer of a source; None if it is not installed."""
    for entry in entry_points(group=GROUP, name=source):
        found: Producer = load(entry, what=f"`produce {source}`", extra="producers")
        return found
    return None


def with_destination(order: ProducerOrder) -> ProducerOrder:
    """Return the order with targets at its address `to`; raises `UnsupportedError` for an unknown scheme."""
    if order.to is None:
        return order
    scheme, sign, _ = order.to.address.partition("://")
    for entry in entry_points(group=TARGETS, name=scheme) if sign else ():
        publish: Publish = load(entry, what=f"publishing to {scheme}://", extra="producers")
        return publish(order)
    known = ", ".join(sorted({f"{entry.name}://HOST:PORT" for entry in entry_points(group=TARGETS)}))
    remedy = f"give --to {known}" if known else "install cdc-views itself, as in `make install`: a checkout is not enough"
    raise UnsupportedError(f"nothing can be published to {order.to.address!r}", remedy=remedy)


Naming = tuple[str | None, str]
"""What the project file says of a raw table's place: `raw.table` and `warehouse`."""


@dataclass
class ProjectTarget:
    """One table of a project as a `cdc_views.landing.targets.StreamTarget`; `format_name`: its raw format, None: any."""

    project_file: Path
    name: str
    format_name: str | None
    log: ProducerLog
    _table: Table | None = None
    _version: object = None
    _files: tuple[Path, ...] = field(default=())
    _was: tuple[RawTable, Naming] | None = None
    _one_at_a_time: Lock = field(default_factory=Lock)

    @property
    def schema(self) -> TableSchema:
        """See `StreamTarget.schema`."""
        return self._current().source_schema

    @property
    def schema_file(self) -> Path | None:
        """See `StreamTarget.schema_file`."""
        self._current()
        return self._files[1] if len(self._files) > 1 else None

    @property
    def raw(self) -> RawTable:
        """The raw table."""
        return self._current().raw

    @property
    def place(self) -> str:
        """See `StreamTarget.place`."""
        return self.raw.location

    @property
    def format(self) -> RawFormat:
        """See `StreamTarget.format`."""
        return self._current().format

    def lander(self, stream: str) -> StreamLander:
        """See `StreamTarget.lander`; raises `EngineError` if a known raw table is missing, perhaps only for a while."""
        from cdc_views.landing.raw_table import exists, gone

        table = self._current()
        naming = (table.config.raw.table, table.project.config.warehouse)
        was, was_named = self._was or (None, naming)
        if was is not None and was_named == naming and not exists(was) and not exists(table.raw):
            raise gone(was)  # before a lander would create it again, here or where an unnamed one begins
        lander = table.stream(stream)
        self._was = (lander.raw, naming) if exists(lander.raw) else None
        return lander

    def version(self) -> object:
        """See `StreamTarget.version`."""
        return tuple(map(_stamp, self._files or (self.project_file,)))

    def follow(self) -> None:
        """See `StreamTarget.follow`."""
        from cdc_views.operations.applying import refresh_view

        refresh_view(self._current())

    def _current(self) -> Table:
        """Return the table by the current files, or by the last valid ones if those became invalid."""
        with self._one_at_a_time:
            version = self.version()
            if self._table is None:
                self._table = self._load()
                self._version = self.version()
            elif version != self._version:
                self._version = version
                try:
                    self._table = self._load()
                    self.log.info(f"{self.name}: follows the changed schema or project file", table=self.name)
                except CdcViewsError as error:
                    self.log.warning(f"{error}; {self.name} lands by the files as they were", table=self.name)
            return self._table

    def _load(self) -> Table:
        project = Project.load(self.project_file)
        table = project.table(self.name)
        check_lands(table)
        if self.format_name not in (None, table.config.raw.format):
            raise ConfigError(
                f"{self.project_file}: {self.name} has `raw: {{format: {table.config.raw.format}}}`; "
                f"this source's events are {self.format_name}"
            )
        _ = table.schema, table.format  # reports an unreadable schema file now, and policies that do not fit it
        named = table.config.schema_
        self._files = (self.project_file,) if is_live_source(named) else (self.project_file, project.root / named)
        return table


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def _ours(project: Project, format_name: str | None) -> list[str]:
    of_format = [table for table in project.tables if format_name in (None, table.config.raw.format)]
    return [table.name for table in of_format if not table.is_external]


def chosen_names(project_file: Path, *, format_name: str | None) -> list[str]:
    """Return the names of the tables that a producer takes without `--table`; raises an error if one's schema is unreadable."""
    project = Project.load(project_file)
    names = _ours(project, format_name)
    for name in names:
        _ = project.table(name).schema
    return names


def targets_of(project_file: Path, names: Sequence[str], *, format_name: str | None, log: ProducerLog) -> list[ProjectTarget]:
    """Return the tables to land into, checked: those in `names`, otherwise all of ours of that raw format (None: of any)."""
    project = Project.load(project_file)
    project.check_raw_tables_are_local()
    if names:
        chosen = [table.name for table in project.select(names)]
    else:
        chosen = _ours(project, format_name)
        for table in project.tables:
            if table.is_external and format_name in (None, table.config.raw.format):
                log.info(f"{table.name}: somebody else lands it (`layout: as-found`); its events are not taken", table=table.name)
    if not chosen:
        of_source = f"table with `raw: {{format: {format_name}}}`, which this source's events are"
        wanted = of_source if format_name else "table to land into"
        raise ConfigError(f"{project_file}: has no {wanted}; add one without `layout: as-found`")
    targets = [ProjectTarget(project_file, name, format_name, log) for name in chosen]
    for target in targets:
        _ = target.schema
    return targets


def facts_of(project_file: Path) -> ProducerProject:
    """Return a project for a producer."""
    project = Project.load(project_file)
    return ProducerProject(
        name="cdc_views_" + re.sub(r"[^a-z0-9_]", "_", project.config.name.lower())[:50],
        folder=project_file.parent,
        warehouse=project.warehouse if isinstance(project.warehouse, Path) else None,
        topics={table.name: table.config.raw.topics for table in project.tables},
    )
