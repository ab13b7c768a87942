"""A project and its tables for operations, before anything is read. `cdc_views.api` adds the verbs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from cdc_views.errors import ConfigError, SchemaError, UnknownColumnError, UnsupportedError
from cdc_views.model.catalog_names import CatalogName
from cdc_views.model.column_policies import ExtraColumns
from cdc_views.storage.generations import Generations
from cdc_views.storage.places import Place, place_of
from cdc_views.storage.stores import is_url, options_of, use_options

if TYPE_CHECKING:
    from cdc_views.engines.base import Engine
    from cdc_views.engines.catalogs import CatalogEngine
    from cdc_views.engines.plugin import EnginePlugin
    from cdc_views.engines.warehouses import WarehouseEngine, WarehousePlugin
    from cdc_views.formats.base import RawFormat
    from cdc_views.formats.redaction import Redaction
    from cdc_views.model.schema import TableSchema
    from cdc_views.project import ProjectConfig, TableConfig
    from cdc_views.schemas.live import LiveSchemas
    from cdc_views.storage.relation import RawTable, Relation


def reach(config: ProjectConfig, url: str) -> None:
    """Let accesses below a URL use `storage_options:`, and engines that are opened later reach it; nothing for a path."""
    if is_url(url):
        use_options(url, config.storage_options or options_of(url))


@dataclass(frozen=True)
class ProjectContext:
    """A project file and the folder that its relative paths start from."""

    config: ProjectConfig
    root: Path
    file: Path

    def __post_init__(self) -> None:
        """Let every later access to the project's stores use `storage_options:`."""
        # a quarantine is beside its raw table
        raws = (table.raw.table.rstrip("/").rpartition("/")[0] for table in self.config.tables if table.raw.table is not None)
        for url in (self.config.warehouse, *raws):
            reach(self.config, url)

    @property
    def tables(self) -> Sequence[TableContext]:
        """The tables, in the order of the file."""
        return tuple(TableContext(self, config) for config in self.config.tables)

    @property
    def warehouse(self) -> Place:
        """The folder of views and state, on this machine or on a store."""
        self.check_raw_tables_are_local()
        if is_url(self.config.warehouse):
            return place_of(self.config.warehouse)
        folder = self.root / self.config.warehouse
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"{self.file}: warehouse {folder} is a file; name a folder")
        return folder

    def check_raw_tables_are_local(self) -> None:
        """Raise `UnsupportedError` if the raw tables are in a remote warehouse instead of Delta."""
        from cdc_views.engines.plugin import engines_that

        if self.is_remote:
            others = " or ".join(engines_that(lambda plugin: not plugin.keeps_tables))
            name, title = self.engine_plugin.name, self.engine_plugin.title
            raise UnsupportedError(
                f"{self.file}: with `engine: {name}` raw tables live in {title}, and this works on Delta tables alone",
                remedy=f"use engine {others} for it; docs/how-to/tools/{name}.md lists what runs in {title}",
            )

    @cached_property
    def engine_plugin(self) -> EnginePlugin:
        """The declaration of the project's engine."""
        from cdc_views.engines.plugin import engine_plugin

        return engine_plugin(self.config.engine)

    @property
    def is_remote(self) -> bool:
        """Whether raw tables, views and state are in a remote warehouse."""
        return self.engine_plugin.keeps_tables

    @property
    def warehouse_plugin(self) -> WarehousePlugin:
        """The declaration of the remote warehouse; raises `UnsupportedError` for a local one."""
        from cdc_views.engines.plugin import engines_that
        from cdc_views.engines.warehouses import WarehousePlugin

        if not isinstance(self.engine_plugin, WarehousePlugin):
            others = " or ".join(engines_that(lambda plugin: plugin.keeps_tables))
            raise UnsupportedError(
                f"{self.file}: this is of engine {others}, and the project's is {self.config.engine}",
                remedy=f"set `engine: {others}`, and `warehouse:` to a place in it",
            )
        return self.engine_plugin

    def engine(self, name: str | None = None) -> AbstractContextManager[Engine]:
        """Open an engine, by default the project's; the context closes it."""
        from cdc_views.engines.plugin import engine_plugin, open_engine
        from cdc_views.engines.warehouses import WarehousePlugin

        name = self.config.engine if name is None else name
        plugin = engine_plugin(name)
        if self.is_remote and name != self.config.engine:
            raise UnsupportedError(
                f"{self.file}: the raw tables are in {self.engine_plugin.title}, which engine {name} does not read",
                remedy="leave --engine out",
            )
        if isinstance(plugin, WarehousePlugin) and not self.is_remote:
            raise UnsupportedError(
                f"engine {name} reads raw tables that are in {plugin.title}, and this project's are not",
                remedy=f"set `engine: {name}` and `warehouse: {plugin.place}` in the project file",
            )
        return closing(open_engine(name, self.config, folder=self.root if self.is_remote else self.warehouse))

    @contextmanager
    def catalogs(self) -> Iterator[CatalogEngine]:
        """Open the project's engine to ask its catalogs; see `EnginePlugin.catalog`."""
        from cdc_views.engines.catalogs import CatalogEngine

        with self.engine() as opened:
            assert isinstance(opened, CatalogEngine)
            yield opened

    @cached_property
    def live_schemas(self) -> LiveSchemas:
        """The tables whose `schema:` is the address of a running source."""
        from cdc_views.schemas.live import LiveSchemas

        return LiveSchemas(tuple((config.schema_, config.name) for config in self.config.tables))

    @cached_property
    def _located(self) -> dict[CatalogName, str]:
        return {}

    def located(self, name: CatalogName, *, engine: CatalogEngine | None = None) -> str:
        """Return the location of a table of a catalog, which is asked once: an engine may take seconds to start. `engine` is one
        that is open.

        Raises `NoSuchTableError`, and `UsageError` for what is no Delta table, or is where nothing but the engine can read.
        """
        if name not in self._located:
            with self.catalogs() if engine is None else nullcontext(engine) as opened:
                found = opened.locate(name)
            _check_reached(self.config, name, found)
            self._located[name] = found
        return self._located[name]

    def remote(self) -> AbstractContextManager[WarehouseEngine]:
        """Open the remote warehouse; raises `UnsupportedError` for a local one."""
        return closing(self.warehouse_plugin.open(self.config, folder=self.root))


