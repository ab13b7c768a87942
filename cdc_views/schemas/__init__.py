"""Readers of table schemas: CQL and SQL DDL, Avro, Debezium's Connect schemas, and YAML, into `TableSchema`.

`read_schema` returns one table, `read_schemas` every usable one, `read_catalog` also the errors of unusable ones.
The file's suffix and content decide the format:

==========================  =======================================================================
``.cql``                    CQL (`cql`)
``.sql``, ``.ddl``          CQL where it looks like CQL, else Postgres or MySQL DDL (`sql`)
``.avsc``                   Avro (`avro`)
``.yml``, ``.yaml``         YAML schema (`yaml_schema`)
``.json``, ``.jsonl``       Avro record, Connect schema (`connect`), or YAML schema written as JSON
==========================  =======================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from cdc_views.errors import SchemaError
from cdc_views.model.schema import TableSchema
from cdc_views.schemas.catalog import Catalog
from cdc_views.schemas.cql.types import parse_type
from cdc_views.schemas.formats import read_text

__all__ = ["Catalog", "parse_type", "read_catalog", "read_schema", "read_schemas"]


def read_schemas(path: Path, *, keyspace: str = "", key_columns: Sequence[str] = ()) -> dict[str, TableSchema]:
    """Return the usable tables of a schema file by full name, `keyspace.table`, in the file's order.

    Args:
        path: The file.
        keyspace: The keyspace of tables that the file gives none.
        key_columns: The key, for Avro and Connect schemas that do not declare it.

    Raises:
        SchemaError: The file is missing, cannot be read, or defines no table.
        UsageError: No table of the file is usable. The message is about the first.
    """
    catalog = read_catalog(path, keyspace=keyspace, key_columns=key_columns)
    if not catalog.names:
        raise SchemaError("the file defines no table; expected a CREATE TABLE, a record or a schema", where=str(path))
    if not catalog.tables:
        raise next(iter(catalog.refused.values()))
    return dict(catalog.tables)


def read_schema(path: Path, *, table: str, keyspace: str = "", key_columns: Sequence[str] = ()) -> TableSchema:
    """Return the one table called `table` of a schema file.

    Args:
        path: The file.
        table: The full name, `keyspace.table`.
        keyspace: As in `read_schemas`; by default `table`'s own.
        key_columns: As in `read_schemas`.

    Raises:
        SchemaError: The file is missing or cannot be read, or has no such table, or the table can have no views.
        UnsupportedError: The table has counters.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "shop.cql")
    ...     _ = file.write_text("CREATE TABLE shop.orders (id int PRIMARY KEY, tags set<text>);")
    ...     orders = read_schema(file, table="shop.orders")
    >>> [(column.name, str(column.type), column.role.value) for column in orders.columns]
    [('id', 'int', 'partition'), ('tags', 'set<text>', 'regular')]
    """
    prefix, dot, _ = table.rpartition(".")
    catalog = read_catalog(path, keyspace=keyspace or (prefix if dot else ""), key_columns=key_columns)
    return catalog.table(table if dot or not keyspace else f"{keyspace}.{table}")


def read_catalog(path: Path, *, keyspace: str = "", key_columns: Sequence[str] = ()) -> Catalog:
    """Return every table of a schema file, with the errors of unusable ones.

    Args:
        path: The file.
        keyspace: As in `read_schemas`.
        key_columns: As in `read_schemas`.

    Raises:
        SchemaError: The file is missing, or is not in the format of its suffix.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise SchemaError("the schema file does not exist; check the path", where=str(path)) from None
    except UnicodeDecodeError as error:
        raise SchemaError(f"the schema file is not UTF-8 (byte {error.start})", where=str(path)) from error
    except OSError as error:
        raise SchemaError(f"the schema file cannot be read: {error.strerror}", where=str(path)) from error
    return _parsed(text, path, keyspace, tuple(key_columns))


@lru_cache(maxsize=64)
def _parsed(text: str, path: Path, keyspace: str, key_columns: tuple[str, ...]) -> Catalog:
    """Parse a file once for all of its tables. The text is part of the key, so a changed file is parsed again."""
    return read_text(text, path=path, keyspace=keyspace, key_columns=key_columns)
