"""How much of a file has landed, known by the file's content and kept in the raw table's own commits.

A file is known by the digest of its first line (its *head*) and of the prefix that landed, so that its name, its
folder and its compression do not matter. Files that share a first line get a *slot* each under that head. Delta
keeps one integer under each transaction id:

=======================  ==============================================================
transaction id           integer
=======================  ==============================================================
`head:<head>`            how many slots the head has
`offset:<head>:<slot>`   bytes landed of that slot's file
`digest:<head>:<slot>`   the first 63 bits of the SHA-256 of those bytes
`check:<head>:<slot>`    the next 63 bits
=======================  ==============================================================

They are part of the commit that adds the rows, so there is no moment at which one is there without the other.
Looking one up replays the table's log (a millisecond or more), hence few of them a file rather than one a line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from deltalake import DeltaTable

from cdc_views.landing.delta import recorded
from cdc_views.landing.sources import Digest, EventFile, Prefix

_BITS_63 = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class FilePosition:
    """Where a file stands: its head, its slot, whether the slot is new, and the prefix that has landed."""

    head: str
    slot: int
    is_new: bool
    landed: Prefix

    def transactions(self, *, size: int, digest: Digest) -> Mapping[str, int]:
        """Return what a commit records once `size` bytes of that `digest` have landed."""
        first, second = _halves(digest)
        key = f"{self.head}:{self.slot}"
        grown = {f"offset:{key}": size, f"digest:{key}": first, f"check:{key}": second}
        return {f"head:{self.head}": self.slot + 1, **grown} if self.is_new else grown

    def moved(self, *, landed: Prefix) -> FilePosition:
        """The same file after a commit."""
        return FilePosition(self.head, self.slot, is_new=False, landed=landed)


def locate(table: DeltaTable, file: EventFile) -> FilePosition:
    """Return where `file` stands in `table`; the longest landed prefix that its content begins with."""
    head = hashlib.sha256(file.head()).hexdigest()
    slots = recorded(table, f"head:{head}") or 0
    landed = {slot: recorded(table, f"offset:{head}:{slot}") or 0 for slot in range(slots)}
    best: tuple[int, Prefix] | None = None
    for prefix in file.prefixes(landed.values()) if slots else ():
        fitting = [slot for slot, size in landed.items() if size == prefix.size and _is_digest(table, f"{head}:{slot}", prefix)]
        best = (fitting[0], prefix) if fitting else best
    if best is None:
        return FilePosition(head, slots, is_new=True, landed=Prefix())
    return FilePosition(head, best[0], is_new=False, landed=best[1])


def _is_digest(table: DeltaTable, key: str, prefix: Prefix) -> bool:
    kept = (recorded(table, f"digest:{key}"), recorded(table, f"check:{key}"))
    return kept == _halves(prefix.digest)


def _halves(digest: Digest) -> tuple[int, int]:
    full = digest.digest()
    return int.from_bytes(full[:8], "big") & _BITS_63, int.from_bytes(full[8:16], "big") & _BITS_63
