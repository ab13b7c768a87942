"""A Java for Spark, and what it trusts; nothing here starts one."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import pytest

java = pytest.importorskip("cdc_views_spark.java")
truststore = pytest.importorskip("cdc_views_spark.truststore")

PEM = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"


def fake_java(folder: Path, version: str) -> Path:
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    binary.chmod(0o755)
    return folder


@pytest.mark.parametrize("version", ["17.0.15", "21.0.8", "23"])
def test_the_machines_java_is_taken_when_spark_runs_on_it(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "jdk", version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.java_home(tmp_path / "cache") == home


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "25"])
def test_another_java_gives_way_to_the_wheels(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", version)))
    monkeypatch.setenv("PATH", "")
    home = java.java_home(tmp_path / "cache")
    assert java.is_wrapped(home)
    assert "--add-modules=jdk.incubator.vector" in (home / "bin" / "java").read_text()


def test_a_trust_store_holds_every_certificate_and_its_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text(PEM * 3)
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    options = truststore.trust_options(tmp_path)
    store = Path(options[0].partition("=")[2]).read_bytes()
    content, digest = store[:-20], store[-20:]
    assert struct.unpack_from(">III", content) == (0xFEEDFEED, 2, 3)
    assert content.count(b"X.509") == 3
    assert digest == hashlib.sha1("changeit".encode("utf-16-be") + b"Mighty Aphrodite" + content).digest()
