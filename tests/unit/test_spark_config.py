"""`spark:` of a project file reaches the session that cdc-views opens."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from cdc_views_spark import engine, session, stores
from cdc_views_spark.config import SparkConfig
from helpers.tiny_project import CQL

from cdc_views import Project
from cdc_views.errors import ConfigError, UnsupportedError
from cdc_views.storage.stores import use_options


def project(folder: Path, **more: object) -> Project:
    table = {"name": "shop.orders", "schema": "schema.cql", "raw": {"format": "cassandra-mutation"}}
    (folder / "schema.cql").write_text(CQL)
    (folder / "cdc_views.yml").write_text(json.dumps({"name": "t", "engine": "spark", "tables": [table], **more}))
    return Project.load(folder / "cdc_views.yml")


def test_the_section_reaches_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, SparkConfig]] = []
    monkeypatch.setattr(engine, "configured", lambda warehouse, config: asked.append((warehouse, config)))
    told = {"master": "spark://m:7077", "catalog": "main", "memory": "4g", "settings": {"spark.executor.memory": "8g"}}
    loaded = project(tmp_path, spark=told)
    loaded.engine_plugin.open(loaded.config, folder=loaded.warehouse)
    loaded = project(tmp_path)
    loaded.engine_plugin.open(loaded.config, folder=loaded.warehouse)
    assert [config.model_dump() for _, config in asked] == [
        told,
        {"master": None, "catalog": None, "memory": "2g", "settings": {}},
    ]
    assert {warehouse for warehouse, _ in asked} == {loaded.warehouse}


def test_a_session_that_we_open_has_the_settings_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "tools" / "spark.md").read_text("utf-8")
    block = page.partition("```properties\n")[2].partition("```")[0]
    told = dict(line.split("=", 1) for line in block.splitlines() if not line.startswith("#"))
    assert len(told) == 5
    monkeypatch.delenv("CDC_VIEWS_SPARK_MASTER", raising=False)
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("CDC_VIEWS_CACHE", str(tmp_path))
    monkeypatch.setattr(session, "delta_jars", list)
    for master, place in ((None, "local[2]"), ("spark://m:7077", "spark://m:7077")):
        monkeypatch.setattr(session, "SparkSession", spark := MagicMock())
        spark.getActiveSession.return_value = None
        builder = spark.builder.master.return_value.appName.return_value
        builder.config.return_value = builder
        session.configured(tmp_path, SparkConfig(master=master))
        spark.builder.master.assert_called_once_with(place)
        assert told.items() <= dict(call.args for call in builder.config.call_args_list).items()


def test_it_stands_where_another_engine_is_the_usual_one(tmp_path: Path) -> None:
    loaded = project(tmp_path, engine="duckdb", spark={"memory": "4g"})
    assert loaded.config.options_of("spark").memory == "4g"
    with pytest.raises(ConfigError, match="`spark` goes with engine spark, not with bigquery"):
        project(tmp_path, engine="bigquery", warehouse="p.d", spark={"memory": "4g"})


def test_a_typing_error_is_found(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="settinsg"):
        project(tmp_path, spark={"settinsg": {}})


def test_hadoop_is_told_what_deltalake_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SKIP_SIGNATURE"):
        monkeypatch.delenv(name, raising=False)
    own = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "x"}
    own["AWS_SESSION_TOKEN"] = "c"
    use_options("s3://told/a", own)
    use_options("s3://plain/a", {"AWS_REGION": "eu-central-1"})
    use_options("s3://open/a", {"AWS_SKIP_SIGNATURE": "true"})
    begin = "spark.hadoop.fs.s3a."
    found = {name.removeprefix(begin): value for name, value in stores.store_settings("s3://told/a").items() if begin in name}
    assert found == {
        "endpoint": "http://127.0.0.1:9",
        "endpoint.region": "x",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "access.key": "a",
        "secret.key": "b",
        "session.token": "c",
    }
    plain = stores.store_settings("s3://plain/a/b")
    assert {name: value for name, value in plain.items() if begin in name} == {f"{begin}endpoint.region": "eu-central-1"}
    assert "Anonymous" in stores.store_settings("s3://open/a")[f"{begin}aws.credentials.provider"]
    assert stores.store_settings("/a/folder") == {}


def test_options_of_a_store_may_be_flags_and_numbers(tmp_path: Path) -> None:
    loaded = project(tmp_path, warehouse="s3://lake/a", storage_options={"allow_http": True, "max_retries": 3, "region": "x"})
    assert loaded.config.storage_options == {"allow_http": "true", "max_retries": "3", "region": "x"}


@pytest.mark.parametrize("url", ["gs://bucket/a", "abfss://c@a.dfs.core.windows.net/a"])
def test_another_store_needs_a_session_of_the_users(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from cdc_views.storage.places import place_of

    with pytest.raises(UnsupportedError, match="open a session"):
        stores.store_jars(url)
    theirs = object()
    monkeypatch.setattr(session.SparkSession, "getActiveSession", lambda: theirs)
    assert session.open_session(warehouse=place_of(url)) is theirs


def test_a_catalog_is_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cdc_views.storage.places import place_of

    monkeypatch.setenv("CDC_VIEWS_CACHE", str(tmp_path))
    assert session._catalog_folder(tmp_path / "w") == tmp_path / "w"
    folders = {session._catalog_folder(place_of(f"s3://b/{name}")) for name in ("one", "two")}
    assert len(folders) == 2
    assert all(folder.is_relative_to(tmp_path / "catalogs") for folder in folders)
    place = session._settings(tmp_path, "1g")["spark.hadoop.javax.jdo.option.ConnectionURL"]
    assert place == f"jdbc:derby:;databaseName={tmp_path.resolve()}/metastore;create=true"
