"""What many small landings cost: the log's bytes, and how long one takes; run by hand.

    python tests/bench/landings.py --landings 2000
    python tests/bench/landings.py --landings 200 --text 100000
    python tests/bench/landings.py --landings 20 --text 100 --long 50000000 --at 10

Each landing is one event of one row, in a file of its own, through the API in one process.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path
from statistics import median

from cdc_views.formats.cassandra_mutation import CassandraMutation
from cdc_views.landing import land
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import Kind, Scalar
from cdc_views.storage.relation import RawTable, Relation

SCHEMA = TableSchema("shop", "orders", (Column("id", Scalar(Kind.INT), Role.PARTITION), Column("v", Scalar(Kind.TEXT))))
MARKS = (50, 100, 250, 500, 1_000, 2_000, 5_000, 10_000, 20_000)


def event(number: int, value: str) -> str:
    row = {"kind": "row", "clustering": {}, "cells": [{"column": "v", "written": number, "value": value}]}
    told = {"format": "cassandra-mutation/1", "node": "n1", "segment": 1, "position": number, "keyspace": "shop"}
    return json.dumps({**told, "table": "orders", "partition": {"id": number}, "rows": [row]}) + "\n"


def size(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.glob(pattern))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--landings", type=int, default=1_000)
    parser.add_argument("--text", type=int, default=20, help="letters of each value")
    parser.add_argument("--long", type=int, default=0, help="letters of one value")
    parser.add_argument("--at", type=int, default=0, help="which landing has the long one")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        raw, seconds = RawTable(f"{folder}/raw", Relation(SCHEMA)), []
        print(f"{'landings':>8} {'log MB':>9} {'entries MB':>10} {'checkpoints':>11} {'data MB':>8} {'land ms':>8}")
        for number in range(1, asked.landings + 1):
            file = Path(folder, "event.jsonl")
            letters = asked.long if number == asked.at else asked.text
            file.write_text(event(number, f"{number:x}" * (letters // len(f"{number:x}"))))
            begun = time.perf_counter()
            land(raw, CassandraMutation(), [file], now=datetime.now(timezone.utc))
            seconds.append(time.perf_counter() - begun)
            if number in (*MARKS, asked.at, asked.landings):
                log, place = Path(raw.location, "_delta_log"), Path(raw.location)
                checkpoints = len(list(log.glob("*.checkpoint.parquet")))
                entries, data = size(log, "*.json"), size(place, "*.parquet")
                bytes_of_log = entries + size(log, "*.checkpoint.parquet")
                print(
                    f"{number:>8} {bytes_of_log / 1e6:>9.2f} {entries / 1e6:>10.2f} {checkpoints:>11} {data / 1e6:>8.2f} "
                    f"{median(seconds[-50:]) * 1e3:>8.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
