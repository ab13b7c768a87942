"""A Google Cloud Storage of the tests' own, on the loopback: `services.gcs_server` in a process of its own."""

from __future__ import annotations

import http.client
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

from services.account import free_port, started, stop
from services.stores import BUCKET

_READY_WITHIN = 60.0
ACCOUNT = "tests@tests.invalid"


def private(key: RSAPrivateKey) -> str:
    """A key as service account files have it."""
    kind = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, kind, serialization.NoEncryption()).decode()


@dataclass(frozen=True)
class Gcs:
    """A running server with a bucket, and the key of the account that may use it."""

    port: int
    key: RSAPrivateKey = field(default_factory=lambda: generate_private_key(65537, 2048))

    def url(self, bucket: str = BUCKET) -> str:
        return f"gs://{bucket}"

    def options(self, *, port: int | None = None, key: RSAPrivateKey | None = None) -> dict[str, str]:
        """What a client needs to know, in the names of `storage_options:`; `port`: of something between it and the server."""
        account = {"client_email": ACCOUNT, "private_key_id": "1", "private_key": private(key or self.key)}
        account["gcs_base_url"] = f"http://127.0.0.1:{port or self.port}"
        return {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(account)}

    def make(self, bucket: str) -> None:
        """Make a bucket."""
        now = int(time.time())
        token = jwt.encode({"iss": ACCOUNT, "iat": now, "exp": now + 60}, private(self.key), "RS256")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("PUT", f"/{bucket}", headers={"Authorization": f"Bearer {token}"})
            if (status := connection.getresponse().status) != 200:
                raise RuntimeError(f"no bucket {bucket}: {status}")
        finally:
            connection.close()


@contextmanager
def running(folder: Path) -> Iterator[Gcs]:
    """Run a server with an empty bucket; its log goes to `folder`."""
    server = Gcs(free_port())
    public, kind = server.key.public_key(), serialization.PublicFormat.SubjectPublicKeyInfo
    (folder / "gcs.pem").write_bytes(public.public_bytes(serialization.Encoding.PEM, kind))
    command = [sys.executable, "-m", "services.gcs_server", str(server.port), str(folder / "gcs.pem")]
    process = started(
        command,
        lambda: server.make(BUCKET),
        log=folder / "gcs.log",
        within=_READY_WITHIN,
        failure=OSError,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    try:
        yield server
    finally:
        stop(process)
