"""The compose files: valid by the compose specification, of commands, ports, variables and files that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.examples import IMAGE, ROOT, instructions, problems_of_command
from jsonschema import Draft202012Validator
from psycopg.pq import Conninfo

pytestmark = pytest.mark.heavy

OPS = ROOT / "ops"
SIDECAR = ROOT / "producers" / "examples" / "cassandra" / "compose.yml"
FILES = {"ops": OPS / "compose.yml", "cassandra": SIDECAR}
SCHEMA = Draft202012Validator(json.loads((ROOT / "tests" / "data" / "compose-spec.json").read_text()))
PROJECT = (OPS / "shop" / "cdc_views.yml").read_text()
Compose = Mapping[str, Any]


@pytest.fixture(params=FILES.values(), ids=FILES.keys())
def file(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


def loaded(file: Path) -> Compose:
    found: Compose = yaml.safe_load(file.read_text())
    return found


def ours(compose: Compose) -> dict[str, Any]:
    """The services that run a command of ours, by name."""
    return {name: service for name, service in compose["services"].items() if service["image"].startswith("cdc-")}


def problems_of(compose: Compose, folder: Path) -> list[str]:
    """What is wrong with a compose file."""
    found = [error.message for error in SCHEMA.iter_errors(compose)]
    return found or [said for check in CHECKS for said in check(compose, folder)]


def problems_of_commands(compose: Compose, folder: Path) -> Iterator[str]:
    for service in ours(compose).values():
        context = service["build"]["context"]
        file = folder / context / service["build"].get("dockerfile", "Containerfile")
        entry = json.loads(dict(instructions(file.read_text()))["ENTRYPOINT"])
        yield from problems_of_command([*entry, *service["command"]])


def problems_of_names(compose: Compose, folder: Path) -> Iterator[str]:
    services, volumes = compose["services"], compose.get("volumes", {})
    for name, service in services.items():
        needs = service.get("depends_on", {})
        yield from (f"{name} depends on {other}" for other in needs if other not in services)
        conditions = needs.items() if isinstance(needs, dict) else ()
        healthy = [other for other, how in conditions if how["condition"] == "service_healthy" and other in services]
        yield from (f"{other} has no healthcheck" for other in healthy if "healthcheck" not in services[other])
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            is_there = (folder / source).exists() or source == "./project" if source.startswith(".") else source in volumes
            yield from [] if is_there else [f"{name} mounts {source}"]


def problems_of_images(compose: Compose, folder: Path) -> Iterator[str]:
    for service in compose["services"].values():
        name, _, tag = service["image"].partition(":")
        if not name.startswith("cdc-") and tag in ("", "latest"):
            yield f"{name} has no tag"
        if "." in name.partition("/")[0]:
            yield f"{name} names a registry"


def problems_of_ports(compose: Compose, folder: Path) -> Iterator[str]:
    for name, service in compose["services"].items():
        for port in service.get("ports", []):
            host, _, inside = port.rpartition(":")
            if not host.startswith("127.0.0.1:"):
                yield f"{name} publishes {port} beyond this machine"
            if name in ours(compose) and f"0.0.0.0:{inside}" not in service["command"]:
                yield f"{name} does not listen on {inside}"


def problems_of_variables(compose: Compose, folder: Path) -> Iterator[str]:
    """Variables of our services that nothing reads: not libpq, not the project file, not our code."""
    libpq = {option.envvar.decode() for option in Conninfo.get_defaults() if option.envvar}
    code = "".join(path.read_text() for package in ("cdc_views", "producers") for path in (ROOT / package).rglob("*.py"))
    read = libpq | {*re.findall(r"\$\{(\w+)\}", PROJECT)} | {*re.findall(r"\bCDC_VIEWS_[A-Z_]+\b", code)}
    for name, service in ours(compose).items():
        yield from (f"nothing reads {variable} of {name}" for variable in service["environment"] if variable not in read)


CHECKS = (problems_of_commands, problems_of_names, problems_of_images, problems_of_ports, problems_of_variables)


def test_a_compose_file_is_right(file: Path) -> None:
    assert problems_of(loaded(file), file.parent) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("healthcheck:", "healthchek:", "'healthchek' was unexpected"),
        ("--schedule", "--shedule", "No such option: --shedule"),
        ("store: {condition", "stor: {condition", "producer depends on stor"),
        ("postgres:17", "postgres", "postgres has no tag"),
        ("grafana/grafana:", "registry.example/grafana:", "registry.example/grafana names a registry"),
        ("127.0.0.1:9465:9464", "127.0.0.1:9465:9465", "materialize does not listen on 9465"),
        ("127.0.0.1:9090", "0.0.0.0:9090", "prometheus publishes 0.0.0.0:9090:9090 beyond this machine"),
        ("PGHOST:", "PGHOTS:", "nothing reads PGHOTS of producer"),
        ("./grafana/dashboards", "./grafana/boards", "grafana mounts ./grafana/boards"),
    ],
)
def test_a_compose_file_gone_wrong_is_noticed(old: str, new: str, said: str) -> None:
    text = (OPS / "compose.yml").read_text()
    assert old in text
    found = problems_of(yaml.safe_load(text.replace(old, new)), OPS)
    assert any(said in one for one in found), found


def test_the_example_of_variables_has_each_that_is_asked_for() -> None:
    asked = {*re.findall(r"\$\{(\w+):\?\}", (OPS / "compose.yml").read_text())}
    given = dict(re.findall(r"^(\w+)=(.+)$", (OPS / "example.env").read_text(), re.MULTILINE))
    assert asked == given.keys()


def test_the_project_is_given_each_variable_that_it_asks_for() -> None:
    asked = {*re.findall(r"\$\{(\w+)\}", PROJECT)}
    assert all(asked <= service["environment"].keys() for service in ours(loaded(OPS / "compose.yml")).values())


def test_prometheus_asks_where_services_listen() -> None:
    services = loaded(OPS / "compose.yml")["services"]
    config = yaml.safe_load((OPS / "prometheus" / "prometheus.yml").read_text())
    targets = [target for job in config["scrape_configs"] for part in job["static_configs"] for target in part["targets"]]
    assert len(targets) == len(ours(loaded(OPS / "compose.yml")))
    for target in targets:
        name, _, port = target.partition(":")
        assert f"0.0.0.0:{port}" in services[name]["command"]
        assert f":{port}/" in dict(instructions(IMAGE.read_text()))["ENV"], "the image's health is asked at another port"


def test_grafana_finds_prometheus_and_the_dashboard() -> None:
    services = loaded(OPS / "compose.yml")["services"]
    (source,) = yaml.safe_load((OPS / "grafana/provisioning/datasources/prometheus.yml").read_text())["datasources"]
    (boards,) = yaml.safe_load((OPS / "grafana/provisioning/dashboards/cdc-views.yml").read_text())["providers"]
    host, _, port = source["url"].removeprefix("http://").partition(":")
    assert services[host]["ports"] == [f"127.0.0.1:{port}:{port}"]
    mounted = {volume.split(":")[1]: OPS / volume.split(":")[0] for volume in services["grafana"]["volumes"]}
    assert [*mounted[boards["options"]["path"]].glob("*.json")]
