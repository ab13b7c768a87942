"""Addresses of a cluster, `cassandra://USER:PASSWORD@HOST:PORT/KEYSPACE?consistency=QUORUM`, and accounts at one."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from cdc_views.errors import UsageError

USER, PASSWORD = "CDC_VIEWS_CASSANDRA_USER", "CDC_VIEWS_CASSANDRA_PASSWORD"
_PORT = 9042


@dataclass(frozen=True, slots=True)
class Account:
    """Who connects; without a user nobody by name."""

    user: str = ""
    password: str = field(default="", repr=False)

    @classmethod
    def of_environment(cls, user: str = "") -> Account:
        """Return the environment's account, or a user with the environment's password."""
        return cls(user or os.environ.get(USER, ""), os.environ.get(PASSWORD, ""))


class Address(NamedTuple):
    """Where to connect; an empty `keyspace` means all of them, an empty `consistency` the reader's own level. What the address
    does not say of the account, the environment does.
    """

    host: str
    port: int
    keyspace: str
    consistency: str
    account: Account

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
        account = Account.of_environment(unquote(where.username or ""))
        if where.password is not None:
            account = Account(account.user, unquote(where.password))
        return cls(where.hostname or "127.0.0.1", port, keyspace, asked.get("consistency", "").upper(), account)
