"""Work of ours in Spark's tasks: one task of Spark for each piece, results to the driver."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cdc_views.errors import EngineError
from cdc_views.storage.stores import given_options, is_url, use_options
from cdc_views_spark.executors import are_this_python
from cdc_views_spark.writing import in_its_words

_DISTRIBUTION = "cdc-views"
_RAISED = re.compile(rf"^{re.escape(EngineError.__module__)}\.EngineError: (.*)", re.MULTILINE)
_Task = TypeVar("_Task")
_Done = TypeVar("_Done")


def spread(
    session: SparkSession, function: Callable[[_Task], _Done], tasks: Sequence[_Task], *, sees: Sequence[str]
) -> list[_Done]:
    """Return what the function gives of each task, in order; without executors that can run it, in this process.

    Executors need this version of cdc-views, and must see the files and folders `sees`. Raises what a task raises as
    `EngineError`.
    """
    if not (are_this_python(session) or _can_run(session, [path for path in sees if not is_url(path)])):
        return list(map(function, tasks))
    given, pieces = pickle.dumps((function, given_options())), list(map(pickle.dumps, tasks))

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield _result(number, given, pieces[number])

    with in_its_words(), _in_the_words_of_tasks():
        # one partition, and so one task, for each number
        rows = session.range(0, len(pieces), 1, len(pieces)).mapInArrow(run, "number long, done binary").collect()
    done: dict[int, Any] = {row["number"]: pickle.loads(row["done"]) for row in rows}
    return [done[number] for number in range(len(pieces))]


@contextmanager
def _in_the_words_of_tasks() -> Iterator[None]:
    """Raise an `EngineError` of a task as it was raised there, without the stacks of Python and the JVM."""
    try:
        yield
    except PySparkException as error:
        told = _RAISED.findall(str(error))
        if not told:
            raise
        raise EngineError(told[-1]) from error


def _result(number: int, given: bytes, piece: bytes) -> pa.RecordBatch:
    function, stores = pickle.loads(given)
    for url, options in stores.items():  # this is another process
        use_options(url, options)
    return pa.RecordBatch.from_pydict({"number": [number], "done": [pickle.dumps(function(pickle.loads(piece)))]})


def _can_run(session: SparkSession, paths: Sequence[str]) -> bool:
    """Whether an executor has this version of cdc-views, and sees these paths of the driver's."""
    wanted = version(_DISTRIBUTION)

    def probe(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from importlib.metadata import PackageNotFoundError, version

        try:
            can = version(_DISTRIBUTION) == wanted and all(Path(path).exists() for path in paths)
        except PackageNotFoundError:
            can = False
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"can": [can]})

    try:
        return bool(session.range(0, 1, 1, 1).mapInArrow(probe, "can boolean").collect()[0]["can"])
    except PySparkException:
        return False
