"""How long a lander waits between its commits, so that many landers of one table stay within what a store's log takes.

A commit to a store takes some requests, one writer after another; of a hundred that commit every second nearly all lose, ask what
came first, and lose again. Nobody tells a lander how many others there are. But the log shows how many commits came between its
own, so each stretches its pause until all together commit about once a second. A lander that is alone does not wait longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

LONGEST = 60.0
"""Seconds; a batch that is full lands earlier."""
_WANTED = 1.0
"""Commits a second, of all landers of a table."""
_SHORTEST = 1.0
_LEAST, _MOST = 0.5, 4.0
"""How much a pause changes at once."""


@dataclass(slots=True)
class Pace:
    """The pause of one lander, in seconds; `clock` counts seconds."""

    clock: Callable[[], float] = time.monotonic
    pause: float = _SHORTEST
    _committed: tuple[int, float] | None = field(default=None, init=False)

    def note(self, version: int) -> float:
        """Note an own commit of this version; return the pause until the next one."""
        now, before = self.clock(), self._committed
        self._committed = version, now
        if before is not None and version > before[0] and now > before[1]:
            others = (version - before[0] - 1) / (now - before[1])
            self.pause = min(LONGEST, max(_SHORTEST, self.pause * min(_MOST, max(_LEAST, others / _WANTED))))
        return self.pause
