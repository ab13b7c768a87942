"""A certificate for servers on this machine, which is its own authority."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def self_signed(folder: Path) -> tuple[Path, Path]:
    """Write certificate and key of 127.0.0.1, valid for a day, as PEM files; return their paths."""
    own, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(timezone.utc)
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    asked = x509.CertificateBuilder(who, who, own.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
    here = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    certificate, key = folder / "cert.pem", folder / "key.pem"
    signed = asked.add_extension(here, critical=False).sign(own, hashes.SHA256())
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    key.write_bytes(own.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    return certificate, key
