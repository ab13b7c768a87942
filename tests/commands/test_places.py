"""What has no place of its own is under the warehouse; what an earlier version put beside the project file stays there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from helpers.command_line import Answer, CommandLine
from helpers.comparing import raw_location
from helpers.tiny_project import CQL, event, make_project, write_lines

from cdc_views import Project
from cdc_views.errors import ConfigError

TABLE = "shop.orders"
FORMAT = "cassandra-mutation"
EARLIER, NOW = "raw/shop_orders", "warehouse/raw/shop_orders"
BAD = '{"format": "cassandra-mutation/1", "answer": 42}'
KEY = '{"id": 1, "line": 0}'


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """An empty folder to work in; what is beside it is no part of a project."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return CommandLine(capsys)


def land(run: CommandLine, *lines: str, more: tuple[str, ...] = ()) -> Answer:
    file = write_lines(Path("..") / f"{len(list(Path('..').iterdir()))}.jsonl", *lines)
    return run("land", FORMAT, str(file), "--table", TABLE, *more)


def names(raw: str | None = None, *, warehouse: str = "warehouse") -> None:
    """Write a project file that names this raw table, or none."""
    make_project(Path(), raw={"format": FORMAT} | ({} if raw is None else {"table": raw}))
    file = Path("cdc_views.yml")
    file.write_text(json.dumps(json.loads(file.read_text()) | {"warehouse": warehouse}))


def ids(run: CommandLine) -> list[int]:
    return sorted(row["id"] for row in run.query(TABLE))


def waiting(run: CommandLine) -> int:
    answer = run("quarantine", "list", "--format", "jsonl")
    assert answer.code == 0, answer.err
    return len(answer.rows)


def earlier(run: CommandLine, *lines: str) -> None:
    """Make a project as an earlier version did."""
    names(EARLIER)
    assert land(run, *lines, more=("--force",)).code in (0, 1)
    names()


@pytest.mark.heavy
def test_beside_the_project_file_are_its_schema_and_the_warehouse(run: CommandLine) -> None:
    Path("schema.cql").write_text(CQL)
    assert run("init", "--from", "schema.cql", "--name", "shop").code == 0
    mine = {"cdc_views.yml", "schema.cql"}
    assert {path.name for path in Path().iterdir()} == mine
    assert land(run, event(1), event(2), BAD).code == 1
    serving = Path("cdc_views.yml").read_text() + "    materialize: {serving: true}\n"
    Path("cdc_views.yml").write_text(serving)
    for command in (
        ("materialize",), ("query", TABLE), ("query", TABLE, "--raw-only"), ("apply",), ("plan",), ("generate",), ("fidelity",),
        ("status",), ("replicas", TABLE, "--replication-factor", "1"),
        ("late", TABLE), ("history", TABLE), ("explain", TABLE, "--key", KEY),
        ("quarantine", "list"), ("quarantine", "discard", TABLE, "--all", "--reason", "no event"),
        ("validate", "--fail-on", "error"), ("report", "--out", "../site"), ("rebuild", TABLE), ("maintain",),
        ("maintain", "--drop-raw-older-than", "0s"), ("forget", TABLE, "--key", KEY), ("materialize",),
    ):  # fmt: skip
        answer = run(*command)
        assert answer.code in (0, 1), (command, answer.err)
        assert {path.name for path in Path().iterdir()} == mine | {"warehouse"}, command
    assert ids(run) == [2]
    assert {path.name for path in Path("warehouse/raw").iterdir()} == {"shop_orders", "shop_orders__quarantine"}


def test_an_earlier_project_finds_its_raw_table_and_its_quarantine(run: CommandLine) -> None:
    earlier(run, event(1), event(2), BAD)
    assert (raw_location(TABLE), ids(run), waiting(run)) == (str(Path(EARLIER).absolute()), [1, 2], 1)
    assert run("materialize").code == 0
    assert land(run, event(3), BAD).code == 1
    assert run("materialize").code == 0
    assert (ids(run), waiting(run)) == ([1, 2, 3], 2)
    assert run("validate", "--no-docs", "--fail-on", "error").code == 0
    assert not Path("warehouse/raw").exists()


