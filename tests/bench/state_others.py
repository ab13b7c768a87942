"""What people do instead of keeping a state, on the same data, checked for equal answers: on Spark alone.

Spark 4.2's own AUTO CDC flow needs a target of Spark's row-level operations, which Delta 4.4's catalog table is not
(tests/unit/test_peers.py), so it is not here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from generate import CELLS, NOW
from state_data import Reader, Source, timed

from cdc_views.engines.base import Read
from cdc_views.relation import RawTable
from cdc_views.strategy import Strategy

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

    def __init__(self, session: Any, source: Source, folder: Path) -> None:
        self.raw = RawTable(str(folder / "merged"), source.raw.relation)
        self._session, self._source = session, source
        first = self._batch(session.read.format("delta").load(source.raw.location))
        first.write.format("delta").save(self.raw.location)

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
