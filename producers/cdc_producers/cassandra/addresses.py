"""Addresses of a cluster: `cassandra://HOST:PORT/KEYSPACE?consistency=QUORUM`; the account comes from the environment."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from cdc_views.errors import UsageError

_PORT = 9042


class Address(NamedTuple):
    """Where to connect; an empty `keyspace` means all of them, an empty `consistency` the reader's own level."""

    host: str
    port: int
    keyspace: str
    consistency: str

    @classmethod
    def of(cls, text: str) -> Address:
        """Read an address; raises `UsageError` for a port that is no number, and for an unknown setting."""
        where = urlsplit(text)
        asked = {name: values[-1] for name, values in parse_qs(where.query).items()}
        if unknown := asked.keys() - {"consistency"}:
            raise UsageError(f"the source's address has ?{sorted(unknown)[0]}; ?consistency=LEVEL is all that is known")
        try:
            port = where.port or _PORT
        except ValueError:
            # the message does not quote it: it may be a part of a password
            raise UsageError("the source's address has no valid port; cassandra://HOST:9042 was expected") from None
        keyspace = unquote(where.path.strip("/"))
        return cls(where.hostname or "127.0.0.1", port, keyspace, asked.get("consistency", "").upper())
