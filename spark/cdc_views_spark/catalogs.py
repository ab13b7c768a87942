"""Spark's catalogs: where a table of a name is, and new names for tables and views that are there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from cdc_views.engines.base import ViewDefinition
from cdc_views.engines.catalogs import NoSuchTableError, NoViewsError, Registered
from cdc_views.errors import ConfigError, EngineError, TransientError, UsageError
from cdc_views.model.catalog_names import CatalogName, quoted
from cdc_views.storage.places import place_of
from cdc_views.storage.stores import is_url
from cdc_views_spark.tables import delta_sql

_DETAILS = "# Detailed Table Information"
_OWNER = "cdc_views.view"
"""The property of a view that says whose it is, as `templates/create_view.sql.j2` writes it."""
_NO_CATALOG = re.compile(r"CATALOG_NOT_FOUND|REQUIRES_SINGLE_PART_NAMESPACE|Cannot find catalog plugin class")
"""Spark takes an unknown catalog for a schema of `spark_catalog`."""
_UNANSWERED = re.compile(r"MetaStoreClient|TTransportException|ConnectException|Connection refused|UnknownHostException")
_NO_VIEWS = re.compile(r"does not support views|MISSING_CATALOG_ABILITY|cannot be cast to \S+ \S*\.ViewCatalog|CATALOG_OPERATION")
"""Spark 4.2 casts a catalog to `ViewCatalog` without a look."""
_NO_REPLACING = re.compile(r"Replacing a view is not supported")
"""Source: Unity Catalog 0.6, connectors/spark, UCSingleCatalogViewSupport.replaceView."""


@dataclass(frozen=True, slots=True)
class Described:
    """What a catalog says of a name: `kind` is MANAGED, EXTERNAL or VIEW; `location` is empty for a view."""

    kind: str
    provider: str
    location: str
    text: str


def described(session: SparkSession, name: CatalogName) -> Described | None:
    """Return what has the name, None if nothing has; raises `ConfigError` if there is no such catalog."""
    with _errors(name):
        if not session.catalog.tableExists(name.sql):
            return None
        rows = [(row[0], row[1]) for row in session.sql(f"DESCRIBE TABLE EXTENDED {name.sql}").collect()]
    # columns may be called as the details
    told = dict(rows[rows.index((_DETAILS, "")) :] if (_DETAILS, "") in rows else [])
    kind = told.get("Type", "")
    return Described(kind, told.get("Provider", ""), told.get("Location", ""), told.get("View Text", ""))


def locate(session: SparkSession, name: CatalogName) -> str:
    """See `CatalogEngine.locate`."""
    found = described(session, name)
    if found is None:
        with _errors(name):
            has_schema = session.catalog.databaseExists(f"{quoted(name.catalog)}.{quoted(name.schema)}")
        what = "table" if has_schema else f"schema {name.schema!r}"
        raise NoSuchTableError(f"{name}: catalog {name.catalog} has no such {what}")
    if found.provider.casefold() != "delta" or not found.location:
        what = "a view" if found.kind == "VIEW" else f"a table of {found.provider or 'another kind'}"
        raise UsageError(f"{name}: is {what}; a Delta table was expected")
    return plain(found.location)


def plain(location: str) -> str:
    """Return a location as this project writes it: a path, or a URL of a store."""
    return str(place_of(location)) if location.startswith("file:/") else location.rstrip("/")


def create_table(
    session: SparkSession, name: CatalogName, schema: pa.Schema, *, comment: str, settings: Mapping[str, str]
) -> None:
    """See `CatalogEngine.create_table`."""
    columns = from_arrow_schema(schema, prefer_timestamp_ntz=True).toDDL()
    properties = ", ".join(f"{_text(key)} = {_text(value)}" for key, value in settings.items())
    _create_schema(session, name)
    statement = f"CREATE TABLE IF NOT EXISTS {name.sql} ({columns}) USING DELTA COMMENT {_text(comment)}"
    _run(session, f"{statement} TBLPROPERTIES ({properties})", name, what="creates no Delta table there")


def register(session: SparkSession, table: Registered) -> None:
    """See `CatalogEngine.register`."""
    name, found = table.name, described(session, table.name)
    if found is not None:
        if found.kind == "EXTERNAL" and _is_at(found.location, table.location):
            return
        if found.kind != "EXTERNAL" or not _is_below(found.location, table.earlier):
            raise _taken(name, found)
        # of an external table, only the name goes
        _run(session, f"DROP TABLE {name.sql}", name, what="does not give up the name of a table that has moved")
    _create_schema(session, name)
    statement = f"CREATE TABLE {name.sql} USING DELTA LOCATION {_text(_url(table.location))}"
    _run(session, statement, name, what="registers no Delta table of this place")


def check_view(session: SparkSession, view: ViewDefinition) -> CatalogName:
    """Return the name that a view gets in its catalog, whose schema is created; raises `UsageError` if it is somebody else's."""
    name = CatalogName(view.catalog, view.schema, view.name)
    found = described(session, name)
    if found is None:
        _create_schema(session, name)
        return name
    reads = view.raw.location if view.events is None else view.events.location
    if found.kind != "VIEW" or not (_owner(session, name) == view.owner or delta_sql(reads) in found.text):
        raise _taken(name, found)
    return name


