"""Following raw tables with Structured Streaming: a stream says that something landed, `materialize` does the work.

The watermark stays in the state's own commits, so a stream's checkpoint only paces: it may be deleted at any time.
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
"""How often in a row a stream is started anew, without a batch between, after its table's columns changed."""


def follow(session: SparkSession, followed: Iterable[Followed], *, interval: str | None, stop: Event) -> None:
    """Run each table's `run` when something has landed, at most once an `interval`, until `stop` is set.

    Without an interval: until all that has landed is taken in, table by table. The run at hand ends in any case.

    Raises:
        EngineError: A stream failed; what a run raised is raised as it is.
    """
    tables = list(followed)
    for some in [[one] for one in tables] if interval is None else [tables]:
        streams: list[_Stream] = []
        try:
            for one in some:
                streams.append(_Stream(session, one, interval=interval, stop=stop))
            while sum(stream.goes_on() for stream in streams) and not stop.is_set():  # each is looked at
                stop.wait(_LOOK_EVERY)
        finally:
            for stream in streams:
                stream.close()


class _Stream:
    """One table's stream, started anew when the table's columns changed, at which Delta ends it."""

    def __init__(self, session: SparkSession, followed: Followed, *, interval: str | None, stop: Event) -> None:
        self._session, self._followed, self._interval, self._stop = session, followed, interval, stop
        self._busy, self._is_closed, self._restarts = Lock(), False, 0
        self._error: Exception | None = None
        self._start()

    def _start(self) -> None:
        # rewritten files bring nothing new, and a state notices by itself that events were deleted
        try:
            raw = self._session.readStream.format("delta").option("skipChangeCommits", "true").load(self._followed.location)
            writer = raw.writeStream.foreachBatch(self._batch).option("checkpointLocation", self._followed.checkpoint)
            how: dict[str, Any] = {"processingTime": self._interval} if self._interval is not None else {"availableNow": True}
            self._query = writer.trigger(**how).start()
        except PySparkException as error:
            raise self._failed(error) from error

    def _batch(self, frame: DataFrame, number: int) -> None:
        """Bring state up to date; the frame is not read, for the state knows what it has not taken in."""
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
        """Whether the stream has not ended; raises what ended it."""
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
        """Wait for the run at hand, and end the stream."""
        with self._busy:
            self._is_closed = True
        self._query.stop()
