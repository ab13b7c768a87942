"""A reason for quarantine tells what is wrong where, and no value of a row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable
from helpers.tiny_project import CQL, event, write_lines

from cdc_views.api import Project
from cdc_views.cli import main
from cdc_views.errors import MalformedEventError
from cdc_views.landing import quarantine_location
from cdc_views.landing.redaction import without_values
from cdc_views.model.types import LogicalType
from cdc_views.rules.codec.jsonread import from_json, parse_json
from cdc_views.schemas.cql.reader import read_cql
from cdc_views.schemas.cql.types import parse_type

SCHEMA = read_cql(
    "CREATE TABLE k.t (id int PRIMARY KEY, name text, at timestamp, u uuid, l list<int>, m map<text, int>, ip inet, b blob);"
).table("k.t")
SECRETS = ["hunter2", "hunter2 is not a int", "it's hunter2", 'say "hunter2', "\\hunter2'", "hunter2" * 40, "'id': hunter2"]
SECRETS += ["4111hunter2"]
NUMBERS = ["4111", "-4111.5", "4111e3", '{"hunter2": 4111}', '["hunter2", [4111]]', '{"hunter2": {"a": "hunter2 4111"}}']


@pytest.mark.parametrize("type_text", ["int", "timestamp", "uuid", "list<int>", "map<text, int>", "inet", "blob", "date"])
@pytest.mark.parametrize("value", [*map(json.dumps, SECRETS), *NUMBERS])
def test_no_value_is_told(type_text: str, value: str) -> None:
    reason = _reason(parse_type(type_text), value)
    if reason is not None:
        for whole in (reason, f"'id': {reason}", f"'name': 'l': {reason}"):
            told = without_values(whole, SCHEMA)
            assert "hunter2" not in told, whole
            assert "4111" not in told, whole
            assert "id" in told or whole == reason or "'name'" in told


def _reason(kind: LogicalType, value: str) -> str | None:
    try:
        from_json(kind, parse_json(value))
    except MalformedEventError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("'id': \"x1\" is not a int: an integer was expected", "'id': … is not a int: an integer was expected"),
        ("'id': 5000000000 is not a int: it does not fit 32 bits", "'id': … is not a int: it does not fit 32 bits"),
        ("k.t has no regular column 'gone'; it has 'x'", "k.t has no regular column 'gone'; it has …"),
        ("an event of table k.other2, where k.t1 was expected", "an event of table k.other2, where k.t1 was expected"),
        ("'written' is 'hunter2' where an integer was expected", "'written' is … where an integer was expected"),
        ("not UTF-8: invalid start byte at byte 12 of the line", "not UTF-8: invalid start byte at byte 12 of the line"),
        ("not JSON: member 'hunter2' occurs twice in one object", "not JSON: member … occurs twice in one object"),
        ("key column 'id' is missing or null", "key column 'id' is missing or null"),
        ("op is 'hunter2' where c, u, r, d or t was expected", "op is … where c, u, r, d or t was expected"),
    ],
)
def test_what_is_wrong_where_is_told(reason: str, told: str) -> None:
    assert without_values(reason, SCHEMA) == told


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_land_and_replay_tell_values_only_where_they_are_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], log_format: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.cql").write_text(CQL)
    table = {"name": "shop.orders", "schema": "s.cql", "raw": {"format": "cassandra-mutation"}}
    Path("cdc_views.yml").write_text(json.dumps({"name": "p", "engine": "duckdb", "tables": [table]}))
    write_lines(Path("e.jsonl"), event(1, partition={"id": "hunter2"}), '{"hunter2": ')
    land = ["land", "cassandra-mutation", "e.jsonl", "--table", "shop.orders", "--log-format", log_format]
    for command, words in ((land, ("e.jsonl:1: ",)), (["replay", "shop.orders", "--log-format", log_format], ())):
        assert main(command) == 1
        said = capsys.readouterr()
        assert "hunter2" not in said.out + said.err
        assert "is not a int" in said.err
        assert all(word in said.err for word in words)
    assert main(["quarantine", "list", "--format", "jsonl"]) == 0
    assert "hunter2" not in (listed := capsys.readouterr().out)
    assert "'id': … is not a int" in listed
    assert main(["quarantine", "show", "shop.orders", "--format", "jsonl"]) == 0
    assert "hunter2" in capsys.readouterr().out
    assert main(["replay", "shop.orders", "--with-values"]) == 1
    assert "hunter2" in capsys.readouterr().err
    reasons = DeltaTable(quarantine_location(Project.load("cdc_views.yml").table("shop.orders").raw)).to_pyarrow_table()["reason"]
    assert any("hunter2" in reason for reason in reasons.to_pylist())
