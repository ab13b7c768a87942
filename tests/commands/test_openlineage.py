"""OpenLineage events: those that its own JSON schemas take, of each run, and never a reason for a run to fail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from helpers.command_line import CommandLine, table
from helpers.webhooks import Webhook, webhook
from referencing import Registry, Resource

SPEC = Path(__file__).parents[1] / "data" / "openlineage"
RUN_EVENT = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
TESTS = [{"name": "all are paid", "holds": "state = 'paid'"}, {"name": "few", "holds": "amount < 9", "severity": "warning"}]
EVENT = (
    '{"format":"cassandra-mutation/1","node":"n1","segment":1,"position":1,"keyspace":"shop","table":"orders","partition":{"id":1},'
    '"rows":[{"kind":"row","liveness":{"written":10},"cells":[{"column":"state","written":10,"value":"open"},'
    '{"column":"amount","written":10,"value":8}]}]}'
)
CQL = "CREATE TABLE shop.orders (id int PRIMARY KEY, state text, amount int, card text);"


@pytest.fixture
def consumer() -> Iterator[Webhook]:
    with webhook() as found:
        yield found


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], consumer: Webhook) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LINEAGE_KEY", "zq-key")
    Path("shop.cql").write_text(CQL)
    write(consumer.url)
    line = CommandLine(capsys)
    line.land("shop.orders", EVENT, format="cassandra-mutation")
    return line


def write(url: str, *, key: str = "${LINEAGE_KEY}", **more: Any) -> None:
    orders = table("shop.orders", "shop.cql", "cassandra-mutation", tests=TESTS, columns={"card": {"policy": "mask"}}, **more)
    body = {"name": "shop", "engine": "duckdb", "openlineage": {"url": url, "api_key": key}, "tables": [orders]}
    Path("cdc_views.yml").write_text(json.dumps(body), encoding="utf-8")


def sent(consumer: Webhook) -> list[dict[str, Any]]:
    """The events that came, each as the schemas have it."""
    found, consumer.got = consumer.got, []
    for one in found:
        check(one)
    return found


def check(one: Any) -> None:
    schemas = [json.loads(file.read_text("utf-8")) for file in SPEC.glob("*.json")]
    registry: Any = Registry().with_resources((each["$id"], Resource.from_contents(each)) for each in schemas)
    formats = jsonschema.FormatChecker()

    def valid(part: Any, ref: str) -> None:
        jsonschema.Draft202012Validator({"$ref": ref}, registry=registry, format_checker=formats).validate(part)

    valid(one, RUN_EVENT)
    for holder in (one["job"], one["run"], *one["inputs"], *one["outputs"]):
        for facet in (holder.get("facets", {}) | holder.get("inputFacets", {})).values():
            valid(facet, facet["_schemaURL"])


def test_a_run_of_materialize_says_of_what_each_column_is_made(run: CommandLine, consumer: Webhook) -> None:
    assert run("materialize").code == 0
    start, end = sent(consumer)
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == end["run"]["runId"]
    assert start["eventTime"] < end["eventTime"]
    assert start["job"]["name"] == "materialize shop.orders"
    (raw,), (view,) = end["inputs"], end["outputs"]
    assert (raw["namespace"], raw["name"]) == ("file", str(next(Path("warehouse/raw").iterdir()).resolve()))
    assert (view["namespace"], view["name"]) == ("shop", "shop.orders")
    assert [one["name"] for one in view["facets"]["schema"]["fields"]] == ["id", "state", "amount", "card"]
    lineage = view["facets"]["columnLineage"]["fields"]
    direct = {
        name: [(i["field"], t["masking"]) for i in one["inputFields"] for t in i["transformations"] if t["type"] == "DIRECT"]
        for name, one in lineage.items()
    }
    assert direct == {"id": [("id", False)], "state": [("state", False)], "amount": [("amount", False)], "card": [("card", True)]}
    assert run("rebuild", "shop.orders").code == 0
    assert [(one["eventType"], one["job"]["name"]) for one in sent(consumer)] == [
        ("START", "rebuild shop.orders"),
        ("COMPLETE", "rebuild shop.orders"),
    ]


def test_tests_and_failures_are_told_without_values(run: CommandLine, consumer: Webhook) -> None:
    assert run("validate", "--no-docs").code == 1
    _, end = sent(consumer)
    (view,) = end["inputs"]
    told = {one["assertion"]: one for one in view["inputFacets"]["dataQualityAssertions"]["assertions"]}
    assert (told["all are paid"]["success"], told["all are paid"]["severity"]) == (False, "error")
    assert (told["few"]["success"], told["few"]["severity"]) == (True, "warn")
    assert told["one_row_per_key"]["success"]
    assert run("materialize").code == 0
    sent(consumer)
    log = next(Path("warehouse/raw").glob("*/_delta_log"))
    (log / f"{len(list(log.glob('*.json'))) - 1:020}.json").write_text("{", encoding="utf-8")
    assert run("materialize").code == 3
    _, end = sent(consumer)
    assert (end["eventType"], end["run"]["facets"]["errorMessage"]["message"]) == ("FAIL", "DamagedFileError")


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/lineage", "refuses"])
def test_a_consumer_that_is_away_is_a_warning(run: CommandLine, consumer: Webhook, url: str) -> None:
    consumer.status = 401
    write(consumer.url if url == "refuses" else url)
    answer = run("materialize")
    assert answer.code == 0
    assert "warning: openlineage.url: events of this run were not taken: it " in answer.err
    assert "zq-key" not in answer.err + answer.out


@pytest.mark.parametrize(
    ("url", "key", "said"),
    [("ftp://x", "${LINEAGE_KEY}", "https:// or http://"), ("https://x", "zq-key", "is a secret in the file")],
)
def test_what_cannot_be_is_refused(run: CommandLine, url: str, key: str, said: str) -> None:
    write(url, key=key)
    answer = run("status")
    assert answer.code == 2
    assert said in answer.err
    assert "zq-key" not in answer.err


def test_an_event_gone_wrong_is_noticed(run: CommandLine, consumer: Webhook) -> None:
    run("materialize")
    _, end = sent(consumer)
    end["outputs"][0]["facets"]["columnLineage"].pop("fields")
    with pytest.raises(jsonschema.ValidationError):
        check(end)
