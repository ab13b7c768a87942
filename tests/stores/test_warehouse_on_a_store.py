"""A project whose warehouse is on a store answers commands as one with a local folder does, and writes nothing beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from helpers.command_line import Answer, CommandLine
from helpers.tiers import often
from services.stores import Store

from cdc_views.api import Project
from cdc_views.storage.places import place_of

pytestmark = pytest.mark.heavy

KEY = '{"tenant": "t2", "day": "2026-01-01", "seq": 0, "kind": "z"}'
TABLE = "hid211.orders"
FORGET = ("forget", TABLE, "--key", KEY)
AT = ("--as-of", "1795254672")
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("land", "cassandra-mutation", "part1.jsonl", "node2.jsonl", "--table", TABLE, "--format", "csv"),
    ("query", TABLE, *AT, "--format", "jsonl"),
    ("explain", TABLE, *AT, "--column", "v", "--key", KEY),
    ("materialize", "--format", "csv"),
    ("query", TABLE, *AT, "--format", "jsonl"),
    ("validate", *AT, "--no-docs", "--format", "csv"),
    ("replicas", TABLE, "--nodes", "127.0.0.3", "--format", "csv"),
    ("land", "cassandra-mutation", "node1.jsonl", "node2.jsonl", "node3.jsonl", "--table", TABLE, "--format", "csv"),
    ("query", TABLE, *AT, "--format", "jsonl"),
    ("materialize", "--format", "csv"),
    ("query", TABLE, *AT, "--format", "jsonl", "--where", "seq = 0"),
    ("query", TABLE, *AT, "--format", "jsonl", "--raw-only"),
    ("validate", *AT, "--no-docs", "--format", "csv"),
    ("history", TABLE, *AT, "--column", "v", "--key", KEY, "--format", "csv"),
    ("apply", "--format", "csv"),
    ("late", TABLE),
    ("maintain", "--retention-hours", "1", "--format", "csv"),
    ("rebuild", TABLE, "--format", "csv"),
    ("rebuild", TABLE, "--back", "--format", "csv"),
    ("query", TABLE, *AT, "--format", "jsonl"),
    (*FORGET, "--format", "csv"),
    ("query", TABLE, *AT, "--format", "jsonl"),
    ("land", "cassandra-mutation", "node1.jsonl", "--table", TABLE, "--format", "csv"),
    ("materialize", "--full", "--format", "csv"),
    ("validate", *AT, "--no-docs", "--format", "csv"),
    ("query", TABLE, *AT, "--format", "jsonl"),
)
_PLACE = re.compile(r"([a-z0-9]+:/)?/[^ ,\"']*?/(raw|state|serving)/")
_AGE = re.compile(rf"last landed \d+ s ago|the oldest for \d+ s|{datetime.now(timezone.utc):%Y}-\d\d-\d\d[ T][\d:.]+(Z|\+00:00)")
_UNCHANGED = re.compile(
    r"(files_are_as_written[.]\w+),(passed,error,holds|skipped,error,skipped: a store has checksums of its own)"
)
_PROOF = re.compile(r"in \d+ files \([\d,]+ rows, [\d,]+ bytes\)")


Answered = tuple[tuple[str, ...], tuple[int, str, str]]
"""A command, and what it said."""


@pytest.fixture(scope="module")
def on_a_local_disk() -> list[Answered]:
    return []


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


@dataclass(frozen=True)
class Tour:
    """A folder with the captured table's logs, and a project in it."""

    folder: Path

    def project(self, **more: object) -> None:
        table = {
            "name": TABLE,
            "schema": "schema.cql",
            "raw": {"format": "cassandra-mutation"},
            "materialize": {"serving": True},
            "replication_factor": 3,
        }
        told = {"name": "tour", "engine": "duckdb", "tables": [table], **more}
        (self.folder / "cdc_views.yml").write_text(json.dumps(told))


