"""Names of tables in catalogs: `catalog.schema.table`, each part plain or in backticks."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PART = r"(?:`(?:[^`]|``)+`|\w+)"
_NAME = re.compile(rf"({_PART})\.({_PART})\.({_PART})", re.ASCII)
_PLAIN = re.compile(r"\w+", re.ASCII)


@dataclass(frozen=True, slots=True)
class CatalogName:
    """The name of a table or view, its parts without quotes."""

    catalog: str
    schema: str
    name: str

    @classmethod
    def parse(cls, text: str) -> CatalogName | None:
        """Return the name that a text writes; None if it writes none, as a path.

        >>> CatalogName.parse("main.cdc.`my``orders`")
        CatalogName(catalog='main', schema='cdc', name='my`orders')
        >>> [CatalogName.parse(path) for path in ("raw/a.b.c", "s3://lake/a.b.c", "orders", "./a.b.c", "`a/b`.c")]
        [None, None, None, None, None]
        """
        found = _NAME.fullmatch(text)
        return None if found is None else cls(*map(_unquoted, found.groups()))

    @property
    def sql(self) -> str:
        """The name in Spark's SQL, each part in backticks."""
        return ".".join(map(quoted, (self.catalog, self.schema, self.name)))

    def __str__(self) -> str:
        """Return the name as a person writes it.

        >>> str(CatalogName("main", "cdc", "my orders"))
        'main.cdc.`my orders`'
        """
        return ".".join(part if _PLAIN.fullmatch(part) else quoted(part) for part in (self.catalog, self.schema, self.name))


def quoted(part: str) -> str:
    """Return one part in backticks.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + part.replace("`", "``") + "`"


def _unquoted(part: str) -> str:
    return part[1:-1].replace("``", "`") if part.startswith("`") else part
