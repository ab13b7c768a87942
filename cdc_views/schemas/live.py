"""Schemas of tables as a running source has them. An entry point of the group `cdc_views.live_schemas`, named by the scheme of an
address, is a `Describe`; `init --from` writes what it tells to a file, and `schema:` of a project file may name an address.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import cast

from cdc_views.errors import SchemaError, TransientError, did_you_mean
from cdc_views.model.live_addresses import reader_of, without_password
from cdc_views.model.schema import TableSchema
from cdc_views.schemas.catalog import Catalog

GROUP = "cdc_views.live_schemas"
"""Entry points of readers of running sources' schemas, by the scheme of their address."""

SECONDS = 30.0
"""How long one question to a source may take."""


class Ddl(str, Enum):
    """The language of a description."""

    CQL = "cql"
    POSTGRES = "postgres"
    MYSQL = "mysql"


@dataclass(frozen=True, slots=True)
class Described:
    """Tables of a running source, in its own language.

    Attributes:
        server: Name and version, as `PostgreSQL 17.5`.
        producer: What follows its changes: `cdc-views produce PRODUCER`.
        statements: What creates each table that was asked for, by its full name: `keyspace.table`, which the text names, too.
        before: Statements that come first, such as those of user types.
        names: The full names of all tables that the user may see.
    """

    server: str
    producer: str
    ddl: Ddl
    statements: Mapping[str, str]
    before: str = ""
    names: Sequence[str] = field(default=())

    @property
    def text(self) -> str:
        """All statements, one table after another."""
        return "\n".join(part for part in (self.before, *self.statements.values()) if part) + "\n"

    def only(self, tables: Sequence[str]) -> Described:
        """Return the same of some tables alone."""
        return replace(self, statements={name: text for name, text in self.statements.items() if name in tables})


Describe = Callable[[str, Sequence[str]], Described]
"""Asks the source at an address, by one connection, for tables of these names in the project file; no name: for all of them.

Raises `UsageError` for what never works, `TransientError` if the source is away.
"""


def describe(address: str, tables: Sequence[str] = ()) -> Described:
    """Return what the source at an address says of its tables.

    Raises `UnsupportedError` if no installed package knows the scheme, `TransientError` if the source is away.
    """
    return cast("Describe", reader_of(address, GROUP))(address, tables)


@dataclass(frozen=True, slots=True)
class LiveCatalog:
    """The tables that were asked for, usable and refused, and the names of all that the source has."""

    catalog: Catalog
    names: Sequence[str]

    @classmethod
    def of(cls, found: Described, *, where: str) -> LiveCatalog:
        """Read a description; raises `SchemaError` if it cannot be read."""
        return cls(_read(found, where), found.names)

    def table(self, name: str) -> TableSchema:
        """Return a table under its name in the project file; raises as `Catalog.table`."""
        if not any(f".{name}".endswith(f".{there}") for there in self.catalog.names):
            raise SchemaError(f"the source has no table {name!r}{did_you_mean(name, self.names)}", where=self.catalog.where)
        return self.catalog.table(name)


def read_live(address: str, tables: Sequence[str]) -> LiveCatalog:
    """Return tables of a project file as the source at an address has them now; raises as `describe`."""
    where = without_password(address)
    try:
        return LiveCatalog.of(describe(address, tables), where=where)
    except TransientError as error:
        raise TransientError(
            f"the schema is read from {where}: {error}; `cdc-views init --from` saves it to a file, which needs no server"
        ) from error


@dataclass(frozen=True)
class LiveSchemas:
    """Tables with the address of their source. A source is asked once for all that name it.

    Attributes:
        named: Address and name in the project file.
    """

    named: Sequence[tuple[str, str]]
    _found: dict[str, LiveCatalog] = field(default_factory=dict)
    _newer: dict[tuple[str, str], LiveCatalog] = field(default_factory=dict)

    def table(self, address: str, name: str) -> TableSchema:
        """Return a table's schema as its source has it; raises as `read_live` and `LiveCatalog.table`."""
        if (address, name) in self._newer:
            return self._newer[address, name].table(name)
        if address not in self._found:
            self._found[address] = read_live(address, [other for place, other in self.named if place == address])
        return self._found[address].table(name)

    def ask_again(self, address: str, name: str) -> None:
        """Ask the source about one table again; raises as `table`."""
        self._newer[address, name] = read_live(address, [name])


def _read(found: Described, where: str) -> Catalog:
    if found.ddl is Ddl.CQL:
        from cdc_views.schemas.cql.reader import read_cql

        return read_cql(found.text, where=where)
    from cdc_views.schemas.sql.reader import read_sql

    return read_sql(found.text, where=where, dialect=found.ddl.value)


def is_wanted(full_name: str, tables: Sequence[str]) -> bool:
    """Whether a table of the source is one of those in the project file, where a database may stand before it; none: all are."""
    return not tables or any(f".{name}".endswith(f".{full_name}") for name in tables)
