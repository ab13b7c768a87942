"""Files that change by themselves: every flip of one bit is found by `validate`, and a damaged footer says what to do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, TableFeatures, write_deltalake
from helpers.command_line import Answer, CommandLine, table, write_project
from helpers.corrupting import damaged
from helpers.state_sizes import set_sizes

from cdc_views import Project
from cdc_views.landing import quarantine_location
from cdc_views.landing.digests import FOLDER, _known, changed, note_missing
from cdc_views.operations.erasing.rewriting import rewrite

pytestmark = pytest.mark.heavy

NAME = "shop.orders"
CQL = "CREATE TABLE shop.orders (id int, line int, state text, PRIMARY KEY (id, line));\n"
FLIPS = 12


def mutation(number: int) -> str:
    cells = [{"column": "state", "written": 1, "value": f"state {number}"}]
    row = {"kind": "row", "clustering": {"line": number}, "liveness": {"written": 1}, "cells": cells}
    event = {"format": "cassandra-mutation/1", "node": "n", "segment": 1, "position": number, "keyspace": "shop"}
    return json.dumps({**event, "table": "orders", "partition": {"id": number % 5}, "rows": [row]})


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Two landings, a state that covers the first, and a serving table."""
    monkeypatch.chdir(tmp_path)
    Path("schema.cql").write_text(CQL)
    write_project(table(NAME, "schema.cql", "cassandra-mutation", materialize={"serving": True}))
    line = CommandLine(capsys)
    line.land(NAME, *(mutation(n) for n in range(50)), format="cassandra-mutation", file="1.jsonl")
    assert line("materialize").code == 0
    line.land(NAME, *(mutation(n) for n in range(50, 60)), format="cassandra-mutation", file="2.jsonl")
    return line


def location(what: str) -> str:
    orders = Project.load().table(NAME)
    places = {"raw": orders.raw.location, "state": orders.state_location, "serving": str(orders.serving_location)}
    return {**places, "quarantine": quarantine_location(orders.raw)}[what]


def files(what: str) -> list[Path]:
    return [Path(uri) for uri in sorted(DeltaTable(location(what)).file_uris())]


def validated(run: CommandLine) -> Answer:
    return run("validate", "--no-docs", "--format", "jsonl")


def flips(what: str, *, seed: str) -> Iterator[Path]:
    """Flip a bit of a file, somewhere, and put it back; yields the file."""
    random = Random(seed)
    for _ in range(FLIPS):
        file = random.choice(files(what))
        sound = file.read_bytes()
        at = random.randrange(len(sound))
        file.write_bytes(sound[:at] + bytes([sound[at] ^ (1 << random.randrange(8))]) + sound[at + 1 :])
        yield file
        file.write_bytes(sound)


@pytest.mark.parametrize("what", ["raw", "state", "serving"])
def test_each_flipped_bit_is_found(run: CommandLine, what: str) -> None:
    for number, file in enumerate(flips(what, seed=what)):
        assert changed(location(what))[0] == [str(file.relative_to(location(what)))]
        if number % 4 == 0:
            answer = validated(run)
            found = answer.code, file.name in answer.err, f"files_are_as_written.{what}" in answer.err
            assert found == (1, True, True), answer.err
    assert validated(run).code == 0


def test_what_everything_else_writes_has_a_digest_too(run: CommandLine) -> None:
    run.land(NAME, "{", format="cassandra-mutation", file="bad.jsonl")
    assert run("maintain").code == 0
    assert run("forget", NAME, "--key", '{"id": 1, "line": 1}', "--undecodable", "drop").code == 0
    assert run("materialize", "--full").code == 0
    for what in ("raw", "state", "serving"):
        assert changed(location(what)) == ([], 0)
        noted = [json.loads(line) for line in Path(location(what), FOLDER, "sha256.jsonl").read_text().split("\n") if line]
        assert {line["path"] for line in noted} >= {str(file.relative_to(location(what))) for file in files(what)}


