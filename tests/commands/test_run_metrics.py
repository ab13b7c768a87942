"""What `materialize` tells Prometheus: in a file for node_exporter, and at an address."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from helpers.command_line import CommandLine, table, write_project
from helpers.producing import eventually
from helpers.tiny_project import CQL, event
from helpers.watched_processes import scrape
from prometheus_client.parser import text_string_to_metric_families
from services.account import free_port

from cdc_views import Project
from cdc_views.operations.scheduling import job_of

pytestmark = pytest.mark.heavy

ORDERS, ITEMS = "shop.orders", "shop.items"
HOURLY = {"schedule": "0 * * * *"}
UNIT = Path(__file__).parents[2] / "ops/systemd/cdc-views-materialize.service"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """A project of two tables, one of which has landed events and a schedule."""
    monkeypatch.chdir(tmp_path)
    Path("shop.cql").write_text(CQL + CQL.replace(ORDERS, ITEMS))
    write_project(
        table(ORDERS, "shop.cql", "cassandra-mutation", materialize=HOURLY), table(ITEMS, "shop.cql", "cassandra-mutation")
    )
    made = CommandLine(capsys)
    made.land(ORDERS, event(1), format="cassandra-mutation")
    return made


def values(text: str) -> dict[tuple[str, str], float]:
    """Each metric's value by its name, without what all begin with, and table."""
    families = text_string_to_metric_families(text)
    samples = [sample for family in families for sample in family.samples]
    return {(one.name.removeprefix("cdc_views_materialize_"), one.labels["table"]): one.value for one in samples}


def written(file: str = "state.prom") -> dict[tuple[str, str], float]:
    return values(Path(file).read_text())


def test_a_run_tells_when_how_long_and_how_much(run: CommandLine) -> None:
    before = time.time()
    assert run("materialize", "--select", ORDERS, "--metrics", "state.prom").code == 0
    found = written()
    assert {table for _, table in found} == {ORDERS}
    assert (found["failed", ORDERS], found["facts", ORDERS], found["late", ORDERS], found["raw_version", ORDERS]) == (0, 1, 0, 1)
    assert (
        before
        <= found["last_success_timestamp_seconds", ORDERS]
        <= found["last_run_timestamp_seconds", ORDERS] + 1
        <= time.time() + 1
    )
    assert 0 < found["run_seconds", ORDERS] < 600
    assert 0 <= found["due_timestamp_seconds", ORDERS] - before <= 3600


def test_a_failure_is_told_and_what_is_due_stays_due(run: CommandLine) -> None:
    run("materialize", "--select", ORDERS, "--metrics", "state.prom")
    good = written()
    Path("warehouse").rename("away")
    assert run("materialize", "--select", ORDERS, "--metrics", "state.prom").code != 0
    bad = written()
    assert bad["failed", ORDERS] == 1
    for name in ("last_success_timestamp_seconds", "due_timestamp_seconds", "facts", "raw_version"):
        assert bad[name, ORDERS] == good[name, ORDERS]
    assert bad["last_run_timestamp_seconds", ORDERS] > good["last_run_timestamp_seconds", ORDERS]


def test_a_file_keeps_other_tables_and_drops_those_that_the_project_lost(run: CommandLine) -> None:
    run("materialize", "--select", ORDERS, "--metrics", "state.prom")
    assert run("materialize", "--select", ITEMS, "--metrics", "state.prom").code != 0
    found = written()
    assert (found["failed", ORDERS], found["failed", ITEMS]) == (0, 1)
    write_project(table(ORDERS, "shop.cql", "cassandra-mutation"))
    run("materialize", "--metrics", "state.prom")
    assert {table for _, table in written()} == {ORDERS}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--metrics", "state.txt"], "a name that ends in .prom was expected"),
        (["--metrics", "nowhere/state.prom"], "name a folder that is there"),
        (["--listen", "127.0.0.1:0"], "--listen goes with --schedule or --trigger"),
        (["--schedule", "--listen", "9464"], "host:port was expected"),
        (["--schedule", "--listen", "127.0.0.1:99999"], "name a free port"),
    ],
)
def test_what_cannot_be_is_refused_first(run: CommandLine, words: list[str], said: str) -> None:
    answer = run("materialize", *words)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err


def test_validate_tells_how_many_tests_failed(run: CommandLine) -> None:
    tests = [{"name": n, "holds": "id < 0", "severity": severity} for n, severity in (("a", "error"), ("b", "warning"))]
    write_project(table(ORDERS, "shop.cql", "cassandra-mutation", tests=tests))
    answer = run("validate", "--no-docs", "--metrics", "tests.prom", "--json", "tests.json")
    assert answer.code == 1
    told = Path("tests.prom").read_text().replace(f'{{table="{ORDERS}"}}', "")
    found = {family.name: family.samples[0].value for family in text_string_to_metric_families(told)}
    results = [(one["status"], one["severity"]) for one in json.loads(Path("tests.json").read_text())]
    assert found.pop("cdc_views_validate_last_run_timestamp_seconds") == pytest.approx(time.time(), abs=60)
    assert found == {
        "cdc_views_validate_tests": len(results),
        "cdc_views_validate_failed_tests": results.count(("failed", "error")),
        "cdc_views_validate_failed_warnings": results.count(("failed", "warning")),
    }
    assert found["cdc_views_validate_failed_tests"] == 1


def test_a_damaged_file_is_written_anew(run: CommandLine) -> None:
    Path("state.prom").write_text('cdc_views_materialize_failed{table="shop.orders')
    assert run("materialize", "--select", ORDERS, "--metrics", "state.prom").code == 0
    assert written()["failed", ORDERS] == 0


def test_a_scheduler_serves_what_is_due_after_its_run(run: CommandLine) -> None:
    owed = datetime.now(timezone.utc) - timedelta(hours=2)
    job_of(Project.load().table(ORDERS)).remember(owed)
    listen = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "cdc_views", "materialize", "--schedule", "--listen", listen]
    assert f" {' '.join(command[3:6])} " in UNIT.read_text(), "as our systemd unit does"
    with Path("log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            eventually(lambda: ("failed", ORDERS) in _served(listen), what=Path("log"))
            found = _served(listen)
            assert found["failed", ORDERS] == 0
            assert 0 <= found["due_timestamp_seconds", ORDERS] - time.time() <= 3600
            assert {table for _, table in found} == {ORDERS}
            with urllib.request.urlopen(f"http://{listen}/healthz", timeout=10) as answer:
                assert answer.status == 200  # the image's HEALTHCHECK asks it
        finally:
            process.kill()


def _served(address: str) -> dict[tuple[str, str], float]:
    try:
        return values(scrape(address))
    except OSError:
        return {}
