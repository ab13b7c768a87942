"""Events of `public.t`, each with its place in the log and its time: older ones than a `forget`, or versions of a row."""

from __future__ import annotations

import json
import time


def now_micros() -> int:
    """A write time of now, as a client's clock has it."""
    return time.time_ns() // 1000


def envelope(id: int, note: str, *, lsn: int, ts_ms: int | None) -> str:
    """Debezium's event of a row of `public.t`."""
    place = {"connector": "postgresql", "schema": "public", "db": "d", "table": "t"}
    source = {**place, "lsn": lsn, "ts_ms": ts_ms, "snapshot": "false"}
    return json.dumps({"op": "u", "before": None, "after": {"id": id, "note": note}, "source": source, "ts_ms": ts_ms})
