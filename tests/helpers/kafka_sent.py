"""Recorded Debezium events as Kafka messages."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data" / "debezium"


@dataclass
class Sent:
    """A message as `confluent_kafka` gives it."""

    sent_key: bytes | None
    sent_value: bytes | None
    at: int = 7

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_700_000_000_123

    def key(self) -> bytes | None:
        return self.sent_key

    def value(self) -> bytes | None:
        return self.sent_value


def recorded(name: str) -> list[dict[str, Any]]:
    lines = (DATA / f"{name}.jsonl").read_text().splitlines()
    return [json.loads(line, parse_float=Decimal) for line in lines]


def text(document: Any) -> bytes | None:
    return None if document is None else json.dumps(document, default=float, ensure_ascii=False).encode()
