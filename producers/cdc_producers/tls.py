"""TLS to a source's server, as the environment says: `<prefix>TLS`, `_TLS_CA`, `_TLS_CERT` and `_TLS_KEY`."""

from __future__ import annotations

import os
import ssl

from cdc_views.errors import UsageError


def tls_of_environment(prefix: str) -> ssl.SSLContext | None:
    """Read `<prefix>TLS`: off (default; returns None), on (encrypted, server not checked), or verify (its certificate and name).

    Raises `UsageError` for another value, and for a file that cannot be read.
    """

    def given(name: str) -> str:
        return os.environ.get(prefix + name) or ""

    mode, authority = given("TLS").lower() or "off", given("TLS_CA")
    if mode not in ("off", "on", "verify"):
        raise UsageError(f"{prefix}TLS is {mode!r}; off, on or verify was expected")
    if mode == "off":
        if authority:
            raise UsageError(f"{prefix}TLS_CA is set, and {prefix}TLS is off; set it to verify")
        return None
    try:
        context = ssl.create_default_context(cafile=authority or None)
        if certificate := given("TLS_CERT"):
            context.load_cert_chain(certificate, given("TLS_KEY") or None)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"{prefix}TLS_CA, _TLS_CERT or _TLS_KEY cannot be read: {error}") from error
    if mode == "on":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
