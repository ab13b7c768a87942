"""Following raw tables with Structured Streaming: a stream notices new events, and `materialize` does the work.

The watermark is in the state's own commits. So a stream's checkpoint only paces the runs, and may be deleted at any time.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Event, Lock
from typing import Any

from cdc_views.engines.base import Followed
from cdc_views.errors import EngineError
from cdc_views.model.extras import needs

with needs("cdc_views_spark", extra="spark"):
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

_LOOK_EVERY = 0.2
_MOST_RESTARTS = 3
"""The most restarts in a row, without a batch between them, after a table's columns changed."""


def follow(session: SparkSession, followed: Iterable[Followed], *, interval: str | None, stop: Event) -> None:
    """See `StreamingEngine.follow`; raises an error of a run as it is. Without an interval, tables run one after the other."""
    tables = list(followed)
    for some in [[one] for one in tables] if interval is None else [tables]:
        streams: list[_Stream] = []
        try:
            for one in some:
                streams.append(_Stream(session, one, interval=interval, stop=stop))
            while sum(stream.goes_on() for stream in streams) and not stop.is_set():  # `sum`, unlike `any`, checks every stream
                stop.wait(_LOOK_EVERY)
        finally:
            for stream in streams:
                stream.close()


class _Stream:
    """One table's stream. Delta ends it when the table's columns change; then it starts again."""

    def __init__(self, session: SparkSession, followed: Followed, *, interval: str | None, stop: Event) -> None:
        self._session, self._followed, self._interval, self._stop = session, followed, interval, stop
        self._busy, self._is_closed, self._restarts = Lock(), False, 0
        self._error: Exception | None = None
        self._start()

    def _start(self) -> None:
        # rewritten files hold no new events, and the state itself notices deleted events
        try:
            raw = self._session.readStream.format("delta").option("skipChangeCommits", "true").load(self._followed.location)
            writer = raw.writeStream.foreachBatch(self._batch).option("checkpointLocation", self._followed.checkpoint)
            how: dict[str, Any] = {"processingTime": self._interval} if self._interval is not None else {"availableNow": True}
            self._query = writer.trigger(**how).start()
        except PySparkException as error:
            raise self._failed(error) from error

    def _batch(self, frame: DataFrame, number: int) -> None:
        """Bring the state up to date. The frame is not read, because the state has its own watermark."""
        with self._busy:
            if self._is_closed or self._stop.is_set():
                return
            self._restarts = 0
            try:
                self._followed.run()
            except Exception as error:
                self._error = error
                raise

    def goes_on(self) -> bool:
        """Return whether the stream still runs; raises the error that ended it."""
        if self._query.isActive:
            return True
        if self._error is not None:
            raise self._error
        failure = self._query.exception()
        if failure is None:
            return False
        if "SCHEMA_CHANGE" not in str(failure).upper() or self._restarts >= _MOST_RESTARTS:
            raise self._failed(failure) from failure
        self._restarts += 1
        self._start()
        return True

    def _failed(self, error: Exception) -> EngineError:
        return EngineError(f"{self._followed.name}: its stream failed: {str(error).splitlines()[0]}")

    def close(self) -> None:
        """Wait for the current run, and end the stream."""
        with self._busy:
            self._is_closed = True
        self._query.stop()
