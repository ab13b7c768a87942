"""A CQL type as it is written, before names of user types are looked up."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_views.schemas.tokens import Token


@dataclass(frozen=True, slots=True)
class WrittenType:
    """One type of the text.

    `name` is a native name, `frozen`, `list`, `set`, `map`, `tuple` or `vector` (with `parts`, and `size`), or a user
    type's name. `is_user_type` is set where the text can only mean a user type (quoted or qualified). `fields` is set
    where the text spells the user type out (marshal strings). `reversed` is of marshal strings only. `decimal_size` is
    the precision and the scale of `decimal(p, s)`.
    """

    start: Token
    name: str
    keyspace: str = ""
    parts: tuple[WrittenType, ...] = ()
    size: int = 0
    is_user_type: bool = False
    fields: tuple[tuple[str, WrittenType], ...] | None = None
    reversed: bool = False
    decimal_size: tuple[int | None, int] | None = None