def test_files_without_a_digest_are_told_of_and_noted_by_maintain(run: CommandLine) -> None:
    raw = DeltaTable(location("raw"))
    write_deltalake(raw, raw.to_pyarrow_table(), mode="append")
    shutil.rmtree(Path(location("state"), FOLDER))
    notes = {row["check"]: row["result"] for row in validated(run).rows if row["check"].startswith("files_are_as_written")}
    assert "1 files have no digest yet" in notes["files_are_as_written.raw"]
    assert "no digest yet; `cdc-views maintain`" in notes["files_are_as_written.state"]
    assert run("maintain").code == 0
    assert [changed(location(what)) for what in ("raw", "state")] == [([], 0), ([], 0)]


def test_a_line_that_a_killed_writer_left_spoils_no_other(run: CommandLine) -> None:
    notes = Path(location("raw"), FOLDER, "sha256.jsonl")
    with notes.open("a") as stream:
        stream.write('{"path": "part-')
    run.land(NAME, mutation(70), format="cassandra-mutation", file="3.jsonl")
    assert changed(location("raw")) == ([], 0)
    assert note_missing(DeltaTable(location("raw"))) == 0


def test_a_file_that_changed_before_it_was_noted_again_is_still_found(run: CommandLine) -> None:
    run.land(NAME, mutation(70), format="cassandra-mutation", file="3.jsonl")
    for number, file in enumerate(flips("raw", seed="again")):
        note_missing(DeltaTable(location("raw")))
        assert changed(location("raw"))[0] == [file.name]
        if number == 0:
            merged = run("maintain", "--format", "jsonl").rows[0]["merged"]
            assert (merged, file.name in validated(run).err) == (2, True), "the others are merged"


@pytest.mark.parametrize("features", [(), (TableFeatures.CheckConstraints,)])
def test_maintain_merges_no_damaged_file(run: CommandLine, features: tuple[TableFeatures, ...]) -> None:
    raw = DeltaTable(location("raw"))
    for feature in features:
        raw.alter.add_feature(feature, allow_protocol_versions_increase=True)
    names = damaged(location("raw"))
    assert run("maintain").code == 0
    assert sorted(changed(location("raw"))[0]) == sorted(names)


