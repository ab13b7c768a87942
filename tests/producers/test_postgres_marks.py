"""A slot that is ahead of a raw table: noticed, refused, mended by what is said; and no alarm where nothing is missing."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from cdc_producers.metrics import Metrics
from cdc_producers.postgres import source
from cdc_producers.postgres.marks import Marking, Marks, Reached
from cdc_producers.postgres.options import PostgresOptions
from cdc_producers.postgres.shapes import Landed
from cdc_producers.row_log import WHOLE
from cdc_producers.source import Emitted, LostError
from helpers.captured import Said
from helpers.command_line import CommandLine
from helpers.kept_positions import Table
from helpers.postgres_tables import TABLES
from helpers.postgres_views import SLOT, differences, raw_location, wait_until_landed
from helpers.producing import Producer
from services.postgres import Postgres

from cdc_views.landing import Position

TYPES, FULL = TABLES


def write(postgres: Postgres, number: int) -> None:
    postgres.sql(f"INSERT INTO {FULL} (a, b, v) VALUES ('r', {number}, 'new'); INSERT INTO {TYPES} (id) VALUES ({number})")


def landed(producer: Producer, postgres: Postgres, *arguments: str) -> None:
    """Run until all has landed, and end."""
    producer.start(*arguments).wait_until_said("following slot")
    wait_until_landed(postgres)
    assert producer.stop() == 0


def refused(producer: Producer, said: str) -> None:
    producer.start()
    assert producer.running is not None
    assert producer.running.wait(30) == 3, producer.log.read_text()
    assert said in producer.log.read_text()


def marks_of(*names: str) -> Marks:
    targets: Any = {name: Table() for name in names}
    return Marks("s", targets)


def lands(marks: Marks, items: list[Emitted]) -> Reached | None:
    """Land what was emitted; returns what the slot is told."""
    told = None
    for item in items:
        if item.table:
            marks.targets[item.table].lander(item.stream).land([], through=item.position, now=datetime.now())
        elif isinstance(item.token, Reached):
            told = item.token
    items.clear()
    return told


def test_the_slot_is_told_no_more_than_every_raw_table_says() -> None:
    marks, items = marks_of("a", "b"), list[Emitted]()
    marking = Marking(marks, ["a", "b"], 3600, items.append)
    marking.begin(10)
    marking.ended(["a"], 20)
    assert lands(marks, items) == Reached(20, 10)
    marking.idle(30)
    assert lands(marks, items) is None
    marking.ended(["a", "b"], 40)
    assert lands(marks, items) == Reached(40, 40)
    marking.idle(50, is_last=True)
    assert lands(marks, items) == Reached(40, 50)
    # much log is not kept for long
    marking.idle(50 + (64 << 20))
    assert lands(marks, items) == Reached(40, 50 + (64 << 20))
    # a table with changes has noted them, and that alone lets nothing go
    marking.ended(["b"], 100 + (64 << 20))
    assert lands(marks, items) == Reached(100 + (64 << 20), 50 + (64 << 20))


def test_a_raw_table_that_says_less_than_the_slot_is_refused() -> None:
    marks, whole = marks_of("a"), Landed(Position(5, WHOLE), None)
    marks.check("a", whole, confirmed=99)  # of an earlier version, which noted nothing
    lands(marks, [marks.emitted("a", 20)])
    again = Marks("s", marks.targets)
    again.check("a", whole, confirmed=20)
    again.check("a", whole, confirmed=0)
    with pytest.raises(LostError, match="a: slot s is confirmed up to 0/15, and this raw table only up to 0/14"):
        again.check("a", whole, confirmed=21)
    # what waits to land is not missing: the connection broke meanwhile
    again.emitted("a", 21)
    again.check("a", whole, confirmed=21)


def test_what_is_missing_stays_missing_until_a_later_snapshot() -> None:
    marks = marks_of("a")
    marks.note_missing(["a"], lsn=50)
    for snapshot in (None, Position(49, WHOLE), Position(50, WHOLE)):
        with pytest.raises(LostError, match="a: changes up to 0/32 are missing"):
            marks.check("a", Landed(snapshot, None), confirmed=0)
    marks.check("a", Landed(Position(51, 3), None), confirmed=0)


def test_a_server_behind_what_landed_is_refused_though_tables_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A standby that took over before it had everything: what is read there would rank below what has landed."""
    targets: Any = {"a": Table()}
    targets["a"].kept["s"] = Position(100)
    ours = source.PostgresSource(targets, PostgresOptions(slot="s", snapshots_again=True), Said(), Metrics("postgres"))
    monkeypatch.setattr(source, "current_lsn", lambda _: 100)
    ours._check(None, None)
    monkeypatch.setattr(source, "current_lsn", lambda _: 99)
    with pytest.raises(LostError, match=r"before what has landed.*land it under another --slot and raw table"):
        ours._check(None, None)


