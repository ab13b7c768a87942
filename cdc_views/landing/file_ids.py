"""How Delta's log knows an event file: by the digests of its first line (its *head*) and of the prefix that landed.

Its name, folder and compression do not matter. Each file with the same first line gets a *slot* of its own under that head. Delta
keeps one integer under each transaction id:

=======================  ==============================================================
transaction id           integer
=======================  ==============================================================
`head:<head>`            how many slots the head has
`offset:<head>:<slot>`   bytes landed of that slot's file
`digest:<head>:<slot>`   the first 63 bits of the SHA-256 of those bytes
`check:<head>:<slot>`    the next 63 bits
=======================  ==============================================================

The commit that adds the rows records these ids.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from cdc_views.landing.sources import Digest, EventFile, Prefix
from cdc_views.storage.table_log import TableLog

_BITS_63 = (1 << 63) - 1
_NO_HEAD = hashlib.sha256(b"").hexdigest()


def halves(digest: Digest) -> tuple[int, int]:
    """Return the two integers that the log keeps of a digest."""
    full = digest.digest()
    return int.from_bytes(full[:8], "big") & _BITS_63, int.from_bytes(full[8:16], "big") & _BITS_63


@dataclass(frozen=True, slots=True)
class LandedFile:
    """An event file as a log knows it: its head, its slot, whether the slot is new, and the prefix that has landed."""

    head: str
    slot: int
    is_new: bool
    prefix: Prefix

    @classmethod
    def of(cls, log: TableLog, file: EventFile) -> LandedFile:
        """Return a file with the longest landed prefix with which it begins."""
        head = hashlib.sha256(file.head()).hexdigest()
        slots = log.transaction(f"head:{head}") or 0
        landed = {slot: log.transaction(f"offset:{head}:{slot}") or 0 for slot in range(slots)}
        found = cls(head, slots, is_new=True, prefix=Prefix())
        for prefix in file.prefixes(landed.values()) if slots else ():
            of_prefix = halves(prefix.digest)
            for slot in (slot for slot, size in landed.items() if size == prefix.size):
                if (log.transaction(f"digest:{head}:{slot}"), log.transaction(f"check:{head}:{slot}")) == of_prefix:
                    found = cls(head, slot, is_new=False, prefix=prefix)
                    break
        return found

    @property
    def has_events(self) -> bool:
        """Whether the file has a first line."""
        return self.head != _NO_HEAD

    def is_next_in(self, log: TableLog) -> bool:
        """Whether its slot, which is new, is the next one in a log."""
        return self.is_new and self.slot == (log.transaction(f"head:{self.head}") or 0)

    def reached(self, size: int, digest: tuple[int, int]) -> dict[str, int]:
        """Return the ids to record once its first `size` bytes have landed; `digest` are their `halves`."""
        key, (first, second) = f"{self.head}:{self.slot}", digest
        ids = {f"offset:{key}": size, f"digest:{key}": first, f"check:{key}": second}
        return ids | ({f"head:{self.head}": self.slot + 1} if self.is_new else {})

    def after(self, prefix: Prefix) -> LandedFile:
        """Return the file once a prefix has landed."""
        return replace(self, is_new=False, prefix=prefix)