def test_an_earlier_quarantine_is_found_without_a_raw_table(run: CommandLine) -> None:
    earlier(run, BAD)
    shutil.rmtree(EARLIER, ignore_errors=True)
    shutil.rmtree("warehouse", ignore_errors=True)
    assert waiting(run) == 1
    assert land(run, event(1)).code == 0
    assert (ids(run), waiting(run)) == ([1], 1)
    assert (DeltaTable(EARLIER).version() >= 0, Path("warehouse/raw").exists()) == (True, False)


def test_an_earlier_raw_table_may_move_into_the_warehouse(run: CommandLine) -> None:
    earlier(run, event(1), BAD)
    assert run("materialize").code == 0
    shutil.move("raw", "warehouse/raw")
    assert (raw_location(TABLE), ids(run), waiting(run)) == (str(Path(NOW).absolute()), [1], 1)
    assert (land(run, event(2)).code, run("materialize").code, ids(run)) == (0, 0, [1, 2])
    assert not Path("raw").exists()


@pytest.mark.parametrize("kept", [EARLIER, NOW])
@pytest.mark.parametrize("what", ["", "__quarantine"], ids=["raw table", "quarantine"])
def test_raw_in_both_places_is_an_error_whose_remedy_works(run: CommandLine, kept: str, what: str) -> None:
    earlier(run, event(1), BAD)
    shutil.copytree(EARLIER + what, NOW + what)
    commands: tuple[tuple[str, ...], ...] = (
        ("query", TABLE), ("materialize",), ("validate", "--no-docs"), ("status",), ("quarantine", "list"), ("apply",),
    )  # fmt: skip
    for answer in (*(run(*command) for command in commands), land(run, event(2))):
        assert (answer.code, answer.err.count("error: ")) == (2, 1), answer.err
        for part in ("cdc_views.yml", TABLE, NOW, EARLIER, "set `raw: {table: …}` to the one to read"):
            assert part in answer.err
    shutil.copytree(EARLIER, NOW, dirs_exist_ok=True)
    names(kept)
    assert (ids(run), land(run, event(2)).code, ids(run)) == ([1], 0, [1, 2])
    other = NOW if kept == EARLIER else EARLIER
    assert DeltaTable(other).to_pyarrow_table().column("id").to_pylist() == [1], "the other stays as it is"


def _same() -> str:
    return "."


def _absolute() -> str:
    return str(Path().absolute())


def _linked() -> str:
    Path("link").symlink_to(".")
    return "link"


@pytest.mark.parametrize("warehouse", [_same, _absolute, _linked])
def test_where_both_are_one_folder_nothing_changes(run: CommandLine, warehouse: Callable[[], str]) -> None:
    folder = warehouse()
    names(EARLIER, warehouse=folder)
    assert land(run, event(1), BAD).code == 1
    before = Path(raw_location(TABLE))
    names(warehouse=folder)
    assert before.samefile(raw_location(TABLE))
    assert (land(run, event(2)).code, run("materialize").code, ids(run), waiting(run)) == (0, 0, [1, 2], 1)


def test_while_an_earlier_raw_table_is_away_no_other_begins(run: CommandLine) -> None:
    earlier(run, event(1))
    shutil.move("raw", "unmounted")
    answer = land(run, event(2))
    assert (answer.code, "its raw table" in answer.err, Path("warehouse/raw").exists()) == (3, True, False), answer.err
    shutil.move("unmounted", "raw")
    assert (land(run, event(2)).code, ids(run)) == (0, [1, 2])


NEW: dict[str, Any] = {"name": "shop.other", "schema": "schema.cql"}


@pytest.mark.parametrize("path", [EARLIER, NOW, f"./x/../{NOW}/"])
def test_no_table_may_name_a_place_that_another_table_has_by_its_name(run: CommandLine, path: str) -> None:
    names()
    told = json.loads(Path("cdc_views.yml").read_text())
    told["tables"].append(NEW | {"raw": {"format": FORMAT, "table": path}})
    Path("cdc_views.yml").write_text(json.dumps(told))
    with pytest.raises(ConfigError, match=r"raw table '(warehouse/)?raw/shop_orders' occurs twice"):
        Project.load()
