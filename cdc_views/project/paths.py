"""Names of tables, and the paths derived from them."""

from __future__ import annotations

import posixpath
import re
from urllib.parse import urlsplit

from cdc_views.model.catalog_names import CatalogName
from cdc_views.storage.stores import is_url

_SAFE = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")


def split_name(name: str) -> tuple[str, str]:
    """Return (keyspace, table), split at the first dot; a name without one has no keyspace.

    >>> split_name("shop.orders"), split_name("db.public.orders")
    (('shop', 'orders'), ('db', 'public.orders'))
    """
    keyspace, dot, table = name.partition(".")
    return (keyspace, table) if dot else ("", name)


def slug_of(name: str) -> str:
    """Return a table's name as the name of a file or folder; no two names share one.

    A dot becomes `_`, so `_` is doubled. Capitals, which some file systems ignore, and all else become `-` and hex.

    >>> slug_of("shop.orders"), slug_of("shop.order_items"), slug_of("ks.Orders")
    ('shop_orders', 'shop_order__items', 'ks_-4frders')
    """
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


def raw_paths(named: str | None, slug: str, warehouse: str) -> list[str]:
    """Return each path that a table's raw table may have: the one named by the project file, else the one under the warehouse,
    which is the last, and that of earlier versions, which is relative to the project file. Equal paths are spelled alike.
    """
    if named is None:
        return list(dict.fromkeys(_spelled(path) for path in (f"raw/{slug}", f"{warehouse}/raw/{slug}")))
    return [_spelled(named)]


def _spelled(path: str) -> str:
    if name := CatalogName.parse(path):
        return str(name)
    return path.rstrip("/") if is_url(path) else posixpath.normpath(path)


_UNFIT = re.compile(r"[\[\]|^\\\x00-\x1f\x7f]")


def unfit_letter(path: str) -> str:
    """Return the first character that Delta's library refuses in a local path; empty if there is none."""
    found = _UNFIT.search(path)
    return found[0] if found else ""


def is_live_source(schema: str) -> bool:
    """Whether a `schema:` names a running database or registry and not a file."""
    return is_url(schema) and urlsplit(schema).scheme.lower() != "file"
