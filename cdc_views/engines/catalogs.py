"""What an engine does in catalogs: finds, creates and registers tables by `catalog.schema.table`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa

from cdc_views.engines.base import Engine
from cdc_views.errors import UsageError
from cdc_views.model.catalog_names import CatalogName


class NoSuchTableError(UsageError):
    """A catalog has no table of this name, and may have one."""


class NoViewsError(UsageError):
    """A catalog takes tables, but no views."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A Delta table to be known in a catalog by a name.

    `earlier` is the folder of the places where it was before: a table of that name there is moved, any other one is refused.
    """

    name: CatalogName
    location: str
    earlier: str


@runtime_checkable
class CatalogEngine(Engine, Protocol):
    """An engine whose tables have names in catalogs; see `EnginePlugin.catalog`."""

    def locate(self, name: CatalogName) -> str:
        """Return the location of a Delta table, a path or a URL; raises `NoSuchTableError`, or `UsageError` for what is none."""

    def create_table(self, name: CatalogName, schema: pa.Schema, *, comment: str, settings: Mapping[str, str]) -> None:
        """Create an empty Delta table where the catalog keeps its own, and its schema if that is missing, unless it is there.

        Raises `UsageError` with the catalog's reason if it cannot.
        """

    def register(self, table: Registered) -> None:
        """Let a catalog know a Delta table that is there, by a name; nothing if it does. Raises `UsageError` if it is taken."""
