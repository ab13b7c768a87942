"""Reports to Sentry: sent only where a DSN is set, and never with a row's value or a secret."""

from __future__ import annotations

import json
from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest
from cdc_producers.metrics import Metrics
from cdc_producers.reports import Reports, reporting
from cdc_producers.retrying import pauses
from cdc_producers.runtime import Runtime
from helpers.captured import Said
from helpers.memory_source import BATCHES, Memory, Target, emitted
from helpers.tiny_project import raw_table
from sentry_sdk.transport import Transport

from cdc_views.errors import CheckFailedError, EngineError, TransientError, UsageError
from cdc_views.landing.targets import ProducerOrder

DSN = "https://k3yk3yk3y@sentry.example/1"
ENVIRONMENT = {"SENTRY_DSN": DSN, "PGPASSWORD": "s3cr3t", "HOME": "/home/somebody"}


class Caught(Transport):
    """Keeps what would be sent."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[dict[str, Any]] = []

    def capture_envelope(self, envelope: Any) -> None:
        self.events += [item.payload.json for item in envelope.items]


@pytest.fixture
def caught() -> Caught:
    return Caught()


@pytest.fixture
def reports(caught: Caught) -> Iterator[Reports]:
    with reporting("memory", ENVIRONMENT, transport=caught) as made:
        yield made


def raised(error: Exception, cause: Exception | None = None) -> Exception:
    private = "Ann Private"  # a local variable, which a report could carry
    try:
        try:
            raise cause or ValueError(private)
        except Exception as inner:
            raise error from inner
    except Exception as outer:
        return outer


def test_a_report_says_what_and_where(reports: Reports, caught: Caught) -> None:
    reports.error(raised(EngineError("shop.orders: the disk is full; make room")), part="target")
    (event,) = caught.events
    assert event["tags"] == {"source": "memory", "part": "target"}
    cause, error = event["exception"]["values"]
    assert (cause["type"], error["type"]) == ("ValueError", "EngineError")
    assert error["value"] == "shop.orders: the disk is full; make room"
    assert error["stacktrace"]["frames"][-1]["function"] == "raised"


@pytest.mark.parametrize(
    "error",
    [
        EngineError('PostgreSQL: invalid input syntax for type integer: "Ann Private"'),
        EngineError("PostgreSQL: Key (name)=(Ann Private) already exists"),
        EngineError("PostgreSQL: Key (name)=(Ann (x) Private) already exists"),
        EngineError("PostgreSQL: 'x'Ann' is no name, nor is 'Private"),
        EngineError('PostgreSQL: "x"Ann Private" is no integer'),
        TransientError("cannot reach postgresql://ann:s3cr3t@db/shop"),
        TransientError("FATAL: s3cr3t is not the password"),
        EngineError(f"sent to {DSN}"),
        RuntimeError("row (1, Ann Private)"),
    ],
)
def test_no_report_has_a_value_or_a_secret(error: Exception, reports: Reports, caught: Caught) -> None:
    reports.error(raised(error, ValueError("of Ann Private")), part="source")
    (event,) = caught.events
    text = json.dumps(event)
    assert type(error).__name__ in text
    for kept in ("Ann", "Private", "s3cr3t", "k3yk3yk3y"):
        assert kept not in text, event


def test_the_same_is_reported_once_in_a_while(reports: Reports, caught: Caught) -> None:
    for part in ("target", "target", "source"):
        reports.error(raised(TransientError("away")), part=part)
    reports.quarantined("shop.orders", 3)
    reports.quarantined("shop.orders", 4)
    assert [event["tags"]["part"] for event in caught.events] == ["target", "source", "shop.orders"]
    reports.again_after = 0.0
    reports.error(raised(TransientError("away")), part="target")
    assert len(caught.events) == 4


def test_without_a_dsn_nothing_is_sent_and_a_wrong_one_is_never_shown() -> None:
    with reporting("memory", {}) as nobody:
        nobody.error(raised(EngineError("x")), part="target")
        assert nobody.client is None
    with pytest.raises(UsageError, match="SENTRY_DSN is no DSN") as told, reporting("memory", {"SENTRY_DSN": "htt://s3cr3t"}):
        pass
    assert "s3cr3t" not in str(told.value)


def test_a_producer_reports_troubles_quarantine_and_its_end(
    tmp_path: Any, caught: Caught, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(
        "cdc_producers.runtime.reporting", lambda source, environment: reporting(source, environment, transport=caught)
    )
    monkeypatch.setattr("cdc_producers.runtime.pauses", lambda: pauses(first=0.01))
    log = [emitted(1), emitted(2, content=b"{Ann Private"), emitted(3), emitted(4)]
    source = Memory(log, troubles=[TransientError("the server is away")])
    order = ProducerOrder([Target(raw_table(tmp_path))], Said(), Event(), listen=None, exits_on_error=True)
    source.at_end = order.stop.set
    with pytest.raises(CheckFailedError):
        Runtime(source, order, Metrics("memory"), BATCHES).run()
    told = [(event["level"], event["tags"]["part"]) for event in caught.events]
    assert told == [("error", "source"), ("warning", "shop.orders"), ("fatal", "producer")]
    assert "Private" not in json.dumps(caught.events)