@pytest.mark.parametrize("step", ["base", "runs"])
def test_no_merge_of_a_state_hides_its_damage(run: CommandLine, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """A merge would give the damaged file's rows a new digest."""
    set_sizes(monkeypatch, rebase_share=100, merge_share=100, at_once_share=100)
    assert run("materialize").code == 0
    names, version = damaged(location("state")), DeltaTable(location("state")).version()
    run.land(NAME, mutation(70), format="cassandra-mutation", file="3.jsonl")
    set_sizes(monkeypatch, **({"rebase_share": 0} if step == "base" else {"most_runs": 0}))
    answer = run("materialize")
    told = any(name in answer.err for name in names), "materialize --full" in answer.err
    assert (answer.code, told) == (3, (True, True)), answer.err
    assert DeltaTable(location("state")).version() == version + 1, "the run alone"
    assert "files_are_as_written.state" in validated(run).err
    assert run("materialize", "--full").code == 0
    assert (changed(location("state")), validated(run).code) == (([], 0), 0)


def test_no_merge_removes_a_damaged_file_of_which_every_row_is_replaced(
    run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_sizes(monkeypatch, rebase_share=100, merge_share=0, at_once_share=100, bucket_bytes=200, worn_share=100.0)
    assert run("materialize", "--full").code == 0
    first, *others = files("state")
    sound = {file: file.read_bytes() for file in others}
    damaged(location("state"))
    assert sound
    for file, content in sound.items():
        file.write_bytes(content)
    keys = {(row["id"], row["line"]) for row in pq.ParquetFile(first).read(["id", "line"]).to_pylist()}
    numbers = [n for n in range(60) if (n % 5, n) in keys]
    later = [
        mutation(n).replace('"written": 1', '"written": 2').replace(f'"position": {n}', f'"position": 9{n}') for n in numbers
    ]
    run.land(NAME, *later, format="cassandra-mutation", file="3.jsonl")
    answer = run("materialize")
    assert (answer.code, first.name in answer.err, first in files("state")) == (3, True, True), answer.err


def test_a_rebuild_with_a_damaged_state_is_refused(run: CommandLine) -> None:
    names = damaged(location("state"))
    answer = run("rebuild", NAME, "--with-state")
    assert (answer.code, any(name in answer.err for name in names)) == (3, True), answer.err


def test_what_is_rewritten_has_digests_at_once(run: CommandLine) -> None:
    opened = DeltaTable(location("raw"))
    assert rewrite(opened, lambda rows: rows.slice(1), mark="testing") == 2
    assert changed(location("raw")) == ([], 0)


@pytest.mark.parametrize("what", ["raw", "quarantine"])
def test_forgetting_hides_no_damage_and_its_remedies_work(run: CommandLine, what: str) -> None:
    run.land(NAME, mutation(70)[:-30] + "}]}]}", format="cassandra-mutation", file="bad.jsonl")
    sound = {file: file.read_bytes() for file in files(what)}
    names, forget = damaged(location(what)), ("forget", NAME, "--key", '{"id": 1, "line": 1}', "--undecodable", "drop")
    answer = run(*forget)
    assert (answer.code, any(name in answer.err for name in names)) == (3, True), answer.err
    assert sorted(names) == sorted(changed(location(what))[0]), "all are still there, and known to be damaged"
    accepted = Path(location(what), FOLDER, "sha256.jsonl")
    noted = accepted.read_text()
    accepted.write_text("".join(line for line in noted.splitlines(keepends=True) if not any(name in line for name in names)))
    assert run(*forget, "--dry-run").code == 0
    accepted.write_text(noted)
    for file, content in sound.items():
        file.write_bytes(content)
    assert run(*forget).code == 0
    assert changed(location(what)) == ([], 0)


def damaged_footer(file: Path) -> None:
    """Spoil the footer, which begins 8 bytes and its own length before the end; the length stays."""
    content = file.read_bytes()
    size = int.from_bytes(content[-8:-4], "little")
    file.write_bytes(content[: -8 - size] + bytes(b ^ 0xFF for b in content[-8 - size : -8]) + content[-8:])


@pytest.mark.parametrize("what", ["raw", "state"])
def test_a_damaged_footer_is_named_with_its_remedy(run: CommandLine, what: str) -> None:
    before = run.query(NAME)
    file = files(what)[-1] if what == "state" else next(f for f in files("raw") if "70" not in f.name)
    tail = {str(f) for f in files("raw")} if what == "raw" else set()
    for name in tail or {str(file)}:
        damaged_footer(Path(name))
    answer = run("query", NAME)
    assert (answer.code, "is damaged" in answer.err) == (3, True), answer.err
    assert "this is a bug" not in answer.err
    checked = validated(run)
    assert (checked.code, f"files_are_whole.{what}" in checked.err) == (1, True), checked.err
    if what == "state":
        assert file.name in answer.err
        assert "which builds it from raw" in answer.err
        assert run("materialize", "--full").code == 0
        assert run.query(NAME) == before
        assert validated(run).code == 0


@pytest.mark.parametrize("noise", [rb"\q", b"\xff"])
def test_noise_in_a_digest_s_path_is_a_broken_line(noise: bytes, tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    lines = b'{"path": "a%s", "sha256": "%s"}\n{"path": "b", "sha256": "%s"}\n' % (noise, b"0" * 64, b"1" * 64)
    (tmp_path / FOLDER / "sha256.jsonl").write_bytes(lines)
    assert _known(tmp_path) == {"b": "1" * 64}
