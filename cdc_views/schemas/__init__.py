"""Readers of table schemas, which return `TableSchema`. The file's suffix and content decide the format:

==========================  =======================================================================
``.cql``                    CQL (`cql`)
``.sql``, ``.ddl``          CQL where it looks like CQL, else Postgres or MySQL DDL (`sql`), as a dump's first lines tell
``.avsc``                   Avro (`avro`)
``.yml``, ``.yaml``         YAML schema (`yaml_schema`)
``.json``, ``.jsonl``       Avro record, Connect schema (`connect`), or YAML schema written as JSON
==========================  =======================================================================

Each reader is imported when a file needs it: sqlglot and yaml are slow to load.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from cdc_views.errors import SchemaError
from cdc_views.model.schema import TableSchema
from cdc_views.schemas.catalog import Catalog
from cdc_views.schemas.cql.types import parse_type

__all__ = ["Catalog", "parse_type", "read_catalog", "read_schema", "read_schemas"]

_NAME = r'(?:"[^"]*"|\w+)'
_CQL_MARKS = re.compile(
    r"\bclustering\s+order\s+by\b|\bcreate\s+keyspace\b|\bfrozen\s*<|\b(?:list|set|map|vector)\s*<|\bcompact\s+storage\b"
    # Postgres has words between name and bracket (AS ENUM), or INPUT in the bracket
    rf"|\bcreate\s+type\s+(?:if\s+not\s+exists\s+)?{_NAME}(?:\s*\.\s*{_NAME})?\s*\(\s*(?!input\s*=)|\bprimary\s+key\s*\(\s*\(|\bgc_grace_seconds\b|\btimeuuid\b|\bvarint\b"
    r"|\busing\s+timestamp\b|\bstatic\s*,|\bwith\s+id\s*=",
    re.IGNORECASE,
)
_TOLD = re.compile(r"\A(?:[^\n]*\n){0,4}?-- (PostgreSQL|MySQL|MariaDB)\b")
"""What a dump's first lines say of its server, as do those of a file that `init` wrote."""
_COMMENTS_AND_STRINGS = re.compile(r"--[^\n]*|//[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", re.DOTALL)
_DDL = {".sql", ".ddl"}
_YAML = {".yml", ".yaml"}
_JSON = {".json", ".jsonl", ".ndjson"}


def read_schemas(path: Path, *, keyspace: str = "", key_columns: Sequence[str] = ()) -> dict[str, TableSchema]:
    """Return the usable tables of a schema file by full name, `keyspace.table`, in the file's order.

    `keyspace` is for tables without one; `key_columns` is the key of Avro and Connect schemas that declare none.

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
    """Return the table called `table` of a schema file. `keyspace` defaults to that of the name; see also `read_schemas`.

    Raises:
        SchemaError: The file is missing, cannot be read, or has no such table, or the table can have no views.
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
    """Return all tables of a schema file, with the errors of unusable ones; the arguments are those of `read_schemas`. Raises
    `SchemaError` if the file is missing, or is not in the format of its suffix.
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


def read_text(text: str, *, path: Path, keyspace: str, key_columns: Sequence[str]) -> Catalog:
    """Return the tables of `text`, the content of `path`; raises `SchemaError` for an unknown suffix or a wrong format."""
    suffix, where, told = path.suffix.lower(), str(path), _TOLD.match(text)
    if suffix == ".cql" or (suffix in _DDL and told is None and _looks_like_cql(text)):
        from cdc_views.schemas.cql.reader import read_cql

        return read_cql(text, keyspace=keyspace, where=where)
    if suffix in _DDL:
        from cdc_views.schemas.sql.reader import read_sql

        dialect = "" if told is None else "postgres" if told[1] == "PostgreSQL" else "mysql"
        return read_sql(text, keyspace=keyspace, where=where, dialect=dialect)
    if suffix == ".avsc":
        from cdc_views.schemas.avro import read_avro

        return read_avro(text, keyspace=keyspace, where=where, key_columns=key_columns)
    if suffix in _JSON:
        return _read_json(text, keyspace=keyspace, where=where, key_columns=key_columns)
    if suffix in _YAML:
        from cdc_views.schemas.yaml_schema import read_yaml

        return read_yaml(text, keyspace=keyspace, where=where)
    known = ", ".join(sorted({".cql", ".avsc", *_DDL, *_YAML, *_JSON}))
    raise SchemaError(f"the suffix {path.suffix!r} tells no schema format; expected one of {known}", where=where)


def _looks_like_cql(text: str) -> bool:
    """Whether DDL has words of CQL that SQL lacks, outside comments and strings."""
    return _CQL_MARKS.search(_COMMENTS_AND_STRINGS.sub(" ", text)) is not None


def _read_json(text: str, *, keyspace: str, where: str, key_columns: Sequence[str]) -> Catalog:
    from cdc_views.schemas.avro import read_avro
    from cdc_views.schemas.connect import is_connect, read_connect
    from cdc_views.schemas.yaml_schema import read_yaml

    try:
        document = json.loads(text)
    except json.JSONDecodeError:
        # one document per line, or no JSON at all, which the reader reports with the place
        return read_connect(text, keyspace=keyspace, where=where, key_columns=key_columns)
    if isinstance(document, list) or (isinstance(document, dict) and document.get("type") == "record"):
        return read_avro(text, keyspace=keyspace, where=where, key_columns=key_columns)
    if is_connect(document):
        return read_connect(text, keyspace=keyspace, where=where, key_columns=key_columns)
    return read_yaml(text, keyspace=keyspace, where=where)
