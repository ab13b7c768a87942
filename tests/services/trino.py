"""A Trino of the tests' own: one node with the memory connector, from jars fetched once through Ivy; no root, no Docker.

`io.trino:trino-server`, the packed server, cannot be had everywhere; its parts are in Maven's central repository. Release 435 is
the last one for Java 17. `trino.sha256` has each jar's digest and coordinates. Ivy reads no POM here: Trino's import lists of
thousands of artifacts, which Ivy would fetch one by one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
from cdc_views_spark.ivy import fetched
from cdc_views_spark.java import cache_folder, java_home, trust_options

from services.account import free_port, started, stop

VERSION = "435"
_PINS = Path(__file__).with_suffix(".sha256")
_ECJ = ("org.eclipse.jdt", "ecj", "3.33.0")
_READY_WITHIN = 120.0
_ANSWERS_WITHIN = 300.0
_FETCHED_WITHIN = 600
_OPTIONS = ("-Xmx2g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djdk.attach.allowAttachSelf=true")
_MAIN = "public final class Start { public static void main(String[] a) { new io.trino.server.Server().start(a[0]); } }\n"
"""Of the packed server alone is the class with a `main`."""
_SETTINGS = """<ivysettings><settings defaultResolver="central"/><resolvers>
<ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers></ivysettings>
"""
_MODULE = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven"><info organisation="tests" module="trino"/>
<dependencies>{}</dependencies></ivy-module>
"""
_DEPENDENCY = """<dependency org="{}" name="{}" rev="{}" transitive="false">
<artifact name="{}" type="jar" ext="jar"{}/></dependency>
"""


def pins() -> dict[str, str]:
    """Digests of the jars, by `group:artifact:version` and, for some, `:classifier`."""
    lines = [line.split() for line in _PINS.read_text().splitlines()]
    return {coordinates: digest for digest, coordinates in lines}


def jar_name(coordinates: str) -> str:
    """The file that Ivy makes of coordinates."""
    return "-".join(coordinates.split(":")[1:]) + ".jar"


def programs() -> Path:
    """The folder that has `lib`, `plugin` and `classes`; fetched on the first call."""
    folder = cache_folder() / f"trino-{VERSION}-{hashlib.sha256(_PINS.read_bytes() + _MAIN.encode()).hexdigest()[:12]}"
    if not folder.exists():
        beside = folder.with_name(f"{folder.name}.{os.getpid()}")
        try:
            _fetch(beside)
            check(beside / "lib")
            _add_plugin(beside)
            _compile(beside)
            _put_in_place(beside, folder)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    return folder


def check(lib: Path) -> None:
    """Raises `RuntimeError` for a missing, unknown or changed jar."""
    wanted = {jar_name(coordinates): digest for coordinates, digest in pins().items()}
    found = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in lib.iterdir()}
    if odd := sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name)):
        raise RuntimeError(f"Trino {VERSION}: {odd[0]} is not the file that {_PINS.name} names")


def _fetch(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "settings.xml").write_text(_SETTINGS)
    (folder / "ivy.xml").write_text(_MODULE.format("".join(map(_dependency, pins()))))
    ivy = next((Path(str(pyspark.__file__)).parent / "jars").glob("ivy-*.jar"))
    command = [*_java(trust_options(java_home(cache_folder()), cache_folder())), "-jar", str(ivy), "-cache", str(folder / "ivy")]
    command += ["-settings", str(folder / "settings.xml"), "-ivy", str(folder / "ivy.xml")]
    command += ["-retrieve", f"{folder}/lib/[artifact]-[revision](-[classifier]).[ext]"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCHED_WITHIN, check=False)
    if done.returncode or not (folder / "lib").exists():
        raise RuntimeError(f"Trino {VERSION} could not be fetched: {(done.stdout + done.stderr)[-1500:]}")
    shutil.rmtree(folder / "ivy")


def _dependency(coordinates: str) -> str:
    group, artifact, version, *classifier = coordinates.split(":")
    told = f' m:classifier="{classifier[0]}"' if classifier else ""
    return _DEPENDENCY.format(group, artifact, version, artifact, told)


def _add_plugin(folder: Path) -> None:
    """A plug-in is a folder of jars, one of which names its class; it may have the server's own jars."""
    plugin = folder / "plugin" / "memory"
    plugin.mkdir(parents=True)
    for jar in (folder / "lib").iterdir():
        (plugin / jar.name).hardlink_to(jar)
    with zipfile.ZipFile(plugin / "services.jar", "w") as services:
        services.writestr("META-INF/services/io.trino.spi.Plugin", "io.trino.plugin.memory.MemoryPlugin\n")


