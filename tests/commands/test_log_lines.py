"""The log: one line an event, whatever it holds; a time, a level and a logger; no secrets."""

from __future__ import annotations

import json
import logging
import re
import signal
import subprocess
import sys
import time
import warnings
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from helpers.command_line import CommandLine, table, write_project
from helpers.tiny_project import CQL, event
from hypothesis import given
from hypothesis import strategies as st

from cdc_views.cli.log import library_records, log
from cdc_views.cli.log_lines import json_line, text_line

NOW = datetime(2026, 11, 26, 16, 0, 0, 123_999, tzinfo=timezone.utc)
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
HOSTILE = "a\nerror: forged\r\x1b[2J\x00\u2028\u202eb\x85c\ud800"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    Path("shop.cql").write_text(CQL)
    write_project(
        table("shop.orders", "shop.cql", "cassandra-mutation", materialize={"schedule": "0 0 29 2 *"})
    )  # no run is due meanwhile
    return CommandLine(capsys)


def lines(text: str) -> list[dict[str, Any]]:
    """The JSON lines of a log; each has its four members first."""
    found = [json.loads(line) for line in text.splitlines()]
    assert all([*line][:4] == ["time", "level", "logger", "message"] for line in found)
    assert all(TIME.fullmatch(line["time"]) for line in found)
    return found


def test_a_json_line_has_time_level_logger_message_then_facts() -> None:
    line = json.loads(json_line(NOW, "info", "cdc_views.land", "landed", {"rows": 3, "seconds": 0.5, "table": "shop.orders"}))
    assert line == {
        "time": "2026-11-26T16:00:00.123Z",
        "level": "info",
        "logger": "cdc_views.land",
        "message": "landed",
        "rows": 3,
        "seconds": 0.5,
        "table": "shop.orders",
    }
    elsewhere = NOW.astimezone(timezone(timedelta(hours=5)))
    assert json.loads(json_line(elsewhere, "info", "cdc_views.land", "landed", {}))["time"] == line["time"]


@given(st.text(), st.text())
def test_any_text_is_one_line_and_comes_back(message: str, value: str) -> None:
    line = json_line(NOW, "info", "cdc_views", message, {"file": value})
    assert line.splitlines() == [line]
    assert line.isprintable() or not re.search(r"[\x00-\x1f\x7f-\x9f]", line)
    assert text_line(message).splitlines() in ([text_line(message)], [])
    if "://" not in message + value:
        read = json.loads(line)
        assert (read["message"], read["file"]) == (message, value)


def test_a_hostile_text_forges_no_line() -> None:
    assert text_line(HOSTILE) == "a\\nerror: forged\\r\\x1b[2J\\x00\\u2028\\u202eb\\x85c\\ud800"
    assert json.loads(json_line(NOW, "info", "x", HOSTILE, {}))["message"] == HOSTILE
    assert json_line(NOW, "info", "x", HOSTILE, {}).encode()


def test_facts_take_no_place_and_are_json() -> None:
    facts = {"time": "x", "logger": "y", "nan": float("nan"), "when": NOW, "path": Path("a"), "none": None, "yes": True}
    read = json.loads(json_line(NOW, "info", "cdc_views", "m", facts))
    assert (read["time"], read["logger"]) == ("2026-11-26T16:00:00.123Z", "cdc_views")
    assert (read["nan"], read["when"], read["path"], read["none"], read["yes"]) == (None, read["time"], "a", None, True)