@pytest.mark.slow
def test_a_raw_table_that_was_away_or_is_a_backup_is_refused_until_it_is_read_anew(
    producer: Producer, postgres: Postgres, run: CommandLine, tmp_path: Path
) -> None:
    write(postgres, 1)
    landed(producer, postgres)
    raws = [Path(raw_location(table)) for table in TABLES]
    kept, right = ([tmp_path / f"{name}{i}" for i in range(len(raws))] for name in ("kept", "right"))
    for raw, away in zip(raws, kept, strict=True):
        raw.rename(away)
    write(postgres, 2)
    refused(producer, "none of the raw tables is")
    # asked for, it begins anew elsewhere; the first raw tables miss what landed there
    accepted(run)
    landed(producer, postgres, "--snapshot-again")
    assert differences(postgres, run) == []
    write(postgres, 3)
    for raw, away, ours in zip(raws, kept, right, strict=True):
        shutil.copytree(raw, ours)
        shutil.rmtree(raw)
        shutil.copytree(away, raw)
    accepted(run)
    refused(producer, f"slot {SLOT} is confirmed up to")
    refused(producer, "changes are missing. Put the right raw table back")
    for raw, ours in zip(raws, right, strict=True):
        shutil.rmtree(raw)
        ours.rename(raw)
    accepted(run)
    landed(producer, postgres)
    assert differences(postgres, run) == []
    for raw, away in zip(raws, kept, strict=True):
        shutil.rmtree(raw)
        away.rename(raw)
    accepted(run)
    landed(producer, postgres, "--snapshot-again")
    assert differences(postgres, run) == []
    landed(producer, postgres)


def accepted(run: CommandLine) -> None:
    """The raw tables of now are taken for the right ones."""
    for table in TABLES:
        assert run("rebuild", table, "--accept").code == 0


@pytest.mark.live
def test_a_table_that_was_left_out_for_a_while_is_refused(producer: Producer, postgres: Postgres, run: CommandLine) -> None:
    write(postgres, 1)
    landed(producer, postgres)
    producer.start("--table", TYPES).wait_until_said("following slot")
    write(postgres, 2)
    wait_until_landed(postgres)
    assert producer.stop() == 0
    refused(producer, f"{FULL}: slot {SLOT} is confirmed up to")
    landed(producer, postgres, "--snapshot-again")
    assert differences(postgres, run) == []


@pytest.mark.live
def test_a_slot_that_moves_on_without_changes_of_a_table_raises_no_alarm(
    producer: Producer, postgres: Postgres, run: CommandLine
) -> None:
    postgres.sql("CREATE TABLE public.other (id int)")
    write(postgres, 1)
    producer.start().wait_until_said("following slot")
    for _ in range(3):
        postgres.sql("INSERT INTO public.other SELECT generate_series(1, 1000)")
        wait_until_landed(postgres)
        producer.kill()
        producer.start().wait_until_said("following slot")
    # one table writes, the other does not; the first start was killed before anything had landed, too
    postgres.sql(f"INSERT INTO {FULL} (a, b) SELECT 'x', g FROM generate_series(100, 200) g")
    wait_until_landed(postgres)
    producer.kill()
    landed(producer, postgres)
    assert differences(postgres, run) == []


@pytest.mark.live
def test_a_first_start_that_was_killed_goes_on(producer: Producer, postgres: Postgres, run: CommandLine) -> None:
    write(postgres, 1)
    producer.start().wait_until_said("creating slot")
    producer.kill()
    landed(producer, postgres)
    assert differences(postgres, run) == []


@pytest.mark.slow
def test_a_publication_that_is_narrowed_under_a_producer_ends_it(
    producer: Producer, postgres: Postgres, run: CommandLine
) -> None:
    write(postgres, 1)
    producer.start().wait_until_said("following slot")
    wait_until_landed(postgres)
    postgres.sql(f"ALTER PUBLICATION {SLOT} SET TABLE {TYPES}, {FULL} WHERE (b < 2)")
    write(postgres, 2)
    assert producer.running is not None
    assert producer.running.wait(30) == 3
    assert "leaves out some rows; BEGIN; ALTER PUBLICATION" in producer.log.read_text()
    # to mend it brings nothing back
    postgres.sql(f"ALTER PUBLICATION {SLOT} SET TABLE {TYPES}, {FULL}")
    refused(producer, f"{FULL}: changes up to ")
    landed(producer, postgres, "--snapshot-again")
    assert differences(postgres, run) == []
    landed(producer, postgres)
    # the same where the table itself is taken out while nobody follows
    postgres.sql(f"ALTER PUBLICATION {SLOT} DROP TABLE {FULL}")
    write(postgres, 3)
    for _ in range(2):  # starting again does not end it
        refused(producer, f"start once with --snapshot-again, for changes of {FULL} are missing")
    landed(producer, postgres, "--snapshot-again")
    assert differences(postgres, run) == []
