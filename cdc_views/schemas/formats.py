"""Which format a schema file is in. Each reader is imported when a file needs it: sqlglot and yaml are slow to load."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from cdc_views.errors import SchemaError
from cdc_views.schemas.catalog import Catalog

_CQL_MARKS = re.compile(
    r"\bclustering\s+order\s+by\b|\bcreate\s+keyspace\b|\bfrozen\s*<|\b(?:list|set|map|vector)\s*<|\bcompact\s+storage\b"
    r"|\bcreate\s+type\s+[^;(]*(?<!\bas)\s*\(|\bprimary\s+key\s*\(\s*\(|\bgc_grace_seconds\b|\btimeuuid\b|\bvarint\b"
    r"|\busing\s+timestamp\b|\bstatic\s*,|\bwith\s+id\s*=",
    re.IGNORECASE,
)
_COMMENTS_AND_STRINGS = re.compile(r"--[^\n]*|//[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", re.DOTALL)
_DDL = {".sql", ".ddl"}
_YAML = {".yml", ".yaml"}
_JSON = {".json", ".jsonl", ".ndjson"}


def read_text(text: str, *, path: Path, keyspace: str, key_columns: Sequence[str]) -> Catalog:
    """Return the tables of `text`, the content of `path`, read as the suffix and the content say.

    Raises:
        SchemaError: The suffix is none of those known, or the text is not in the format.
    """
    suffix, where = path.suffix.lower(), str(path)
    if suffix == ".cql" or (suffix in _DDL and looks_like_cql(text)):
        from cdc_views.schemas.cql.reader import read_cql

        return read_cql(text, keyspace=keyspace, where=where)
    if suffix in _DDL:
        from cdc_views.schemas.sql.reader import read_sql

        return read_sql(text, keyspace=keyspace, where=where)
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


def looks_like_cql(text: str) -> bool:
    """Whether DDL uses words that CQL has and SQL has not; comments and strings do not count."""
    return _CQL_MARKS.search(_COMMENTS_AND_STRINGS.sub(" ", text)) is not None


def _read_json(text: str, *, keyspace: str, where: str, key_columns: Sequence[str]) -> Catalog:
    from cdc_views.schemas.avro import read_avro
    from cdc_views.schemas.connect import is_connect, read_connect
    from cdc_views.schemas.yaml_schema import read_yaml

    try:
        document = json.loads(text)
    except json.JSONDecodeError:
        # several documents, one a line; or not JSON at all, which the reader says with the place
        return read_connect(text, keyspace=keyspace, where=where, key_columns=key_columns)
    if isinstance(document, list) or (isinstance(document, dict) and document.get("type") == "record"):
        return read_avro(text, keyspace=keyspace, where=where, key_columns=key_columns)
    if is_connect(document):
        return read_connect(text, keyspace=keyspace, where=where, key_columns=key_columns)
    return read_yaml(text, keyspace=keyspace, where=where)
