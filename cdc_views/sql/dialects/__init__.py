"""The dialects, by name."""

from __future__ import annotations

from cdc_views.errors import UnsupportedError, did_you_mean
from cdc_views.sql.dialects.base import Dialect


def dialect(name: str) -> Dialect:
    """Return the dialect called `name`; raises `UnsupportedError` with a suggestion."""
    from cdc_views.sql.dialects.catalog import DIALECTS

    if name not in DIALECTS:
        raise UnsupportedError(
            f"there is no dialect {name!r}{did_you_mean(name, DIALECTS)}", remedy=f"choose one of {', '.join(DIALECTS)}"
        )
    return DIALECTS[name]()


__all__ = ["Dialect", "dialect"]
