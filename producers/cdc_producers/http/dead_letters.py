"""Keeps events that belong to no table of the project in a file of JSON lines, so that none is lost.

`<warehouse>/http/<receiver>/dead_letters.jsonl`, flushed to the disk before the sender is answered:

=============  ====================================================================================
member         meaning
=============  ====================================================================================
`received_at`  when, ISO 8601, UTC
`path`         where it was posted
`table`        the table that it names; null where it names none
`reason`       why it went here
`value`        the event, letter by letter, where it is JSON; with `key`, null, `land debezium` reads these lines
`bytes`        else its bytes, base64
`withheld`     instead of both, where columns of the project have policies: its size in bytes and its SHA-256
=============  ====================================================================================
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from threading import Lock

from cdc_views.errors import EngineError, MalformedEventError
from cdc_views.rules.codec.jsonread import parse_json

_REMEMBERED = 10_000


@dataclass(slots=True)
class DeadLetters:
    """The file of events without a table; has a repeated event once while this process remembers it.

    `withholds`: without their content, in which any value may be.
    """

    file: Path
    withholds: bool = False
    _lock: Lock = field(default_factory=Lock)
    _known: OrderedDict[bytes, None] = field(default_factory=OrderedDict)

    def keep(self, content: bytes, *, path: str, table: str | None, reason: str, now: datetime) -> bool:
        """Keep an event; return False if it is kept already. Raises `EngineError` if it cannot be written."""
        identity = hashlib.sha256(f"{path}\0{table}\0".encode() + content).digest()
        fields = {"received_at": now.astimezone(timezone.utc).isoformat(), "path": path, "table": table, "reason": reason}
        with self._lock:
            if not self.file.exists():
                self._known.clear()  # somebody removed the file
            if identity in self._known:
                return False
            try:
                member = _withheld(content) if self.withholds else _as_member(content)
                self._append(json.dumps(fields)[:-1] + ", " + member + "}\n")
            except OSError as error:
                raise EngineError(f"{self.file}: {error.strerror}; check the path, its permissions and the free space") from error
            self._known[identity] = None
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return True

    def _append(self, line: str) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a+b") as out:
            start = out.seek(0, os.SEEK_END)
            out.seek(max(0, start - 1))
            # a newline first if a kill cut the last line
            before = b"" if out.read(1) in (b"", b"\n") else b"\n"
            try:
                out.write(before + line.encode())
                out.flush()
                os.fsync(out.fileno())
            except OSError:
                out.truncate(start)  # leave no half line, as after a full disk
                raise


def _withheld(content: bytes) -> str:
    return f'"withheld": {{"bytes": {len(content)}, "sha256": "{hashlib.sha256(content).hexdigest()}"}}'


def _as_member(content: bytes) -> str:
    try:
        text = content.decode()
        parse_json(text)
    except (UnicodeDecodeError, MalformedEventError):
        return f'"bytes": "{base64.b64encode(content).decode()}"'
    # line ends in JSON text occur only between its parts, never within them
    return '"key": null, "value": ' + text.replace("\r", " ").replace("\n", " ")
