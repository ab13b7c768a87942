"""How far the consumer has come, from the statistics that it gives of itself every second."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass

from cdc_producers.source import SourceStatus

_UP = "UP"


@dataclass
class ConsumerStatistics:
    """What the last statistics said; `at` is when a broker was last connected, epoch seconds."""

    at: float = 0.0
    behind: int | None = None

    def note(self, text: str) -> None:
        """Take the client's statistics. Source: librdkafka 2.16, `STATISTICS.md`."""
        found = json.loads(text)
        if any(broker.get("state") == _UP for broker in found.get("brokers", {}).values()):
            self.at = time.time()
        parts = [part for topic in found.get("topics", {}).values() for part in topic.get("partitions", {}).values()]
        lags = [part["consumer_lag"] for part in parts if part.get("consumer_lag", -1) >= 0]
        self.behind = sum(lags) if lags else None

    def status(self, offsets: Mapping[tuple[str, int], int]) -> SourceStatus:
        """Return it as the runtime asks for it; the position is the next offset of each partition."""
        position = ", ".join(f"{topic}/{part}:{offset}" for (topic, part), offset in sorted(offsets.items()))
        return SourceStatus(position, behind_events=self.behind, heard=self.at)