def _compile(folder: Path) -> None:
    (folder / "Start.java").write_text(_MAIN)
    ecj = next(fetched(_ECJ, cache_folder() / f"ecj-{_ECJ[2]}", finish=lambda _: None).glob("ecj-*.jar"))
    server = folder / "lib" / f"trino-main-{VERSION}.jar"
    command = [*_java(["-cp", str(ecj)]), "org.eclipse.jdt.internal.compiler.batch.Main", "--release", "17", "-proc:none"]
    command += ["-cp", str(server), "-d", str(folder / "classes"), str(folder / "Start.java")]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


def _java(options: list[str]) -> list[str]:
    return [str(java_home(cache_folder()) / "bin" / "java"), *options]


def _put_in_place(beside: Path, folder: Path) -> None:
    try:
        beside.rename(folder)
    except OSError:
        if not folder.exists():  # else another process was first
            raise


@dataclass
class Trino:
    """A running node."""

    folder: Path
    port: int
    _server: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where it answers."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        (self.folder / "etc" / "catalog").mkdir(parents=True)
        (self.folder / "etc" / "catalog" / "memory.properties").write_text("connector.name=memory\n")
        (self.folder / "etc" / "config.properties").write_text(self._settings())
        paths = f"{programs()}/lib/*:{programs()}/classes"
        self._server = started(
            _java([*_OPTIONS, "-Dconfig=etc/config.properties", "-cp", paths, "Start", VERSION]),
            self._answers,
            log=self.folder / "log",
            within=_READY_WITHIN,
            failure=OSError,
        )

    def _settings(self) -> str:
        given = {
            "node.id": "one",
            "node.environment": "test",
            "node.internal-address": "127.0.0.1",
            "node.bind-ip": "127.0.0.1",
            "http-server.http.port": self.port,
            "coordinator": "true",
            "node-scheduler.include-coordinator": "true",
            "discovery.uri": f"http://{self.address}",
            "plugin.dir": programs() / "plugin",
            "catalog.config-dir": self.folder / "etc" / "catalog",
            "query.max-memory": "512MB",
            "query.max-memory-per-node": "512MB",
            "query.max-length": 50_000_000,
            "query.min-expire-age": "1s",
            "query.max-history": 1,
            "query.client.timeout": "10m",
        }
        return "".join(f"{name}={value}\n" for name, value in given.items())

    def _answers(self) -> None:
        if self._asked("/v1/info")["starting"]:
            raise ConnectionError("still starting")
        self.sql("SELECT count(*) FROM memory.information_schema.tables")  # the node has said to itself that it is there

    def sql(self, text: str) -> tuple[list[dict[str, Any]], list[list[Any]]]:
        """Run a statement; return its columns, as Trino describes them, and rows. Raises `RuntimeError` with Trino's words."""
        answer, rows, columns = self._asked("/v1/statement", text), [], []
        deadline = time.monotonic() + _ANSWERS_WITHIN
        while True:
            if error := answer.get("error"):
                failure = ConnectionError if error["errorName"] in _NOT_YET else RuntimeError
                raise failure(f"{error['errorName']}: {error['message']}")
            columns = answer.get("columns", columns)
            rows += answer.get("data", [])
            if "nextUri" not in answer:
                return columns, rows
            if time.monotonic() > deadline:
                raise RuntimeError(f"Trino did not answer within {_ANSWERS_WITHIN:g} s")
            answer = self._asked(answer["nextUri"].removeprefix(f"http://{self.address}"))

    def _asked(self, path: str, body: str | None = None) -> dict[str, Any]:
        headers = {"X-Trino-User": "tests", "X-Trino-Time-Zone": "UTC", "X-Trino-Catalog": "memory", "X-Trino-Schema": "default"}
        headers["X-Trino-Client-Capabilities"] = "PARAMETRIC_DATETIME"  # else times are cut to ms
        request = urllib.request.Request(f"http://{self.address}{path}", body and body.encode(), headers)
        with urllib.request.urlopen(request, timeout=_ANSWERS_WITHIN) as answer:
            return dict(json.load(answer))

    def stop(self) -> None:
        """Stop it at once: it would wait for its workers for minutes."""
        if self._server is not None:
            stop(self._server, signal.SIGKILL)


_NOT_YET = ("SERVER_STARTING_UP", "NO_NODES_AVAILABLE")


@contextmanager
def running() -> Iterator[Trino]:
    """A node without tables, gone at the end."""
    folder = Path(tempfile.mkdtemp(prefix="cdc-views-trino-"))
    server = Trino(folder, free_port())
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
