"""Dead letters of a forgotten key: events that a receiver kept because the project had no such table then.

They are lines of files, `<warehouse>/http/<receiver>/dead_letters.jsonl`, that a receiver may be appending to. So a line is
not removed but written over where it stands, spaces to its end: an append lands behind it as ever.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from cdc_views.errors import EngineError, MalformedEventError
from cdc_views.landing.decoding import Decoder
from cdc_views.landing.erased_keys import ErasedKey

_EMPTIED = b'{"forgotten": true}'


@dataclass(frozen=True, slots=True)
class Letters:
    """The dead letters of one file that are about a key, by where their lines are."""

    file: Path
    lines: tuple[tuple[int, int], ...]

    def empty(self) -> None:
        """Write over them, on the disk before it returns; raises `EngineError` where that fails."""
        if not self.lines:
            return
        try:
            with self.file.open("r+b") as out:
                for start, size in self.lines:
                    out.seek(start)
                    out.write(_EMPTIED.ljust(size)[:size])
                out.flush()
                os.fsync(out.fileno())
        except OSError as error:
            raise EngineError(f"{self.file}: {error.strerror}; check the path and its permissions") from error


def letters_about(warehouse: Path, decoder: Decoder, key: ErasedKey) -> list[Letters]:
    """Return the dead letters about a key, one a file that has some.

    Only what decodes as an event of the key's table is about it. Letters of other tables, and what is no JSON, are
    somebody else's, or nobody knows whose.
    """
    found = []
    for file in sorted(warehouse.glob("http/*/dead_letters.jsonl")):
        with file.open("rb") as text:
            lines = tuple((start, len(line)) for start, line in _lines(text) if _is_about(line, decoder, key))
        if lines:
            found.append(Letters(file, lines))
    return found


def _lines(text: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Where each line begins, and the line without its end."""
    start = 0
    for line in text:
        yield start, line.rstrip(b"\r\n")
        start += len(line)


def _is_about(line: bytes, decoder: Decoder, key: ErasedKey) -> bool:
    for event in _events(line):
        try:
            if any(key.is_about(fact) for fact in decoder.facts(event, line=0, offset=0)):
                return True
        except MalformedEventError:
            continue
    return False


def _events(line: bytes) -> Iterator[bytes]:
    """The line itself, which is a record of formats that have a key and a value, then the value as it was posted."""
    yield line
    _, mark, value = line.partition(b'"key": null, "value": ')
    if mark:
        yield value[:-1]
