"""`python tests/bench/state_others.py`: what people do instead of keeping a state, in turns with it, equal answers checked.

Delta's MERGE of each batch, as it is by default in this Delta (each file that holds a changed row is written anew) and with
deletion vectors (the row is marked, the new one written beside); and a rebuild by self-joins. On Spark. `make bench-state`
ends with the same, of its own size. Options: `--keys N`, `--tails N`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from generate import CELLS, NOW
from state_data import Reader, Source, open_engine, timed

from cdc_views.engines.base import Engine, Read
from cdc_views.model.strategy import Strategy
from cdc_views.state import materialize
from cdc_views.storage.relation import RawTable

os.environ.setdefault("RUST_LOG", "error")  # deltalake warns of each column that it keeps no statistics of
OUT = Path(__file__).parent / "out"
TAILS = 3
MERGED = ["_live", "_deleted", *(f"c{i}" for i in range(CELLS))]


def rebuild_by_self_join(reader: Reader, folder: Path) -> float:
    """WePay's way: the view by one self-join a column, written anew as a whole; seconds."""
    read = Read(reader.raw, as_of=NOW, is_ordered=False, strategy=Strategy.SELF_JOIN)
    frame = reader.engine.dataframe(read)  # type: ignore[attr-defined]
    seconds, _ = timed(lambda: frame.write.format("delta").mode("overwrite").save(str(folder / "self_join")))
    return seconds


class MergedTable:
    """One row a key, the winners as structs: each batch of facts is reduced and merged into it by Delta's MERGE.

    A struct of (written, rank, value) compares as rule C2 does, as long as no two cells tie.
    """

    def __init__(self, session: Any, source: Source, location: Path, *, vectors: bool) -> None:
        self.raw = RawTable(str(location), source.raw.relation)
        self._session = session
        first = self._batch(session.read.format("delta").load(source.raw.location))
        writer = first.write.format("delta").option("delta.enableDeletionVectors", str(vectors).lower())
        writer.save(self.raw.location)

    def has_vectors(self) -> bool:
        """Whether a row is marked as deleted in a file."""
        logs = sorted(Path(self.raw.location, "_delta_log").glob("*.json"))
        actions = [json.loads(line) for log in logs for line in log.read_text("utf-8").splitlines()]
        return any(action.get("add", {}).get("deletionVector") for action in actions)

    def _batch(self, facts: Any) -> Any:
        winners = [f"max({name}) AS {name}" for name in MERGED]
        facts.createOrReplaceTempView("batch_facts")
        keys = "first(_kind) AS _kind, account, item"
        rest = "first(_from) AS _from, first(_to) AS _to, first(_origin) AS _origin, max(_landed_at) AS _landed_at"
        return self._session.sql(f"SELECT {keys}, {rest}, {', '.join(winners)} FROM batch_facts GROUP BY account, item")

    def merge(self, files: tuple[str, ...]) -> None:
        """Merge the facts of some raw files."""
        self._batch(self._session.read.parquet(*files)).createOrReplaceTempView("batch")
        updates = ", ".join(f"t.{name} = greatest(t.{name}, s.{name})" for name in MERGED)
        self._session.sql(
            f"MERGE INTO delta.`{self.raw.location}` t USING batch s ON t.account = s.account AND t.item = s.item "
            f"WHEN MATCHED THEN UPDATE SET {updates} WHEN NOT MATCHED THEN INSERT *"
        )


def raced(engine: Engine, source: Source, folder: Path, *, tails: int = TAILS) -> dict[str, Any]:
    """Seconds a tail of a materialization and of each MERGE, in turns, whose order moves on by one a tail."""
    reader, session = Reader(engine, source.raw, str(folder / "state")), engine.session  # type: ignore[attr-defined]
    materialize(engine, source.raw, reader.state)
    copying = MergedTable(session, source, folder / "merged", vectors=False)
    marking = MergedTable(session, source, folder / "marked", vectors=True)
    seconds: dict[str, list[float]] = {"materialize": [], "merge": [], "merge_vectors": []}
    for number in range(tails):
        known = set(DeltaTable(source.raw.location).file_uris())
        source.land(source.facts // 100)
        fresh = tuple(uri for uri in DeltaTable(source.raw.location).file_uris() if uri not in known)
        turns = [
            ("materialize", lambda: materialize(engine, source.raw, reader.state)),
            ("merge", lambda files=fresh: copying.merge(files)),
            ("merge_vectors", lambda files=fresh: marking.merge(files)),
        ]
        for turn in range(len(turns)):
            name, action = turns[(number + turn) % len(turns)]
            seconds[name].append(timed(action)[0])
    expected = reader.raw_view()
    assert reader.view() == expected, "state does not show what raw shows"
    assert reader.raw_view(copying.raw) == expected, "MERGE does not show what raw shows"
    assert reader.raw_view(marking.raw) == expected, "MERGE with deletion vectors does not show what raw shows"
    assert marking.has_vectors(), "no deletion vectors were written"
    assert not copying.has_vectors(), "deletion vectors were written"
    told = ", ".join(f"{name} {statistics.mean(each):.1f} s" for name, each in seconds.items())
    print(f"  a tail of {source.facts // 100:,} facts, mean of {tails}: {told}", flush=True)
    seconds["self_join"] = [rebuild_by_self_join(reader, folder)]
    print(f"  rebuild by self-joins {seconds['self_join'][0]:.1f} s", flush=True)
    return seconds


def main() -> int:
    """Run and write a JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=300_000)
    parser.add_argument("--tails", type=int, default=6)
    options = parser.parse_args()
    folder = OUT / "others_run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    engine = open_engine("spark", folder)
    print(f"spark, 2 cores, {options.keys:,} keys")
    seconds = raced(engine, Source(folder, keys=options.keys), folder, tails=options.tails)
    written = OUT / f"others_{options.keys}.json"
    written.write_text(json.dumps(seconds, indent=1))
    print(f"written: {written}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