@pytest.fixture
def tour(cassandra_cases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tour:
    for name in ("node1.jsonl", "node2.jsonl", "node3.jsonl", "schema.cql"):
        (tmp_path / name).write_bytes((cassandra_cases / "wide3" / name).read_bytes())
    lines = (tmp_path / "node1.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "part1.jsonl").write_bytes(b"".join(lines[:700]))
    monkeypatch.chdir(tmp_path)
    return Tour(tmp_path)


def alike(answer: Answer) -> tuple[int, str, str]:
    """An answer without what differs between runs or places: folders, ages, how many files a proof had to read."""
    return answer.code, _alike(answer.out), _alike(answer.err)


def _alike(text: str) -> str:
    text = _UNCHANGED.sub(r"\1", _PLACE.sub(r"PLACE/\2/", text))
    return _PROOF.sub("in N files", _AGE.sub("lately", text))


def answers(run: CommandLine) -> Iterator[Answered]:
    for command in COMMANDS:
        yield command, alike(run(*command))


@pytest.fixture
def expected(tour: Tour, run: CommandLine, on_a_local_disk: list[Answered]) -> list[Answered]:
    """What the commands answer in a local folder, asked once for all stores."""
    if not on_a_local_disk:
        tour.project()
        on_a_local_disk += [*answers(run)]
        (tour.folder / "warehouse").rename(tour.folder.parent / f"{tour.folder.name}-warehouse")
    return on_a_local_disk


@pytest.mark.parametrize("store", often(("s3", "azure", "gcs"), "s3"), indirect=True)
def test_commands_answer_as_on_a_local_disk(
    expected: list[Answered], tour: Tour, store: Store, prefix: str, run: CommandLine
) -> None:
    assert [(command, said) for command, (code, *said) in expected if code > 1] == []
    tour.project(warehouse=f"{prefix}/tour", storage_options=store.options())
    before = sorted(path.name for path in tour.folder.iterdir())
    for (command, wanted), (_, found) in zip(expected, answers(run), strict=True):
        assert found == wanted, command
    assert sorted(path.name for path in tour.folder.iterdir()) == before
    assert all(place_of(f"{prefix}/tour/{name}").is_file() for name in ("forgotten/secret", "views.duckdb"))
    assert place_of(f"{prefix}/tour/raw/hid211_orders/_delta_log").is_dir()


def test_the_environment_says_how_to_reach_the_store(
    tour: Tour, store: Store, run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    tour.project(warehouse=f"{store.url()}/by-environment")
    for name, value in store.options().items():
        monkeypatch.setenv(name, value)
    assert run(*COMMANDS[0]).code == 0
    assert run("materialize").code == 0
    assert len(run.query(TABLE, *AT)) == 54


def test_a_raw_table_of_another_bucket_and_its_quarantine(tour: Tour, store: Store, prefix: str, run: CommandLine) -> None:
    store.make("elsewhere")
    raw = {"format": "cassandra-mutation", "table": f"{store.url('elsewhere')}/theirs/orders"}
    table = {"name": TABLE, "schema": "schema.cql", "raw": raw}
    tour.project(warehouse=f"{prefix}/tour", storage_options=store.options(), tables=[table])
    (tour.folder / "bad.jsonl").write_text("nothing\n")
    assert run("land", "cassandra-mutation", "part1.jsonl", "bad.jsonl", "--table", TABLE).code == 1
    assert run("materialize").code == 0
    assert len(run.query(TABLE, *AT)) > 10
    assert [place.name for place in place_of(f"{store.url('elsewhere')}/theirs").iterdir()] == ["orders", "orders__quarantine"]
    codes = [run(*command).code for command in (("replay", TABLE), FORGET, (*FORGET, "--undecodable", "drop"), ("replay", TABLE))]
    assert codes == [1, 1, 0, 0], "what cannot be decoded waits, and goes"


@pytest.mark.parametrize("store", ["s3"], indirect=True)
def test_a_relative_raw_table_is_in_the_warehouse_which_the_receiver_refuses(
    tour: Tour, store: Store, prefix: str, run: CommandLine
) -> None:
    table = {"name": TABLE, "schema": "schema.cql", "raw": {"format": "cassandra-mutation", "table": "theirs/orders"}}
    tour.project(warehouse=f"{prefix}/tour", storage_options=store.options(), tables=[table])
    assert run(*COMMANDS[0]).code == 0
    assert [place.name for place in place_of(f"{prefix}/tour/theirs").iterdir()] == ["orders"]
    checks = run("validate", *AT, "--no-docs", "--format", "jsonl").rows
    assert {row["status"] for row in checks if row["check"].startswith("files_are_as_written")} == {"skipped"}
    answer = run("produce", "http", "--no-auth", "--port", "0")
    assert (answer.code, "the warehouse is not a local folder" in answer.err) == (2, True), answer.err


@pytest.mark.parametrize("store", ["s3"], indirect=True)
def test_raw_events_are_dropped_and_put_back(tour: Tour, store: Store, prefix: str, run: CommandLine) -> None:
    tour.project(warehouse=f"{prefix}/tour", storage_options=store.options())
    Project.load().table(TABLE).land("part1.jsonl", now=datetime.now(timezone.utc) - timedelta(days=40))
    assert [run(*command).code for command in (COMMANDS[0], ("materialize",))] == [0, 0]
    before = run.query(TABLE, *AT, "--raw-only")
    dropped = run("maintain", "--drop-raw-older-than", "30d", "--archive", "kept")
    assert (dropped.code, run("history", TABLE).code, run.query(TABLE, *AT)) == (0, 2, before), dropped.err
    restored = run("maintain", "--restore-raw", "kept")
    assert (restored.code, run.query(TABLE, *AT, "--raw-only")) == (0, before), restored.err


def test_a_local_project_may_have_a_raw_table_on_a_store(tour: Tour, store: Store, prefix: str, run: CommandLine) -> None:
    table = {"name": TABLE, "schema": "schema.cql", "raw": {"format": "cassandra-mutation", "table": f"{prefix}/raw/orders"}}
    tour.project(storage_options=store.options(), tables=[table])
    assert run(*COMMANDS[0]).code == 0
    assert run("materialize").code == 0
    assert len(run.query(TABLE, *AT)) == 54
    assert run("validate", *AT, "--no-docs").code == 0
    assert (tour.folder / "warehouse/state").is_dir()
