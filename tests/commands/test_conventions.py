"""The command line by convention: groups in `--help`, completion, short names, lists with commas, rows that a person can read."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from helpers.tiny_project import NOW, event, make_project, write_lines

from cdc_views.cli import main
from cdc_views.cli.app import app
from cdc_views.cli.groups import NO_GROUP, group_of, summary_of
from cdc_views.cli.printing import Appearance, as_json_rows, print_rows
from cdc_views.cli.shown_examples import EXAMPLES
from cdc_views.sql.dialects import dialect_names

Captured = pytest.CaptureFixture[str]
SCRIPT = "import sys; from cdc_views.cli import main; sys.exit(main())"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> Path:
    """The working directory is a project of one table, shop.orders, with one row that was written twice."""
    monkeypatch.chdir(tmp_path)
    found = make_project(tmp_path)
    write_lines(Path("a.jsonl"), event(1), event(1, state="done", position=2))
    assert main(["land", "cassandra-mutation", "a.jsonl", "--table", "orders"]) == 0
    capsys.readouterr()
    return found


def out_of(captured: Captured, *arguments: str) -> str:
    assert main(arguments) == 0
    return captured.readouterr().out


def test_help_has_every_command_once_in_a_group_with_its_whole_summary(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = out_of(capsys, "--help")
    commands = {name: one for name, one in vars(typer.main.get_command(app))["commands"].items() if not one.hidden}
    assert NO_GROUP not in {group_of(command) for command in commands.values()}
    for name, command in commands.items():
        assert len(re.findall(rf"^  {name} +[A-Z]", shown, re.MULTILINE)) == 1
        assert re.search(rf"^{group_of(command)}:\n(?:  .*\n)*  {name} ", shown, re.MULTILINE), f"{name}: its task"
        assert re.sub(r"\s+", " ", summary_of(command)) in re.sub(r"\s+", " ", shown)
        assert len(summary_of(command)) <= 80 - 14, f"{name}: its summary takes more than a line"
    assert "..." not in shown.replace("[ARGS]...", "")


def _all_commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        yield " ".join((*path, name)), command
        if hasattr(command, "list_commands"):
            yield from _all_commands(command, (*path, name))


def test_help_of_generate_names_every_dialect(capsys: Captured) -> None:
    shown = out_of(capsys, "generate", "--help")
    assert [name for name in dialect_names() if not re.search(rf"\b{name}\b", shown)] == []


def test_help_of_every_command_cuts_nothing_and_breaks_no_word(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = {path: out_of(capsys, *path.split(), "--help") for path, _ in _all_commands(typer.main.get_command(app))}
    assert len(shown) > 40
    for path, text in shown.items():
        for line in text.splitlines():
            assert len(line) <= 80, (path, line)
            assert not re.search(r"\w-$|^ *-\w*$", line), f"{path}: a word is broken: {line}"
        assert "..." not in re.sub(r"FILE\.\.\.|\[ARGS\]\.\.\.", "", text), f"{path}: something is cut"
        assert not re.search(r"<\w+>|\{\w+\}", text), f"{path}: has a name of a type"


def test_examples_of_help_name_commands_and_options_that_there_are() -> None:
    commands = dict(_all_commands(typer.main.get_command(app)))
    assert EXAMPLES.keys() <= commands.keys()
    for path, text in EXAMPLES.items():
        known = {name for one in commands[path].params for name in (*one.opts, *one.secondary_opts)}
        for line in text.splitlines():
            assert f"cdc-views {path}" in line
            assert set(re.findall(r"(?<= )--?[a-z][a-z-]*", line)) <= known, line


def completed(*words: str) -> list[str]:
    """What bash is offered for the last of these words."""
    asked = {"_CDC_VIEWS_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env={**os.environ, **asked}, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["cdc-views", "mat"], ["materialize"]),
        (["cdc-views", "query", "sh"], ["shop.orders"]),
        (["cdc-views", "query", "shop.orders", "--columns", "id,st"], ["id,state"]),
        (["cdc-views", "query", "shop.orders", "--engine", "d"], ["duckdb"]),
        (["cdc-views", "query", "shop.orders", "--strategy", "s"], ["self_join"]),
        (["cdc-views", "land", "--table", "sh"], ["shop.orders"]),
        (["cdc-views", "status", "--select", "sh"], ["shop.orders"]),
    ],
)
def test_a_shell_completes_commands_and_names(words: Sequence[str], offered: Sequence[str]) -> None:
    assert completed(*words) == offered


def test_completion_without_a_project_offers_nothing_and_is_silent(project: Path) -> None:
    project.unlink()
    assert completed("cdc-views", "query", "sh") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed(capsys: Captured, shell: str) -> None:
    assert "_CDC_VIEWS_COMPLETE=complete_" in out_of(capsys, "completion", shell)


def test_bash_takes_the_script(capsys: Captured, tmp_path: Path) -> None:
    (tmp_path / "c.sh").write_text(out_of(capsys, "completion", "bash"))
    assert subprocess.run(["bash", "-n", tmp_path / "c.sh"], check=False).returncode == 0


def test_another_shell_is_a_slip(capsys: Captured) -> None:
    assert main(["completion", "fsh"]) == 2
    assert "did you mean 'fish'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "columns", [["--columns", "state,id"], ["--column", "state", "--columns", "id"], ["--columns", " state , id"]]
)
def test_columns_are_a_list_however_it_is_written(capsys: Captured, columns: Sequence[str]) -> None:
    (row,) = json.loads(out_of(capsys, "query", "orders", *columns, "--format", "json"))
    assert list(row) == ["state", "id"]


def test_explain_and_history_take_the_same_list(capsys: Captured) -> None:
    key = ["--key", '{"id": 1, "line": 0}', "--columns", "state,note", "--format", "json"]
    assert {row["column"] for row in json.loads(out_of(capsys, "explain", "orders", *key))} == {"state"}
    assert list(json.loads(out_of(capsys, "history", "orders", *key))[0])[:4] == ["id", "line", "state", "note"]


def test_an_unknown_column_of_a_list_is_named(capsys: Captured) -> None:
    assert main(["query", "orders", "--columns", "id,stat"]) == 2
    assert "did you mean 'state'?" in capsys.readouterr().err


def test_a_column_with_a_comma_in_its_name_is_one_column(tmp_path: Path, capsys: Captured) -> None:
    schema = 'CREATE TABLE shop.odd (id int PRIMARY KEY, "a,b" text);'
    (tmp_path / "odd.cql").write_text(schema)
    assert main(["init", "--from", "odd.cql", "--dir", "odd"]) == 0
    capsys.readouterr()
    shown = out_of(
        capsys, "query", "odd", "--columns", "a,b", "--columns", "id", "--project", "odd/cdc_views.yml", "--format", "csv"
    )
    assert shown.splitlines() == ['"a,b",id']


def test_explain_shows_the_winner_first_and_times_as_iso(capsys: Captured) -> None:
    shown = out_of(capsys, "explain", "orders", "--key", '{"id": 1, "line": 0}', "--as-of", str(NOW))
    lines = [line for line in shown.splitlines() if line.startswith("|")]
    assert re.search(r"1970-01-01T00:00:00\.\d{6}Z|20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", lines[1])
    state = [line for line in lines if line.startswith("| state")]
    assert " shown " in state[0]
    assert " lost " in state[1]
    assert "null" not in shown
    assert "ttl" not in lines[0]


def test_json_keeps_numbers(capsys: Captured) -> None:
    rows = json.loads(out_of(capsys, "explain", "orders", "--key", '{"id": 1, "line": 0}', "--format", "json"))
    assert all(isinstance(row["written"], int) for row in rows)
    assert "ttl" in rows[0]


ROW = {"id": 1, "name": "a" * 30, "note": None}


def test_rows_stand_vertically_when_asked(capsys: Captured) -> None:
    print_rows(list(ROW), as_json_rows([ROW, ROW]), format="vertical")
    assert capsys.readouterr().out.splitlines() == [
        "-[ 1 ]", "id   | 1", f"name | {'a' * 30}", "note | null", "-[ 2 ]", "id   | 1", f"name | {'a' * 30}", "note | null",
    ]  # fmt: skip


@pytest.mark.parametrize(("width", "is_vertical"), [("40", True), ("100", False)])
def test_a_terminal_that_is_too_narrow_shows_rows_vertically(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, width: str, is_vertical: bool
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_rows(list(ROW), as_json_rows([ROW]), format="table", appearance=Appearance(is_wide_vertical=True))
    assert ("-[ 1 ]" in capsys.readouterr().out) == is_vertical


def test_vertical_rows_move_no_terminal(capsys: Captured) -> None:
    print_rows(["a\x1b"], as_json_rows([{"a\x1b": "x\x1b]0;y\x07\nz"}]), format="vertical")
    shown = capsys.readouterr().out
    assert shown.splitlines() == ["-[ 1 ]", "a\\x1b | x\\x1b]0;y\\x07\\nz"]
