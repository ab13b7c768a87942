"""A field of a user type that was renamed: what has landed shows under its new name, or the command refuses."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path

import pytest
from helpers.command_line import CommandLine, write_project

from cdc_views.model.naming import RenamedField, held_name, physical_name, renamed_field
from cdc_views.model.types import Udt
from cdc_views.schemas.cql.reader import read_cql

TYPE = "CREATE TYPE ks.addr (street text, zip int);\n"
TABLE = "CREATE TABLE ks.t (k int PRIMARY KEY, a addr, f frozen<addr>, m map<int, frozen<addr>>);\n"
RENAME = "ALTER TYPE ks.addr RENAME zip TO zip2;\n"
ENTRY = {"name": "ks.t", "schema": "ks.cql", "raw": {"format": "cassandra-mutation"}, "materialize": {"serving": {"name": "now"}}}


def event(k: int, zip_: str, *, written: int = 5) -> str:
    """One row, all of it, whose user types have a field of this name."""
    value = {"street": "s", zip_: 7}
    cells = [{"column": "a", "written": written, "path": name, "value": value[name]} for name in value]
    cells += [{"column": "f", "written": written, "value": value}, {"column": "m", "written": written, "path": 1, "value": value}]
    row = {"kind": "row", "clustering": {}, "liveness": {"written": written}, "cells": cells}
    origin = {"format": "cassandra-mutation/1", "node": "n", "segment": 1, "position": 10 * k + written}
    return json.dumps({**origin, "keyspace": "ks", "table": "t", "partition": {"k": k}, "rows": [row]})


def shown(name: str, *keys: int) -> list[dict[str, object]]:
    value = {"street": "s", name: 7}
    return [{"k": k, "a": value, "f": value, "m": {"1": value}} for k in keys]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    return CommandLine(capsys)


@pytest.fixture
def landed(run: CommandLine) -> CommandLine:
    write_project(ENTRY)
    Path("ks.cql").write_text(TYPE + TABLE)
    assert run.land("ks.t", event(1, "zip"), format="cassandra-mutation").code == 0
    return run


def check(run: CommandLine, engine: str, *keys: int, name: str = "zip2") -> None:
    for more in (["--raw-only"], []):
        assert run.query("ks.t", "--engine", engine, *more) == shown(name, *keys)


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])])
@pytest.mark.parametrize("is_materialized", [True, False])
def test_what_has_landed_and_what_lands_show_under_the_new_name(landed: CommandLine, is_materialized: bool, engine: str) -> None:
    run = landed
    if is_materialized:
        assert run("materialize", "--once", "--engine", engine).code == 0
    Path("ks.cql").write_text(TYPE + TABLE + RENAME)
    check(run, engine, 1)
    assert run.land("ks.t", event(2, "zip2"), format="cassandra-mutation", file="2.jsonl").code == 0
    check(run, engine, 1, 2)
    assert run("materialize", "--once", "--engine", engine).code == 0
    check(run, engine, 1, 2)
    # and again, and back to what it was first
    for number, (former, name) in enumerate([("zip2", "zip_three"), ("zip_three", "zip")], start=3):
        with Path("ks.cql").open("a") as schema:
            schema.write(f'ALTER TYPE ks.addr RENAME "{former}" TO "{name}";\n')
        assert run.land("ks.t", event(number, name), format="cassandra-mutation", file=f"{number}.jsonl").code == 0
        check(run, engine, *range(1, number + 1), name=name)
    assert '"zip"' in run("explain", "ks.t", "--key", '{"k": 1}', "--format", "json").out


def test_a_type_that_was_rewritten_with_the_new_name_is_refused_and_the_remedy_works(landed: CommandLine) -> None:
    Path("ks.cql").write_text(TYPE.replace("zip", "zip2") + TABLE)
    for command in (["query", "ks.t"], ["materialize", "--once"]):
        answer = landed(*command)
        assert (answer.code, "ALTER TYPE … RENAME zip TO zip2;" in answer.err) == (2, True), answer.err
    answer = landed.land("ks.t", event(2, "zip2"), format="cassandra-mutation", file="2.jsonl")
    assert (answer.code, "holds cells of zip" in answer.err) == (2, True)
    Path("ks.cql").write_text(TYPE + TABLE + RENAME)
    check(landed, "duckdb", 1)


@pytest.mark.parametrize("is_materialized", [True, False])
def test_a_field_that_comes_is_no_renamed_one(landed: CommandLine, is_materialized: bool) -> None:
    """Files that lack it are read beside one that has it."""
    run = landed
    if is_materialized:
        assert run("materialize", "--once").code == 0
    Path("ks.cql").write_text(TYPE + TABLE + "ALTER TYPE ks.addr ADD floor int;\n")
    value = {"street": "s", "zip": 7, "floor": None}
    assert [row["a"] for row in run.query("ks.t")] == [value]
    new = event(2, "floor")
    assert run.land("ks.t", new, format="cassandra-mutation", file="2.jsonl").code == 0
    for more in (["--raw-only"], []):
        assert [row["a"] for row in run.query("ks.t", *more)] == [value, {"street": "s", "zip": None, "floor": 7}]
    for number in (3, 4):
        assert run("materialize", "--once").code == 0
        more = new.replace('"k": 2', f'"k": {number}').replace('"position": 25', f'"position": {number}5')
        assert run.land("ks.t", more, format="cassandra-mutation", file=f"{number}.jsonl").code == 0
        assert len(run.query("ks.t")) == number


def test_a_renamed_name_is_text_and_knows_what_it_is_stored_by() -> None:
    name = renamed_field(renamed_field("zip", "a b"), "Zip")
    assert (name, physical_name(name), held_name(name)) == ("Zip", "zip", "Zip")
    assert renamed_field(name, "zip") == "zip"
    assert not isinstance(renamed_field(name, "zip"), RenamedField)
    for other in (copy.deepcopy(name), pickle.loads(pickle.dumps(name))):
        assert (other, physical_name(other)) == ("Zip", "zip")
    kind = read_cql(TYPE + TABLE + RENAME).table("ks.t").column("a").type
    assert isinstance(kind, Udt)
    assert [physical_name(field) for field, _ in kind.fields] == ["street", "zip"]
