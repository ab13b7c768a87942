"""A producer's reader without its landing: `cdc-views` itself, whose events are written as lines to nowhere.

    python tests/bench/bare_reader.py EVENTS produce postgres …

The same source with the same options decodes the same log into the same events; what would land is written to /dev/null
instead. Ends after so many events and prints one JSON object: `events`, and from the first of them on `seconds` and
`cpu_seconds`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import BinaryIO

import cdc_producers.runtime
from cdc_producers.runtime import Runtime, collecting_seldom
from cdc_producers.source import Emitted, StoppedError

import cdc_views.cli
from cdc_views.landing import EventBlock

WANTED = 0


class BareReader(Runtime):
    """A runtime that reads and lands nothing."""

    def run(self) -> None:
        """Read as many events as wanted."""
        with open(os.devnull, "wb") as nowhere, collecting_seldom():
            lines = _Lines(nowhere)
            try:
                self.source.run(lines.write, self.order.stop)
            except StoppedError:
                print(json.dumps(lines.figures()))
            self.source.close()


class _Lines:
    """Events as lines."""

    def __init__(self, nowhere: BinaryIO) -> None:
        self._nowhere, self._events, self._begun, self._used = nowhere, 0, 0.0, 0.0

    def write(self, item: Emitted) -> None:
        if isinstance(item.content, EventBlock):
            lines = item.content.contents
        elif isinstance(item.content, bytes):
            lines = [item.content]
        else:
            return
        if not self._events:
            self._begun, self._used = time.monotonic(), time.process_time()
        for line in lines:
            self._nowhere.write(line)
            self._nowhere.write(b"\n")
        self._events += len(lines)
        if self._events >= WANTED:
            raise StoppedError

    def figures(self) -> dict[str, float]:
        seconds, used = time.monotonic() - self._begun, time.process_time() - self._used
        return {"events": self._events, "seconds": round(seconds, 3), "cpu_seconds": round(used, 3)}


if __name__ == "__main__":
    WANTED = int(sys.argv.pop(1))
    cdc_producers.runtime.Runtime = BareReader  # type: ignore[misc]
    cdc_views.cli.main()
