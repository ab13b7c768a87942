"""Commits by Spark: one writer at a time, and settings that last for one write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cdc_views.engines.base import StateWrite
from cdc_views.engines.serving import ServingWrite
from cdc_views.errors import EngineError
from cdc_views.landing.delta import recorded
from cdc_views.landing.digests import note_missing
from cdc_views.storage.conflicts import ConflictError


@contextmanager
def committing(write: StateWrite | ServingWrite) -> Iterator[None]:
    """Let the block commit `write`; raises `ConflictError` where somebody else committed first.

    Delta silently skips a write whose transaction number is not above the recorded one, so this looks before and after.
    """
    name, number = write.transaction
    overtaken = ConflictError(f"{write.target}: another run committed first")
    if (recorded(DeltaTable(write.target), name) or -1) >= number:
        raise overtaken
    try:
        yield
    except PySparkException as error:
        if "Concurrent" in str(error) or "DELTA_CONCURRENT" in str(error):
            raise overtaken from error
        raise EngineError(f"Spark: {str(error).splitlines()[0]}") from error
    written = DeltaTable(write.target)
    if recorded(written, name) != number:
        raise overtaken
    note_missing(written)


@contextmanager
def setting(session: SparkSession, name: str, value: str) -> Iterator[None]:
    """Set one of the session's options for the block."""
    before = session.conf.get(name, None)
    session.conf.set(name, value)
    try:
        yield
    finally:
        if before is None:
            session.conf.unset(name)
        else:
            session.conf.set(name, before)
