"""A target that is full, or gone for a minute, under a producer of a real PostgreSQL: nothing lost, told, resumed by itself."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers.command_line import CommandLine
from helpers.postgres_tables import TABLES
from helpers.postgres_views import differences, landed_twice, raw_location, wait_until_landed
from helpers.producing import Producer, eventually
from services.postgres import Postgres

pytestmark = pytest.mark.live
TYPES, FULL = TABLES


def work(postgres: Postgres, first: int, count: int = 400) -> None:
    """Rows of a thousand random letters, so that they take room on a disk."""
    letters = "(SELECT string_agg(md5(random()::text || i || j), '') FROM generate_series(1, 30) j)"
    postgres.sql(f"INSERT INTO {FULL} (a, b, v) SELECT 'r' || i, {first}, {letters} FROM generate_series(1, {count}) i")


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of 3 MB."""
    folder.mkdir(parents=True)
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(folder)], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("a file system can be mounted by root only")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def full_disk(producer: Producer, folder: Path) -> Iterator[None]:
    """Somebody else takes the room that is left."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        file.writelines(bytes(1 << 12) for _ in range(1 << 12))
    yield
    filler.unlink()


@contextmanager
def forbidden_to_write(producer: Producer, folder: Path) -> Iterator[None]:
    """Files of the process may not grow beyond what its log needs: what a quota does."""
    assert producer.running is not None
    _, hard = resource.prlimit(producer.running.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(producer.running.pid, resource.RLIMIT_FSIZE, (1 << 16, hard))
    yield
    resource.prlimit(producer.running.pid, resource.RLIMIT_FSIZE, (hard, hard))


@pytest.mark.parametrize("trouble", [full_disk, forbidden_to_write])
def test_a_disk_without_room(producer: Producer, postgres: Postgres, run: CommandLine, trouble: object) -> None:
    with small_disk(Path(raw_location(FULL)).parent) as folder:
        producer.start().wait_until_said("following slot")
        work(postgres, 1, 50)
        wait_until_landed(postgres)
        with trouble(producer, folder):  # type: ignore[operator]
            work(postgres, 2)
            producer.wait_until_said("nothing is lost")
            assert producer.get("/healthz")[0] == 503
            (told, *_) = [line["message"] for line in producer.said if "nothing is lost" in line["message"]]
            assert "No space left" in told or "File too large" in told
            assert "free space" in told
            work(postgres, 3, 10)
        wait_until_landed(postgres)
        assert eventually(lambda: producer.get("/healthz")[0] == 200)
        assert producer.stop() == 0
        assert differences(postgres, run, FULL) == []
        assert landed_twice() == 0


def test_a_target_that_is_gone_for_a_minute(producer: Producer, postgres: Postgres, run: CommandLine) -> None:
    producer.start().wait_until_said("following slot")
    work(postgres, 1, 50)
    wait_until_landed(postgres)
    raw = Path(raw_location(FULL))
    raw.rename(f"{raw}-away")
    end = time.monotonic() + float(os.environ.get("CDC_VIEWS_AWAY_SECONDS", "60"))
    number = 2
    while time.monotonic() < end:
        work(postgres, number, 20)
        number += 1
        time.sleep(1)
    producer.wait_until_said("the raw table is gone; put it back")
    assert not raw.exists()
    Path(f"{raw}-away").rename(raw)
    begun = time.monotonic()
    wait_until_landed(postgres)
    assert time.monotonic() - begun < 35
    assert producer.stop() == 0
    assert differences(postgres, run, FULL) == []
    assert len(run.query(FULL)) == 50 + 20 * (number - 2)
    assert landed_twice() == 0
