"""The images are built and run where a builder is. `tests/producers/test_examples.py` checks their files everywhere."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.examples import IMAGE, ROOT
from helpers.images import CAN_BUILD, Builder, debian_with_python
from helpers.tiny_project import CQL, event

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CAN_BUILD, reason="needs root, buildah and debootstrap")]

EXAMPLES = ROOT / "producers" / "examples"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    builder = Builder(tmp_path_factory.mktemp("images"))
    builder.from_scratch("base", debian_with_python(Path(os.environ.get("CDC_VIEWS_CACHE", ROOT / ".cache"))))
    builder.build(IMAGE, "cdc-views", "--build-arg", "BASE=localhost/base")
    yield builder
    builder.close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project that the image's user can write to."""
    tmp_path.chmod(0o777)
    (tmp_path / "shop.cql").write_text(CQL)
    table = {"name": "shop.orders", "schema": "shop.cql", "raw": {"format": "cassandra-mutation"}}
    (tmp_path / "cdc_views.yml").write_text(json.dumps({"name": "shop", "engine": "duckdb", "tables": [table]}))
    (tmp_path / "events.jsonl").write_text(event(1) + "\n")
    return tmp_path


def test_the_image_lands_keeps_state_and_answers(built: Builder, project: Path) -> None:
    with built.container("cdc-views") as container:
        # buildah may lose what a command prints that ends at once
        assert built.run(container, "sh", "-c", "id -u; sleep 1") == "10001"
        built.run(container, "cdc-views", "land", "cassandra-mutation", "events.jsonl", "--table", "shop.orders", mounted=project)
        built.run(container, "cdc-views", "materialize", "--once", "--metrics", "state.prom", mounted=project)
        rows = built.run(container, "cdc-views", "query", "shop.orders", "--format", "jsonl", mounted=project)
    assert json.loads(rows)["id"] == 1
    assert (project / "state.prom").stat().st_uid == 10001


def test_its_health_is_what_a_process_says(built: Builder, project: Path) -> None:
    """The image's own HEALTHCHECK, against a receiver in the container: it fails before, and passes while that runs."""
    config = json.loads(built("inspect", "--type", "image", "localhost/cdc-views"))["Docker"]["config"]
    assert (config["User"], config["Entrypoint"], config["StopSignal"]) == ("10001", ["cdc-views"], "SIGTERM")
    kind, *check = config["Healthcheck"]["Test"]
    assert kind == "CMD"
    script = f"""
import json, os, subprocess, time
health = {check!r}
os.environ["HEALTH"] = "http://127.0.0.1:4567/healthz"
print(subprocess.run(health, capture_output=True).returncode)
process = subprocess.Popen(["cdc-views", "produce", "http", "--no-auth", "--port", "4567"])
deadline = time.monotonic() + 60
while subprocess.run(health, capture_output=True).returncode and time.monotonic() < deadline:
    time.sleep(0.5)
print(subprocess.run(health, capture_output=True).returncode)
process.terminate()
print(process.wait(60))
"""
    with built.container("cdc-views") as container:
        assert built.run(container, "python3", "-c", script, mounted=project).split() == ["1", "0", "0"]


@pytest.mark.parametrize("source", ["http", "kafka", "mariadb", "mysql", "postgres"])
def test_a_producers_image_is_built_on_it(built: Builder, source: str) -> None:
    folder = EXAMPLES / source
    built.build(folder / "Containerfile", f"cdc-produce-{source}", context=folder)
    config = json.loads(built("inspect", "--type", "image", f"localhost/cdc-produce-{source}"))["Docker"]["config"]
    assert config["User"] == "10001"
    assert "Healthcheck" in config
    with built.container(f"cdc-produce-{source}") as container:
        assert "--project" in built.run(container, *config["Entrypoint"], "--help")


def test_the_agents_image_is_built_on_it_and_a_java(built: Builder, tmp_path: Path) -> None:
    """The Java is a stand-in under the name of the one that the file names: that cannot be had here."""
    java = tmp_path / "java" / "opt" / "java" / "openjdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho stand-in\n")
    java.chmod(0o755)
    built.from_scratch("eclipse-temurin:17-jre", tmp_path / "java")
    folder = EXAMPLES / "cassandra"
    built.build(folder / "Containerfile", "cdc-produce-cassandra", context=folder)
    with built.container("cdc-produce-cassandra") as container:
        assert built.run(container, "sh", "-c", "$JAVA_HOME/bin/java; id -u; stat -c %a /work; sleep 1").split() == [
            "stand-in",
            "10001",
            "1777",
        ]
        assert "--cassandra-lib" in built.run(container, "cdc-produce-cassandra", "--help")
