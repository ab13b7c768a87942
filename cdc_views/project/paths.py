"""Names of tables, and the paths derived from them."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from cdc_views.storage.stores import is_url

_SAFE = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")


def split_name(name: str) -> tuple[str, str]:
    """Return (keyspace, table), split at the first dot; a name without one has no keyspace.

    >>> split_name("shop.orders"), split_name("db.public.orders")
    (('shop', 'orders'), ('db', 'public.orders'))
    """
    keyspace, dot, table = name.partition(".")
    return (keyspace, table) if dot else ("", name)


def default_raw_table(name: str) -> str:
    """Return the path of a table's raw table, relative to the project file; no two names share one.

    A dot becomes `_`, so `_` is doubled. Capitals, which some file systems ignore, and all else become `-` and hex.

    >>> default_raw_table("shop.orders"), default_raw_table("shop.order_items"), default_raw_table("ks.Orders")
    ('raw/shop_orders', 'raw/shop_order__items', 'raw/ks_-4frders')
    """
    return f"raw/{slug_of(name)}"


def slug_of(name: str) -> str:
    """Return a table's name as the name of a file or folder, encoded as in `default_raw_table`; no two names share one."""
    return "_".join(_encoded_part(part) for part in name.split("."))


def _encoded_part(part: str) -> str:
    encoded = []
    for index, letter in enumerate(part):
        if letter in _SAFE:
            encoded.append(letter)
        elif letter == "_" and 0 < index < len(part) - 1:
            encoded.append("__")
        else:  # also a `_` at either end, which would join the `_` of a dot
            encoded += [f"-{byte:02x}" for byte in letter.encode()]
    return "".join(encoded)


_UNFIT = re.compile(r"[\[\]|^\\\x00-\x1f\x7f]")


def unfit_letter(path: str) -> str:
    """Return the first character that Delta's library refuses in a local path; empty if there is none."""
    found = _UNFIT.search(path)
    return found[0] if found else ""


def is_live_source(schema: str) -> bool:
    """Whether a `schema:` names a running database or registry and not a file."""
    return is_url(schema) and urlsplit(schema).scheme.lower() != "file"
