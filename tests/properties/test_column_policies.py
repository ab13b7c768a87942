"""What has a policy is in no file, log or message: values are words that occur nowhere else, and everything is searched."""

from __future__ import annotations

import hashlib
import hmac
import json
import shutil
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from helpers.captured import Said
from helpers.command_line import CommandLine
from helpers.http_receiver import ENVIRONMENT, in_thread
from helpers.sentinels import (
    BREAKAGES,
    FORMATS,
    HASHED,
    KEY,
    LEFT_OUT,
    MASKED,
    broken,
    event,
    has_word,
    policies_of,
    schema_of,
    spellings,
    traces,
)

from cdc_views import Project
from cdc_views.cli.producing import targets_of
from cdc_views.landing import Position, StreamEvent, quarantine_location
from cdc_views.landing.live_sources import LiveOrder
from cdc_views.model.column_policies import EXTRA

TABLE = "shop.customers"
NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
EACH = 2


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EMAIL_KEY", KEY)


def write_project(format: str, *, columns: dict[str, Any] | None = None, **more: Any) -> None:
    schema = Path("schema.cql" if "cassandra" in format else "schema.sql")
    schema.write_text(schema_of(format))
    entry = {"name": TABLE, "schema": schema.name, "raw": {"format": format}, **more}
    entry["columns"] = policies_of(format) if columns is None else columns
    Path("cdc_views.yml").write_text(json.dumps({"name": "shop", "engine": "duckdb", "tables": [entry]}))


def write_events(format: str, names: Sequence[str] = tuple(BREAKAGES), *, first: int = 1) -> Path:
    """Write events of every kind; the file ends inside one."""
    file = Path("given") / f"{format}{first}.jsonl"
    file.parent.mkdir(exist_ok=True)
    lines = [broken(format, name, first + EACH * kind + n) for kind, name in enumerate(names) for n in range(EACH)]
    file.write_bytes(b"".join(line + b"\n" for line in lines) + broken(format, "cut", 1))
    return file


def land(format: str) -> None:
    (table,) = Project.load().tables
    report = table.land(write_events(format), now=NOW)
    assert report.files[0].quarantined > 10
    assert report.files[0].events > 10


@pytest.mark.parametrize(
    ("format", "extra"), [*((one, "quarantine") for one in FORMATS), ("debezium", "json"), ("key-value", "leave_out")]
)
def test_raw_and_quarantine_have_no_value(format: str, extra: str) -> None:
    write_project(format, extra_columns=extra)
    land(format)
    (table,) = Project.load().tables
    table.replay(now=NOW)
    assert traces(Path()) == []
    assert table.query(limit=1).rows()
    given = Path(f"given/{format}1.jsonl").read_bytes().split(b"\n")
    digests = [{"_withheld": {"bytes": len(one), "sha256": hashlib.sha256(one).hexdigest()}} for one in given]
    kept = [json.loads(one) for one in DeltaTable(quarantine_location(table.raw)).to_pyarrow_table()["event"].to_pylist()]
    assert digests[-1] in kept, "the event that the file ends inside"
    assert sum(one in digests for one in kept) > 10
    assert all(one in digests or one["_redacted"] for one in kept)


@pytest.mark.heavy
@pytest.mark.parametrize(("column", "word"), [("email", HASHED), ("ssn", LEFT_OUT), ("phone", MASKED)])
@pytest.mark.parametrize("format", FORMATS)
def test_without_its_policy_the_search_finds_each_column(format: str, column: str, word: str) -> None:
    columns = {name: policy for name, policy in policies_of(format).items() if name != column}
    write_project(format, columns=columns)
    land(format)
    assert any("shop_customers/" in name for name in traces(Path(), word)), traces(Path(), word)


@pytest.mark.parametrize("format", FORMATS)
def test_without_policies_the_search_finds_them_in_quarantine(format: str) -> None:
    write_project(format, columns={})
    land(format)
    assert any("__quarantine" in name for name in traces(Path(), LEFT_OUT))


def test_the_search_knows_each_spelling(tmp_path: Path) -> None:
    for number, spelling in enumerate(spellings(LEFT_OUT)):
        assert has_word(b"a" + spelling + b"b", LEFT_OUT), number
    assert not has_word(b"zqgone zqhash 731095", LEFT_OUT)


