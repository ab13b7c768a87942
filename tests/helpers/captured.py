"""Messages captured from a slot, and what the producer makes of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cdc_producers.postgres.events import PostgresTransactions
from cdc_producers.postgres.messages import Message
from cdc_producers.postgres.pgoutput import PgOutputReader
from cdc_producers.postgres.values import TypeFacts
from cdc_producers.source import Emitted

from cdc_views.landing import EventBlock, StreamEvent
from cdc_views.landing.blocks import one_by_one
from cdc_views.model.schema import TableSchema
from cdc_views.schemas import read_schema

DATA = Path(__file__).parents[1] / "data"
INT_ARRAY, TEXT_ARRAY = 1007, 1009
CATALOG = {INT_ARRAY: TypeFacts("b", 23, 0, ","), TEXT_ARRAY: TypeFacts("b", 25, 0, ",")}


def payloads() -> list[bytes]:
    """The captured messages' bytes."""
    lines = (DATA / "postgres" / "pgoutput.jsonl").read_text().splitlines()
    return [base64.b64decode(json.loads(line)["message"]) for line in lines]


def messages() -> Iterator[Message]:
    """The captured messages, read."""
    reader = PgOutputReader()
    return filter(None, map(reader.read, payloads()))


class Target:
    """A table of the captured schema; nothing lands."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.schema: TableSchema = read_schema(DATA / "debezium" / "postgres_schema.sql", table=name, keyspace="public")

    def version(self) -> object:
        return 0

    def lander(self, stream: str) -> Any:
        raise NotImplementedError

    def follow(self) -> None:
        raise NotImplementedError


class Said:
    """A log that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, message: str, **facts: Any) -> None:
        self.lines.append(message)

    def warning(self, message: str, **facts: Any) -> None:
        self.lines.append(f"warning: {message}")


def emitted(*names: str, found: dict[str, Any] | None = None, log: Said | None = None) -> list[Emitted]:
    """As `handed_on`, each event by itself."""
    return [single for item in handed_on(*names, found=found, log=log) for single in singles(item)]


def singles(item: Emitted) -> Iterator[Emitted]:
    """What a source hands on, each event by itself."""
    if not isinstance(item.content, EventBlock):
        yield item
        return
    for event in one_by_one([StreamEvent(item.position, item.content)]):
        yield item._replace(position=event.position, content=event.content)


def handed_on(*names: str, found: dict[str, Any] | None = None, log: Said | None = None) -> list[Emitted]:
    """What the captured messages make of these tables; `found` is what the source answers when it is asked again."""
    items: list[Emitted] = []
    transactions = PostgresTransactions(
        targets={name: Target(name) for name in names},
        database="lab",
        stream="slot",
        types=CATALOG.get,
        reread=lambda relation, key, columns, transaction: found or {},
        log=log or Said(),
        emit=items.append,
        truncated=lambda name: None,
        ended=lambda names, end: items.append(Emitted(token=end)),
    )
    for message in messages():
        transactions.take(message)
    transactions.hand_on()
    return items