def _check_reached(config: ProjectConfig, name: CatalogName, location: str) -> None:
    from cdc_views.errors import EngineError, TransientError
    from cdc_views.landing.raw_table import is_delta

    try:
        reach(config, location.rpartition("/")[0])  # its quarantine is beside it
        is_there = is_delta(location)
    except TransientError:
        raise
    except (ConfigError, EngineError) as error:
        remedy = "cdc-views reads files itself, with `storage_options:`, not with what the catalog lends Spark"
        raise UnsupportedError(f"{name}: its place {location} cannot be read: {error}", remedy=remedy) from error
    if not is_there:
        remedy = "put the table's folder back, or drop the name"
        raise UnsupportedError(f"{name}: the catalog names {location}, where no Delta table is", remedy=remedy)


@dataclass(frozen=True)
class TableContext:
    """One table of a project: its schema, its format, and where its data is."""

    project: ProjectContext
    config: TableConfig

    @property
    def name(self) -> str:
        """Full name, as in the project file."""
        return self.config.name

    def is_called(self, name: str, *, ignores_case: bool = False) -> bool:
        """Whether `name` is its full name, or the end of it after a dot."""
        ours, theirs = f".{self.name}", f".{name}"
        return ours.casefold().endswith(theirs.casefold()) if ignores_case else ours.endswith(theirs)

    @cached_property
    def schema(self) -> TableSchema:
        """The schema of what is stored and shown: the source's, with the policies of columns applied."""
        return self.source_schema if self._redaction is None else self._redaction.stored

    @cached_property
    def _redaction(self) -> Redaction | None:
        from cdc_views.formats.redaction import Redaction

        policies = self.config.policies
        if not policies:
            return None
        self._check_of_source("columns", policies.columns)
        try:
            return Redaction(self.source_schema, policies)
        except SchemaError as error:
            raise ConfigError(f"{self.project.file}: {error}") from error

    @cached_property
    def source_schema(self) -> TableSchema:
        """The table's schema in its source, read from its file, or from the source itself."""
        from cdc_views.project.paths import is_live_source
        from cdc_views.schemas import read_schema

        if is_live_source(self.config.schema_):
            return self.project.live_schemas.table(self.config.schema_, self.name)
        path = self.project.root / self.config.schema_
        if not path.is_file():
            raise ConfigError(
                f"{self.project.file}: the schema of {self.name}, {path}, is no file; name a CQL, SQL, .avsc or YAML file"
            )
        return read_schema(path, table=self.name, keyspace=self.config.keyspace)

    @property
    def format(self) -> RawFormat:
        """The raw format in the project file, with its options."""
        from cdc_views.formats.registry import raw_format

        options = self.config.raw.options
        for option, columns in () if options is None else options.columns().items():
            self._check_of_source(f"raw.options.{option}", columns)
        found = raw_format(self.config.raw.format, options)
        if self._redaction is None:
            return found
        if self.config.extra_columns is not ExtraColumns.QUARANTINE and not found.writes_whole_rows:
            raise ConfigError(
                f"{self.project.file}: {self.name}: `extra_columns: {self.config.extra_columns.value}` is of whole rows, which "
                f"events of {found.name} are not; leave it out, and add columns to the schema file"
            )
        return found.redacting(self._redaction)

    @property
    def relation(self) -> Relation:
        """The columns of the raw table, and their types in the view."""
        from cdc_views.model.overrides import misfit
        from cdc_views.storage.shown_relation import ShownRelation

        overrides = self.config.types
        self._check_of_source("columns", overrides)
        for name, wanted in overrides.items():
            if why := misfit(self.schema.column(name), wanted):
                raise ConfigError(f"{self.project.file}: columns: {self.name}: {name!r} {why}")
        return ShownRelation(self.schema, self.format.order, self.format.is_positioned, casts=tuple(overrides.items()))

    @property
    def is_external(self) -> bool:
        """Whether somebody else lands the raw table (`layout: as-found`)."""
        from cdc_views.project.models import Layout

        return self.config.raw.layout is Layout.AS_FOUND

    @property
    def location(self) -> str:
        """Path or URI of the raw table: the project file's, else `raw/<slug>` under the warehouse, or where an earlier version
        put it. Raises `ConfigError` if it is in both.
        """
        project, path = self.project, self.config.raw.table
        if project.is_remote:
            return project.warehouse_plugin.raw_location(project.config, path or self.config.slug)
        if path is None:
            return self._local(self._unnamed_raw())
        if is_url(path):
            return path.rstrip("/")
        if (name := self.catalog_name) is not None:
            return self._local(self._in_catalog(name))
        # beside a project file is no place that the readers of a warehouse on a store can see
        return str(project.warehouse / path) if is_url(project.config.warehouse) else self._local(str(project.root / path))

    @property
    def catalog_name(self) -> CatalogName | None:
        """The raw table's name in a catalog; None if `raw.table` is a path, also one that looks so and is there, as in earlier
        projects. Raises `UnsupportedError` for an engine without catalogs.
        """
        project, path = self.project, self.config.raw.table
        name = None if path is None or project.is_remote else CatalogName.parse(path)
        if name is None or path is None:
            return None
        around = project.warehouse if is_url(project.config.warehouse) else project.root
        if (around / path).is_dir():
            return None
        if project.engine_plugin.catalog(project.config) is None:
            raise UnsupportedError(
                f"{project.file}: {self.name}: `raw.table` {path} names a table of a catalog, and engine {project.config.engine} "
                "has none",
                remedy=f"set `engine: spark`, or write ./{path} for a folder",
            )
        return name

    def _in_catalog(self, name: CatalogName) -> str:
        from cdc_views.engines.catalogs import NoSuchTableError

        try:
            return self.project.located(name)
        except NoSuchTableError as error:
            remedy = "correct the name" if self.is_external else "`cdc-views land` creates it; or correct the name"
            where = f"{self.project.file}: {self.name}: `raw.table`"
            raise NoSuchTableError(f"{where} {error}; {remedy}") from error

    def _unnamed_raw(self) -> str:
        from cdc_views.project.paths import raw_paths
        from cdc_views.storage.unnamed import has_events, settled

        project = self.project
        place = project.warehouse / "raw" / self.config.slug
        if is_url(project.config.warehouse):  # never was anywhere else
            return str(place)
        found = settled(Path(str(place)), project.root / "raw" / self.config.slug, is_used=has_events)
        if found is None:
            earlier, now = raw_paths(None, self.config.slug, project.config.warehouse)
            raise ConfigError(
                f"{project.file}: {self.name} has no `raw.table`, and its events are in two places: {now}, and {earlier}, where "
                "earlier versions kept them; set `raw: {table: …}` to the one to read, and the other stays as it is"
            )
        return str(found)

    @property
    def raw(self) -> RawTable:
        """The raw table in the canonical layout; for an external table, the raw table derived from it."""
        from cdc_views.storage.relation import RawTable

        if not self.is_external:
            return RawTable(self.location, self.relation)
        name = self.config.slug
        if self.project.is_remote:
            derived = self.project.warehouse_plugin.raw_location(self.project.config, name)
            if derived == self.location:
                raise ConfigError(
                    f"{self.project.file}: {self.name}: `raw.table` names {derived.partition('://')[2]}, where cdc-views keeps "
                    "what it derives; name the table that events land in"
                )
            return RawTable(derived, self.relation)
        return RawTable(self._local(str(self.project.warehouse / "derived" / name / name)), self.relation)

    @property
    def generations(self) -> Generations:
        """The generations of its state."""
        return Generations(place_of(self._local(str(self.project.warehouse / "state" / self.config.slug))))

    @property
    def state_location(self) -> str:
        """The location of the current state, which need not exist yet."""
        generations = self.generations
        return generations.location(generations.current)

    @property
    def serving_location(self) -> str | None:
        """Path of the serving table; None if the project file has none."""
        name = self.config.serving_name
        return None if name is None else self._local(str(self.project.warehouse / "serving" / name), what="serving table")

    @property
    def forgotten_file(self) -> Place:
        """The file of the table's forgotten keys."""
        return self.project.warehouse / "forgotten" / f"{self.config.slug}.jsonl"

    def _local(self, path: str, *, what: str = "raw table") -> str:
        from cdc_views.project.paths import unfit_letter

        if is_url(path):
            return path
        if letter := unfit_letter(path):
            raise ConfigError(f"{path!r}: Delta cannot keep a table under a path that holds {letter!r}; choose another path")
        if Path(path).is_file():
            raise ConfigError(f"{self.project.file}: the {what} of {self.name}, {path}, is a file; name a folder")
        return path

    def check_columns(self, key: str, columns: Iterable[str]) -> None:
        """Refuse names under `key` of the project file that are no columns of what is stored."""
        for name in columns:
            self._check_known(self.schema, key, name)

    def _check_of_source(self, key: str, columns: Iterable[str]) -> None:
        for name in columns:
            self._check_known(self.source_schema, key, name)

    def _check_known(self, schema: TableSchema, key: str, name: str) -> None:
        if not schema.has(name):
            known = [column.name for column in schema.columns]
            raise UnknownColumnError(table=f"{self.project.file}: {key}: {self.name}", column=name, known=known)
