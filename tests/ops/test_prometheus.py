"""A real Prometheus takes in what our processes expose, by our configuration, and each panel of the dashboard shows something."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.producing import eventually
from helpers.prometheus import NoPrometheusError, program
from helpers.watched_processes import Watched
from services.account import free_port

pytestmark = pytest.mark.heavy

OPS = Path(__file__).parents[2] / "ops"
BOARD = json.loads((OPS / "grafana" / "dashboards" / "cdc-views.json").read_text())


class Server:
    """A running Prometheus."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, what: str, **words: str) -> Any:
        """Return what the API answers."""
        address = f"http://127.0.0.1:{self.port}/api/v1/{what}?{urllib.parse.urlencode(words)}"
        with urllib.request.urlopen(address, timeout=10) as answer:
            return json.load(answer)["data"]

    def has_scraped_all(self) -> bool:
        """Whether each target was scraped."""
        with suppress(OSError):
            targets = self.ask("targets")["activeTargets"]
            return bool(targets) and all(target["health"] == "up" for target in targets)
        return False

    def series(self, expression: str) -> list[Any]:
        """Return the series that an expression has now."""
        return list(self.ask("query", query=expression)["result"])


@pytest.fixture(scope="module")
def prometheus(running: Watched, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    try:
        binary = program("prometheus")
    except NoPrometheusError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("prometheus")
    config = yaml.safe_load((OPS / "prometheus" / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    producers, materialize = config["scrape_configs"]
    producers["static_configs"] = [{"targets": [running.receiver, running.producer]}]
    materialize["static_configs"] = [{"targets": [running.scheduler]}]
    (folder / "prometheus.yml").write_text(json.dumps(config))
    (folder / "rules.yml").write_text((OPS / "prometheus" / "rules.yml").read_text())
    port = free_port()
    options = [f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.path=data", "--config.file=prometheus.yml"]
    with (folder / "log").open("w") as log, subprocess.Popen([binary, *options], cwd=folder, stdout=log, stderr=log) as process:
        try:
            server = Server(port)
            eventually(server.has_scraped_all, what=folder / "log")
            eventually(lambda: server.series("min(count_over_time(up[5m])) >= 3"), what="a rate needs two scrapes of each")
            yield server
        finally:
            process.kill()


@pytest.mark.parametrize("panel", [one for one in BOARD["panels"] if one["type"] != "row"], ids=lambda panel: panel["title"])
def test_a_panel_shows_something(panel: dict[str, Any], prometheus: Server) -> None:
    for target in panel["targets"]:
        query = target["expr"].replace("$job", ".*").replace("$instance", ".*")
        assert prometheus.series(query), query


def test_a_query_of_nothing_shows_nothing(prometheus: Server) -> None:
    assert prometheus.series("cdc_views_events") == []


def test_every_rule_is_evaluated(prometheus: Server) -> None:
    rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    assert len(rules) == 16
    assert [rule for rule in rules if rule["health"] == "err"] == []


def test_nothing_fires_of_processes_that_are_well(prometheus: Server) -> None:
    fires = {rule["name"] for group in prometheus.ask("rules")["groups"] for rule in group["rules"] if rule["state"] == "firing"}
    assert fires == set()
