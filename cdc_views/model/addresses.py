"""Addresses to listen on, as options give them."""

from __future__ import annotations

from cdc_views.errors import UsageError


def host_and_port(listen: str) -> tuple[str, int]:
    """Return the host and port of `--listen`; raises `UsageError` for another form.

    >>> host_and_port("127.0.0.1:9464")
    ('127.0.0.1', 9464)
    """
    host, _, port = listen.rpartition(":")
    if not port.isdecimal() or not host:
        raise UsageError(f"--listen is {listen!r}; host:port was expected, as 127.0.0.1:9464")
    return host, int(port)
