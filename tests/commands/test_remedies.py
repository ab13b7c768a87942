"""What a message says to do is done, and the command that failed then succeeds.

Not here: the remedies of damaged files (test_damaged_files.py), of missing packages (unit/test_extras.py), and those of
servers and producers, beside the tests of each.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from helpers.command_line import CommandLine, write_project
from helpers.command_line import table as table_of

TABLE = "shop.orders"
PLAIN = table_of(TABLE, "shop.sql")
SERVED = PLAIN | {"materialize": {"serving": {"name": "orders_now"}}}
QUERY = ("query", TABLE)
STATE = Path("warehouse/state/shop_orders/1")


def _event(number: int) -> str:
    source = {"connector": "postgresql", "db": "d", "schema": "shop", "table": "orders", "lsn": number, "txId": number,
              "ts_ms": 1, "version": "3.0.0.Final"}  # fmt: skip
    return json.dumps({"before": None, "after": {"id": number, "note": "a"}, "op": "c", "source": source, "ts_ms": 1})


@dataclass(frozen=True)
class Case:
    """Commands and changes that lead to a failure, what it says, and what it says to do.

    Attributes:
        before: Run one after the other; each must succeed.
        fails: The command that fails.
        says: Parts of the message: the remedy as it is told.
        remedy: What it says, done; commands must succeed.
        code: What `fails` ends with.
        table: The table of the project file.
    """

    before: tuple[tuple[str, ...] | Callable[[], Any], ...]
    fails: tuple[str, ...]
    says: str
    remedy: tuple[tuple[str, ...] | Callable[[], Any], ...]
    code: int = 2
    table: dict[str, Any] = field(default_factory=lambda: PLAIN)


def _foreign(folder: str) -> Callable[[], None]:
    """Somebody else's Delta table at a place."""
    return lambda: write_deltalake(folder, pa.table({"a": [1]}), mode="overwrite")


def _away(folder: str | Path) -> Callable[[], Any]:
    return lambda: shutil.move(folder, f"away.{Path(folder).name}")


def _project(**table: Any) -> Callable[[], None]:
    return lambda: write_project(PLAIN | table)


def _file(path: str, text: str = "") -> Callable[[], Any]:
    return lambda: (Path(path).parent.mkdir(parents=True, exist_ok=True), Path(path).write_text(text))


