"""A project's tables as a producer sees them."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from helpers.tiny_project import SCHEMA, event

from cdc_views import Project
from cdc_views.cli.producing import ProjectTarget, find_producer, targets_of
from cdc_views.errors import ConfigError, EngineError
from cdc_views.landing import Position, StreamEvent
from cdc_views.state.identity import RawMismatchError

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


class Silent:
    """A log that nobody reads."""

    def info(self, message: str, **facts: Any) -> None: ...

    def warning(self, message: str, **facts: Any) -> None: ...


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProjectTarget:
    """A table with one event in its raw table."""
    monkeypatch.chdir(tmp_path)
    columns = ", ".join(f"{column.name} {column.type}" for column in SCHEMA.columns)
    keys = ", ".join(column.name for column in SCHEMA.partition)
    Path("schema.cql").write_text(f"CREATE TABLE {SCHEMA.full_name} ({columns}, PRIMARY KEY ({keys}));")
    table = {"name": SCHEMA.full_name, "schema": "schema.cql", "raw": {"format": "cassandra-mutation"}}
    Path("cdc_views.yml").write_text(json.dumps({"name": "tiny", "engine": "duckdb", "tables": [table]}))
    (made,) = targets_of(Path("cdc_views.yml"), (), format_name="cassandra-mutation", log=Silent())
    made.lander("log").land([StreamEvent(Position(1, 1), event(1).encode())], through=Position(1, 1), now=NOW)
    assert made.lander("log").position() == Position(1, 1)
    return made


def test_a_producer_takes_the_tables_of_its_format_or_those_that_are_named(target: ProjectTarget) -> None:
    text = json.loads(Path("cdc_views.yml").read_text())
    first = text["tables"][0]
    (Path("more.sql")).write_text("CREATE TABLE shop.a (id int PRIMARY KEY); CREATE TABLE shop.b (id int PRIMARY KEY);")
    more = [{"name": f"shop.{name}", "schema": "more.sql", "raw": {"format": "debezium"}} for name in "ab"]
    Path("cdc_views.yml").write_text(json.dumps(text | {"tables": [first, *more]}))

    def taken(*names: str, format_name: str | None = "debezium") -> list[str]:
        return [one.name for one in targets_of(Path("cdc_views.yml"), names, format_name=format_name, log=Silent())]

    assert taken() == ["shop.a", "shop.b"]
    assert [getattr(find_producer(source), "raw_format", "") for source in ("mariadb", "mysql")] == ["debezium"] * 2
    assert taken("shop.b") == ["shop.b"]
    assert taken(format_name=None) == [target.name, "shop.a", "shop.b"]
    with pytest.raises(ConfigError, match="this source's events are debezium"):
        taken(target.name)


@pytest.mark.parametrize(("is_in_the_way", "told"), [(False, "the raw table is gone; put it back"), (True, "Not a directory")])
def test_a_raw_table_that_was_there_is_waited_for(target: ProjectTarget, is_in_the_way: bool, told: str) -> None:
    raw = Path(target.raw.location)
    raw.rename("away")
    if is_in_the_way:
        raw.write_text("in the way")
    for _ in range(2):
        with pytest.raises(EngineError, match=told):
            target.lander("log")
    raw.unlink(missing_ok=True)
    Path("away").rename(raw)
    assert target.lander("log").position() == Position(1, 1)


def test_an_earlier_raw_table_that_was_there_is_waited_for(target: ProjectTarget) -> None:
    """It was beside the project file, as in projects of earlier versions; no other begins in the warehouse."""
    shutil.move("warehouse/raw", "raw")
    assert target.lander("log").raw.location == str(Path("raw/shop_orders").absolute())
    Path("raw").rename("away")
    for is_changed in (False, True):
        if is_changed:
            Path("cdc_views.yml").write_text(Path("cdc_views.yml").read_text() + "\n")
        with pytest.raises(EngineError, match=r"/raw/shop_orders: the raw table is gone; put it back") as told:
            target.lander("log")
        assert "warehouse" not in str(told.value)
    Path("away").rename("raw")
    assert target.lander("log").position() == Position(1, 1)
    assert not Path("warehouse/raw").exists()


def test_another_raw_table_may_be_named_meanwhile(target: ProjectTarget) -> None:
    shutil.rmtree(target.raw.location)
    text = Path("cdc_views.yml").read_text()
    Path("cdc_views.yml").write_text(text.replace('"cassandra-mutation"', '"cassandra-mutation", "table": "raw/again"'))
    with pytest.raises(RawMismatchError, match="is gone"):
        target.lander("log")
    Project.load().table(target.name).rebuild(accept=True)
    assert target.lander("log").position() is None


def test_what_is_in_the_way_from_the_start_is_refused(target: ProjectTarget) -> None:
    raw = Path(target.raw.location)
    shutil.rmtree(raw)
    raw.write_text("in the way")
    (fresh,) = targets_of(Path("cdc_views.yml"), (), format_name="cassandra-mutation", log=Silent())
    with pytest.raises(ConfigError, match="is a file; name a folder"):
        fresh.lander("log")
