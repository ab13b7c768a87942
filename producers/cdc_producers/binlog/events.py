"""Changes of rows as Debezium's events: one exact JSON object each, without a schema.

`source.order` is the order of writes (rules S2, S3): the epoch, the transaction's sequence number, and the change's place in
its transaction. It stays right when another server takes over; file and position are only for people to read. A snapshot's
rows have place 0, and rank below all commits after the snapshot (rule S5). Images that nothing reads are left out, as they were
half of the work of landing: the image before an update, and all of a deleted row but its key.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from json.encoder import encode_basestring as quoted
from typing import NamedTuple

from cdc_producers.binlog.values import Row


class BinlogPosition(NamedTuple):
    """The position of a change.

    Attributes:
        gtid: Of its transaction, as the server prints it.
        server: The id of the server that wrote the transaction.
        sequence: The transaction's place in the order of writes.
        order: The change's number in the transaction, from 1.
        seconds: When it was written, in epoch seconds of the server.
    """

    gtid: str
    server: int
    sequence: int
    order: int
    file: str = ""
    position: int = 0
    seconds: int = 0


@dataclass
class BinlogEventWriter:
    """Writes one table's events; `keys` is the view's key. The event of an emptied table needs neither `columns` nor `keys`.

    `connector` is what Debezium calls the kind of server.
    """

    connector: str
    stream: str
    database: str
    table: str
    epoch: int
    columns: Sequence[str] = ()
    keys: Sequence[str] = ()
    _prefixes: list[str] = field(init=False)
    _places: list[int] = field(init=False)
    _key_prefixes: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self._prefixes = [f"{quoted(name)}:" for name in self.columns]
        self._places = [self.columns.index(name) for name in self.keys if name in self.columns]
        self._key_prefixes = [self._prefixes[place] for place in self._places]

    def event(self, op: str, place: BinlogPosition, *, deleted: Row | None = None, after: Row | None = None) -> bytes:
        """Return an event of Debezium's `op`: c, u, d (only the key), t, or r for a snapshot's row; `after` must be `filled`."""
        seconds, now = place.seconds, time.time_ns() // 1_000_000
        before = "null" if deleted is None else self._image([deleted[i] for i in self._places], self._key_prefixes)
        image = "null" if after is None else self._image(after, self._prefixes)
        when, snapshot = f'"ts_ms":{seconds * 1000},"ts_us":{seconds * 1_000_000}', "true" if op == "r" else "false"
        source = (
            f'{{"version":"cdc-views","connector":"{self.connector}","name":{quoted(self.stream)},{when},'
            f'"snapshot":"{snapshot}","db":{quoted(self.database)},"table":{quoted(self.table)},"server_id":{place.server},'
            f'"gtid":"{place.gtid}","file":{quoted(place.file)},"pos":{place.position},"row":{place.order},'
            f'"order":[{self.epoch},{place.sequence},{place.order}]}}'
        )
        # an invalid text has lone surrogates, which are escaped; everything else is UTF-8
        return f'{{"before":{before},"after":{image},"source":{source},"op":"{op}","ts_ms":{now}}}'.encode()

    def has_moved(self, old: Row, new: Row) -> bool:
        """Return whether an update changed the row's key; a key column that the later image lacks did not change."""
        return any(new[i] is not None and old[i] != new[i] for i in self._places)

    @staticmethod
    def filled(new: Row, old: Row) -> Row:
        """Return the image after an update; values that it lacks come from the image before."""
        return [before if now is None else now for now, before in zip(new, old, strict=True)]

    @staticmethod
    def _image(row: Row, prefixes: Sequence[str]) -> str:
        parts = [prefix + text for prefix, text in zip(prefixes, row, strict=True) if text is not None]
        return f"{{{','.join(parts)}}}"