LAND = ("land", "debezium", "events.jsonl", "--table", TABLE)
MATERIALIZE = ("materialize",)
CASES = {
    "no project file": Case(
        (lambda: Path("cdc_views.yml").unlink(),),
        ("generate",),
        "make one with `cdc-views init --from SCHEMA`",
        (("init", "--from", "shop.sql"),),
    ),
    "init over a project": Case(
        (),
        ("init", "--from", "shop.sql"),
        "remove it, or name another place with --dir or --project",
        (lambda: Path("cdc_views.yml").unlink(),),
    ),
    "init over a project, another folder": Case(
        (),
        ("init", "--from", "shop.sql"),
        "name another place with --dir",
        (("init", "--from", "shop.sql", "--dir", "other"), lambda: Path("cdc_views.yml").unlink()),
    ),
    "nothing landed": Case(
        (), ("explain", TABLE, "--key", '{"id": 1}'), "land events with `cdc-views land FORMAT FILE…", (LAND,)
    ),
    "nothing landed, materialize": Case((), MATERIALIZE, "land events with `cdc-views land FORMAT FILE…", (LAND,)),
    "landed as another format": Case(
        (LAND,), ("land", "key-value", "events.jsonl", "--table", TABLE), "is it the table that is meant?", ()
    ),
    "a foreign Delta table as raw": Case(
        (_foreign("warehouse/raw/shop_orders"),),
        QUERY,
        "name another `raw: {table:",
        (_project(raw={"format": "debezium", "table": "raw/b"}),),
    ),
    "a raw table of another table": Case(
        (
            LAND,
            _file("shop2.sql", "CREATE TABLE shop.users (id int PRIMARY KEY, note text);"),
            lambda: write_project(
                table_of("shop.users", "shop2.sql") | {"raw": {"format": "debezium", "table": "warehouse/raw/shop_orders"}}
            ),
        ),
        ("query", "shop.users"),
        "give each table its own `raw: {table: …}`",
        (lambda: write_project(table_of("shop.users", "shop2.sql") | {"raw": {"format": "debezium", "table": "raw/users"}}),),
    ),
    "a changed type": Case(
        (LAND, _file("shop.sql", "CREATE TABLE orders (id int PRIMARY KEY, note bigint);")),
        QUERY,
        "set the schema back",
        (_file("shop.sql", "CREATE TABLE orders (id int PRIMARY KEY, note text);"),),
    ),
    "a changed type, another raw": Case(
        (LAND, _file("shop.sql", "CREATE TABLE orders (id int PRIMARY KEY, note bigint);")),
        QUERY,
        "a new `raw: {table: …}` in the project file, which `cdc-views rebuild",
        (_project(raw={"format": "debezium", "table": "raw/b"}), ("rebuild", TABLE, "--accept")),
    ),
    "a foreign Delta table as state": Case((LAND, _foreign(str(STATE))), MATERIALIZE, "move it away", (_away(STATE),)),
    "a foreign serving table": Case(
        (LAND, _foreign("warehouse/serving/orders_now")),
        MATERIALIZE,
        "move it away",
        (_away("warehouse/serving/orders_now"),),
        table=SERVED,
    ),
    "a folder where the serving table goes": Case(
        (LAND, _file("warehouse/serving/orders_now/mine.txt")),
        MATERIALIZE,
        "move it away",
        (_away("warehouse/serving/orders_now"),),
        table=SERVED,
    ),
    "a file as the warehouse": Case(
        (LAND, _away("warehouse"), _file("warehouse")),
        MATERIALIZE,
        "name a folder",
        (lambda: Path("warehouse").unlink(), lambda: shutil.move("away.warehouse", "warehouse")),
    ),
    "a file as the raw table": Case(
        (_file("warehouse/raw/shop_orders"),), QUERY, "name a folder", (_away("warehouse/raw/shop_orders"),)
    ),
    "no state to drop raw by": Case(
        (LAND,),
        ("maintain", "--drop-raw-older-than", "1d", "--select", TABLE),
        "run `cdc-views materialize` first",
        (MATERIALIZE,),
    ),
    "raw was dropped": Case(
        (LAND, MATERIALIZE, ("maintain", "--drop-raw-older-than", "0s", "--archive", "kept", "--select", TABLE)),
        ("query", TABLE, "--raw-only"),
        "restore their archive with `cdc-views maintain --restore-raw DIR`",
        (("maintain", "--restore-raw", "kept", "--select", TABLE),),
    ),
    "schedule and once": Case(
        (LAND,), ("materialize", "--schedule", "--once"), "run `cdc-views materialize --once`", (MATERIALIZE,)
    ),
    "another table selected": Case((LAND,), ("query", TABLE, "--select", "shop.b"), "leave --select out", ()),
    "an odd view database": Case(
        (LAND, _file("warehouse/views.duckdb", "noise")), ("apply",), "move it away", (_away("warehouse/views.duckdb"),), code=3
    ),
    "a schema file that is gone": Case(
        (LAND, _away("shop.sql")),
        QUERY,
        "name a CQL, SQL, .avsc or YAML file",
        (lambda: shutil.move("away.shop.sql", "shop.sql"),),
    ),
}
SUCCEEDS_OTHERWISE = {
    "landed as another format": LAND,
    "schedule and once": ("materialize", "--once"),
    "another table selected": QUERY,
}
"""What the remedy makes of the command itself."""


@pytest.mark.parametrize("name", CASES)
def test_the_remedy_that_a_message_names_works(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    case, run = CASES[name], CommandLine(capsys)
    Path("shop.sql").write_text("CREATE TABLE orders (id int PRIMARY KEY, note text);")
    Path("events.jsonl").write_text(_event(1) + "\n")
    write_project(case.table)
    _do(run, case.before)
    failed = run(*case.fails)
    assert failed.code == case.code, failed.err
    assert case.says in failed.err, failed.err
    _do(run, case.remedy)
    answer = run(*SUCCEEDS_OTHERWISE.get(name, case.fails))
    assert answer.code == 0, answer.err


def _do(run: CommandLine, steps: tuple[tuple[str, ...] | Callable[[], Any], ...]) -> None:
    for step in steps:
        command = step() if callable(step) else step
        if isinstance(command, tuple) and command and command[0] in ("land", "materialize", "maintain", "init", "rebuild"):
            answer = run(*command)
            assert answer.code == 0, (command, answer.err)