@pytest.mark.parametrize("name", ["PGPASSWORD", "MY_PASSWD", "SOME_SECRET", "API_TOKEN", "ALERT_KEY", "CREDENTIALS", "STORE_SAS"])
def test_no_secret_of_the_environment_is_logged(run: CommandLine, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("CDC_VIEWS_POSTGRES_DSN", "postgresql://me:t0psecret@db/shop")
    monkeypatch.setenv("CDC_VIEWS_KAFKA_USER", "visible")
    said = "hunter2, t0psecret, visible, amqp://me:another@host"
    assert text_line(said) == "…, …, visible, amqp://me:…@host"
    read = json.loads(json_line(NOW, "info", "cdc_views", said, {"file": "x/hunter2"}))
    assert (read["message"], read["file"]) == ("…, …, visible, amqp://me:…@host", "x/…")
    for form in ("text", "json"):
        told = run("query", "shop.hunter2-visible-amqp://me:another@host", "--log-format", form).err
        assert [word in told for word in ("hunter2", "visible", "another")] == [False, True, False], told


def test_land_and_materialize_tell_what_they_did(run: CommandLine) -> None:
    Path("events.jsonl").write_text(event(1) + "\nnonsense\n")
    land = ("land", "cassandra-mutation", "events.jsonl", "--table", "shop.orders", "--format", "csv", "--log-format", "json")
    answer = run(*land)
    assert answer.out.splitlines()[1].startswith("events.jsonl,1,1,1,"), "the result alone"
    landed, *bad = lines(answer.err)
    assert [landed[name] for name in ("logger", "file", "events", "quarantined")] == ["cdc_views.land", "events.jsonl", 1, 1]
    assert {line["level"] for line in bad} == {"warning"}
    Path("more.jsonl").write_text(event(2) + "\n")
    assert run(*land[:2], "more.jsonl", *land[3:]).code == 0
    (done,) = lines(run("materialize", "--log-format", "json").err)
    told = {name: done[name] for name in ("logger", "table", "version", "rows", "late", "is_new")}
    assert told == {"logger": "cdc_views.materialize", "table": "shop.orders", "version": 2, "rows": 2, "late": 0, "is_new": True}
    assert 0 < done["seconds"] < 600


def test_a_hostile_file_is_one_line(run: CommandLine) -> None:
    Path("a\nerror: forged").write_text("nonsense\n")
    for more in ([], ["--log-format", "json"]):
        answer = run("land", "cassandra-mutation", "a\nerror: forged", "--table", "shop.orders", *more)
        assert not [line for line in answer.err.splitlines() if line.startswith("error")]
        Path("warehouse").rename(f"warehouse-{len(more)}")


def test_problems_of_a_project_file_are_a_line_each_and_one_record(run: CommandLine) -> None:
    tables = "tables: [{name: a.b, schema: s.cql, raw: {format: debezium}}]"
    Path("cdc_views.yml").write_text(f'nmae: shop\nengine: sprak\n"a\\nerror: forged": 1\n{tables}\n')
    wanted = [
        "cdc_views.yml:1: unknown key 'nmae'; did you mean 'name'?",
        "cdc_views.yml:2: engine is 'sprak', which there is not; did you mean 'spark'?",
        "cdc_views.yml:3: unknown key 'a\\nerror: forged'",
    ]
    told = run("status").err.splitlines()
    assert len(told) == 3
    for line, start in zip(told, wanted, strict=True):
        assert line.startswith(f"error: {start}")
    (record,) = lines(run("land", "key-value", "x.jsonl", "--table", "shop.t", "--log-format", "json").err)
    assert [line[: len(start)] for line, start in zip(record["message"].split("\n"), wanted, strict=True)] == wanted


def test_an_errors_traceback_is_a_member(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    for debug in ("", "1"):
        monkeypatch.setenv("CDC_VIEWS_DEBUG", debug)
        (line,) = lines(run("query", "shop.nope", "--log-format", "json").err)
        assert (line["level"], line["kind"]) == ("error", "UsageError")
        assert ("Traceback" in line.get("traceback", "")) == bool(debug)


def test_what_libraries_log_has_the_same_form(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        with library_records():
            log.use("json", command="cdc-views produce kafka")
            logging.getLogger("foreign.library").warning("broker %s\nis away", "b1")
            try:
                raise ValueError("inside")
            except ValueError:
                logging.getLogger("foreign.library").exception("failed")
            with warnings.catch_warnings():
                warnings.simplefilter("always")
                logging.captureWarnings(capture=True)
                warnings.warn("deprecated", UserWarning, stacklevel=1)
    finally:
        log.reset()
    warned, failed, deprecated = lines(capsys.readouterr().err)
    assert (warned["logger"], warned["level"], warned["message"]) == ("foreign.library", "warning", "broker b1\nis away")
    assert (failed["level"], "ValueError: inside" in failed["traceback"]) == ("error", True)
    assert (deprecated["logger"], "deprecated" in deprecated["message"]) == ("py.warnings", True)


@pytest.mark.heavy
@pytest.mark.parametrize("command", [["produce", "http", "--no-auth", "--port", "0"], ["materialize", "--schedule"]])
def test_each_line_of_a_lasting_command_has_time_level_and_logger(run: CommandLine, command: list[str]) -> None:
    name = "cdc_views." + ".".join(word for word in command[:2] if not word.startswith("-"))
    for form in ("text", "json"):
        words = [sys.executable, "-m", "cdc_views", *command, "--log-format", form]
        with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
            assert process.stderr is not None
            first = process.stderr.readline()
            time.sleep(2)  # the scheduler says what it will do before it answers signals
            process.send_signal(signal.SIGTERM)
            text = first + process.stderr.read()
            assert process.wait(60) == 0, text
        if form == "json":
            assert {(line["level"], line["logger"]) for line in lines(text)} == {("info", name)}
        else:
            assert all(re.match(rf"{TIME.pattern} info {re.escape(name)}: \S", line) for line in text.splitlines()), text
        assert len(text.splitlines()) >= 2