def create_view(session: SparkSession, name: CatalogName, statement: str) -> None:
    """Run the statement of a view that `check_view` let pass; raises `NoViewsError` if its catalog takes none."""
    try:
        _run(session, statement, name, what="does not create the view")
    except UsageError as error:
        if _NO_REPLACING.search(str(error.__cause__)):
            # for a moment nobody sees the view
            _run(session, f"DROP VIEW {name.sql}", name, what="neither replaces nor drops the view")
            _run(session, statement, name, what="does not create the view")
            return
        if _NO_VIEWS.search(str(error.__cause__)):
            raise NoViewsError(f"{name}: catalog {name.catalog} takes no views") from error
        raise


def _owner(session: SparkSession, name: CatalogName) -> str:
    with _errors(name):
        found = session.sql(f"SHOW TBLPROPERTIES {name.sql}").collect()
    return next((row[1] for row in found if row[0] == _OWNER), "")


def _create_schema(session: SparkSession, name: CatalogName) -> None:
    schema = f"{quoted(name.catalog)}.{quoted(name.schema)}"
    with _errors(name):
        is_there = session.catalog.databaseExists(schema)
    if not is_there:
        _run(session, f"CREATE SCHEMA IF NOT EXISTS {schema}", name, what=f"creates no schema {name.schema!r}")


def _taken(name: CatalogName, found: Described) -> UsageError:
    what = "a view" if found.kind == "VIEW" else f"a table at {plain(found.location) or 'an unknown place'}"
    return UsageError(
        f"{name}: {what} that is not of this project has the name, and is not replaced; drop it, or give the view another name "
        "(`view: {name: …}`) in the project file"
    )


def _is_at(found: str, location: str) -> bool:
    return _place(found) == _place(location)


def _is_below(found: str, folder: str) -> bool:
    return _place(found).startswith(f"{_place(folder)}/")


def _place(location: str) -> str:
    """One spelling of a place: Hadoop calls a store `s3a://` that others call `s3://`."""
    if is_url(location) and not location.startswith("file:/"):
        return location.rstrip("/").replace("s3a://", "s3://", 1)
    return str(Path(str(place_of(location))).resolve())


def _url(location: str) -> str:
    # Hadoop takes the letters of a path as they are: `%20` is no space
    return location if is_url(location) else f"file:{Path(location).absolute()}"


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _run(session: SparkSession, statement: str, name: CatalogName, *, what: str) -> None:
    """Run a statement; what Spark says of it is a `UsageError`, for the catalog decides what it can do."""
    try:
        session.sql(statement)
    except (PySparkException, Py4JJavaError) as error:
        raise UsageError(f"{name}: catalog {name.catalog} {what}: {_said(error)}") from _Said.of(error)


class _Said(Exception):
    """What the JVM said: the text of its exception."""

    @classmethod
    def of(cls, error: Exception) -> _Said:
        return cls(_all_said(error))


@contextmanager
def _errors(name: CatalogName) -> Iterator[None]:
    """Raise what a catalog says where it is only asked: it is not there, or does not answer."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if _NO_CATALOG.search(_all_said(error)):
            remedy = (
                f"set `spark: {{settings: {{spark.sql.catalog.{name.catalog}: …}}}}` in the project file, or correct the name"
            )
            raise ConfigError(f"{name}: Spark knows no catalog {name.catalog!r}; {remedy}") from error
        if _UNANSWERED.search(_all_said(error)):
            remedy = "start its server, or correct its address in `spark: {settings: …}`"
            raise TransientError(f"{name}: catalog {name.catalog} does not answer: {_said(error)}; {remedy}") from error
        kind = UsageError if isinstance(error, AnalysisException) else EngineError
        raise kind(f"{name}: catalog {name.catalog} cannot tell of it: {_said(error)}") from error


def _said(error: Exception) -> str:
    lines = _all_said(error).splitlines()
    return lines[0].strip()[:500] if lines else type(error).__name__


def _all_said(error: Exception) -> str:
    return str(error.java_exception.toString()) if isinstance(error, Py4JJavaError) else str(error)
