"""A certificate for servers on this machine, which is its own authority."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

STORE_PASSWORD = "of the tests"


def self_signed(folder: Path, *, address: str = "127.0.0.1") -> tuple[Path, Path]:
    """Write certificate and key of an address, valid for a day, as PEM files; return their paths.

    Beside them is `store.p12`, which has both for a server in Java.
    """
    own, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(timezone.utc)
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    asked = x509.CertificateBuilder(who, who, own.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
    here = x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))])
    certificate, key = folder / "cert.pem", folder / "key.pem"
    signed = asked.add_extension(here, critical=False).sign(own, hashes.SHA256())
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    key.write_bytes(own.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    protected = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
    (folder / "store.p12").write_bytes(pkcs12.serialize_key_and_certificates(b"server", own, signed, None, protected))
    return certificate, key
