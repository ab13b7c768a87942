"""A damaged file: every command names table and file, exit 3, and the remedy that it names mends it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import pytest
from deltalake import DeltaTable
from helpers.command_line import CommandLine, write_project
from helpers.command_line import table as table_of
from helpers.comparing import raw_location

from cdc_views import Project
from cdc_views.errors import DamagedFileError

TABLE = "shop.orders"
READS_RAW = {
    "query": ["query", TABLE, "--raw-only"],
    "full": ["materialize", "--full"],
    "rebuild": ["rebuild", TABLE],
    "validate": ["validate", "--no-docs"],
    "explain": ["explain", TABLE, "--key", '{"id": 1}'],
    "history": ["history", TABLE],
    "maintain": ["maintain"],
    "forget": ["forget", TABLE, "--key", '{"id": 1}'],
    "report": ["report", "--out", "site"],
}
READS_STATE = {
    "query": ["query", TABLE],
    "materialize": ["materialize"],
    "rebuild": ["rebuild", TABLE],
    "validate": ["validate", "--no-docs"],
    "report": ["report", "--out", "site"],
}


def _event(number: int, value: str) -> str:
    source = {"connector": "postgresql", "db": "d", "schema": "shop", "table": "orders", "lsn": number, "txId": number,
              "ts_ms": 1, "version": "3.0.0.Final"}  # fmt: skip
    return json.dumps({"before": None, "after": {"id": number % 3, "note": value}, "op": "c", "source": source, "ts_ms": 1})


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """A project with raw files of two landings, a state, and one raw file that the state does not cover."""
    monkeypatch.chdir(tmp_path)
    Path("shop.sql").write_text("CREATE TABLE orders (id int PRIMARY KEY, note text);")
    write_project(table_of(TABLE, "shop.sql"))
    run = CommandLine(capsys)
    for start in (1, 100):
        assert (
            run.land(TABLE, *[_event(start + i, f"note {start + i} " * 20) for i in range(40)], file=f"{start}.jsonl").code == 0
        )
        assert run("materialize").code == 0
    assert run.land(TABLE, _event(900, "last"), file="900.jsonl").code == 0
    return run


def _largest(folder: str) -> Path:
    """The largest file that a Delta table consists of."""
    location = next(Path().glob(folder))
    found = [Path(unquote(uri).removeprefix("file://")) for uri in DeltaTable(location).file_uris()]
    return max(found, key=lambda path: (path.stat().st_size, path))


def _noise(path: Path) -> None:
    path.write_bytes(b"not Parquet" * (path.stat().st_size // 11 + 1))


def _flip(path: Path) -> None:
    """Noise in the middle of the file's pages, its size and footer as they were."""
    text = bytearray(path.read_bytes())
    start = 4
    text[start : start + 60] = bytes(255 - byte for byte in text[start : start + 60])
    path.write_bytes(bytes(text))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _restored(cli: CommandLine, damaged: Path, kept: Path) -> None:
    shutil.copy2(kept, damaged)


def _landed_anew(cli: CommandLine, damaged: Path, kept: Path) -> None:
    """What a message says to do without a backup: both folders away, and the events again."""
    for folder in (raw_location(TABLE), *Path().glob("**/state/shop_orders")):
        shutil.move(folder, f"{Path(folder).parent.name}.away")
    assert cli("rebuild", TABLE, "--accept").code == 0
    for name in ("1", "100", "900"):
        assert cli("land", "debezium", f"{name}.jsonl", "--table", TABLE).code == 0
    assert cli("materialize").code == 0


def _materialized(cli: CommandLine, damaged: Path, kept: Path) -> None:
    """What a message says of a state: away with it, and materialize."""
    shutil.move(next(Path().glob("**/state/shop_orders/1")), "state.away")
    assert cli("materialize", "--select", TABLE).code == 0


RAW_FILE = (lambda: _largest("**/raw/shop_orders"), "raw table", "restore it from a backup", _landed_anew)
RAW_LOG = (lambda: Path(raw_location(TABLE), "_delta_log") / f"{1:020}.json", "raw table", "restore it from a backup", _restored)
STATE_FILE = (lambda: _largest("**/state/*/1"), "state", "which builds it from raw", _materialized)
STATE_LOG = (lambda: sorted(Path().glob("**/state/*/1/_delta_log/*.json"))[1], "state", "which builds it from raw", _materialized)
Found = tuple[Callable[[], Path], str, str, Callable[[CommandLine, Path, Path], None]]


@pytest.mark.parametrize(
    "damage",
    [_noise, *(pytest.param(damage, marks=pytest.mark.slow) for damage in (_flip, _cut, Path.unlink))],
    ids=lambda damage: damage.__name__,
)
@pytest.mark.parametrize(
    ("place", "commands"),
    [(RAW_FILE, READS_RAW), (RAW_LOG, READS_RAW), (STATE_FILE, READS_STATE), (STATE_LOG, READS_STATE)],
    ids=["raw file", "raw log", "state file", "state log"],
)
def test_each_command_names_the_damaged_file_and_its_remedy_mends_it(
    cli: CommandLine, place: Found, commands: dict[str, list[str]], damage: Callable[[Path], None], tmp_path: Path
) -> None:
    find, what, remedy, mend = place
    expected = cli.query(TABLE)
    file = find()
    if damage is _flip and file.suffix == ".json":
        return
    shutil.copy2(file, kept := tmp_path / "kept")
    damage(file)
    said = {name: cli(*arguments) for name, arguments in commands.items()}
    failed = {name: answer for name, answer in said.items() if answer.code not in (0, 1)}
    assert failed, "no command noticed"
    for name, answer in said.items():
        if answer.code == 1:  # `validate` found it, `materialize` and `forget` told it per table
            assert str(file.name) in answer.err, (name, answer.err)
            continue
        if answer.code == 0:
            continue
        assert answer.code == 3, (name, answer.err)
        for part in (TABLE, what, file.name, remedy):
            assert part in answer.err, (name, part, answer.err)
        assert not re.search("bug|permissions|unexpected", answer.err), (name, answer.err)
    mend(cli, file, kept)
    assert sorted(map(str, cli.query(TABLE))) == sorted(map(str, expected))
    assert cli("validate", "--no-docs").code == 0


def test_the_api_names_it_too(cli: CommandLine) -> None:
    _noise(_largest("**/raw/shop_orders"))
    with pytest.raises(DamagedFileError, match="the raw table is damaged") as found:
        Project.load("cdc_views.yml").table(TABLE).query(raw_only=True)
    assert (found.value.table, found.value.file.suffix) == (TABLE, ".parquet")


def test_a_report_by_the_api_names_it_too(cli: CommandLine) -> None:
    _noise(_largest("**/raw/shop_orders"))
    with pytest.raises(DamagedFileError, match="the raw table is damaged") as found:
        Project.load("cdc_views.yml").report("site")
    assert (found.value.table, found.value.file.suffix) == (TABLE, ".parquet")


def test_a_whole_table_is_not_blamed(cli: CommandLine) -> None:
    assert "damaged" not in cli("query", TABLE, "--where", "nope = 1").err
    Path("views.duckdb").mkdir()
    assert "damaged" not in cli("apply").err


def test_a_garbled_generation_names_what_to_write(cli: CommandLine) -> None:
    current = next(Path().glob("**/state/shop_orders")) / "current"
    current.write_text("garbage")
    expected = cli("query", TABLE)
    assert expected.code == 3
    assert "write 1 into it" in expected.err
    current.write_text("1\n")
    assert cli("query", TABLE).code == 0
