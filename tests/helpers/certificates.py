"""Certificates of an authority and of a server, made with openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path

STORE_PASSWORD = "cassandra"


def make_certificates(folder: Path, *, address: str = "127.0.0.1") -> Path:
    """Make them for a server at an address, for anybody to read; return the authority's certificate.

    Beside `ca.pem` are `cert.pem` and `key.pem` of the server, and both in `store.p12`.
    """
    commands = (
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca-key.pem -out ca.pem",
        "req -newkey rsa:2048 -nodes -subj /CN=server -keyout key.pem -out request.pem",
        "x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 2 -extfile names -out cert.pem",
        f"pkcs12 -export -in cert.pem -inkey key.pem -out store.p12 -passout pass:{STORE_PASSWORD}",
    )
    folder.mkdir(exist_ok=True)
    (folder / "names").write_text(f"subjectAltName=IP:{address}")
    for command in commands:
        subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True, timeout=60)
    for file in folder.iterdir():
        file.chmod(0o644)
    return folder / "ca.pem"
