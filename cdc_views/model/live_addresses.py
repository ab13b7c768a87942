"""Addresses of running sources, as `postgresql://reader@db.example/shop`: which plug-in reads one; one without its password."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from urllib.parse import urlsplit

from cdc_views.errors import UnsupportedError, UsageError, choose_one
from cdc_views.model.extras import load

_SECRET = re.compile(r"password|passwd|secret|token|key", re.IGNORECASE)


def scheme_of(address: str) -> str:
    """Return the scheme of an address; raises `UsageError` if it has none."""
    scheme, sign, _ = address.partition("://")
    if not sign or not scheme:
        raise UsageError(
            "the source is no address; postgresql://host/database, mysql://host, mariadb://host or cassandra://host was expected"
        )
    return scheme.lower()


def reader_of(address: str, group: str) -> object:
    """Return what an entry point of `group` offers for an address: its name is the scheme.

    Raises `UnsupportedError` if no installed package knows the scheme.
    """
    scheme = scheme_of(address)
    for entry in entry_points(group=group, name=scheme):
        return load(entry, what=f"reading {scheme}://", extra="producers")
    known = sorted({entry.name for entry in entry_points(group=group)})
    remedy = choose_one(scheme, known) if known else "install cdc-views itself, as in `make install`: a checkout is not enough"
    raise UnsupportedError(f"nothing reads a source at {scheme}://", remedy=remedy)


def without_password(address: str) -> str:
    """Return an address as a file or a message may have it: the user stays, what is secret goes.

    >>> without_password("postgresql://reader:hunter2@db.example/shop?sslmode=require&password=x")
    'postgresql://reader@db.example/shop?sslmode=require'
    """
    found = urlsplit(address)
    user, sign, host = found.netloc.rpartition("@")
    shown = f"{user.partition(':')[0]}@{host}" if sign else host
    query = "&".join(part for part in found.query.split("&") if part and not _SECRET.search(part.partition("=")[0]))
    # urlunsplit drops the slashes of an address without a host
    return f"{found.scheme}://{shown}{found.path}{'?' if query else ''}{query}"
