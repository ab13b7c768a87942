"""Alerts to a webhook: once for what is new, once when it is over; a webhook that is away never makes a run fail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.command_line import CommandLine, table
from helpers.webhooks import Webhook, webhook

from cdc_views.operations.alerting import Alert, alerts_between, post
from cdc_views.operations.run_records import RunRecord

ROW = '{"format":"cassandra-mutation/1","node":"n1","segment":1,"position":%d,"keyspace":"shop","table":"orders",'
ROW += '"partition":{"id":%d},"rows":[{"kind":"row","liveness":{"written":10},"cells":[{"column":"v","written":10,"value":%d}]}]}'


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with webhook() as found:
        yield found


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], hook: Webhook) -> CommandLine:
    """A project whose test fails for a row."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOOK_URL", hook.url)
    Path("schema.cql").write_text("CREATE TABLE shop.orders (id int PRIMARY KEY, v int);", encoding="utf-8")
    write(["v is small", "v < 4"])
    line = CommandLine(capsys)
    line.land("shop.orders", *(ROW % (n, n, n) for n in range(6)), format="cassandra-mutation")
    return line


def write(*tests: list[str], url: str = "${HOOK_URL}") -> None:
    orders = table("shop.orders", "schema.cql", "cassandra-mutation", tests=[{"name": n, "holds": h} for n, h in tests])
    body = {"name": "shop", "engine": "duckdb", "alerts": {"webhook": url}, "tables": [orders]}
    Path("cdc_views.yml").write_text(json.dumps(body), encoding="utf-8")


def told(hook: Webhook) -> list[tuple[str, str]]:
    found = [(one["alert"], one["state"]) for body in hook.got for one in body["alerts"]]
    hook.got.clear()
    return found


def test_a_failed_test_is_told_once_and_once_more_when_it_holds(run: CommandLine, hook: Webhook) -> None:
    assert run("validate", "--no-docs").code == 1
    (body,) = hook.got
    assert (body["project"], body["command"]) == ("shop", "validate")
    assert body["text"] == "ALERT shop shop.orders: v is small: does not hold for 2 rows"
    assert told(hook) == [("test:v is small", "firing")]
    assert run("validate", "--no-docs").code == 1
    assert told(hook) == []
    write(["v is small", "v < 40"])
    assert run("validate", "--no-docs").code == 0
    assert told(hook) == [("test:v is small", "resolved")]


def damaged() -> tuple[Path, str]:
    """Damage the newest entry of raw's log; returns the file and what it held."""
    log = next(Path("warehouse/raw").glob("*/_delta_log"))
    entry = log / f"{len(list(log.glob('*.json'))) - 1:020}.json"
    content = entry.read_text("utf-8")
    entry.write_text("{", encoding="utf-8")
    return entry, content


def test_a_run_that_failed_is_told(run: CommandLine, hook: Webhook) -> None:
    assert run("materialize").code == 0
    entry, content = damaged()
    assert run("materialize").code == 3
    assert told(hook) == [("materialize_failed", "firing")]
    entry.write_text(content, encoding="utf-8")
    assert run("materialize").code == 0
    assert told(hook) == [("materialize_failed", "resolved")]


def test_a_validate_that_fails_is_told_and_takes_back_no_failed_test(run: CommandLine, hook: Webhook) -> None:
    assert run("validate", "--no-docs").code == 1
    assert told(hook) == [("test:v is small", "firing")]
    entry, content = damaged()
    for expected in ([("validate_failed", "firing")], []):
        assert run("validate", "--no-docs").code == 3
        assert told(hook) == expected
    entry.write_text(content, encoding="utf-8")
    assert run("validate", "--no-docs").code == 1
    assert told(hook) == [("validate_failed", "resolved")]


def test_a_producer_that_fails_is_told(run: CommandLine, hook: Webhook) -> None:
    taken = hook.url.partition("/hook")[0].rpartition(":")[2]
    assert run("produce", "http", "--no-auth", "--port", taken).code != 0
    assert told(hook) == [("produce_failed", "firing")]


@pytest.mark.parametrize("status", [500, 302])
def test_a_webhook_that_refuses_is_a_warning_without_its_address(run: CommandLine, hook: Webhook, status: int) -> None:
    hook.status, hook.location = status, f"{hook.url}&again" if status == 302 else ""
    answer = run("validate", "--no-docs")
    assert answer.code == 1
    assert f"warning: alerts.webhook: 1 alerts were not taken: it answered {status}" in answer.err
    assert "zq-hook" not in answer.err + answer.out
    assert len(hook.got) == 1


def test_a_webhook_that_is_away_is_a_warning(hook: Webhook) -> None:
    record = RunRecord("validate", "2026-01-01T00:00:00+00:00", 1.0, {})
    why = post("http://127.0.0.1:9/hook?key=zq-hook", "shop", record, [Alert("a.b", "x", "firing", "text")])
    assert why.startswith("it did not answer")
    assert "zq-hook" not in why


@pytest.mark.parametrize(
    ("url", "said"),
    [("https://hooks.example/1", "is a secret in the file; write it as ${NAME}"), ("${BAD_URL}", "https:// or http://")],
)
def test_an_address_is_a_secret_and_is_one(run: CommandLine, monkeypatch: pytest.MonkeyPatch, url: str, said: str) -> None:
    monkeypatch.setenv("BAD_URL", "ftp://zq-hook")
    write(url=url)
    answer = run("validate", "--no-docs")
    assert answer.code == 2
    assert said in answer.err
    assert "zq-hook" not in answer.err


def record(command: str, **tables: Any) -> RunRecord:
    return RunRecord(command, "2026-01-01T00:00:00+00:00", 1.0, tables)


def test_what_a_record_says_is_told_where_the_one_before_did_not() -> None:
    lost, held = record("verify", t={"losses": 3}), record("verify", t={"losses": 0})
    assert [(one.alert, one.state) for one in alerts_between(record("verify"), lost)] == [("cells_lost", "firing")]
    assert alerts_between(lost, lost) == ()
    assert [one.state for one in alerts_between(lost, held)] == ["resolved"]
    assert alerts_between(lost, record("verify", other={"losses": 0})) == ()
    late = alerts_between(record("materialize"), record("materialize", t={"late": 2}))
    assert [(one.alert, one.text) for one in late] == [("facts_late", "2 facts landed too late to be merged")]
    for command in ("validate", "verify", "materialize", "produce"):
        stopped = alerts_between(record(command), record(command, t={"failed": True, "error": "SourceError"}))
        assert [(one.alert, one.text) for one in stopped] == [(f"{command}_failed", f"{command} failed: SourceError")]
