"""TLS as the environment says, for every source that reads it."""

from __future__ import annotations

import ssl

import pytest

pytest.importorskip("cdc_producers")

from cdc_producers.tls import tls_of_environment


@pytest.mark.parametrize(
    ("mode", "checked"), [(None, None), ("off", None), ("on", (False, ssl.CERT_NONE)), ("verify", (True, ssl.CERT_REQUIRED))]
)
def test_the_name_and_the_certificate_are_checked_by_verify_alone(
    mode: str | None, checked: tuple[bool, ssl.VerifyMode] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TLS_CA", "TLS_CERT", "TLS_KEY", "TLS"):
        monkeypatch.delenv(f"SOURCE_{name}", raising=False)
    if mode is not None:
        monkeypatch.setenv("SOURCE_TLS", mode)
    context = tls_of_environment("SOURCE_")
    assert (None if context is None else (context.check_hostname, context.verify_mode)) == checked
