"""`forget` through the command line: a key gone from every file, the others untouched, and older events held back."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from helpers.command_line import CommandLine, table, write_project
from helpers.comparing import raw_location
from helpers.forgetting_tables import CQL, FORMAT, KEY, LATER, NAME, SECRET, begun, files_with, forget, land, mutation, without
from helpers.found_tables import as_records
from helpers.older_events import envelope, now_micros

from cdc_views.api import Project
from cdc_views.landing.denylist import ErasedKey
from cdc_views.operations.verifying.record import VerifiedRecord, keep

pytestmark = pytest.mark.heavy


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return begun(tmp_path, monkeypatch, capsys)


def test_a_row_is_gone_from_every_file_and_no_other_is(run: CommandLine) -> None:
    assert run("apply").code == 0
    keep(Project.load().table(NAME), VerifiedRecord(resume=json.dumps([SECRET])))
    before, secret_was_in = run.query(NAME), files_with(SECRET)
    assert len(secret_was_in) == 5, "two files of raw, two generations of state, the key where `verify` goes on; no log"
    others = [file for file in Path("warehouse/raw/shop_orders").glob("*.parquet") if str(file) not in secret_was_in]
    planned = run("forget", NAME, "--key", KEY, "--dry-run", "--format", "jsonl")
    assert (planned.code, files_with(SECRET)) == (0, secret_was_in)
    done = run("forget", NAME, "--key", KEY, "--format", "jsonl")
    assert done.code == 0, done.err
    assert [(row["what"], row["rows"]) for row in done.rows] == [("raw", 3), ("old state", 1), ("state", 1)]
    assert done.rows == planned.rows
    assert (files_with(SECRET), [place.name for place in Path("warehouse/state/shop_orders").glob("?")]) == ([], ["2"])
    assert [file.is_file() for file in others] == [True], "a file without the key stays as it is"
    with pytest.raises(FileNotFoundError):
        DeltaTable(raw_location(NAME), version=1).to_pyarrow_table()
    assert run.query(NAME) == without(before, id=1, line=6) == run.query(NAME, "--raw-only")
    assert run("materialize").code == 0
    assert "nothing of the key" in run("forget", NAME, "--key", KEY).err, "again, there is nothing to do"
    assert len(run.query(NAME)) == len(before) - 1
    assert run("rebuild", NAME).code == 0
    assert os.stat("warehouse/forgotten/secret").st_mode & 0o777 == 0o600


def test_a_serving_table_is_written_anew(run: CommandLine) -> None:
    write_project(table(NAME, "schema.cql", FORMAT, materialize={"serving": True}))
    assert run("materialize").code == 0
    folder = Path("warehouse/serving")
    assert [name for name in files_with(SECRET) if name.startswith(str(folder))]
    forget(run)
    assert files_with(SECRET) == []
    served = [row for place in folder.iterdir() for row in DeltaTable(place).to_pyarrow_table().to_pylist()]
    assert len(served) == len(run.query(NAME))
    land(run, mutation(6, state=SECRET, written=now_micros()), file="4.jsonl")
    assert run("materialize").code == 0
    write_project(table(NAME, "schema.cql", FORMAT))
    forget(run)
    assert {str(Path(name).parents[1]) for name in files_with(SECRET)} == {"warehouse/serving/shop_orders"}, (
        "a former one is not known"
    )


@pytest.mark.slow
def test_a_state_is_brought_up_to_date_from_where_it_was(run: CommandLine) -> None:
    forget(run)
    land(run, mutation(23), file="4.jsonl")
    answer = run("materialize", "--format", "jsonl")
    assert (answer.code, answer.rows[0]["facts"]) == (0, 1), answer.rows
    assert run.query(NAME) == run.query(NAME, "--raw-only")


@pytest.mark.slow
def test_older_events_are_held_back_and_newer_ones_land(run: CommandLine) -> None:
    forget(run)
    events = [*(mutation(n) for n in range(5, 8)), mutation(6, state=SECRET, written=2)]
    again = run.land(NAME, *events, format=FORMAT, file="5.jsonl")
    assert again.code == 0, again.err
    assert "2 events are older than the forgetting of their key" in again.err
    assert files_with(SECRET) == []
    assert 6 not in {row["line"] for row in run.query(NAME)}
    assert run("land", FORMAT, "1.jsonl", "--table", NAME).err == "1.jsonl: landed before\n", "known by its content"
    first = hashlib.sha256(Path("1.jsonl").read_bytes().partition(b"\n")[0]).hexdigest()
    assert DeltaTable(raw_location(NAME)).transaction_version(f"head:{first}") == 1
    kept = DeltaTable(f"{raw_location(NAME)}__quarantine").to_pyarrow_table().to_pylist()
    assert [(row["source"], row["line"], row["event"]) for row in kept] == [("5.jsonl", 2, b""), ("5.jsonl", 4, b"")]
    assert all("its key was forgotten at 20" in row["reason"] for row in kept)
    assert kept[1]["event_id"] == hashlib.sha256(Path("5.jsonl").read_bytes()).hexdigest()
    assert run("replay", NAME).code == 0, "nothing of it waits"
    land(run, mutation(6, state="new", written=now_micros()), file="6.jsonl")
    assert [row["state"] for row in run.query(NAME) if row["line"] == 6] == ["new"]


@pytest.mark.slow
def test_the_newer_part_of_an_event_lands(run: CommandLine) -> None:
    forget(run)
    written = now_micros()
    cells = [{"column": "state", "written": written, "value": "new"}]
    row = {"kind": "row", "clustering": {"line": 6}, "liveness": {"written": 2}, "cells": cells}
    other = {"kind": "row", "clustering": {"line": 26}, "liveness": {"written": 2}, "cells": []}
    answer = run.land(NAME, mutation(6, rows=[row, other]), format=FORMAT, file="4.jsonl")
    assert (answer.code, "1 events" in answer.err) == (0, True)
    found = run("explain", NAME, "--key", KEY, "--format", "jsonl")
    assert {(row["column"], row["written"]) for row in found.rows if row["outcome"] == "shown"} == {("state", written)}
    assert 26 in {row["line"] for row in run.query(NAME)}


@pytest.mark.parametrize("ahead", [3_600_000_000, LATER])
def test_a_write_time_ahead_does_not_bring_it_back(run: CommandLine, ahead: int) -> None:
    written = now_micros() + ahead
    land(run, mutation(6, state=SECRET, written=written), file="4.jsonl")
    forget(run)
    run.land(NAME, mutation(30), mutation(6, state=SECRET, written=written), format=FORMAT, file="5.jsonl")
    assert files_with(SECRET) == []


def shown_state(run: CommandLine, line: int = 6) -> list[str]:
    return [row["state"] for row in run.query(NAME) if row["line"] == line]


@pytest.mark.parametrize("is_lifted", [False, True])
def test_a_key_that_was_written_in_the_future_is_healed_by_forgetting_it(run: CommandLine, is_lifted: bool) -> None:
    gone = {"kind": "row", "clustering": {"line": 6}, "deletion": {"written": LATER, "deleted_at": 1}}
    land(run, mutation(6, state="poisoned", written=LATER), mutation(6, rows=[gone]), file="4.jsonl")
    forget(run)
    if is_lifted:
        assert run("forget", NAME, "--key", KEY, "--lift").code == 0
    land(run, mutation(6, state="right", written=now_micros()), file="5.jsonl")
    assert shown_state(run) == ["right"]
    poisoned = run.land(NAME, mutation(6, state="poisoned", written=LATER, node="another"), format=FORMAT, file="6.jsonl")
    assert "1 events" in poisoned.err, "another replica's copy of what was removed"
    assert shown_state(run) == ["right"]


@pytest.mark.slow
def test_lifting_lets_older_events_land_that_were_not_removed(run: CommandLine) -> None:
    forget(run)
    between = now_micros() - 60_000_000
    for is_lifted in (False, True):
        if is_lifted:
            assert run("forget", NAME, "--key", KEY, "--lift").code == 0
        run.land(NAME, mutation(6, state=f"old {is_lifted}", written=3), format=FORMAT, file=f"old-{is_lifted}.jsonl")
        assert shown_state(run) == [], "what was removed stays so"
        events = mutation(30 + is_lifted), mutation(6, state="lifted", written=between)  # the same event in a changed file
        run.land(NAME, *events, format=FORMAT, file=f"{is_lifted}.jsonl")
        assert shown_state(run) == (["lifted"] if is_lifted else [])


@pytest.mark.slow
def test_what_an_earlier_version_remembers_of_a_key_from_the_future_heals_too(run: CommandLine) -> None:
    land(run, mutation(6, state="poisoned", written=LATER), file="4.jsonl")
    forget(run)
    file = Path("warehouse/forgotten/shop_orders.jsonl")
    check, *lines = file.read_text().splitlines()
    (entry,) = map(json.loads, lines)
    assert (entry.pop("ahead"), entry["through"], 0 <= now_micros() - entry["forgotten"] < 600_000_000) == (LATER, 3, True)
    file.write_text(f"{check}\n{json.dumps({**entry, 'through': LATER})}\n")
    land(run, mutation(6, state="right", written=now_micros()), file="5.jsonl")
    run.land(NAME, mutation(6, state="poisoned", written=LATER, position=99), format=FORMAT, file="6.jsonl")
    assert shown_state(run) == ["right"]


def test_a_partition_goes_with_all_that_is_about_it(run: CommandLine) -> None:
    static = {"kind": "static", "cells": [{"column": "owner", "written": 4, "value": SECRET}]}
    land(run, mutation(6, rows=[static], partition_deletion={"written": 0, "deleted_at": 1}), file="4.jsonl")
    before = run.query(NAME)
    forget(run, key='{"id": 1}')
    assert files_with(SECRET) == []
    assert run.query(NAME) == [row for row in before if row["id"] != 1] == run.query(NAME, "--raw-only")
    run.land(NAME, mutation(11), mutation(6, rows=[static]), mutation(12), format=FORMAT, file="5.jsonl")
    assert {row["id"] for row in run.query(NAME)} == {0, 2, 3, 4}


def test_a_row_leaves_what_is_about_its_partition(run: CommandLine) -> None:
    static = {"kind": "static", "cells": [{"column": "owner", "written": 4, "value": "Ann"}]}
    bounds = {"start": {"clustering": {}, "inclusive": True}, "end": {"clustering": {"line": 6}, "inclusive": False}}
    gone = {"kind": "range_deletion", **bounds, "deletion": {"written": 5, "deleted_at": 1}}
    whole = mutation(6, rows=[static], partition_deletion={"written": 0, "deleted_at": 1})
    land(run, whole, mutation(6, rows=[gone]), file="4.jsonl")
    told = run("forget", NAME, "--key", KEY)
    assert (told.code, "1 range deletions name the row as a bound" in told.err) == (0, True), told.err
    land(run, mutation(31, written=0), mutation(1, written=5), file="5.jsonl")
    assert not {1, 31} & {row["line"] for row in run.query(NAME)}, "deletions of the partition and of the range stay"
    assert {(row["owner"], row["line"] > 6) for row in run.query(NAME) if row["id"] == 1} == {("Ann", True)}


@pytest.mark.slow
def test_events_in_quarantine_are_emptied(run: CommandLine) -> None:
    bad = mutation(6).replace('"value": "state 6"', f'"value": {{"{SECRET}": 1}}')
    assert run.land(NAME, bad, mutation(7).replace('"state 7"', "[7]"), format=FORMAT, file="4.jsonl").code == 1
    assert files_with(SECRET)
    refused = run("forget", NAME, "--key", KEY)
    assert (refused.code, "2 events in quarantine cannot be decoded" in refused.err) == (1, True), refused.err
    kept = run("forget", NAME, "--key", KEY, "--undecodable", "keep")
    assert (kept.code, bool(files_with(SECRET))) == (0, True)
    assert run("forget", NAME, "--key", KEY, "--undecodable", "drop").code == 0
    assert files_with(SECRET) == []
    assert run("forget", NAME, "--key", KEY, "--undecodable", "dorp").code == 2
    run.land(NAME, bad.replace('"position": 6', '"position": 99'), format=FORMAT, file="5.jsonl")
    assert files_with(SECRET), "nobody knows whose a later one is"


@pytest.mark.slow
@pytest.mark.parametrize("again", [("replay", NAME), ("forget", NAME, "--key", KEY)], ids=lambda command: command[0])
def test_a_replayed_event_does_not_bring_it_back(run: CommandLine, again: tuple[str, ...]) -> None:
    column = {"column": "note", "written": 5, "value": SECRET}
    events = [mutation(n).replace('"cells": [', f'"cells": [{json.dumps(column)}, ') for n in (6, 7)]
    assert run.land(NAME, *events, format=FORMAT, file="4.jsonl").code == 1, "there is no column note"
    assert run("forget", NAME, "--key", KEY).code == 1
    Path("schema.cql").write_text(CQL.replace("state text", "state text, note text"))
    assert run(*again).code == 0
    found = {row["line"]: row["note"] for row in run.query(NAME)}
    assert (6 in found, found[7]) == (False, SECRET)
    events_left = DeltaTable(f"{raw_location(NAME)}__quarantine").to_pyarrow_table().to_pylist()
    assert sorted((row["line"], bool(row["event"])) for row in events_left) == [(1, False), (2, True)]
    forget(run, key='{"id": 2, "line": 7}')
    assert files_with(SECRET) == [], "also of events that were replayed"


def test_a_lost_secret_is_an_error_and_not_a_way_back(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    forget(run)
    secret = Path("warehouse/forgotten/secret")
    text = secret.read_text()
    secret.unlink()
    refused = run.land(NAME, mutation(7), format=FORMAT, file="4.jsonl")
    assert (refused.code, "CDC_VIEWS_FORGET_SECRET" in refused.err) == (2, True)
    monkeypatch.setenv("CDC_VIEWS_FORGET_SECRET", "another")
    assert run.land(NAME, mutation(6), format=FORMAT, file="4.jsonl").code == 2
    monkeypatch.delenv("CDC_VIEWS_FORGET_SECRET")
    secret.write_text(text)
    assert run.land(NAME, mutation(6), format=FORMAT, file="4.jsonl").code == 0


def test_a_key_is_kept_as_an_hmac_by_a_secret_that_may_be_given(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("t.sql").write_text("CREATE TABLE public.t (id text PRIMARY KEY, note text);")
    write_project(table("public.t", "t.sql", "key-value"))
    monkeypatch.setenv("CDC_VIEWS_FORGET_SECRET", "given")
    record, key = json.dumps({"key": {"id": SECRET}, "value": {"note": "a"}}), {"id": SECRET}
    assert run.land("public.t", record, format="key-value", file="1.jsonl").code == 0
    assert run("forget", "public.t", "--key", json.dumps(key)).code == 0
    hashed = ErasedKey.parse(Project.load().table("public.t").schema, key).canonical()
    _, kept = map(json.loads, Path("warehouse/forgotten/public_t.jsonl").read_text().splitlines())
    assert kept["key"] == hmac.new(hashlib.sha256(b"given").digest(), hashed, hashlib.sha256).hexdigest()
    assert run.land("public.t", record, format="key-value", file="2.jsonl").code == 0
    assert (files_with(SECRET, table="public_t"), Path("warehouse/forgotten/secret").exists()) == ([], False)
    monkeypatch.delenv("CDC_VIEWS_FORGET_SECRET")
    assert run.land("public.t", record, format="key-value", file="3.jsonl").code == 2


def test_slips_are_told(run: CommandLine) -> None:
    for key, expected in (("{}", "lacks 'id'"), ('{"idd": 1}', "did you mean 'id'"), ("[", "JSON")):
        answer = run("forget", NAME, "--key", key)
        assert (answer.code, expected in answer.err) == (2, True), answer.err
    assert run("forget", NAME, "--key", KEY, "--lift").code == 2
    forget(run, key='{"id": 99, "line": 1}')


def test_a_database_s_event_is_older_by_its_commit_s_date(run: CommandLine) -> None:
    Path("t.sql").write_text("CREATE TABLE public.t (id int PRIMARY KEY, note text);")
    write_project(table("public.t", "t.sql", "debezium"))
    hour = int(time.time() * 1000) - 3_600_000
    assert run.land("public.t", envelope(1, SECRET, lsn=10, ts_ms=hour), envelope(2, "b", lsn=11, ts_ms=hour)).code == 0
    assert run("forget", "public.t", "--key", '{"id": 1}').code == 0
    late, undated = envelope(1, SECRET, lsn=30, ts_ms=hour + 1), envelope(1, SECRET, lsn=31, ts_ms=None)
    copied = envelope(1, SECRET, lsn=10, ts_ms=hour + 7_200_000)
    assert run.land("public.t", late, undated, copied, envelope(2, "c", lsn=32, ts_ms=hour), file="2.jsonl").code == 0
    assert (run.query("public.t"), files_with(SECRET, table="public_t")) == ([{"id": 2, "note": "c"}], [])
    assert run.land("public.t", envelope(1, "new", lsn=40, ts_ms=hour + 7_200_000), file="3.jsonl").code == 0
    assert [row["note"] for row in run.query("public.t")] == ["new", "c"]


def test_events_without_a_date_wait_until_somebody_says_so(run: CommandLine) -> None:
    Path("t.sql").write_text("CREATE TABLE public.t (id int PRIMARY KEY, note text);")
    write_project(table("public.t", "t.sql", "key-value"))

    def record(note: str, offset: int) -> str:
        return json.dumps({"key": {"id": 1}, "value": {"id": 1, "note": note}, "topic": "t", "partition": 0, "offset": offset})

    def landed(note: str, offset: int, file: str) -> list[Any]:
        assert run.land("public.t", record(note, offset), format="key-value", file=file).code == 0
        return [row["note"] for row in run.query("public.t")]

    assert landed(SECRET, 5, "1.jsonl") == [SECRET]
    assert run("forget", "public.t", "--key", '{"id": 1}').code == 0
    assert landed("maybe older", 9, "2.jsonl") == []
    assert run("forget", "public.t", "--key", '{"id": 1}', "--lift").code == 0
    assert landed(SECRET, 4, "3.jsonl") == [], "what was removed stays so"
    assert landed("new", 10, "4.jsonl") == ["new"]
    assert files_with(SECRET, table="public_t") == []


def test_a_found_table_is_not_touched_and_its_rows_are_held_back(run: CommandLine) -> None:
    shutil.rmtree("warehouse")
    write_project(table(NAME, "schema.cql", FORMAT, raw={"layout": "as-found", "table": "found"}))
    events = [{"value": mutation(n, state=SECRET if n == 6 else None)} for n in range(10)]
    write_deltalake("found", as_records(events))
    before = run.query(NAME)
    assert run("materialize").code == 0
    done = run("forget", NAME, "--key", KEY)
    assert (done.code, "found is somebody else's" in done.err) == (0, True), done.err
    assert files_with(SECRET) == []
    more = [{"value": mutation(6, state=SECRET, written=2)}, {"value": mutation(10)}]
    write_deltalake("found", as_records(more), mode="append")
    assert [row["line"] for row in run.query(NAME) if row["line"] in (6, 10)] == [10]
    DeltaTable("found").optimize.compact()
    assert len(run.query(NAME)) == len(before), "all was read anew: one came, one is held back"
    assert files_with(SECRET) == []
    assert DeltaTable("found").to_pyarrow_table().num_rows == 12
