"""`Catalog`: the usable and the refused tables of one schema file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from cdc_views.errors import SchemaError, UsageError, did_you_mean, nearest
from cdc_views.model.schema import TableSchema


@dataclass(frozen=True, slots=True)
class Catalog:
    """The tables of a schema file by full name, in the file's order; error messages call the file `where`.

    `refused` has the reasons why tables are unusable; the other tables stay readable. Without `names_keyspaces`, a table is found
    by its name alone: an Avro namespace is a package, not a keyspace. `notes` name what looks like a slip, and was not refused.
    """

    where: str
    tables: Mapping[str, TableSchema] = field(default_factory=dict)
    refused: Mapping[str, UsageError] = field(default_factory=dict)
    names_keyspaces: bool = True
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The full names of all tables, refused ones last."""
        return (*self.tables, *self.refused)

    def table(self, full_name: str) -> TableSchema:
        """Return the table called `full_name`. `database.schema.table` also finds `schema.table`, under the longer name.

        Raises:
            SchemaError: The file has no such table; the message lists its tables.
            UsageError: The table is one of `refused`.
        """
        found = self._find(full_name)
        if found in self.refused:
            raise self.refused[found].with_traceback(None)  # a catalog is used again
        if found not in self.tables:
            raise self._missing(full_name)
        if found == full_name:
            return self.tables[found]
        keyspace, _, name = full_name.rpartition(".")
        return replace(self.tables[found], keyspace=keyspace, name=name)

    def _find(self, full_name: str) -> str:
        if full_name in self.tables or full_name in self.refused:
            return full_name
        fitting = [name for name in self.names if full_name.endswith(f".{name}")]
        if not fitting and not self.names_keyspaces:
            wanted = full_name.rpartition(".")[2]
            fitting = [name for name in self.names if name.rpartition(".")[2] == wanted]
        return fitting[0] if len(fitting) == 1 else ""

    def _missing(self, full_name: str) -> SchemaError:
        if not self.names:
            return SchemaError(f"no table {full_name!r}: the file defines no table at all", where=self.where)
        hint = did_you_mean(full_name, self.names)
        if nearest(full_name, self.names):
            hint += f" The file has {', '.join(map(repr, self.names))}"
        return SchemaError(f"no table {full_name!r} in the file{hint}", where=self.where)


def build_catalog(builders: Mapping[str, Callable[[], TableSchema]], *, where: str, names_keyspaces: bool = True) -> Catalog:
    """Return the catalog of the tables that `builders` make; an error refuses only its own table."""
    tables: dict[str, TableSchema] = {}
    refused: dict[str, UsageError] = {}
    for name, build in builders.items():
        try:
            tables[name] = build()
        except SchemaError as error:
            # the error of a schema that can have no views does not name the file
            refused[name] = error if error.where else SchemaError(str(error), where=where)
        except UsageError as error:
            refused[name] = error
    return Catalog(where, tables, refused, names_keyspaces)


def full_name(keyspace: str, name: str) -> str:
    """Return `keyspace.name`, or the name alone if there is no keyspace."""
    return f"{keyspace}.{name}" if keyspace else name
