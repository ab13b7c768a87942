"""Requests to a store: few, and no more of them with every commit since the last checkpoint but the one that reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from helpers.tiny_project import event, project_at, write_lines
from pyroaring import BitMap64
from services import s3

from cdc_views import Project
from cdc_views.landing import Position, StreamEvent, StreamLander
from cdc_views.storage import deletion_vectors, table_log
from cdc_views.storage.places import at_once, place_of
from cdc_views.storage.stores import use_options
from cdc_views.storage.unchanging import UNCHANGING

pytestmark = [pytest.mark.heavy, pytest.mark.parametrize("store", ["s3"], indirect=True)]

RAW_CHECKPOINT, STATE_CHECKPOINT = 20, 10
BEFORE_CHECKPOINT, AFTER_CHECKPOINT = 17, 20
MEASURED = {1, BEFORE_CHECKPOINT, AFTER_CHECKPOINT}
LEAST = {"read of a tail": 22, "tail": 45, "nothing new": 20, "read at rest": 15}
"""The requests of a command when each log has one entry after its checkpoint."""
LANDING = 8
"""Those of a stream that goes on."""


@pytest.fixture
def table(tmp_path: Path, prefix: str, store: s3.S3) -> Callable[[], Any]:
    """A table of a warehouse on the store, as a new process opens it."""
    file = project_at(tmp_path, prefix, store.options())

    def opened() -> Any:
        table_log._ENTRIES.clear()
        return Project.load(file).table("shop.orders")

    return opened


def test_requests_are_bounded_by_the_commits_since_a_checkpoint(tmp_path: Path, table: Callable[[], Any], store: s3.S3) -> None:
    seen: dict[str, dict[int, Counter[str]]] = {name: {} for name in LEAST}
    commands: dict[str, Callable[[], Any]] = {
        "read of a tail": lambda: table().query().to_arrow(),
        "tail": lambda: table().materialize(),
        "nothing new": lambda: table().materialize(),
        "read at rest": lambda: table().query().to_arrow(),
    }
    for number in range(max(MEASURED) + 1):
        write_lines(tmp_path / f"{number}.jsonl", event(number))
        table().land(str(tmp_path / f"{number}.jsonl"))
        if number + 1 in MEASURED:
            table().materialize()
        if number not in MEASURED:
            continue
        for name, command in commands.items():
            with store.counting() as asked:
                command()
            seen[name][number] = asked
    for name, counts in seen.items():
        totals = {number: count.total() for number, count in counts.items()}
        if name != "tail":  # which may merge runs, write a base, and write a checkpoint
            assert max(totals.values()) <= LEAST[name] + RAW_CHECKPOINT + STATE_CHECKPOINT, (name, totals)
            assert totals[AFTER_CHECKPOINT] < totals[BEFORE_CHECKPOINT], (name, totals)
    for name in ("read of a tail", "nothing new", "read at rest"):
        for asked in seen[name].values():
            twice = {request: count for request, count in asked.items() if count > 1 and _is_entry(request)}
            assert not twice, f"{name} reads an entry of a log again"


def test_a_process_does_not_ask_for_what_it_wrote(tmp_path: Path, prefix: str, store: s3.S3) -> None:
    table = Project.load(project_at(tmp_path, prefix, store.options())).table("shop.orders")
    for number in range(3):
        write_lines(tmp_path / f"{number}.jsonl", event(number))
        table.land(str(tmp_path / f"{number}.jsonl"))
        with store.counting() as asked:
            table.materialize()
            table.query().to_arrow()
        if number:
            assert not [request for request in asked if "/state/" in request and request.startswith("HEAD")], asked
            assert not [request for request, count in asked.items() if count > 1 and request.endswith((".parquet", ".bin"))], (
                asked
            )
            assert not [request for request in asked if request.startswith("GET") and request.endswith(".bin")], asked


def test_deletion_vectors_of_one_file_are_read_at_once(prefix: str, store: s3.S3) -> None:
    use_options(prefix, store.options())
    folder = place_of(f"{prefix}/vectors")
    vectors = deletion_vectors.write(folder, {str(number): BitMap64([number]) for number in range(9)})
    UNCHANGING.clear()
    with store.counting() as asked:
        found = at_once(partial(deletion_vectors.read, folder), vectors.values())
    assert [list(positions) for positions in found] == [[number] for number in range(9)]
    assert asked.total() == 1, asked


def test_a_stream_reads_a_checkpoint_once(table: Callable[[], Any], store: s3.S3) -> None:
    def land(lander: StreamLander, numbers: range) -> None:
        for number in numbers:
            one = StreamEvent(Position(number), event(number).encode())
            lander.land([one], through=one.position, now=datetime.now(timezone.utc))

    land(table().stream("agent"), range(RAW_CHECKPOINT + 3))
    lander = table().stream("agent")
    land(lander, range(RAW_CHECKPOINT + 3, RAW_CHECKPOINT + 5))
    with store.counting() as asked:
        land(lander, range(RAW_CHECKPOINT + 5, RAW_CHECKPOINT + 8))
    assert asked.total() <= 3 * LANDING, asked
    assert not [request for request in asked if request.startswith("GET") and ".checkpoint." in request], asked


def _is_entry(request: str) -> bool:
    return "/_delta_log/0" in request and request.endswith(".json")
