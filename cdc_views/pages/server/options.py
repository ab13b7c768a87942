"""What a server of pages is asked to do, checked before anything listens."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cdc_views.errors import UsageError

SHORTEST_TOKEN = 16
DEFAULT_PORT = 8765


@dataclass(frozen=True, slots=True)
class UiOptions:
    """Where to listen (port 0: any free one), who may read, and whether quarantine may be acted on. `token` empty: anybody who
    reaches the address, which is this machine's alone then. `certificate` and `key` are files in PEM; both, or none.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    token: str = ""
    certificate: str | None = None
    key: str | None = None
    allows_actions: bool = False

    @property
    def scheme(self) -> str:
        """Return http or https."""
        return "https" if self.certificate else "http"


def ui_options(
    *,
    host: str,
    port: int,
    token_env: str | None,
    certificate: Path | None,
    key: Path | None,
    allows_actions: bool,
    environment: Mapping[str, str],
) -> UiOptions:
    """Return the options; raises `UsageError` for others than this machine without a token, a weak token, or half of TLS."""
    token = ""
    if token_env is not None:
        token = environment.get(token_env, "")
        if len(token) < SHORTEST_TOKEN:
            what = "is not set" if not token else f"has {len(token)} letters"
            raise UsageError(f"--token-env {token_env}: the variable {what}; {SHORTEST_TOKEN} letters or more were expected")
    if not is_loopback(host) and not token:
        raise UsageError(
            f"--host {host}: others than this machine reach it, so they need a token; give --token-env NAME, the name of a "
            "variable that holds it, and --tls-cert and --tls-key so that nobody reads it on its way"
        )
    if (certificate is None) != (key is None):
        raise UsageError("--tls-cert and --tls-key go together; give both or none")
    for option, file in (("--tls-cert", certificate), ("--tls-key", key)):
        if file is not None and not file.is_file():
            raise UsageError(f"{option} {file}: there is no such file")
    paths = {name: None if file is None else str(file) for name, file in (("certificate", certificate), ("key", key))}
    return UiOptions(host, port, token, paths["certificate"], paths["key"], allows_actions)


def is_loopback(host: str) -> bool:
    """Whether an address or name is one of this machine alone.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
