"""Alert rules and the dashboard name metrics and labels that running processes expose, and documents have each of these."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.producing import eventually
from helpers.prometheus import NoPrometheusError, program
from helpers.promql import Exposed, exposed, problems, result_labels
from helpers.watched_processes import Watched
from prometheus_client.parser import text_string_to_metric_families

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[2]
OPS = ROOT / "ops"
DASHBOARD = OPS / "grafana" / "dashboards" / "cdc-views.json"
RULES = [rule for group in yaml.safe_load((OPS / "prometheus" / "rules.yml").read_text())["groups"] for rule in group["rules"]]
PANELS = [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]


@pytest.fixture(scope="module")
def known(running: Watched) -> Exposed:
    return exposed(*running.scraped())


@pytest.fixture(scope="module")
def promtool() -> Path:
    try:
        return program("promtool")
    except NoPrometheusError as error:
        pytest.skip(str(error))


def problems_of_rule(rule: dict[str, Any], known: Exposed) -> list[str]:
    """What an alert names that is not there, in its expression or in its texts."""
    said = " ".join(rule["annotations"].values())
    texts = {*re.findall(r"\$labels\.(\w+)", said)} - result_labels(rule["expr"], known)
    return problems(rule["expr"], known) + [f"its alerts have no label {label}" for label in sorted(texts)]


def queries(panel: dict[str, Any]) -> list[str]:
    return [target["expr"] for target in panel["targets"]]


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_names_what_is_exposed(rule: dict[str, Any], known: Exposed) -> None:
    assert problems_of_rule(rule, known) == []


@pytest.mark.parametrize("panel", PANELS, ids=[panel["title"] for panel in PANELS])
def test_a_panel_names_what_is_exposed(panel: dict[str, Any], known: Exposed) -> None:
    assert [said for query in queries(panel) for said in problems(query, known)] == []


def test_legends_name_labels_that_the_result_has(known: Exposed) -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            named = {*re.findall(r"{{(\w+)}}", target["legendFormat"])}
            assert named <= result_labels(target["expr"], known), (panel["title"], target["legendFormat"])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("cdc_views_quarantined_total", "cdc_views_quarantine_total", "no metric cdc_views_quarantine_total"),
        ("$labels.table", "$labels.tabel", "its alerts have no label tabel"),
        ("_total[", "_total{sauce='x'}[", "cdc_views_quarantined_total has no label sauce"),
    ],
)
def test_a_rule_gone_wrong_is_noticed(old: str, new: str, said: str, known: Exposed) -> None:
    (rule,) = [rule for rule in RULES if rule["alert"] == "CdcViewsQuarantineGrowing"]
    assert said in problems_of_rule(json.loads(json.dumps(rule).replace(old, new)), known)


def test_grouping_by_a_label_that_is_not_there_is_noticed(known: Exposed) -> None:
    assert problems("sum by (tabel) (cdc_views_events_total)", known) == ["cdc_views_events_total has no label tabel to group by"]
    with pytest.raises(ValueError, match=r".+"):
        problems("sum by (table (cdc_views_events_total)", known)


def test_documents_have_each_metric(running: Watched) -> None:
    text = (ROOT / "docs" / "reference" / "metrics.md").read_text("utf-8")
    families = [family for scraped in running.scraped() for family in text_string_to_metric_families(scraped)]
    names = {f"{family.name}_total" if family.type == "counter" else family.name for family in families}
    assert len(names) > 25
    assert sorted(name for name in names if f"`{name}`" not in text) == []


def test_the_file_for_node_exporter_has_what_is_served(running: Watched) -> None:
    written, served = exposed(running.file.read_text()), exposed(running.scraped()[2])
    assert written == served
    assert len(written) == 9


def test_a_scheduled_run_leaves_a_record(running: Watched) -> None:
    folder = running.file.parent / "warehouse" / "_cdc_views" / "runs"
    eventually(lambda: list(folder.glob("*-materialize-*.json")), what=running.file.parent / "scheduler.log")


def test_the_dashboard_has_what_grafana_needs() -> None:
    board = json.loads(DASHBOARD.read_text())
    assert {"uid", "title", "schemaVersion", "panels", "templating", "time"} <= board.keys()
    assert board.get("id") is None
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    variables = {variable["name"] for variable in board["templating"]["list"]}
    assert {*re.findall(r"\$\{?([a-z_]+)", "".join(map(json.dumps, board["panels"])))} <= variables
    places = [panel["gridPos"] for panel in board["panels"]]
    cells = [(x, y) for p in places for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])]
    assert len(cells) == len(set(cells)), "panels lie on each other"
    assert max(x for x, _ in cells) < 24
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in PANELS)


def test_promtool_takes_the_rules_and_each_alert_fires_where_it_should(promtool: Path) -> None:
    for words in (["check", "config", "prometheus.yml"], ["test", "rules", "rules_test.yml"]):
        done = subprocess.run([promtool, *words], cwd=OPS / "prometheus", capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_name_each_job_that_prometheus_asks() -> None:
    asked = yaml.safe_load((OPS / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    named = re.findall(r'job="([^"]+)"', " ".join(rule["expr"] for rule in RULES))
    assert {*named} == {job["job_name"] for job in asked}


def test_each_alert_has_a_case_that_fires_and_one_that_is_quiet() -> None:
    tests = yaml.safe_load((OPS / "prometheus" / "rules_test.yml").read_text())["tests"]
    cases = [(case["alertname"], bool(case["exp_alerts"])) for test in tests for case in test["alert_rule_test"]]
    assert sorted(cases) == sorted((rule["alert"], fires) for rule in RULES for fires in (True, False))


def test_a_threshold_gone_wrong_fails_promtools_cases(promtool: Path, tmp_path: Path) -> None:
    rules = (OPS / "prometheus" / "rules.yml").read_text()
    (tmp_path / "rules.yml").write_text(rules.replace("cdc_views_held_limit_bytes > 0.7", "cdc_views_held_limit_bytes > 0.8"))
    (tmp_path / "rules_test.yml").write_text((OPS / "prometheus" / "rules_test.yml").read_text())
    done = subprocess.run(
        [promtool, "test", "rules", "rules_test.yml"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "CdcViewsLogNearlyFull fires" in done.stdout + done.stderr
