"""`read_schemas` and `read_schema`: which reader a file gets, and what happens when a table or file is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cdc_views import schemas as schema_readers
from cdc_views.api import Project
from cdc_views.errors import SchemaError, UnsupportedError
from cdc_views.schemas import Catalog, read_catalog, read_schema, read_schemas, read_text

CQL = "CREATE TABLE t (k int, v list<int>, PRIMARY KEY ((k)));"
AVRO = '{"type": "record", "name": "t", "primaryKey": ["k"], "fields": [{"name": "k", "type": "int"}]}'
CONNECT = '{"type": "struct", "name": "lab.ks.t.Value", "fields": [{"type": "int32", "field": "k"}]}'
KEYED = f'{{"key": {CONNECT}, "value": {{"schema": {CONNECT}, "payload": null}}}}'


def _file(folder: Path, *, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("s.cql", CQL),
        ("s.CQL", "\ufeff" + CQL),
        ("s.sql", CQL),
        ("s.sql", "CREATE TABLE t (k int PRIMARY KEY, v text[]); -- frozen<x>"),
        ("s.sql", "CREATE TYPE a.mood AS ENUM ('x');\nCREATE TABLE t (k int PRIMARY KEY, v a.mood DEFAULT 'x'::a.mood);"),
        ("s.sql", "CREATE TYPE p AS (x int); CREATE TYPE r AS RANGE (subtype = int); CREATE TABLE t (k int PRIMARY KEY, v _p);"),
        ("s.sql", "CREATE TYPE IF NOT EXISTS ks.u (a int); CREATE TABLE t (k int PRIMARY KEY, v u);"),
        ("s.ddl", "CREATE TABLE `t` (`k` int PRIMARY KEY)"),
        ("s.avsc", AVRO),
        ("s.json", AVRO),
        ("s.json", KEYED),
        ("s.jsonl", f"{KEYED}\n{KEYED}\n"),
        ("s.yml", "table: t\ncolumns: {k: int}\nprimary_key: k"),
        ("s.yaml", "table: t\ncolumns: {k: int}\nprimary_key: k"),
        ("s.json", '{"table": "t", "columns": {"k": "int"}, "primary_key": "k"}'),
    ],
)
def test_each_format_is_known_by_suffix_and_content(tmp_path: Path, name: str, text: str) -> None:
    path = _file(tmp_path, name=name, text=text)
    tables = read_schemas(path, keyspace="ks")
    assert list(tables) == ["ks.t"]
    assert tables["ks.t"].full_name == "ks.t"
    assert [c.name for c in read_schema(path, table="ks.t").partition] == ["k"]


def test_key_columns_can_be_given_for_formats_without_keys(tmp_path: Path) -> None:
    path = _file(tmp_path, name="v.json", text=CONNECT)
    assert read_schema(path, table="ks.t", key_columns=["k"]).partition[0].name == "k"


def test_a_table_without_keyspace_takes_the_given_one_or_that_of_the_name_asked_for(tmp_path: Path) -> None:
    path = _file(tmp_path, name="s.cql", text=CQL)
    assert read_schema(path, table="shop.t").keyspace == "shop"
    assert read_schema(path, table="shop.t", keyspace="shop").keyspace == "shop"
    assert read_schema(path, table="t", keyspace="shop").keyspace == "shop"
    assert read_schema(path, table="t").keyspace == ""
    with pytest.raises(SchemaError, match=r"no table 'other\.t' in the file"):
        read_schema(path, table="other.t", keyspace="shop")


def test_a_name_of_three_parts_finds_the_schemas_table(tmp_path: Path) -> None:
    path = _file(tmp_path, name="s.sql", text="CREATE TABLE public.t (k serial PRIMARY KEY)")
    table = read_schema(path, table="lab.public.t")
    assert (table.keyspace, table.name) == ("lab.public", "t")


def test_a_missing_table_gets_a_suggestion_and_the_list(tmp_path: Path) -> None:
    path = _file(tmp_path, name="s.cql", text=CQL + "CREATE TABLE orders (k int PRIMARY KEY);")
    with pytest.raises(SchemaError) as caught:
        read_schema(path, table="ks.ordrs")
    message = str(caught.value)
    assert str(path) in message
    assert "did you mean 'ks.orders'" in message
    assert "'ks.t'" in message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"nope\.cql: the schema file does not exist"):
        read_schemas(tmp_path / "nope.cql")
    with pytest.raises(SchemaError, match="cannot be read"):
        read_schemas(tmp_path)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"'\.txt' tells no schema format; expected one of \.avsc, \.cql"):
        read_schemas(_file(tmp_path, name="s.txt", text=CQL))
    (tmp_path / "s.cql").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SchemaError, match="is not UTF-8"):
        read_schemas(tmp_path / "s.cql")
    with pytest.raises(SchemaError, match="defines no table"):
        read_schemas(_file(tmp_path, name="e.cql", text="-- nothing"))
    with pytest.raises(SchemaError, match="defines no table at all"):
        read_schema(_file(tmp_path, name="e.cql", text="-- nothing"), table="ks.t")


def test_an_unusable_table_leaves_the_others_readable(tmp_path: Path) -> None:
    counters = "CREATE TABLE n (k int PRIMARY KEY, c counter);"
    path = _file(tmp_path, name="s.cql", text=counters + CQL)
    assert list(read_schemas(path, keyspace="ks")) == ["ks.t"]
    assert list(read_catalog(path, keyspace="ks").refused) == ["ks.n"]
    assert read_schema(path, table="ks.t").name == "t"
    with pytest.raises(UnsupportedError, match=r"ks\.n: column 'c' is a counter"):
        read_schema(path, table="ks.n")
    with pytest.raises(UnsupportedError, match="counter"):
        read_schemas(_file(tmp_path, name="only.cql", text=counters))


def test_reading_cql_loads_neither_sqlglot_nor_yaml() -> None:
    code = "import sys, cdc_views.schemas as s; s.parse_type('int'); sys.exit(bool({'sqlglot', 'yaml'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", ["s.cql", "s.sql"])
def test_a_file_is_parsed_once_for_all_its_tables_and_again_once_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    parsed: list[str] = []

    def read(text: str, **given: Any) -> Catalog:
        parsed.append(text)
        return read_text(text, **given)

    monkeypatch.setattr(schema_readers, "read_text", read)
    tables = [f"shop.t{number}" for number in range(50)]
    path = _file(tmp_path, name=name, text=" ".join(f"CREATE TABLE {table} (a int PRIMARY KEY);" for table in tables))
    config = [{"name": table, "schema": name, "raw": {"format": "cassandra-mutation"}} for table in tables]
    project_file = _file(tmp_path, name="p.yml", text=json.dumps({"name": "p", "engine": "duckdb", "tables": config}))
    project = Project.load(project_file)
    assert [table.schema.full_name for table in project.tables] == tables
    assert all(table.fidelity() for table in project.tables)
    assert len(parsed) == 1
    # as large, and maybe within one tick of the file system's clock
    path.write_text(path.read_text().replace("(a int", "(b int"))
    assert [column.name for column in project.table("shop.t0").schema.columns] == ["b"]
    assert len(parsed) == 2


def test_a_table_that_is_refused_is_refused_each_time_with_the_same_words(tmp_path: Path) -> None:
    path = _file(tmp_path, name="s.cql", text=f"{CQL} CREATE TABLE n (k int PRIMARY KEY, c counter);")
    for _ in range(3):
        with pytest.raises(UnsupportedError, match="counter") as refused:
            read_schema(path, table="ks.n")
        assert len(refused.traceback) < 6