@pytest.mark.heavy
def test_no_command_prints_or_writes_a_value(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    write_project("debezium", tests=[{"name": "named", "holds": "note <> 'x'"}])
    run, said = CommandLine(capsys), Path("said")
    said.mkdir()
    caplog.set_level("DEBUG")
    key = json.dumps({"id": 1})
    file = str(write_events("debezium"))
    commands = [
        ["land", "debezium", file, "--table", TABLE],
        ["land", "debezium", str(write_events("debezium", first=900)), "--table", TABLE, "--log-format", "json"],
        ["quarantine", "list", "--format", "jsonl"],
        ["quarantine", "show", TABLE],
        ["replay", TABLE],
        ["materialize", "--metrics", "said/metrics.prom", "--log-format", "json"],
        ["query", TABLE, "--format", "jsonl"],
        ["query", TABLE, "--where", "email = 1"],
        ["explain", TABLE, "--key", key],
        ["history", TABLE, "--key", key],
        ["apply"],
        ["fidelity"],
        ["status"],
        ["doctor"],
        ["validate"],
        ["report", "--out", "said/report"],
        ["contract", "export", "--out", "said/contract.yaml"],
        ["forget", TABLE, "--key", key],
    ]
    for number, command in enumerate(commands):
        answer = run(*command)
        assert "Traceback" not in answer.err
        (said / f"{number}.txt").write_text(f"{command}: {answer.code}\n{answer.out}\n{answer.err}")
    (said / "log.txt").write_text(caplog.text)
    assert traces(Path()) == []
    assert list(Path("warehouse/state").rglob("*.parquet"))
    assert Path("warehouse/views.duckdb").exists()
    assert len(list(Path("said").rglob("*"))) > len(commands)


def test_a_table_that_others_land_is_copied_without_values(capsys: pytest.CaptureFixture[str]) -> None:
    texts = [broken("debezium", name, 1 + n).decode("utf-8", "replace") for n, name in enumerate(BREAKAGES)]
    write_deltalake("given/found", pa.table({"value": texts}))
    write_project("debezium", raw={"format": "debezium", "layout": "as-found", "table": "given/found"})
    run = CommandLine(capsys)
    answers = [run("query", TABLE, "--format", "jsonl"), run("apply"), run("fidelity"), run("status")]
    Path("said.txt").write_text("".join(answer.out + answer.err for answer in answers))
    assert len(answers[0].rows) > 2
    assert "still has its values" in " ".join(answers[2].out.split())
    assert traces(Path()) == []
    write_project("debezium", raw={"format": "debezium", "layout": "as-found", "table": "given/found", "reading": "sql"})
    assert "applied to a copy" in run("query", TABLE).err + run("apply").err


def test_what_is_posted_leaves_no_value(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    write_project("debezium")
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with in_thread(Path("cdc_views.yml").absolute()) as (client, log):
        client.sign_in()
        bodies = [broken("debezium", name, 1 + n) for n, name in enumerate(BREAKAGES)]
        said = [client("/events", body).body for body in bodies] + [client("/metrics", method="GET").body]
    printed = capsys.readouterr()
    Path("said.txt").write_text("\n".join([*said, printed.out, printed.err, repr(vars(log))]))
    letters = [json.loads(line) for line in next(Path().rglob("dead_letters.jsonl")).read_text().splitlines()]
    assert {tuple(letter["withheld"]) for letter in letters} == {("bytes", "sha256")}
    digests = [{"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()} for body in bodies]
    assert any(letter["withheld"] in digests for letter in letters)
    assert traces(Path()) == []


@pytest.mark.parametrize("format", ["debezium", "key-value", "cassandra-mutation"])
def test_what_is_published_has_no_value(format: str) -> None:
    publishing = pytest.importorskip("cdc_producers.kafka.publishing")
    write_project(format)
    (table,) = targets_of(Path("cdc_views.yml").absolute(), (), format_name=None, log=Said())
    sent: list[Any] = []
    publisher = SimpleNamespace(
        position=lambda name: None,
        create=lambda *_, **__: None,
        commit=lambda name, through, messages, **_: sent.extend(messages),
    )
    lander = publishing.TopicTarget(table, TABLE, SimpleNamespace(of=lambda stream: publisher), None).lander("s")
    contents = [broken(format, name, 1 + n) for n, name in enumerate(BREAKAGES)]
    events = [StreamEvent(Position(1, n), content) for n, content in enumerate(contents)]
    report = lander.land(events, through=Position(2, 0), now=NOW)
    assert min(report.events, report.quarantined) > 3
    assert sum(message.topic == f"{TABLE}__quarantine" for message in sent) == report.quarantined
    assert not has_word(repr((sent, report)).encode())


def test_events_of_a_table_that_is_set_aside_are_kept_without_values() -> None:
    write_project("cassandra-mutation")
    (table,) = Project.load().tables
    for number, name in enumerate(BREAKAGES):
        whole = table.format.redacted(broken("cassandra-mutation", name, number))
        kept = table.format.kept(broken("cassandra-mutation", name, number))
        assert not has_word(kept)
        assert table.format.redacted(kept).content == whole.content
        assert not has_word(table.format.redacted(kept).reason.encode())


def test_the_view_shows_hashes_and_masks_and_keeps_nulls(capsys: pytest.CaptureFixture[str]) -> None:
    write_project("debezium", extra_columns="json")
    without = event("debezium", 2)
    without["after"] = without["after"] | {"email": None, "phone": None, "fresh": 1}
    unsent = event("debezium", 1) | {"source": event("debezium", 1)["source"] | {"lsn": 900}}
    unsent["after"] = unsent["after"] | {"email": "__debezium_unavailable_value", "note": "newer"}
    run = CommandLine(capsys)
    run.land(TABLE, *map(json.dumps, (event("debezium", 1), without, unsent)))
    first, second = run.query(TABLE)
    assert (first["phone"], first["note"], len(first["email"]), "ssn" in first) == ("***", "newer", 64, False)
    assert (second["phone"], second["email"], second[EXTRA]) == (None, None, {"fresh": 1})


def test_an_event_in_quarantine_is_not_hashed_again_when_it_lands(capsys: pytest.CaptureFixture[str]) -> None:
    write_project("debezium")
    run, fresh = CommandLine(capsys), event("debezium", 1)
    fresh["after"] = fresh["after"] | {"fresh": "f"}
    assert run.land(TABLE, json.dumps(fresh), json.dumps(event("debezium", 2))).code == 1
    Path("schema.sql").write_text(schema_of("debezium").replace("note text", "note text, fresh text"))
    assert run("replay", TABLE).code == 0
    found = run.query(TABLE)
    assert [row["fresh"] for row in found] == ["f", None]
    again = json.dumps(event("debezium", 3) | {"after": event("debezium", 1)["after"] | {"id": 3}})
    run.land(TABLE, again, file="more.jsonl")
    assert run.query(TABLE)[2]["email"] == found[0]["email"]


def test_a_hashed_key_is_explained_and_forgotten_by_its_hash(capsys: pytest.CaptureFixture[str]) -> None:
    write_project("debezium", columns={"id": {"policy": "hash", "key": "${EMAIL_KEY}"}})
    run, key = CommandLine(capsys), json.dumps({"id": _hmac("1")})
    run.land(TABLE, json.dumps(event("debezium", 1)), json.dumps(event("debezium", 2)))
    assert {row["outcome"] for row in run("explain", TABLE, "--key", key, "--format", "jsonl").rows} == {"shown"}
    assert run("forget", TABLE, "--key", key).code == 0
    assert [row["id"] for row in run.query(TABLE)] == [_hmac("2")]


@pytest.mark.parametrize(("format", "image"), [("debezium", "after"), ("key-value", "value")])
def test_columns_that_the_schema_lacks_may_be_left_out(capsys: pytest.CaptureFixture[str], format: str, image: str) -> None:
    run, columns = CommandLine(capsys), policies_of(format) | {"phone": {"policy": "mask", "text": "none"}}
    for number, extra, code, shown in ((1, "quarantine", 1, [9]), (2, "leave_out", 0, [2, 9])):
        write_project(format, columns=columns, extra_columns=extra)
        fresh = event(format, number)
        fresh[image] = fresh[image] | {"fresh": "f"}
        answer = run.land(TABLE, json.dumps(fresh), json.dumps(event(format, 9)), format=format, file=f"{extra}.jsonl")
        assert answer.code == code, answer.err
        rows = run.query(TABLE)
        assert [row["id"] for row in rows] == shown
    assert (set(rows[0]), rows[0]["phone"]) == ({"id", "email", "phone", "note"}, "none")


def test_what_verify_reads_of_a_source_is_as_it_would_be_stored() -> None:
    live_rows = pytest.importorskip("cdc_producers.live_rows")
    write_project("debezium")
    (table,) = Project.load().tables
    whole = event("debezium", 1)

    def read(phone: Any) -> dict[str, Any]:
        after = whole["after"] | {"phone": phone}
        order = LiveOrder(TABLE, table.source_schema, table.format)
        reader = live_rows.RowReader(
            order,
            list(after),
            lambda values, names: json.dumps(whole | {"op": "r", "after": dict(zip(names, values, strict=True))}).encode(),
        )
        return dict(reader.row(list(after.values())).values)

    one, other = read(731095), read(2)
    assert one == other
    assert (one["phone"], one["email"], "ssn" in one) == ("***", _hmac(whole["after"]["email"]), False)
    assert read(None)["phone"] is None


@pytest.mark.parametrize("has_state", [False, True])
def test_raw_from_before_a_policy_is_told(capsys: pytest.CaptureFixture[str], *, has_state: bool) -> None:
    write_project("debezium", columns={})
    run = CommandLine(capsys)
    run.land(TABLE, json.dumps(event("debezium", 1)))
    assert not has_state or run("materialize").code == 0
    write_project("debezium", columns={name: one for name, one in policies_of("debezium").items() if name != "phone"})
    lines = {line["column"]: line["reason"] for line in run("fidelity", "--format", "jsonl").rows}
    assert "from before the policy" in lines["email"]
    assert "from before the policy" in lines["ssn"]
    told = run("doctor")
    assert (told.code, "email, ssn" in told.err) == (1, True), told.err
    write_project("debezium", raw={"format": "debezium", "table": "raw/again"})
    lines = {line["column"]: line["reason"] for line in run("fidelity", "--format", "jsonl").rows}
    assert lines["email"].startswith("policy hash: the HMAC-SHA-256 of the value, as text; ")
    assert lines["ssn"].startswith("policy leave_out: nothing of it is stored or shown; ")
    assert lines["phone"] == "policy mask: one text for every value"
    assert run("rebuild", TABLE, "--accept").code == 0
    assert run.land(TABLE, json.dumps(event("debezium", 1))).code == 0
    for old in Path("warehouse").glob("[rs]*"):
        shutil.rmtree(old)
    assert (run("doctor").code, run.query(TABLE)[0]["phone"]) == (0, "***")
    assert (traces(Path("raw")), traces(Path("warehouse"))) == ([], []), "the way that is told leaves none"


def test_quarantine_from_before_a_policy_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    write_project("debezium", columns={})
    run = CommandLine(capsys)
    run.land(TABLE, broken("debezium", "a new column", 1).decode())
    write_project("debezium")
    told = run("doctor")
    assert (told.code, "1 events from before the policy" in told.err) == (1, True), told.err


def test_the_start_of_an_event_is_known_once_its_file_has_grown() -> None:
    write_project("debezium")
    (table,) = Project.load().tables
    whole, file = json.dumps(event("debezium", 1)).encode(), Path("growing.jsonl")
    file.write_bytes(whole[:-20])
    assert table.land(file, now=NOW).files[0].quarantined == 1
    file.write_bytes(whole + b"\n")
    assert table.land(file, now=NOW).files[0].events == 1
    assert table.replay(now=NOW).waiting == 0


@pytest.mark.parametrize(
    ("columns", "more", "said"),
    [
        ({"mail": {"policy": "mask"}}, {}, "did you mean 'email'?"),
        ({"id": {"policy": "mask"}}, {}, "different rows would become one"),
        ({"id": {"policy": "leave_out"}}, {}, "hash it"),
        ({"ssn": {"policy": "hash", "key": "in the file, long enough"}}, {}, "is a secret in the file"),
        ({"ssn": {"policy": "hash", "key": "${NO_SUCH_KEY}"}}, {}, "set NO_SUCH_KEY"),
        ({"ssn": {"policy": "hash", "key": "${SHORT_KEY}"}}, {}, "fewer than 16 letters"),
        ({"ssn": {"policy": "hash"}}, {}, "`key` goes with"),
        ({"ssn": {"policy": "remove"}}, {}, "remove"),
        ({}, {"extra_columns": "drop"}, "extra_columns"),
    ],
)
def test_what_cannot_be_is_one_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: Any, more: Any, said: str
) -> None:
    monkeypatch.setenv("SHORT_KEY", "hunter2")
    write_project("debezium", columns=columns, **more)
    answer = CommandLine(capsys)("query", TABLE)
    assert (answer.code, said in answer.err, "hunter2" in answer.err) == (2, True, False), answer.err
    assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    ("columns", "more", "said"),
    [
        ({"seq": {"policy": "hash", "key": "${EMAIL_KEY}"}}, {}, "clustering column"),
        ({"tags": {"policy": "mask"}}, {}, "leave it out"),
        ({}, {"extra_columns": "json"}, "whole rows"),
        ({}, {"extra_columns": "leave_out"}, "whole rows"),
    ],
)
@pytest.mark.parametrize("format", ["cassandra-mutation", "debezium-cassandra"])
def test_what_cassandra_cannot_have_is_one_error(
    capsys: pytest.CaptureFixture[str], format: str, columns: Any, more: Any, said: str
) -> None:
    write_project(format, columns=columns, **more)
    answer = CommandLine(capsys)("land", format, str(write_events(format)), "--table", TABLE)
    assert (answer.code, said in answer.err) == (2, True), answer.err


@pytest.mark.parametrize("format", FORMATS)
def test_hashes_are_the_same_in_every_format(format: str) -> None:
    write_project(format)
    (table,) = Project.load().tables
    file = Path("given.jsonl")
    file.write_text(json.dumps(event(format, 1)) + "\n")
    table.land(file, now=NOW)
    (found,) = table.query(columns=["email", "phone"]).rows()
    assert found == {"email": _hmac(event("debezium", 1)["after"]["email"]), "phone": "***"}


def _hmac(text: str) -> str:
    return hmac.new(KEY.encode(), text.encode(), hashlib.sha256).hexdigest()
