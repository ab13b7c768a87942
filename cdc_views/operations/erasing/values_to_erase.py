"""The values to erase, by their leaf column, and the search for them in Arrow tables.

A leaf is named by its path: `name.value` is the value of the cells of column `name`, `tags.cells[].path` the elements of
a set. Every leaf counts, write times and places of origin too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cdc_views.plan.compact import PART
from cdc_views.plan.names import KIND

_OURS = frozenset({KIND, PART})
"""Columns with a few values of our own."""
_CUT = 32
_LEAST_TEXT = 4
Leaf = tuple[str, pa.Array]


@dataclass(slots=True)
class ValuesToErase:
    """Distinct values by the path of their leaf."""

    values: dict[str, set[Any]] = field(default_factory=dict)

    def take(self, rows: pa.Table) -> None:
        """Add every value in `rows`, except booleans, which identify nothing."""
        for path, leaf in leaves_of(rows):
            if not pa.types.is_boolean(leaf.type) and not pa.types.is_null(leaf.type):
                self.values.setdefault(path, set()).update(leaf.unique().drop_null().to_pylist())

    def drop_shared_with(self, rows: pa.Table) -> None:
        """Drop the values that occur in `rows`: other keys have them too."""
        for path, found in self._found(rows):
            self.values[path] -= found

    def count_in(self, rows: pa.Table) -> dict[str, int]:
        """Return, by leaf, how many of the values occur in `rows`."""
        counts: Counter[str] = Counter()
        for path, found in self._found(rows):
            counts[path] += len(found)
        return counts

    def has(self, path: str, value: Any, *, is_prefix: bool = False) -> bool:
        """Whether a value from JSON is one of them, or, with `is_prefix`, a long text that one begins with."""
        known = self.values.get(path, ())
        if value in known or str(value) in {str(one) for one in known}:
            return True
        is_cut = is_prefix and isinstance(value, str) and len(value) >= _CUT
        # the greatest value of a column is cut and then its last letter raised
        return is_cut and any(isinstance(one, str) and one.startswith(value[:-1]) for one in known)

    def texts(self) -> set[bytes]:
        """Return the texts and bytes that are long enough for a search in any file."""
        found = {one for values in self.values.values() for one in values if isinstance(one, str | bytes)}
        texts = {one.encode(errors="surrogatepass") if isinstance(one, str) else one for one in found}
        return {text for text in texts if len(text) >= _LEAST_TEXT}

    def _found(self, rows: pa.Table) -> Iterator[tuple[str, set[Any]]]:
        for path, leaf in leaves_of(rows):
            wanted = self.values.get(path)
            if wanted:
                plain = pa.array(list(wanted))
                known = plain if plain.type == leaf.type else plain.cast(leaf.type, safe=False)
                found = leaf.filter(pc.is_in(leaf, value_set=known))
                yield path, set(found.unique().to_pylist()) & wanted


def leaves_of(rows: pa.Table) -> Iterator[Leaf]:
    """Yield every leaf of every chunk; elements of lists without regard to their row, null structs without parts."""
    for name in rows.column_names:
        if name not in _OURS:
            for chunk in rows.column(name).chunks:
                yield from _leaves(name, chunk)


def _leaves(path: str, array: pa.Array) -> Iterator[Leaf]:
    if pa.types.is_struct(array.type):
        for part, flat in zip(array.type, array.flatten(), strict=True):
            yield from _leaves(f"{path}.{part.name}", flat)
    elif pa.types.is_map(array.type):
        yield from _leaves(f"{path}[].key", array.keys)
        yield from _leaves(f"{path}[].value", array.items)
    elif _is_list(array.type):
        yield from _leaves(f"{path}[]", array.flatten())
    else:
        yield path, array


def _is_list(kind: pa.DataType) -> bool:
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view)
    return any(is_such(kind) for is_such in tests)
